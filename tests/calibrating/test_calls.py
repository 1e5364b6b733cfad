"""Jumps tell behind which taken branches a cycle reads on, and whether they need a port."""

from dataclasses import dataclass, replace
from itertools import combinations

import calibrations
import pytest

from loopwright.calibrating import calls
from loopwright.calibrating.core_model import assumed, measured
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated


def test_loops_of_jumps_tell_all_rules_of_reading_on_apart():
    asked = list(calls.jump_loops("x86_64", kits.of("x86_64")).values())
    cycles = {}
    for joins in calls.JOINED:
        machine = Simulated("goldencove", {calls.JOINS: joins}, noise=0)
        figures = Laboratory(machine).figures(asked)
        assert all(figures)
        cycles[joins] = [one.cycles for one in figures]
    for one, other in combinations(cycles.values(), 2):
        assert max(abs(a / b - 1) for a, b in zip(one, other, strict=True)) > 0.2


def test_jumps_end_where_their_names_say():
    kit = kits.of("x86_64")
    for name, trial in calls.jump_loops("x86_64", kit).items():
        starts = [n for n in range(len(trial.code)) if trial.code[n] == 0xEB]
        lines = {(n + 2 + trial.code[n + 1]) % 64 for n in starts}
        assert lines == {0} if "next line" in name else 0 not in lines
        assert len(starts) == (1 if name.startswith("a ") else int(name[0]))


@pytest.mark.parametrize("core", [calibrations.GOLDENCOVE, "skylake"])
def test_jumps_need_a_port_where_they_do_on_the_core(core, tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, core)[0] / f"simulated-{core}"
    ports = {
        (row["mnemonic"], row["operands"]): row["ports"]
        for row in calibrations.rows(folder / "instructions.csv")
    }
    assert ports["jmp", "rel"] == ("" if core == "goldencove" else ports["jne", "rel"])
    assert ports["jmp", "r64"] == ports["jne", "rel"] != ""


@pytest.mark.parametrize("core", [calibrations.GOLDENCOVE])
def test_rules_that_jumps_told_come_out_as_they_are(core, tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, core)[0] / f"simulated-{core}"
    found = calibrations.parameters(folder)
    assert found[calls.JOINS] == "pairs"
    assert (found["taken_branch.exit_bubble"], found["taken_branch.exit_turns"]) == (3, 3)


@dataclass(frozen=True)
class Front:
    """Parameters of a front end, and the ends of its range."""

    parameters: dict[str, object]
    ends: tuple[dict[str, object], ...] | None


@dataclass(frozen=True)
class Learned:
    """A core with a front end."""

    front_end: Front


def test_a_rule_that_jumps_told_holds_at_both_ends_of_a_range():
    joins = calls.JOINS
    open_ = {joins: ("none", assumed("no kernel tells it from: all"))}
    known = Learned(Front(open_, (open_, {"decode.width": (4, measured("decoders"))})))
    found = calls.with_joins(known, "pairs", measured("jumps")).front_end
    assert found.parameters[joins] == ("pairs", "jumps [calibrated]")
    least, most = found.ends
    assert least[joins] == found.parameters[joins]
    assert joins not in most
    alone = replace(known, front_end=replace(known.front_end, ends=None))
    assert calls.with_joins(alone, "all", measured("jumps")).front_end.ends is None
