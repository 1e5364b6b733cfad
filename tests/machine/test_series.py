"""The rule that makes readings of samples: made-up series, and recorded ones, judged again.

Samples of a point are taken in turns, so that a speed that changes slowly shows in a reading, and
a process of the harness that is kept answers in order.
"""

import itertools
import math
import os
import random
import signal

import pytest
from checkout import DATA

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.machine import harness

RECORDED = DATA / "series"
HOST = toolchain.host_isa()
BURST = 70_000  # ticks
CYCLES = 100_000  # of a calibration
CANARY = 25_000  # cycles, alone
HOT, COLD = 1030, 1100
QUICK = 200.0  # cycles a repetition
REPEATS = 500


def sample(
    targets=(1.0,), clock=1.0, behind=1.0, canaries=(1.0, 1.0), control=0.0, disturbed=0, noise=0,
    turn=0,
):  # fmt: skip
    """One sample: targets in QUICK cycles a repetition (the second of twice as many), times clock.

    behind is how much longer the calibration behind it is, canaries what they take to be alone.
    """
    chance = noise or random.Random(0)
    rough = lambda: 1 + chance.gauss(0, 2e-4)  # noqa: E731
    ticks = [t * (n + 1) * QUICK * REPEATS / CYCLES * BURST for n, t in enumerate(targets)]
    if control:
        ticks = [control * 3 * BURST, 0.0]
    ticks += [0.0] * (2 - len(ticks))
    numbers = [BURST * clock, BURST * clock * behind]
    numbers += [t * clock * rough() for t in ticks]
    numbers += [c * CANARY / CYCLES * BURST * clock * rough() for c in canaries]
    numbers += [0, 3 * CYCLES * 1_000_000 if control else 0, disturbed, turn]
    return "sample " + " ".join(str(round(n)) for n in numbers)


def series(samples, targets=1, most=HOT, canary=CANARY * 1_000_000, sliced=0):
    head = f"series {targets} {most} {REPEATS} {CYCLES} 2100000000 {canary} {canary} {sliced}"
    return "\n".join([head, *samples, ""])


def judge(text, isa=HOST):
    [found] = harness.run(isa, f"job judge\nid a\n{text}end\n")
    return found


def many(count, **more):
    chance = random.Random(1)
    return [sample(noise=chance, **more) for _ in range(count)]


def test_a_quiet_series_reads_what_it_is_made_of():
    found = judge(series(many(48)))
    assert found["held"]
    assert found["cycles"] == pytest.approx(QUICK, rel=2e-4)
    assert found["p10"] <= found["cycles"] <= found["p90"]
    assert (found["taken"], found["accepted"], found["slow"]) == (48, 48, 0)
    assert (found["two_speeds"], found["refused"]) == ("", "")
    assert len(found["samples"]) == 48


def test_of_two_targets_the_difference_is_read():
    found = judge(series(many(24, targets=(1.0, 1.0)), targets=2))
    assert found["cycles"] == pytest.approx(QUICK, rel=1e-3)


