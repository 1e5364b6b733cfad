"""Dispatch rules of a core are found again: ports of taken branches, slots, addresses, turns."""

import csv

import calibrations
import pytest

from loopwright.calibrating import dispatch_rules, rename_rules, result_buses
from loopwright.measuring import block
from loopwright.microbench.oracle import COUNTER, Simulated, Trial

ZEN4 = "zen4"
PAIR = "4d85f67200"  # a test, and a branch that is not taken
# Zen 4 starts four of the uops a cycle, in the ALUs that take the branch, too, and two branches.
BODIES = {
    "a pair": PAIR,
    "three pairs": PAIR * 3,
    "four additions": "4d01f04c01f34401f54c01f6",
    "seven lea": "488d5e05" * 7,
    "three lea": "488d5e05" * 3,
    # a move from a vector takes the result bus of an ALU
    "movd and three lea": "660f7eca" + "488d5e05" * 3,
    "movd and two tests": "660f7eca4d85f64d85f6",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of what was learned."""
    return calibrations.learned(tmp_path_factory, ZEN4)[0]


def loops(body):
    """Return a loop whose branch follows its count, and one whose branch follows a test."""
    code, counter = bytes.fromhex(body), COUNTER["x86_64"]
    counted = code + block.closing("x86_64", counter, len(code))
    return [Trial(one, "loop") for one in (counted, block.tested("x86_64", counter, code))]


def rows(folder):
    """Return the rows of the learned table by mnemonic and operands."""
    table = (folder / f"simulated-{ZEN4}/instructions.csv").read_text().splitlines()
    return {(row["mnemonic"], one): row for row in csv.DictReader(table[1:])
            for one in row["operands"].split(";")}  # fmt: skip


def test_pairs_with_a_result_are_bound_like_what_computes(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    assert set(found[dispatch_rules.RESULTS]) <= set(found[dispatch_rules.BALANCED])
    assert set(found[dispatch_rules.RESULTS]) < set(rows(folder)["jne", "rel"]["ports"])
    assert dispatch_rules.TAKEN not in found


def test_a_move_from_a_vector_takes_the_bus_of_an_alu(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    ports = {name: row["ports"] for name, row in rows(folder).items()}
    port, lender = next(
        pair for pair in found[result_buses.BORROWED].split() if pair[0] == ports["movd", "r32,x"]
    )
    assert lender in found[dispatch_rules.BALANCED]
    moves = {name for (name, _), own in ports.items() if port in own}
    assert moves <= {"movd", "movq", "vmovd", "vmovq"}


@pytest.mark.parametrize("name", BODIES)
def test_loops_whose_branch_needs_a_busy_port_take_as_long(folder, name, monkeypatch):
    settings = {"front_end": "ideal"}
    trials = loops(BODIES[name])
    true = calibrations.original(ZEN4, settings).measure(trials)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    mine = Simulated(f"simulated-{ZEN4}", settings, noise=0).measure(trials)
    assert [one.cycles for one in mine] == pytest.approx([one.cycles for one in true], rel=0.03)


def test_stores_of_bytes_into_what_was_loaded_take_no_more_slots_than_wide_ones(folder):
    assert rows(folder)["add", "m8,r8"]["slots"] == rows(folder)["add", "m32,r32"]["slots"]


def test_rules_of_addresses_and_dispatch_are_those_of_the_core(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    assert found["memory.complex_address_cycles"] == 2
    assert found[dispatch_rules.ALONE] is False
    assert found[rename_rules.NOP_BYTES] == 12
    assert len(found[dispatch_rules.BALANCED]) == 4


def test_the_branch_unit_beside_an_alu_and_pairs_that_load_are_those_of_the_core(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    joint, second = found[dispatch_rules.JOINT], found["ports.second"]
    assert joint[0] == second == found[dispatch_rules.BALANCED][-1]
    assert joint[1] not in found[dispatch_rules.BALANCED]
    assert joint in found[dispatch_rules.SHARED].split()
    assert second in found[dispatch_rules.RESULTS]
    assert len(found[dispatch_rules.RESULTS]) == 2
    assert found[dispatch_rules.LOAD_SLOTS] == 2


def test_stores_take_a_slot_more_with_an_index_and_loads_none(folder):
    table = rows(folder)
    assert table["mov", "m64,r64"]["slots"] == "1"
    assert table["mov", "m64,r64"]["indexed"].startswith("2:1:")
    assert table["mov", "r64,m64"]["indexed"] == ""


def test_a_load_and_what_computes_with_it_share_an_entry_unless_it_has_an_index(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    row = rows(folder)["add", "r64,m64"]
    balanced, without = set(found[dispatch_rules.BALANCED]), {found[dispatch_rules.JOINT][0]}
    assert balanced - without in [set(ports) for ports in row["ports"].split("+")]
    assert balanced in [set(ports) for ports in row["indexed"].split(":")[-1].split("+")]
