"""What calibration learned is held to the core that it learned from, by kernels kept aside."""

import calibrations
import pytest


@pytest.fixture(scope="module")
def modules(validation):
    return {name: validation(name) for name in ("calibrated", "held_out")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return calibrations.learned(tmp_path_factory, "skylake")[0]


@pytest.fixture(scope="module")
def held(modules, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules["calibrated"], "_MIXTURES_OF_FORM", 1)
        return modules["calibrated"].hold("skylake", folder)


def named(core):
    return {check.name: check for check in core.checks}


def test_kernels_kept_aside_take_as_long_on_what_was_learned(held):
    checks = named(held)
    for name in ("mixtures held out", "chains held out", "chains learned from"):
        assert checks[name].answered >= 0.97 * len(checks[name].true) > 30
        assert checks[name].wrong <= 15
        assert checks[name].within(0.05) >= 80


def test_ranges_of_forms_in_doubt_hold_what_the_core_takes(modules, held):
    check = named(held)[modules["calibrated"].DOUBTFUL]
    assert check.answered >= 0.97 * len(check.true) > 0
    assert check.wrong <= 15


def test_of_two_ends_the_nearest_counts(modules):
    nearest = modules["calibrated"]._nearest
    assert [nearest(cycles, (3.0, 2.0)) for cycles in (1.0, 2.5, 4.0)] == [2.0, 2.5, 3.0]
    assert nearest(2.0, (1.0, float("nan"))) != 2.0


def test_wrong_is_more_than_a_tenth_and_a_tenth_of_a_cycle(modules):
    check = modules["calibrated"].Check
    nan = float("nan")
    some = check(
        "x", [("a",), ("b",), ("c",), ("d",)], [10.0, 10.0, 0.5, 1.0], [10.9, 12.0, 0.59, nan]
    )
    assert some.answered == 3
    assert some.wrong == pytest.approx(100 / 3)
    assert some.worst() == [("b", 1)]
    assert not check("none", [], [], []).wrong <= modules["calibrated"].WRONG


@pytest.mark.usefixtures("held")
def test_mixtures_kept_aside_are_no_kernels_of_an_experiment(modules, folder):
    held_out, calibrated = modules["held_out"], modules["calibrated"]
    core = calibrated.Simulated("skylake")
    forms = [
        f
        for f in calibrated.kits.forms("x86_64", core.features)[0]
        if f.mnemonic in calibrations.X86
    ]
    asked = (folder / "simulated-skylake" / "answers.jsonl").read_text()
    kernels = held_out.mixtures(forms, 3, seed=1)
    assert kernels
    assert not [one for one in kernels if b"".join(one.code).hex() * 4 in asked]
    assert held_out.mixtures(forms, 3, seed=1) == kernels
    assert held_out.mixtures(forms, 3, seed=2) != kernels