def test_frequency_steps_fall_out():
    steps = [sample(clock=1 + 0.024 * (n // 12 % 2)) for n in range(48)]
    found = judge(series(steps))
    assert found["held"]
    assert found["cycles"] == pytest.approx(QUICK, rel=1e-3)
    found = judge(series([sample(behind=1 + 0.02 * (n % 2)) for n in range(48)]))
    assert (found["accepted"], found["cycles"]) == (24, pytest.approx(QUICK, rel=1e-3))


def test_calibrations_in_slices_may_differ_by_what_a_speed_that_changes_costs_them():
    rough = [sample(clock=1 + 0.1 * (n % 3 == 0), behind=1.004) for n in range(48)]
    assert judge(series(rough))["accepted"] == 0
    found = judge(series(rough, sliced=1))
    assert (found["held"], found["accepted"]) == (1, 48)
    # As in `sample`, whose targets are slower by the half of what is behind them.
    assert found["cycles"] == pytest.approx(QUICK / 1.002, rel=1e-3)
    assert judge(series([sample(behind=1.02)] * 48, sliced=1))["accepted"] == 0


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("times", [1.12, 1.7, 2.6, 10])
def test_two_speeds_do_not_pass_as_one(share, times):
    slow = round(48 * share)
    mixed = [sample(targets=(times if n * slow % 48 < slow else 1.0,)) for n in range(48)]
    found = judge(series(mixed))
    assert (
        not found["held"]
        or f"of 48 samples took {times:.2f} times" in found["two_speeds"]
        or (f"{slow} of 48 samples took" in found["two_speeds"])
    ), found
    if found["held"]:
        assert found["slow"] == slow
        assert found["slow_from"] == pytest.approx(times, rel=1e-2)


@pytest.mark.parametrize(("share", "times"), [(0.75, (1.5, 1.5)), (0.9, (1.05, 3.0))])
def test_what_has_no_one_speed_is_told_from_what_is_interrupted(share, times):
    chance = random.Random(5)
    slow = round(48 * share)
    mixed = [
        sample(targets=(1.0, chance.uniform(*times) if n * slow % 48 < slow else 1.0))
        for n in range(48)
    ]
    found = judge(series(mixed, targets=2))
    assert (found["held"], found["unsteady"]) == (0, 1)
    assert found["refused"].startswith("of no one speed: ")
    # Where as many calibrations are longer than their neighbours, it is what comes and goes here.
    clocks = [1 + 0.5 * (n % 2) for n in range(160)]
    hit = [sample(targets=(1.0, 1.0), clock=c, behind=d / c) for c, d in itertools.pairwise(clocks)]
    found = judge(series(hit + mixed, targets=2))
    assert (found["held"], found["unsteady"]) == (0, 0)
    assert found["refused"].startswith("disturbed: ")


def test_two_speeds_within_the_window_are_two_groups():
    found = judge(series([sample(targets=(1.0 + 0.02 * (n % 3 == 0),)) for n in range(48)]))
    assert "two groups, around 200.0" in found["two_speeds"]
    assert "and 204.0" in found["two_speeds"]
    assert found["doubtful"]


def test_noise_of_less_than_a_percent_is_one_speed():
    chance = random.Random(2)
    noisy = [sample(targets=(1 + chance.uniform(0, 0.009),)) for _ in range(48)]
    found = judge(series(noisy))
    assert (found["two_speeds"], found["doubtful"]) == ("", 0)


def interrupted(count, often, chance):
    """Samples that interruptions of 1 to 20 us meet, at so many a burst, wherever they are."""

    def hit():
        return 1 + (chance.uniform(0.03, 0.6) if chance.random() < often else 0)

    clocks = [hit() for _ in range(count + 1)]
    return [
        sample(targets=(hit() / a,), clock=a, behind=b / a, noise=chance)
        for a, b in itertools.pairwise(clocks)
    ]


@pytest.mark.parametrize("often", [0.02, 0.1, 0.2])
def test_interruptions_are_kept_out_and_are_no_second_speed(often):
    chance, called = random.Random(3), 0
    for _ in range(20):
        found = judge(series(interrupted(48, often, chance)))
        if found["held"]:
            assert found["cycles"] == pytest.approx(QUICK, rel=1e-3)
            called += bool(found["two_speeds"])
    assert called <= 1


def test_what_shares_the_core_is_no_figure():
    """A neighbour slows what is measured and the canaries, and leaves calibrations alone."""
    beside = [sample(targets=(1.5,), canaries=(1.3, 1.4)) for _ in range(48)]
    found = judge(series(beside))
    assert not found["held"]
    assert "something shares the core: in 48 of 48 samples" in found["refused"]
    # For a part of the time: its samples do not count, and the others make the figure.
    found = judge(series(beside[:24] + many(24)))
    assert (found["accepted"], found["cycles"]) == (24, pytest.approx(QUICK, rel=1e-3))


def test_a_neighbour_during_the_longer_code_alone_makes_no_slope():
    """Measured one behind the other, such codes gave a slope 74 % off, without a word."""
    beside = [sample(targets=(1.0, 1.37), canaries=(1.0, 1.2)) for _ in range(24)]
    found = judge(series(beside, targets=2))
    assert not found["held"]
    assert "something shares the core" in found["refused"]
    # Where it comes and goes with each long code, what is left cannot all be chance.
    flips = [sample(targets=(1.0, 1.37 if n % 2 else 1.0)) for n in range(48)]
    found = judge(series(flips, targets=2))
    assert not found["held"] or found["two_speeds"]
    assert found["doubtful"]


def test_streams_in_the_place_of_targets_tell_neighbours_from_speeds():
    chance = random.Random(4)
    slow = [sample(targets=(1.0, 1 + 0.4 * chance.random() * (n % 3 == 0))) for n in range(48)]
    as_slow = [sample(control=1 + 0.4 * chance.random() * (n % 3 == 0)) for n in range(48)]
    quick = [sample(control=1.0) for _ in range(48)]
    assert judge(series(slow, targets=2))["two_speeds"]
    assert judge(series(slow + quick, targets=2))["two_speeds"]
    assert not judge(series(slow + as_slow, targets=2))["two_speeds"]


def test_a_migration_and_other_instructions_do_not_count():
    moved = [sample(targets=(0.5,), disturbed=1) for _ in range(10)]
    found = judge(series(many(30) + moved))
    assert (found["accepted"], found["cycles"]) == (30, pytest.approx(QUICK, rel=1e-3))
    words = [line.split() for line in many(40)]
    for word in words[:10]:
        word[7] = "1020"
    for word in words[10:]:
        word[7] = "1000"
    assert judge(series([" ".join(w) for w in words]))["accepted"] == 30


def test_memory_varies_by_itself():
    chance = random.Random(5)
    cold = [sample(targets=(1 + chance.uniform(0, 0.3),)) for _ in range(48)]
    found = judge(series(cold, most=COLD))
    assert found["held"]
    assert found["two_speeds"] == ""
    assert found["slow"] > 10


def test_too_few_samples_are_no_figure():
    found = judge(series(many(15)))
    assert found["refused"] == "disturbed: 15 of 15 samples acceptable, 16 needed"
    assert found["cycles"] is None
    assert found["samples"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs an id, a series and samples"),
        ("sample 1 1 1 1 1 1 0 0 0 0\n", "needs an id, a series and samples"),
        ("series 3 1030 1 1 1 0 0 0\n", "not understood: series 3"),
        ("series 1 1500 1 1 1 0 0 0\n", "not understood: series 1 1500"),
        ("series 1 1030 0 1 1 0 0 0\n", "not understood: series 1 1030 0"),
        ("series 1 1030 1 1 1 0 0\n", "not understood: series 1"),
        ("series 1 1030 1 1 1 0 0 0 0\n", "not understood: series 1"),
        ("series 1 1030 1 1 1 0 0 99999999999999999999\n", "not understood"),
        ("series 1 1030 1 1 1 0 0 0\nsample 1 1 1 -1 1 1 0 0 0 0\n", "not understood: sample"),
        ("series 1 1030 1 1 1 0 0 0\n" + "sample 1 1 1 1 1 1 0 0 0 0\n" * 289, "not understood"),
    ],
)
def test_a_series_that_is_none_is_named(text, said):
    with pytest.raises(harness.InputError, match=said):
        judge(text)


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**32, 2**47, 2**48 - 1])
def test_numbers_of_any_size_are_judged(size):
    line = f"sample {size or 1} {size or 1} {size} {size} 0 0 {size} 0 0 0\n"
    text = f"series 2 1030 {size or 1} {size or 1} {size} 0 0 0\n{line * 20}"
    found = judge(text)
    assert math.isfinite(found["slow_from"])


