"""The time that a run of calibrate still takes, on a simulated clock."""

import pytest

from loopwright.calibrating import calibrate
from loopwright.calibrating.calibrate import STEPS, TimeLeft

FORMS = 1500
BATCH = 200
QUIET, LOUD = 0.0063, 0.019  # seconds of an answer of "latencies"
THIRD = 1 / 3

# A run on an Emerald Rapids guest, loud and then quiet: answers of each step, seconds in which the
# machine answered, and seconds of fits.
RECORDED = [
    ("dispatch width", 18, 9.5, 0.0), ("throughput", 1521, 66.0, 0.2),
    ("latencies", 4463, 135.0, 0.6), ("slots", 2632, 110.7, 0.4), ("classes", 905, 8.1, 0.3),
    ("ports", 188, 0.9, 0.7), ("uops of each", 2346, 37.0, 2.1),
    ("uops of forms", 2868, 21.3, 7.6), ("front end", 706, 10.7, 0.0), ("loads", 872, 19.4, 0.1),
    ("serialising", 675, 27.3, 0.0), ("windows", 1384, 41.7, 5.7), ("front end that", 0, 0, 53.5),
    ("rules of rename", 1735, 42.2, 7.7), ("mixtures", 2187, 35.9, 9.0),
    ("forms whose", 746, 12.4, 6.4), ("calls", 132, 2.6, 6.9), ("held-out", 335, 4.6, 0.8),
]  # fmt: skip
# A run on a guest of that class, quiet throughout. Answers of late steps take longest.
RECORDED_QUIET = [
    ("dispatch width", 18, 0.2, 0.0), ("throughput", 1486, 12.5, 0.2),
    ("latencies", 4374, 40.9, 0.4), ("slots", 2362, 14.2, 0.3), ("classes", 857, 6.0, 0.2),
    ("ports", 187, 0.9, 0.4), ("uops of each", 1677, 10.7, 1.4),
    ("uops of forms", 2343, 13.2, 5.3), ("front end", 704, 7.7, 0.0), ("loads", 852, 6.5, 0.1),
    ("serialising", 639, 12.3, 0.0), ("windows", 1451, 25.0, 4.3), ("front end that", 0, 0, 30.6),
    ("rules of rename", 1758, 12.7, 7.0), ("mixtures", 1899, 28.8, 6.8),
    ("forms whose", 631, 14.2, 5.2), ("calls", 127, 1.9, 5.9), ("held-out", 332, 3.7, 0.7),
]  # fmt: skip
# Two runs on a Zen 4 guest, with quick and without.
RECORDED_ZEN4 = [
    ("dispatch width", 8, 0.2, 0.0), ("throughput", 1462, 6.2, 0.2), ("latencies", 4251, 18.3, 0.4),
    ("slots", 2173, 10.4, 0.2), ("classes", 1301, 9.3, 0.2), ("ports", 123, 0.9, 0.1),
    ("uops of each", 2770, 13.3, 5.0), ("uops of forms", 5020, 33.2, 6.2),
    ("front end", 744, 1.9, 0.0), ("loads", 953, 6.1, 0.2), ("serialising", 622, 3.0, 0.0),
    ("windows", 1085, 5.8, 3.2), ("front end that", 295, 1.6, 23.2),
    ("rules of rename", 40, 0.5, 0.2), ("mixtures", 1749, 11.5, 9.7),
    ("forms whose", 1257, 10.5, 12.1), ("calls", 116, 1.1, 13.9), ("held-out", 200, 1.7, 1.7),
]  # fmt: skip
RECORDED_ZEN4_FULL = [
    ("dispatch width", 8, 0.2, 0.0), ("throughput", 2765, 16.8, 0.4),
    ("latencies", 7841, 33.2, 0.7), ("slots", 3915, 15.7, 0.3), ("classes", 2051, 10.3, 0.4),
    ("ports", 122, 0.6, 0.1), ("uops of each", 4988, 35.2, 12.2),
    ("uops of forms", 9943, 76.8, 12.9), ("front end", 753, 2.0, 0.0), ("loads", 1013, 2.9, 0.2),
    ("serialising", 622, 2.5, 0.0), ("windows", 1123, 5.1, 3.1), ("front end that", 295, 0.9, 22.7),
    ("rules of rename", 40, 0.5, 0.2), ("mixtures", 3136, 15.3, 12.3),
    ("forms whose", 2768, 22.4, 28.8), ("calls", 116, 1.1, 12.3), ("held-out", 200, 1.7, 2.3),
]  # fmt: skip
RUNS = {
    "loud, then quiet": (1455, RECORDED),
    "quiet": (1455, RECORDED_QUIET),
    "zen4": (1455, RECORDED_ZEN4),
    "zen4, all forms": (2704, RECORDED_ZEN4_FULL),
}


