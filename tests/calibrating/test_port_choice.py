"""Rules by which rename gives ports are found again where a core has them, and only there."""

import calibrations
import pytest

from loopwright import paths
from loopwright.calibrating import cross_check, fit, port_choice, rename_rules
from loopwright.microbench.laboratory import Figure

RULES = (
    port_choice.GROUPS, port_choice.PICKS, port_choice.SHIFTS, port_choice.LOADS,
    port_choice.TURNS, *cross_check.IN_TURN,
    rename_rules.SUMS, rename_rules.KEPT, rename_rules.PLACES, rename_rules.PAIRS,
)  # fmt: skip

DEFAULTS = {"ports.slots": "0101", "ports.slots_of_two": "0101", port_choice.IMBALANCE: 3}


@pytest.mark.parametrize("core", ["skylake", calibrations.GOLDENCOVE])
def test_rules_are_those_of_the_core(core, tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, core)[0] / f"simulated-{core}"
    found = calibrations.parameters(folder)
    on_core = calibrations.parameters(paths.models_root() / core)
    for name in calibrations.changed(core):
        on_core.pop(name, None)  # a rule that the machine was made without
    learned, true = (
        {name: one.get(name, DEFAULTS.get(name)) for name in RULES} for one in (found, on_core)
    )
    assert learned == true


def test_microbenchmarks_that_all_predict_alike_do_not_count():
    alike = [Figure(1.0, 0.0), Figure(1.005, 0.0), Figure(float("nan"), 0.0, "no figures")]
    assert not fit._differ(alike)
    assert fit._differ([*alike, Figure(1.02, 0.0)])
