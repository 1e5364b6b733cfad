"""Dispatch rules of a core are found again: ports of taken branches, slots, addresses, turns."""

import csv

import calibrations
import pytest

from loopwright import paths
from loopwright.calibrating import dispatch_rules
from loopwright.measuring import block
from loopwright.microbench.oracle import COUNTER, Trial
from loopwright.microbench.simulated import Simulated

ZEN4 = "zen4"
PAIR = "4d85f67200"  # a test, and a branch that is not taken
# Zen 4 starts four of the uops a cycle, in the ALUs that take the branch, too, and two branches.
BODIES = {
    "a pair": PAIR,
    "three pairs": PAIR * 3,
    "four additions": "4d01f04c01f34401f54c01f6",
    "seven lea": "488d5e05" * 7,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of what was learned."""
    return calibrations.learned(tmp_path_factory, ZEN4)[0]


def loop(body):
    code = bytes.fromhex(body)
    return Trial(code + block.closing("x86_64", COUNTER["x86_64"], len(code)), "loop")


def test_a_taken_branch_has_as_many_ports_as_on_the_core(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")[dispatch_rules.TAKEN]
    # The pair of dec and jne that closes the loops has a result.
    on_core = calibrations.parameters(paths.models_root() / ZEN4)["macro_fusion.result_ports"]
    assert len(found) == len(on_core)


@pytest.mark.parametrize("name", BODIES)
def test_loops_whose_branch_needs_a_busy_port_take_as_long(folder, name, monkeypatch):
    settings = {"front_end": "ideal"}
    trials = [loop(BODIES[name])]
    (true,) = calibrations.original(ZEN4, settings).measure(trials)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    (mine,) = Simulated(f"simulated-{ZEN4}", settings, noise=0).measure(trials)
    assert mine.cycles == pytest.approx(true.cycles, rel=0.03)


def test_rules_of_addresses_and_dispatch_are_those_of_the_core(folder):
    found = calibrations.parameters(folder / f"simulated-{ZEN4}")
    assert found["memory.complex_address_cycles"] == 2
    assert found[dispatch_rules.ALONE] is False
    assert len(found["ports.rotated"]) == found["rename.alu_uops"] == 4
    assert found["rename.branches"] == 2


def test_stores_take_a_slot_more_with_an_index_and_loads_none(folder):
    table = (folder / f"simulated-{ZEN4}/instructions.csv").read_text().splitlines()
    rows = {(row["mnemonic"], one): row for row in csv.DictReader(table[1:])
            for one in row["operands"].split(";")}  # fmt: skip
    assert rows["mov", "m64,r64"]["slots"] == "1"
    assert rows["mov", "m64,r64"]["indexed"].startswith("2:1:")
    assert rows["mov", "r64,m64"]["indexed"] == ""
