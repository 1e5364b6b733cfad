"""Turn what the harness read in several processes into a figure with an uncertainty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Self

from loopwright.measuring.bootstrap import Raw
from loopwright.measuring.sweeps import Goal

LEAST = 5e-4  # relative: what the calibration is good for, from known answers
# Relative: processes that differ by more, and by more than their samples, have two speeds. Memory
# varies by itself.
_APART = {"hot": 1e-2, "cold": 0.1}
_COLD = "cold: each call has buffers of its own, in no cache, and a fence before it"
_MANY = 0.2  # of the samples
_DROPPED = "more than a fifth of the samples was dropped for being slow: see the columns dropped"
_LOOP_EXIT = "a loop's exit may mispredict: trust differences from 3 % on, or at several offsets"


@dataclass(frozen=True)
class Reading:
    """One point in one process: cycles per call, or the reason why there is no number.

    samples are those that were kept, in the order in which they were taken; cycles is their
    median. accepted are all whose calibrations agree, slow those of them that were left out for
    taking slow_from to slow_to times as long as the quick ones. two_speeds says what noise does not
    explain, or nothing. milliseconds is what the reading took.
    """

    cycles: float
    p10: float
    p90: float
    samples: tuple[float, ...]
    accepted: int
    slow: int
    slow_from: float
    slow_to: float
    two_speeds: str
    skew: int
    clock: str
    refused: str
    milliseconds: float

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the reading that a line of the harness's output is."""
        return cls(
            record["cycles"],
            record["p10"],
            record["p90"],
            tuple(record["samples"]),
            record["accepted"],
            record["slow"],
            record["slow_from"],
            record["slow_to"],
            record["two_speeds"],
            record["skew"],
            record["clock"],
            record["refused"],
            record["milliseconds"],
        )

    @property
    def error(self) -> float:
        """Return the uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, LEAST * self.cycles)


@dataclass(frozen=True)
class Result:
    """What came of a goal, over all processes. raw has the samples (see bootstrap.Raw).

    dropped is the share of samples that were left out for being slow, dropped_from and dropped_to
    how many times as long as the others they took, of the quickest and the slowest tenth.
    """

    goal: Goal
    cycles: float
    p10: float
    p90: float
    uncertainty: float
    samples: int
    dropped: float
    dropped_from: float
    dropped_to: float
    processes: int
    skew: int | None
    clock: str
    status: str
    reason: str
    milliseconds: float
    raw: Raw

    @classmethod
    def refusal(cls, goal: Goal, reason: str, clock: str = "", milliseconds: float = 0.0) -> Self:
        """Return a result without a number."""
        nan = float("nan")
        return cls(
            *(goal, nan, nan, nan, nan, 0, nan, nan, nan, 0, None),
            *(clock, "refused", reason, milliseconds, ()),
        )

    @classmethod
    def of(cls, goal: Goal, readings: Sequence[Sequence[Reading]], processes: int) -> Self:
        """Join the readings of each point of a goal, process by process.

        A goal of which fewer processes than asked for accepted a point is refused, and one whose
        readings are by different clocks.
        """
        accepted = [[r for r in point if not r.refused] for point in readings]
        took = sum(r.milliseconds for point in readings for r in point)
        for all_of_point, kept in zip(readings, accepted, strict=True):
            if len(kept) < processes:
                last = [r for r in all_of_point if r.refused][-1]
                reason = f"{last.refused} (in {len(all_of_point) - len(kept)} of "
                reason += f"{len(all_of_point)} processes)"
                return cls.refusal(goal, reason, last.clock, took)
        every = [r for kept in accepted for r in kept]
        clocks = sorted({r.clock for r in every})
        if len(clocks) > 1:
            return cls.refusal(goal, f"the clocks differ: {' and '.join(clocks)}", "", took)
        joined = [_Joined.of(goal, turn) for turn in zip(*accepted, strict=False)]
        cycles = median(j.cycles for j in joined)
        spread = max(abs(j.cycles - cycles) for j in joined)
        speeds = next((r.two_speeds for r in every if r.two_speeds), "")
        speeds = speeds or _apart(accepted, _APART[goal.cache])
        slow = [r for r in every if r.slow]
        return cls(
            goal=goal,
            cycles=cycles,
            p10=median(j.p10 for j in joined),
            p90=median(j.p90 for j in joined),
            uncertainty=max(j.error for j in joined) + spread,
            samples=sum(len(r.samples) for r in every),
            dropped=sum(r.slow for r in every) / sum(r.accepted for r in every),
            dropped_from=min((r.slow_from for r in slow), default=float("nan")),
            dropped_to=max((r.slow_to for r in slow), default=float("nan")),
            processes=len(joined),
            skew=every[0].skew if goal.both_sides else None,
            clock=every[0].clock,
            status="bimodal" if speeds else "ok",
            reason=speeds,
            milliseconds=took,
            raw=[_scaled(goal, turn) for turn in zip(*accepted, strict=False)],
        )

    @property
    def note(self) -> str:
        """Return what a reader of the figure must know."""
        notes = [_COLD] if self.goal.cache == "cold" else []
        notes += [_LOOP_EXIT] if self.goal.unit == "cycles/iteration" else []
        notes += [_DROPPED] if self.dropped > _MANY else []
        return "; ".join(notes)

    def columns(self) -> dict[str, Any]:
        """Return the columns of measure.run that a result fills."""
        point = self.goal.points[0]
        return {
            "quantity": self.goal.quantity,
            "unit": self.goal.unit,
            "size_bytes": self.goal.size_bytes,
            "dst_align": point.dst_align,
            "src_align": point.src_align,
            "skew_bytes": self.skew,
            "cache": self.goal.cache,
            "cycles": self.cycles,
            "p10": self.p10,
            "p90": self.p90,
            "uncertainty": self.uncertainty,
            "samples": self.samples,
            "dropped": self.dropped,
            "dropped_from": self.dropped_from,
            "dropped_to": self.dropped_to,
            "processes": self.processes,
            "clock": self.clock,
            "status": self.status,
            "reason": self.reason,
            "milliseconds": self.milliseconds,
            "raw": self.raw,
        }


@dataclass(frozen=True)
class _Joined:
    """A goal's figure in one process."""

    cycles: float
    p10: float
    p90: float
    error: float

    @classmethod
    def of(cls, goal: Goal, turn: Sequence[Reading]) -> Self:
        if len(turn) == 1:
            [only] = turn
            return cls(only.cycles, only.p10, only.p90, only.error)
        short, long = turn
        cycles = (long.cycles - short.cycles) / goal.divisor
        # The two points are measured apart: their errors add as independent ones.
        low = ((long.cycles - long.p10) ** 2 + (short.p90 - short.cycles) ** 2) ** 0.5
        high = ((long.p90 - long.cycles) ** 2 + (short.cycles - short.p10) ** 2) ** 0.5
        error = (long.error**2 + short.error**2) ** 0.5
        return cls(
            cycles, cycles - low / goal.divisor, cycles + high / goal.divisor, error / goal.divisor
        )


def _scaled(goal: Goal, turn: Sequence[Reading]) -> list[list[float]]:
    """Return the samples of a process, of each point, in the goal's unit."""
    return [[cycles / goal.divisor for cycles in reading.samples] for reading in turn]


def _apart(points: Sequence[Sequence[Reading]], least: float) -> str:
    """Say where processes differ by more than noise: their samples lie closer together."""
    for readings in points:
        cycles = sorted(r.cycles for r in readings)
        gap = max((b - a for a, b in pairwise(cycles)), default=0.0)
        if gap > least * cycles[0] and gap > max(r.p90 - r.p10 for r in readings):
            return "processes differ: " + ", ".join(f"{r.cycles:.2f}" for r in readings) + " cycles"
    return ""
