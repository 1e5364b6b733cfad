"""What serialises, wrong branches and strings of simulated cores come out as they are."""

from dataclasses import dataclass, field, replace
from itertools import product

import calibrations
import pytest
from calibrations import rows

from loopwright.calibrating import core_files, fit, mispredictions, passes, serialising, strings
from loopwright.calibrating.core_model import Repeated
from loopwright.microbench import kits, memory_timing, x86_kit
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.memory_timing import Aliased
from loopwright.microbench.oracle import Run, Simulated, Trial

# What loops of string instructions are made of, and forms that show the classes of ports.
LOOPED = (
    "mov r64,r64", "movsxd r64,r32", "add r64,r64", "add r64,i8", "imul r64,r64,i32", "lea.bid r32",
    "lea.b r64", "lea.bd r64", "mov r64,m64", "mov m64,r64", "test r64,r64", "dec r64",
    "shl r64,i8", "mov r32,i32", "mov r64,i32", "cmovb r64,r64",
)  # fmt: skip


@pytest.fixture(scope="module", params=[calibrations.GOLDENCOVE, "skylake"])
def learned(request, tmp_path_factory):
    """Return a core, and the folder of what was learned of it, changed by hand."""
    core = request.param
    folder = calibrations.learned(tmp_path_factory, core)[0]
    return core, folder


def found(folder, core):
    """Return the parameters of what was learned, by dotted name."""
    every = calibrations.parameters(folder / f"simulated-{core}")
    return {n: v for n, v in every.items() if n.startswith(("serial.", "mispredict.", "string."))}


def test_what_was_changed_comes_out_again(learned):
    core, folder = learned
    mine = found(folder, core)
    changed = {n: v for n, v in calibrations.changed(core).items() if n in mine}
    assert len(changed) > 1
    assert {name: str(mine[name]) for name in changed} == changed
    assert mine["serial.lfence"] == {"goldencove": 14, "skylake": 4}[core]


def test_what_no_rule_explains_has_its_figures_and_a_reason(learned):
    core, folder = learned
    place = folder / f"simulated-{core}"
    left = {row["form"]: row["why"] for row in rows(place / "left-out.csv")}
    assert left["stac"] == left["wrmsr"] == "privileged: user mode cannot execute it"
    if core == "goldencove":  # where it is 0, which is no answer
        assert "serial.mfence" in left["mfence"]
    timed = {(row["form"], row["figure"]): row for row in rows(place / "measured.csv")}
    assert float(timed["rdtscp", "alone"]["cycles"]) > 5
    tabled = {row["mnemonic"]: row for row in rows(place / "instructions.csv")}
    assert {"lfence", "mfence"}.isdisjoint(tabled)
    for name in ("sfence", "pause", "rdtsc", "rdtscp", "cpuid"):
        assert (name in tabled) != (name in left)


@pytest.mark.parametrize("name", ["rdtsc", "cpuid", "sfence"])
def test_rows_take_as_long_beside_others_as_on_the_core(learned, name, monkeypatch):
    core, folder = learned
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    mine = Simulated(f"simulated-{core}", noise=0)
    monkeypatch.delenv("LOOPWRIGHT_MODELS")
    codes = list(serialising.kernels_of(x86_kit, name, None).values())
    said = serialising.slopes(Laboratory(mine), codes)
    true = serialising.slopes(Laboratory(calibrations.original(core)), codes)
    assert [one.refused for one in said] == [""] * len(codes)
    for one, other in zip(said, true, strict=True):
        assert one.cycles == pytest.approx(other.cycles, rel=0.15)


