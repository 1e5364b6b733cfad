"""Join what several processes read of one block into a figure with an uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Self

TURNS = 3  # processes that have to agree, unless others are asked for
_AGREE = (0.02, 0.02)  # most that they may differ by: cycles, and a share of them
_QUIET = (0.02, 0.01)  # the same, from p10 to p90, of what another turn cannot better
_LEAST = 5e-4  # relative: what the calibration is good for, from known answers
_ENDS = 2.0  # cycles by which the ends of two codes differ, for their lengths alone
_MOST_ENDS = 8.0  # the most that was seen: 5 loads of 23 bytes, by turns early and late


@dataclass(frozen=True)
class BlockReading:
    """One block in one process, in cycles: the slope between two numbers of copies or iterations.

    Of the samples accepted the slow ones were left out, which took slow_from to slow_to times as
    long as the others. copies is by how many the two codes differ. two_speeds says what noise does
    not explain. disturbed says that the meter refused it, not what the block does: that another
    turn can help; unsteady, that it had no one speed then, which nothing around it explains.
    """

    cycles: float
    p10: float
    p90: float
    samples: int
    accepted: int
    slow: int
    slow_from: float
    slow_to: float
    copies: int
    two_speeds: str
    clock: str
    misaligned: bool
    shared: bool
    disturbed: bool
    refused: str
    unsteady: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """Return the reading that a line of the harness's output is."""
        return cls(
            cycles=float("nan") if record["cycles"] is None else record["cycles"],
            p10=float("nan") if record["p10"] is None else record["p10"],
            p90=float("nan") if record["p90"] is None else record["p90"],
            samples=record["samples"],
            accepted=record["accepted"],
            slow=record["slow"],
            slow_from=record["slow_from"],
            slow_to=record["slow_to"],
            copies=record["long"] - record["short"],
            two_speeds=record["two_speeds"],
            clock=record["clock"],
            misaligned=bool(record["misaligned"]),
            shared=bool(record["shared"]),
            disturbed=bool(record["disturbed"]) and bool(record["clock"]),
            refused=record["refused"],
            unsteady=bool(record.get("unsteady")),  # older kits do not say it
        )

    @property
    def error(self) -> float:
        """Return the uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, _LEAST * self.cycles, _ENDS / self.copies)

    @property
    def quiet(self) -> bool:
        """Say whether its samples lie close together."""
        return self.p90 - self.p10 <= max(_QUIET[0], _QUIET[1] * self.cycles)


def wants_more(readings: Sequence[BlockReading], turns: int = TURNS) -> bool:
    """Say whether a further turn can bring a figure, or, of several, a quieter one."""
    if any(r.refused and not r.disturbed for r in readings):
        return False
    enough = [r for r in readings if not r.refused and (r.quiet or turns == 1)]
    return len(_agreeing(enough)) < turns


def _agreeing(accepted: Sequence[BlockReading]) -> list[BlockReading]:
    """Return the readings near the middle one, where they are more than half of all."""
    if not accepted:
        return []
    middle = median(r.cycles for r in accepted)
    ends = _MOST_ENDS / min(r.copies for r in accepted)
    most = max(_AGREE[0], _AGREE[1] * middle, ends) / (2 if len(accepted) == 2 else 1)
    near = [r for r in accepted if abs(r.cycles - middle) <= most]
    return near if 2 * len(near) > len(accepted) else []


def refusal(reason: str, clock: str = "") -> dict[str, Any]:
    """Return the columns of a row without a number."""
    nan = float("nan")
    return {
        **dict.fromkeys(("cycles", "p10", "p90", "uncertainty"), nan),
        **dict.fromkeys(("dropped", "dropped_from", "dropped_to"), nan),
        **{"samples": 0, "processes": 0, "clock": clock},
        **{"status": "refused", "reason": reason, "note": ""},
    }


def result(readings: Sequence[BlockReading], turns: int = TURNS) -> dict[str, Any]:
    """Join what several processes read of a block; fewer than turns that agree are no figure."""
    clock = readings[0].clock
    for reading in readings:
        if reading.refused and not reading.disturbed:
            return refusal(reading.refused, clock)
    accepted = [r for r in readings if not r.refused]
    quiet = [r for r in accepted if r.quiet]
    if len(_agreeing(quiet)) >= turns:
        accepted = quiet
    near = _agreeing(accepted)
    if len(near) < turns <= len(accepted):
        said = ", ".join(f"{r.cycles:.2f}" for r in accepted)
        return refusal(f"slopes are inconsistent: {said} cycles in {len(accepted)} runs", clock)
    if len(near) < turns:
        last = [r for r in readings if r.refused][-1]
        count = f"in {len(readings) - len(accepted)} of {len(readings)} processes"
        return refusal(f"{last.refused} ({count})", clock)
    cycles = median(r.cycles for r in near)
    spread = max(abs(r.cycles - cycles) for r in near)
    speeds = _speeds(near, accepted)
    return {
        "cycles": cycles,
        "p10": median(r.p10 for r in near),
        "p90": median(r.p90 for r in near),
        "uncertainty": max(r.error for r in near) + spread,
        "samples": sum(r.samples for r in near),
        **_dropped(accepted),
        "processes": len(near),
        "clock": clock,
        "status": "bimodal" if speeds else "ok",
        "reason": speeds,
        "note": "; ".join(_notes(near)),
    }


def _dropped(accepted: Sequence[BlockReading]) -> dict[str, float]:
    """Return the share of samples that were left out for being slow, and how slow they were."""
    slow = [r for r in accepted if r.slow]
    return {
        "dropped": sum(r.slow for r in accepted) / sum(r.accepted for r in accepted),
        "dropped_from": min((r.slow_from for r in slow), default=float("nan")),
        "dropped_to": max((r.slow_to for r in slow), default=float("nan")),
    }


def _speeds(near: Sequence[BlockReading], accepted: Sequence[BlockReading]) -> str:
    """Say what shows two speeds, or nothing: noise is not two speeds."""
    if len(near) < len(accepted):
        return "processes differ: " + ", ".join(f"{r.cycles:.2f}" for r in accepted) + " cycles"
    return next((r.two_speeds for r in accepted if r.two_speeds), "")


def _notes(readings: Sequence[BlockReading]) -> list[str]:
    """Return what a reader of the figure must know."""
    notes = ["one process alone"] if len(readings) == 1 else []
    notes += ["a misaligned access may cross cache lines"] if readings[0].misaligned else []
    if any(r.shared for r in readings):
        notes.append("memory is shared by pages: lines are used under several addresses")
    return notes
