"""Rules by which rename gives ports are found again where a core has them, and only there."""

from dataclasses import replace
from itertools import product

import calibrations
import pytest
from quick import some

from loopwright import paths
from loopwright.calibrating import cross_check, fit, passes, port_choice, rename_rules
from loopwright.calibrating.core_model import TRIED
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Simulated

RULES = (
    rename_rules.GROUPS, port_choice.PICKS, port_choice.SHIFTS, port_choice.LOADS,
    port_choice.TURNS, port_choice.RESULTS, *cross_check.IN_TURN,
    rename_rules.SUMS, rename_rules.KEPT, rename_rules.PLACES, rename_rules.PAIRS,
)  # fmt: skip

DEFAULTS = {"ports.slots": "0101", "ports.slots_of_two": "0101", port_choice.IMBALANCE: 3}

# Forms with late results, forms to make chains of, and those that classes of ports show.
LATE = (
    "imul r64,r64,i32", "lzcnt r32,r32", "popcnt r32,r32", "add r64,r64", "add r64,i8",
    "dec r64", "dec r32", "lea.b r32", "lea.bid r32", "bt r32,i8", "cmovb r64,r64",
    "movsxd r64,r32", "mov r64,i32", "mov r64,m64", "mov m64,r64", "test r64,r64", "cmp r64,r64",
)  # fmt: skip
BINDING = ("assign", "position", "tie")
CHOICE = (
    "slots", "slots_of_two", "neighbours", "counts_late", "counts_age", "imbalance",
    "branches_balanced",
)  # fmt: skip


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


def test_a_core_that_the_simulator_refuses_is_not_chosen():
    laboratory = Laboratory(Simulated("skylake", noise=0))
    learned = passes.learn(laboratory, [calibrations.FORMS[name] for name in LATE], lambda _: None)
    addition = bytes.fromhex("4801d8")
    refused, chosen = ({"rename.width": width} for width in (0, 2))
    found = fit.fit(
        laboratory,
        [addition],
        lambda core: core.time([[addition] * 8]),
        [fit.Hypothesis(learned, rules) for rules in (refused, chosen)],
    )
    assert found.hypothesis.rules == chosen
    assert found.errors[0] == [1.0]


@pytest.mark.parametrize(
    ("core", "cycles"),
    some(product(("skylake", "goldencove"), (0, 3)), {("skylake", 3), ("goldencove", 0)}),
)
def test_results_keep_others_of_their_port_out_where_they_do_on_the_core(core, cycles):
    laboratory = Laboratory(Simulated(core, {port_choice.RESULTS: cycles}, noise=0))
    forms = [calibrations.FORMS[name] for name in LATE]
    learned = passes.learn(laboratory, forms, lambda _: None)
    on_core = calibrations.parameters(paths.models_root() / core)
    binding, choice = (
        {name: on_core[f"ports.{name}"] for name in names if f"ports.{name}" in on_core}
        for names in (BINDING, CHOICE)
    )
    rules = {f"ports.{name}": (value, TRIED) for name, value in choice.items()}
    known = replace(learned, assigned=(binding, TRIED), rules={**learned.rules, **rules})
    found = port_choice.choose_late_results(laboratory, known, forms).rules
    assert found.get(port_choice.RESULTS, (0, TRIED))[0] == cycles
