"""Trials on this host: what is asked of the harness, and how long a loud machine is waited for."""

import os
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from loopwright.errors import InputError
from loopwright.measuring import block
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import host
from loopwright.microbench.host import Host
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Recorded, Simulated, Trial

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
SHARED = "self-test failed: load stream at 0.4551"
LOUD = replace(READ, cycles=float("nan"), disturbed=True, refused="something shares the core")
ADD = Trial(bytes.fromhex("4801c8"), "unrolled")


UNSTEADY = replace(LOUD, unsteady=True, refused="of no one speed: 3 of 10 samples lie within 1.5 %")


def record(reading):
    """Return what the harness prints of a reading."""
    fields = {**asdict(reading), "short": 0, "long": reading.copies, "taken": reading.accepted}
    return {name: None if value != value else value for name, value in fields.items()}


@pytest.fixture
def harness(monkeypatch):
    """A harness that answers what the test sets, on one core, with short pauses."""
    answers = SimpleNamespace(readings=[], tests=[], quiet=[], begun=0)

    class Session:
        def __init__(self, *_):
            answers.begun += 1

        def answers(self, jobs):
            return [self.answer(job) for job in jobs]

        def answer(self, job):
            if job.startswith("job clock"):
                return {"refused": answers.tests.pop(0) if answers.tests else ""}
            if job.startswith("job quiet"):
                return {"quiet": answers.quiet.pop(0) if answers.quiet else 1}
            return record(answers.readings.pop(0))

        def close(self):
            pass

    monkeypatch.setattr(host.harness, "Session", Session)
    monkeypatch.setattr(host, "_cores", lambda: [os.sched_getaffinity(0)])
    monkeypatch.setattr(host, "_PAUSE", 0.001)
    monkeypatch.setattr(host, "_LONGEST_PAUSE", 0.002)
    return answers


def test_what_the_machine_refused_may_be_answered_later_and_what_the_code_did_not():
    assert host.timing_of([LOUD]).transient
    assert not host.timing_of([replace(LOUD, disturbed=False, refused="trap")]).transient
    assert host.timing_of([LOUD, READ]).cycles == 2.0


def test_code_without_one_speed_has_none_after_some_tries_that_nothing_disturbed():
    assert host.timing_of([UNSTEADY] * 7).transient
    assert host.timing_of([UNSTEADY] * 7 + [LOUD]).transient
    timing = host.timing_of([UNSTEADY] * 7 + [LOUD, UNSTEADY])
    assert not timing.transient
    assert timing.refused == f"{UNSTEADY.refused}; so in 8 tries"
    assert host.timing_of([UNSTEADY] * 8 + [READ]).cycles == 2.0


def test_code_without_one_speed_is_asked_no_more_by_the_next_run(harness, tmp_path):
    harness.readings += [READ, *[UNSTEADY] * 8]
    moved = replace(ADD, offset=16)
    machine = Recorded(Host(), tmp_path / "a.jsonl")
    timings = Laboratory(machine).timings([ADD, moved])
    assert [one.cycles for one in timings] == [2.0, None]
    machine.close()
    (again,) = Recorded(Host(), tmp_path / "a.jsonl").measure([moved])
    assert "so in 8 tries" in again.refused
    assert not harness.readings


def test_a_machine_whose_self_test_fails_is_waited_for(harness):
    harness.tests += [SHARED] * 20
    harness.readings += [READ]
    assert [one.cycles for one in Host().measure([ADD])] == [2.0]
    assert harness.begun == 21


def test_disturbed_trials_are_tried_again_and_are_then_transient(harness):
    harness.readings += [LOUD, READ, *[LOUD] * 3]
    timings = Host().measure([ADD, replace(ADD, offset=16)])
    assert [one.transient for one in timings] == [True, False]
    assert harness.begun == 1


def test_trials_wait_for_a_quiet_core_without_another_self_test(harness):
    harness.readings += [READ]
    harness.quiet += [0] * 19
    assert [one.cycles for one in Host().measure([ADD])] == [2.0]
    assert harness.quiet == []
    assert harness.begun == 1


def test_a_core_that_is_loud_for_long_needs_a_self_test_that_passes(harness):
    harness.readings += [READ]
    harness.quiet += [0] * 20
    harness.tests += ["", SHARED]
    assert [one.cycles for one in Host().measure([ADD])] == [2.0]
    assert harness.begun == 3


@pytest.mark.parametrize("loud", ["tests", "quiet"])
def test_a_machine_that_is_never_quiet_is_an_error_that_says_what_to_do(harness, monkeypatch, loud):
    monkeypatch.setattr(host, "_PATIENCE", 0.05)
    harness.tests += [SHARED] * 10000 if loud == "tests" else []
    harness.quiet += [0] * 100000 if loud == "quiet" else []
    why = "self-test failed" if loud == "tests" else "something shares the core"
    with pytest.raises(InputError, match=rf"nothing can be timed .* {why}.*run it again"):
        Host().measure([ADD])


@pytest.mark.usefixtures("harness")
def test_a_harness_that_ends_is_an_error(monkeypatch):
    def ends(*_):
        raise InputError("the harness ended without an answer")

    monkeypatch.setattr(host.harness.Session, "answers", ends)
    with pytest.raises(InputError, match="ended without an answer"):
        Host().measure([ADD])


def test_one_process_of_the_harness_takes_many_small_requests_and_is_ended_in_time(harness):
    harness.readings += [READ] * 1000
    machine = Host()
    for number in range(100):
        trials = [replace(ADD, offset=n) for n in range(number % 9)]
        assert len(machine.measure(trials)) == number % 9
    assert harness.begun == 1
    machine.measure([replace(ADD, offset=n % 64) for n in range(500)])
    assert harness.begun == 3


def test_a_core_whose_self_test_fails_leaves_its_trials_to_the_other(harness, monkeypatch):
    monkeypatch.setattr(host, "_cores", lambda: [os.sched_getaffinity(0)] * 2)
    harness.tests += ["", *[SHARED] * 20]
    harness.readings += [READ] * 50
    trials = [replace(ADD, offset=n) for n in range(50)]
    assert [one.cycles for one in Host().measure(trials)] == [2.0] * 50


def test_trials_take_fewer_samples_than_blocks_that_a_user_gives():
    trial_block = host.trial_block("x86_64", "a", ADD)
    assert "\nsamples 10\n" in block.job("x86_64", "a", trial_block, 0)
    assert "samples" not in block.job("x86_64", "a", replace(trial_block, samples=0), 0)


def test_progress_counts_what_the_machine_has_answered(tmp_path):
    steps = []
    quiet = Simulated("skylake", noise=0.0)
    machine = Recorded(quiet, tmp_path / "a.jsonl", lambda asked, *_: steps.append(asked))
    trials = [Trial(bytes.fromhex("4801c8") * n, "unrolled") for n in range(1, 251)]
    machine.measure(trials[:50])
    machine.measure(trials)
    assert steps == [50, 250]