def test_curves_of_strings_are_those_of_the_core(learned, monkeypatch):
    core, folder = learned
    table = rows(folder / f"simulated-{core}" / "strings.csv")
    timed = {(row["instruction"], row["source_offset"], row["bytes"]): row for row in table}
    assert len(timed) > 100
    if core == "skylake":
        assert found(folder, core)["string.alignment"] == 32
        assert "unaligned" in next(row["note"] for row in table if row["note"])
    else:
        cycles = {row[0]: row[1:] for row in found(folder, core)["string.movsb_cycles"]}
        assert cycles[128] == [11, 11]
        assert (cycles[1024], cycles[4096]) == ([44, 47], [70, 85])
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    mine = Simulated(f"simulated-{core}", noise=0)
    monkeypatch.delenv("LOOPWRIGHT_MODELS")
    asked = [
        Repeated(name, size, source, destination)
        for name in ("movsb", "movsq")
        for size in (96, 320, 2560)
        for source, destination in ((0, 0), (24, 40), (0, 56))
    ]
    said = strings.measure_strings(Laboratory(mine), asked)
    true = strings.measure_strings(Laboratory(calibrations.original(core)), asked)
    for one, other in zip(said, true, strict=True):
        assert one.figure.cycles == pytest.approx(other.figure.cycles, rel=0.06)


@pytest.mark.parametrize(("cycles", "least"), [(0, 0), (7, 384), (9, 128)])
def test_cycles_of_a_misaligned_end_are_told_from_those_of_a_misaligned_start(cycles, least):
    changes = {"movs_end_cycles": cycles, "stos_end_cycles": cycles, "end_from": least}
    settings = {f"string.{name}": str(value) for name, value in changes.items()}
    if not least:
        del settings["string.end_from"]  # of no effect
    machine = Laboratory(Simulated("goldencove", settings, noise=0))
    known = passes.learn(machine, [calibrations.FORMS[name] for name in LOOPED], lambda _: None)
    rules = strings.fit_strings(machine, known).rules
    found = {name: rules.get(f"string.{name}", (0, None))[0] for name in changes}
    assert found["end_from"] == least
    for name in ("movs_end_cycles", "stos_end_cycles"):
        assert found[name] == pytest.approx(cycles, abs=0.5)


def test_strings_that_hold_rename_are_those_of_the_core(tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, "zen4")[0]
    found = calibrations.parameters(folder / "simulated-zen4")
    assert found["string.holds_rename"] is True
    assert found["string.hold_bytes"] == 8


def test_half_of_random_branches_are_wrong_and_none_of_others():
    laboratory = Laboratory(Simulated("zen4", {"mispredict.cycles": "40"}, noise=0))
    costs = mispredictions.measure_mispredictions(laboratory)
    assert costs.cost.cycles == pytest.approx(40, abs=1)
    assert costs.known.cycles < 8


def test_branches_that_are_no_slower_tell_nothing(monkeypatch):
    machine = Simulated("zen4", noise=0)
    measure = machine.measure
    monkeypatch.setattr(
        machine, "measure", lambda trials: measure([replace(one, run=None) for one in trials])
    )
    assert (
        "no longer than others"
        in mispredictions.measure_mispredictions(Laboratory(machine)).cost.refused
    )


def test_a_guest_is_not_asked_for_what_traps():
    machine = Simulated("zen4", noise=0)
    asked = serialising.measure_serialising(Laboratory(machine), {})
    assert asked.figures["cpuid"]["alone"].cycles > 50
    machine.features |= {"hypervisor"}
    asked = serialising.measure_serialising(Laboratory(machine), {})
    assert "cpuid" not in asked.figures
    assert "guest" in asked.left["cpuid"]
    machine.features = frozenset()
    assert "rdtscp" not in serialising.measure_serialising(Laboratory(machine), {}).figures


def test_a_run_is_no_part_of_what_tells_trials_apart():
    code = kits.of("x86_64").branches_by_bits(True, 2)
    plain, run = Trial(code), Trial(code, run=Run(tuple(product((False, True), repeat=2))))
    assert plain == run
    assert plain.key == run.key


def test_kernels_of_branches_differ_in_what_they_go_by_alone():
    random, known = (x86_kit.branches_by_bits(by, 4) for by in (True, False))
    assert len(random) == len(known)
    assert sum(a != b for a, b in zip(random, known, strict=True)) <= 3 * 4


