"""Rules by which rename gives ports are found again where a core has them, and only there."""

import calibrations
import pytest

from loopwright import paths
from loopwright.calibrating import fit, port_choice
from loopwright.microbench.laboratory import Figure

RULES = (
    port_choice.GROUPS, port_choice.PICKS, port_choice.SHIFTS, port_choice.LOADS,
    port_choice.TURNS, port_choice.NEIGHBOURS,
)  # fmt: skip


@pytest.mark.parametrize("core", ["skylake", calibrations.GOLDENCOVE])
def test_rules_are_those_of_the_core(core, tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, core)[0] / f"simulated-{core}"
    found = calibrations.parameters(folder)
    on_core = calibrations.parameters(paths.models_root() / core)
    assert {name: found.get(name) for name in RULES} == {name: on_core.get(name) for name in RULES}


def test_microbenchmarks_that_all_predict_alike_do_not_count():
    alike = [Figure(1.0, 0.0), Figure(1.005, 0.0), Figure(float("nan"), 0.0, "no figures")]
    assert not fit._differ(alike)
    assert fit._differ([*alike, Figure(1.02, 0.0)])