VERDICTS = {  # what was seen, and what becomes of it
    "loads_quiet": {"held": 1, "two_speeds": "", "refused": ""},
    "loads_interrupted": {"held": 1, "two_speeds": "", "refused": ""},
    "two_speeds": {"held": 1, "refused": ""},
    "between_speeds": {"held": 0},
}


@pytest.mark.parametrize("name", VERDICTS)
@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_recorded_series_are_judged_alike_by_every_build(name, isa):
    text = (RECORDED / f"{name}.txt").read_text()
    found = judge(text, isa)
    assert {key: found[key] for key in VERDICTS[name]} == VERDICTS[name]
    assert bool(found["two_speeds"]) == (name == "two_speeds")
    assert found == judge(text)


def job(name):
    """A job that needs no measuring, of more than 3 KiB."""
    return f"job judge\nid {name}\n{series(many(48))}end\n"


@pytest.fixture
def session():
    session = harness.Session(HOST)
    yield session
    session.close()


def process_of(session):
    return session._running.process


def test_answers_come_in_the_order_of_jobs_though_no_pipe_holds_all(session):
    for count in (1, 200, 0, 3):
        names = [f"{count}-{n}" for n in range(count)]
        assert [a["id"] for a in session.answers([job(n) for n in names])] == names
    assert process_of(session).poll() is None