def test_what_the_simulator_has_no_rule_for_costs_nothing_there():
    machine = Simulated("skylake")
    forms = {form.name: form for form in kits.forms("x86_64", machine.features)[0]}
    found = memory_timing.measure_aliasing(Laboratory(machine), forms)
    assert {said: one.cost for said, one in found.items()} == {
        memory_timing.CHAIN: 0.0, memory_timing.FREE: 0.0,
    }  # fmt: skip
    assert memory_timing.measure_aliasing(Laboratory(Simulated("neoverse-n1")), {}) == {}


def test_a_difference_counts_where_it_is_surer_than_noise():
    def cost(cycles, uncertainty):
        return Aliased(Figure(cycles, uncertainty), Figure(5.0, uncertainty)).cost

    assert cost(9.0, 0.1) == pytest.approx(4.0)
    assert cost(9.0, 1.5) == 0.0
    assert cost(5.1, 0.001) == 0.0


def test_strings_are_no_loads_where_one_port_does_both():
    asked = [Repeated("movsb", 1024, 0, 0)]
    plain, shared = (
        strings.measure_strings(Laboratory(Simulated("skylake", ports, noise=0)), asked)[0].figure
        for ports in ({}, {"ports.load": "023"})
    )
    assert shared.cycles == pytest.approx(plain.cycles, rel=0.02)


@dataclass(frozen=True)
class Rules:
    rules: dict[str, object] = field(default_factory=dict)


@pytest.mark.parametrize(("asks", "ends"), [((10, 14), (10, 14)), ((10, 10), None)])
def test_a_fence_that_no_number_of_cycles_explains_has_a_range(monkeypatch, asks, ends):
    name = "serial.mfence"

    def fitted(*asked):
        *_, tried = asked
        off = [[abs(one.rules[name] / cycles - 1) for cycles in asks] for one in tried]
        return fit.Fit(tried, off, min(range(len(off)), key=lambda n: sum(off[n])), [])

    monkeypatch.setattr(serialising, "_fit", fitted)
    figures = {"alone": Figure(12.0, 0.0), "beside 12 nops": Figure(18.0, 0.0)}
    machine = Laboratory(Simulated("goldencove", noise=0))
    learned = serialising._with_drain(machine, Rules(), "mfence", [b"", b""], figures)
    value, source = learned.rules[name]
    assert value == 10
    assert source.startswith("assumption") is (ends is not None)
    assert ((value.low, value.high) if isinstance(value, core_files.Between) else None) == ends


def test_a_range_of_one_number_of_cycles_has_two_ends(monkeypatch):
    # Kernels that none explains, and that ask for the same number.
    name = "serial.avx_sse_transition"

    def fitted(*asked):
        *_, tried = asked
        off = [[0.3 + one.rules[name] / 100] * 2 for one in tried]
        return fit.Fit(tried, off, 0, [])

    monkeypatch.setattr(serialising, "_fit", fitted)
    figures = {"alone": Figure(1.0, 0.0), "beside 12 nops": Figure(3.0, 0.0)}
    machine = Laboratory(Simulated("goldencove", noise=0))
    learned = serialising._with_drain(machine, Rules(), "avx_sse_transition", [b"", b""], figures)
    value, _ = learned.rules[name]
    assert (value, value.low, value.high) == (0, 0, 1)


def test_kernels_of_no_one_speed_do_not_hide_the_others(monkeypatch):
    machine = Laboratory(Simulated("goldencove", noise=0))
    kernels = serialising.kernels_of(x86_kit, "lfence", None)
    refused = {kernels[serialising.ALONE] * 2}
    iterations = machine.iterations

    def some(bodies, runs=()):
        found = iterations(bodies, runs)
        gone = Figure(float("nan"), 0.0, "of no one speed")
        return [gone if b in refused else f for b, f in zip(bodies, found, strict=True)]

    monkeypatch.setattr(machine, "iterations", some)
    found = serialising.measure_serialising(machine, {})
    assert "lfence" not in found.left
    assert found.figures["lfence"].keys() == kernels.keys() - {serialising.ALONE}
    assert (
        serialising._alone(found.figures["lfence"])
        == found.figures["lfence"]["beside 12 nops"].cycles
    )
    refused |= {code * 2 for code in list(kernels.values())[:3]}
    assert serialising.measure_serialising(machine, {}).left["lfence"] == "of no one speed"