class Clock:
    """Seconds and load of a simulated machine."""

    def __init__(self, monkeypatch):
        self.now, self.load = 0.0, 1.0
        monkeypatch.setattr(calibrate.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(calibrate.os, "getloadavg", lambda: (self.load, 9.0, 9.0))
        monkeypatch.setattr(calibrate.os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(calibrate.os, "sched_getscheduler", lambda _: calibrate.os.SCHED_OTHER)


def answered(clock, step, until, pace, disturbed=0):
    """Return the time left once a step has so many answers; pace has the seconds of the nth one."""
    left = TimeLeft(FORMS)
    left.step(step)
    for asked in range(BATCH, until, BATCH):
        clock.now += BATCH * pace(asked)
        left.answered(asked, BATCH * pace(asked), disturbed)
    return left


@pytest.mark.parametrize("needed", [0.8, 1.0, 1.25])
@pytest.mark.parametrize("changes", [0, 6000, 12000])
@pytest.mark.parametrize(("first", "then"), [(QUIET, LOUD), (LOUD, QUIET)])
def test_the_time_left_is_right_within_a_third(monkeypatch, needed, changes, first, then):
    """changes: answers after which other work comes or goes; needed: of the usual answers."""
    clock = Clock(monkeypatch)
    left = TimeLeft(FORMS)
    asked, changed, said = 0, 0.0, []
    for name, each, more, milliseconds, fit, fits in STEPS:
        left.step(name)
        quiet = milliseconds / 1000
        need = round(needed * (each * FORMS + more))
        for start in range(0, need, BATCH):
            some = min(BATCH, need - start)
            pace = then if asked >= changes else first
            if asked < changes <= asked + some:
                changed = clock.now
            clock.load = 2 * pace / QUIET
            clock.now += some * quiet * pace / QUIET
            asked += some
            left.answered(asked, some * quiet * pace / QUIET, 0)
            if asked >= changes and clock.now - changed > 70:
                said.append((clock.now, left.seconds()))
        clock.now += (fit * FORMS + fits) * pace / QUIET
    assert said
    for when, (least, most) in said:
        true = clock.now - when
        assert least <= 4 / 3 * true + 30
        assert most >= 2 / 3 * true - 30


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("run", RUNS)
def test_the_time_left_of_a_recorded_run_is_right_within_a_third(monkeypatch, run, share):
    clock = Clock(monkeypatch)
    forms, steps = RUNS[run]
    left, asked, said = TimeLeft(forms), 0, []
    for name, answers, measuring, fits in steps:
        left.step(name)
        for start in range(0, answers, BATCH):
            some = min(BATCH, answers - start)
            clock.now += some * measuring / answers
            asked += some
            left.answered(asked, some * measuring / answers, 0)
            said.append((clock.now, left.seconds()))
            clock.now += some * fits / answers
        clock.now += fits if not answers else 0.0
    when, told = min(said, key=lambda one: abs(one[0] - share * clock.now))
    assert sum(told) / 2 == pytest.approx(clock.now - when, rel=THIRD)


def test_a_quiet_machine_has_one_time_left(monkeypatch):
    left = answered(Clock(monkeypatch), "latencies", 3000, lambda _: QUIET)
    least, most = left.seconds()
    assert least == pytest.approx(most)
    assert " to " not in str(left)


def test_a_machine_loud_from_the_start_has_a_range_that_narrows(monkeypatch):
    ranges = [
        answered(Clock(monkeypatch), "latencies", until, lambda _: LOUD).seconds()
        for until in (1000, 4000)
    ]
    (early, late) = (most / least for least, most in ranges)
    assert 1.1 < late < early


@pytest.mark.parametrize(("disturbed", "named"), [(0, False), (BATCH // 2, True)])
def test_other_load_is_named_where_it_disturbs(monkeypatch, disturbed, named):
    left = answered(Clock(monkeypatch), "latencies", 6000, lambda _: LOUD, disturbed)
    assert ("other load disturbs 50 % of the measurements" in str(left)) == named


def test_other_load_that_may_last_gives_a_range(monkeypatch):
    left = answered(
        Clock(monkeypatch), "latencies", 12000, lambda n: QUIET if n < 9000 else 4 * LOUD
    )
    least, most = left.seconds()
    assert least < most / 2
    assert " to " in str(left)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3, "10 s"), (57, "1 min"), (84, "1 min 20 s"), (599, "10 min"), (1490, "25 min")],
)
def test_short_times_left_have_seconds(monkeypatch, seconds, text):
    monkeypatch.setattr(TimeLeft, "seconds", lambda _: (seconds, seconds))
    assert str(TimeLeft(FORMS)) == f", about {text} left"


def test_a_range_of_equal_words_is_said_as_one_time(monkeypatch):
    monkeypatch.setattr(TimeLeft, "seconds", lambda _: (2, 11))
    assert str(TimeLeft(FORMS)) == ", about 10 s left"


def test_a_few_answers_that_take_long_do_not_set_the_pace(monkeypatch):
    clock = Clock(monkeypatch)
    left = answered(clock, "throughput", 2000, lambda _: QUIET)
    _, before = left.seconds()
    for more in range(1, 4):  # repeated many times each
        clock.now += 30
        left.answered(2000 - BATCH + more, 30, 0)
    _, after = left.seconds()
    assert after < 10 * before


def test_answers_that_an_earlier_run_left_are_of_the_first_steps():
    seen = []
    left = TimeLeft(100, lambda *said: seen.append(said))
    left.kept(200)
    left.step("latencies")  # an earlier step needs 100 of those
    left.answered(10, 0.1, 0)
    assert seen[0][:2] == (210, 7428)


def test_nothing_is_said_before_the_pace_is_known(monkeypatch):
    clock = Clock(monkeypatch)
    left = TimeLeft(FORMS)
    left.step("latencies")
    clock.now = 1.0
    left.answered(BATCH, 1.0, 0)
    assert left.seconds() is None
    assert str(left) == ""
    clock.now = 60.0
    left.answered(3 * BATCH, 59.0, 0)
    assert str(left) == ", 5 min 20 s to 43 min left"


def test_real_time_priority_does_not_wait_for_other_work(monkeypatch):
    clock = Clock(monkeypatch)
    clock.load = 8.0
    assert calibrate._slowdown() == 4.0
    monkeypatch.setattr(calibrate.os, "sched_getscheduler", lambda _: calibrate.os.SCHED_FIFO)
    assert calibrate._slowdown() == 1.0
