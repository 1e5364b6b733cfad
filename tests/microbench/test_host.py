"""Trials on this host: what is asked of the harness, and how long a loud machine is waited for."""

import os
from dataclasses import asdict, replace

import pytest

from loopwright.errors import InputError
from loopwright.measuring import block
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import host
from loopwright.microbench.host import Host
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Recorded, Trial
from loopwright.microbench.simulated import Simulated

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


UNSTEADY = replace(LOUD, unsteady=True, refused="of no one speed: 3 of 10 samples lie within 1.5 %")


def record(reading):
    """Return what the harness prints of a reading."""
    taken = 0 if reading.refused.startswith("self-test") else reading.accepted
    said = {**asdict(reading), "short": 0, "long": reading.copies, "taken": taken}
    return {name: None if value != value else value for name, value in said.items()}


@pytest.fixture
def heard(monkeypatch):
    """Have the harness say what the test wants, and pauses take no time."""
    said, pauses, begun = [], [], []

    class Kept:
        def __init__(self, isa):
            begun.append(isa)

        def answers(self, jobs):
            return [record(said.pop(0)) for _ in jobs]

        def close(self):
            pass

    monkeypatch.setattr(host.harness, "Kept", Kept)
    monkeypatch.setattr(host, "_cores", lambda: [os.sched_getaffinity(0)])
    monkeypatch.setattr(host.time, "sleep", pauses.append)
    return said, pauses, begun


def test_what_the_machine_refused_may_be_answered_later_and_what_the_code_did_not():
    assert host.timing_of([LOUD]).transient
    assert not host.timing_of([replace(LOUD, disturbed=False, refused="trap")]).transient
    assert host.timing_of([LOUD, READ]).cycles == 2.0


def test_code_without_one_speed_has_none_after_some_tries_that_nothing_disturbed():
    assert host.timing_of([UNSTEADY] * 7).transient
    assert host.timing_of([UNSTEADY] * 7 + [LOUD]).transient
    found = host.timing_of([UNSTEADY] * 7 + [LOUD, UNSTEADY])
    assert not found.transient
    assert found.refused == f"{UNSTEADY.refused}; so in 8 tries"
    assert host.timing_of([UNSTEADY] * 8 + [READ]).cycles == 2.0


def test_code_without_one_speed_is_asked_no_more_by_the_next_run(heard, tmp_path):
    said, _, _ = heard
    said += [READ, *[UNSTEADY] * 8]
    other = replace(ADD, offset=16)
    machine = Recorded(Host(), tmp_path / "a.jsonl")
    found = Laboratory(machine).trials([ADD, other])
    assert [one.cycles for one in found] == [2.0, None]
    machine.close()
    (again,) = Recorded(Host(), tmp_path / "a.jsonl").measure([other])
    assert "so in 8 tries" in again.refused
    assert not said


def test_a_machine_that_answers_nothing_is_waited_for(heard):
    said, pauses, begun = heard
    said += [LOUD] * 8 * 2 + [READ]
    assert [one.cycles for one in Host().measure([ADD])] == [2.0]
    assert pauses[3] < pauses[-1] == host._PAUSES[1]
    assert len(begun) > 2  # each with a self-test of its own


def test_a_machine_that_answers_in_part_is_not_waited_for(heard):
    said, pauses, _ = heard
    said += [LOUD, READ, *[LOUD] * 3]
    found = Host().measure([ADD, replace(ADD, offset=16)])
    assert [one.transient for one in found] == [True, False]
    assert set(pauses) <= {host._NEIGHBOUR}


def test_trials_that_are_disturbed_are_not_waited_for_where_nops_can_be_timed(heard):
    said, pauses, _ = heard
    said += [*[LOUD] * 4, READ]
    (found,) = Host().measure([ADD])
    assert found.transient
    assert set(pauses) <= {host._NEIGHBOUR}


def test_a_machine_that_is_never_quiet_is_an_error_that_says_what_to_do(heard):
    said, _, _ = heard
    said += [LOUD] * 1000
    with pytest.raises(InputError, match=r"nothing can be timed .* self-test failed.*run it again"):
        Host().measure([ADD])


def test_one_process_of_the_harness_takes_many_small_requests_and_is_ended_in_time(heard):
    said, _, begun = heard
    said += [READ] * 1000
    host = Host()
    for number in range(100):
        assert len(host.measure([replace(ADD, offset=n) for n in range(number % 9)])) == number % 9
    assert len(begun) == 1
    host.measure([replace(ADD, offset=n % 64) for n in range(500)])
    assert len(begun) == 3


def test_two_cores_share_trials_until_they_disturb_each_other(heard, monkeypatch):
    said, _, begun = heard
    monkeypatch.setattr(host, "_cores", lambda: [os.sched_getaffinity(0)] * 2)
    said += [READ] * 100
    machine = Host()
    trials = [replace(ADD, offset=n) for n in range(50)]
    assert [one.cycles for one in machine.measure(trials)] == [2.0] * 50
    assert len(begun) == 2
    said[:] = [LOUD] * 50 + [READ] * 50
    assert [one.cycles for one in machine.measure(trials)] == [2.0] * 50
    assert len(begun) == 3  # one process alone, with a self-test of its own


def test_trials_take_fewer_samples_than_blocks_that_a_user_gives():
    one = host.trial_block("x86_64", "a", ADD)
    assert "\nsamples 10\n" in block.job("x86_64", "a", one, 0)
    assert "samples" not in block.job("x86_64", "a", replace(one, samples=0), 0)


def test_progress_counts_what_the_machine_has_answered(tmp_path):
    steps = []
    quiet = Simulated("skylake", noise=0.0)
    machine = Recorded(quiet, tmp_path / "a.jsonl", lambda asked, *_: steps.append(asked))
    trials = [Trial(bytes.fromhex("4801c8") * n, "unrolled") for n in range(1, 251)]
    machine.measure(trials[:50])
    machine.measure(trials)
    assert steps == [50, 250]