def test_a_job_larger_than_what_is_given_ahead_is_answered(session, monkeypatch):
    monkeypatch.setattr(harness, "_MOST_PENDING", 1000)
    assert len(job("a")) > 1000
    assert [answer["id"] for answer in session.answers([job("a"), job("b")])] == ["a", "b"]


def test_a_wrong_job_is_an_error_that_names_it(session):
    with pytest.raises(InputError, match="odd: "):
        list(session.answers([job("a"), "job judge\nid odd\nend\n"]))


def test_a_process_that_is_killed_is_an_error(session):
    assert len(list(session.answers([job("a")]))) == 1
    os.kill(process_of(session).pid, signal.SIGKILL)
    with pytest.raises(InputError, match="does not run here"):
        list(session.answers([job("a"), job("b")]))


def test_it_is_gone_behind_its_owner():
    session = harness.Session(HOST)
    child = process_of(session)
    del session
    assert child.poll() is not None


TURNS = 4
EACH = 12  # samples
SUBJECT = """\
job measure
id {name}
isa x86_64
series
code {code}
entry 0
effect clear
in dst rdi
in count rcx
may_change rax
may_change rdx
may_change rbx
may_change flags
point 64 0 0 0 {cache}
end
"""
MULTIPLIES = "480fafdb" * 30 + "c3"  # 90 cycles
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")


def turns(targets, clocks=(1.0,) * TURNS):
    chance = random.Random(1)
    return [
        sample(targets=(target,), clock=clock, turn=turn, noise=chance)
        for turn, (target, clock) in enumerate(zip(targets, clocks, strict=True))
        for _ in range(EACH)
    ]


@pytest.mark.parametrize("times", [1.02, 1.12, 1.7, 2.6, 10])
@pytest.mark.parametrize("slow", [1, 2, 3])
def test_a_speed_that_is_another_in_some_turns_does_not_pass(times, slow):
    for at in range(TURNS):
        speeds = [times if (n - at) % TURNS < slow else 1.0 for n in range(TURNS)]
        found = judge(series(turns(speeds)))
        assert not found["held"] or found["two_speeds"], found


def test_turns_of_one_speed_are_one():
    found = judge(series(turns([1.0, 1.002, 0.999, 1.001])))
    assert found["held"]
    assert (found["two_speeds"], found["doubtful"]) == ("", 0)
    assert found["cycles"] == pytest.approx(QUICK, rel=2e-3)


