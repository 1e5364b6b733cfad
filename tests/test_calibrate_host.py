"""Trials on this host: what is asked of the harness, and how long a loud machine is waited for."""

from dataclasses import replace

import pytest

from loopwright.calibrating.machines import harnessed
from loopwright.calibrating.machines import host as hosts_machine
from loopwright.calibrating.machines.host import Host
from loopwright.calibrating.machines.machine import Trial
from loopwright.calibrating.machines.record import Recorded
from loopwright.calibrating.machines.simulated import Simulated
from loopwright.errors import InputError
from loopwright.measuring.blocks import block
from loopwright.measuring.blocks.slopes import BlockReading

READ = BlockReading(
    cycles=2.0,
    p10=1.99,
    p90=2.01,
    samples=14,
    accepted=16,
    slow=2,
    slow_from=1.1,
    slow_to=1.2,
    copies=300,
    two_speeds="",
    clock="tsc",
    misaligned=False,
    shared=False,
    disturbed=False,
    refused="",
)
LOUD = replace(
    READ, cycles=float("nan"), disturbed=True, refused="self-test failed: load stream at 0.4551"
)
ADD = Trial(bytes.fromhex("4801c8"), "unrolled")


@pytest.fixture
def heard(monkeypatch):
    """Have the harness say what the test wants, and pauses take no time."""
    said, pauses = [], []

    def readings(_isa, blocks, _processes):
        return [said.pop(0) for _ in blocks]

    monkeypatch.setattr(hosts_machine.turns, "readings", readings)
    monkeypatch.setattr(hosts_machine.time, "sleep", pauses.append)
    return said, pauses


def test_what_the_machine_refused_may_be_answered_later_and_what_the_code_did_not():
    assert harnessed.timing([LOUD]).passing
    assert not harnessed.timing([replace(LOUD, disturbed=False, refused="trap")]).passing
    assert harnessed.timing([LOUD, READ]).cycles == 2.0


def test_a_machine_that_answers_nothing_is_waited_for(heard):
    said, pauses = heard
    said += [[LOUD], [LOUD]] * 2 + [[READ], [READ]]
    assert [one.cycles for one in Host().measure([ADD])] == [2.0]
    assert len(pauses) == 2


def test_a_machine_that_answers_in_part_is_not_waited_for(heard):
    said, pauses = heard
    said += [[LOUD], [READ], [READ]]
    found = Host().measure([ADD, replace(ADD, offset=16)])
    assert [one.passing for one in found] == [True, False]
    assert not pauses


def test_trials_of_no_one_speed_are_not_waited_for_where_nops_can_be_timed(heard):
    said, pauses = heard
    said += [[LOUD], [READ]]
    (found,) = Host().measure([ADD])
    assert found.passing
    assert not pauses


def test_a_machine_that_is_never_quiet_is_an_error_that_says_what_to_do(heard):
    said, _ = heard
    said += [[LOUD]] * 100
    with pytest.raises(InputError, match=r"nothing can be timed .* self-test failed.*run it again"):
        Host().measure([ADD])


def test_trials_take_fewer_samples_than_blocks_that_a_user_gives():
    one = harnessed.block("x86_64", "a", ADD)
    assert "\nsamples 16\n" in block.job("x86_64", "a", one, 0)
    assert "samples" not in block.job("x86_64", "a", replace(one, samples=0), 0)


def test_progress_counts_what_is_answered_of_what_is_missing(tmp_path):
    steps = []
    quiet = Simulated("skylake", noise=0.0)
    machine = Recorded(quiet, tmp_path / "a.jsonl", lambda *step: steps.append(step))
    trials = [Trial(bytes.fromhex("4801c8") * n, "unrolled") for n in range(1, 251)]
    machine.measure(trials[:50])
    machine.measure(trials)
    assert steps == [(50, 50), (200, 200)]