def test_the_core_may_have_another_clock_in_each_turn():
    """Held to the quickest calibration of all, a turn at another frequency would be left out."""
    found = judge(series(turns([1.0] * TURNS, clocks=[1.0, 1.17, 1.08, 1.02])))
    assert (found["accepted"], found["slow"]) == (TURNS * EACH, 0)
    assert found["cycles"] == pytest.approx(QUICK, rel=1e-3)
    # Within a turn it changes to what is no frequency of the core's, but an interruption.
    within = [sample(clock=1 + 0.1 * (n % 4 == 0), turn=n // EACH) for n in range(TURNS * EACH)]
    assert judge(series(within))["accepted"] == TURNS * EACH * 3 // 4


def test_calibrations_that_differ_count_in_turns_of_any_clock():
    late = [n % 9 == 0 for n in range(TURNS * EACH)]
    clocks = [1.0, 1.3, 1.15, 1.05]
    lines = [
        sample(clock=clocks[n // EACH], behind=1 + 0.04 * late[n], turn=n // EACH)
        for n in range(TURNS * EACH)
    ]
    found = judge(series(lines))
    assert found["accepted"] == TURNS * EACH - sum(late)
    assert found["two_speeds"] == ""


@pytest.mark.parametrize("turn", [TURNS, 99, -1])
def test_a_turn_that_there_is_not_is_named(turn):
    with pytest.raises(harness.InputError, match="not understood: sample"):
        judge(series([sample(turn=turn)]))


def run(text):
    return list(harness.run("x86_64", f"job clock\nid clock\nend\n{text}"))


def measured(*answers):
    for answer in answers:
        if answer["refused"]:
            pytest.skip(f"measuring is refused here: {answer['refused']}")


@X86_ONLY
@pytest.mark.measures
def test_a_hot_point_is_taken_in_turns_and_a_cold_one_in_one():
    codes = [("one", MULTIPLIES, "hot"), ("cold", MULTIPLIES, "cold"), ("two", MULTIPLIES, "hot")]
    clock, *found = run("".join(SUBJECT.format(name=n, code=c, cache=k) for n, c, k in codes))
    assert [x["id"] for x in found] == ["one", "cold", "two"]
    measured(clock, *found)
    for answer in found:
        taken = [one[-1] for one in answer["series_samples"]]
        assert taken == sorted(taken)
        assert set(taken) == ({0} if answer["id"] == "cold" else set(range(TURNS)))
        assert all(taken.count(turn) >= 8 for turn in set(taken))


@X86_ONLY
def test_answers_come_in_the_order_of_their_jobs():
    subject = SUBJECT.replace("series\n", "")
    text = "".join(
        subject.format(name=f"m{n}", code=MULTIPLIES, cache="hot") if n % 3 else
        f"job judge\nid j{n}\n{series([sample()] * 20)}end\n"
        for n in range(5)
    )  # fmt: skip
    assert [x["id"] for x in run(text)] == ["clock", "j0", "m1", "m2", "j3", "m4"]


@X86_ONLY
@pytest.mark.measures
def test_a_speed_that_changes_after_a_tenth_of_a_second_passes_seldom():
    """One point alone, in one process: of several, and in three processes, more is seen.

    Some three or four in ten pass; were none caught, all would.
    """
    [clock] = run("")
    measured(clock)
    if not clock["ticks_a_second"]:
        pytest.skip("the clock counts cycles: the time that phases take is not known")
    bit = round(math.log2(clock["ticks_a_second"] / 10))
    by_turns = f"0f310fbae0{bit:02x}7378{MULTIPLIES}"  # rdtsc, bt, jump over the multiplications
    answers = [run(SUBJECT.format(name="a", code=by_turns, cache="hot"))[1] for _ in range(10)]
    passed = [x for x in answers if not x["refused"] and not x["two_speeds"]]
    assert len(passed) < len(answers), [x["cycles"] for x in passed]
