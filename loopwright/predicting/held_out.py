"""Held-out loops, from which no pass of a learned core learned, and the core's errors on them.

A learned core's folder holds them in held-out.csv: measurements, and the core's predictions with
their ranges.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from loopwright.errors import InputError
from loopwright.predicting import core_figures
from loopwright.predicting.core_figures import Span

FILE = "held-out.csv"
BLOCKS, OFFSETS, CALLS = "blocks", "loops at code offsets", "loops with calls"
_NEAR = 0.05  # relative error of a correct prediction
_OUTSIDE = 0.025  # share of the measurements below a range, and above it
_NOISE = 0.02  # relative: a range is at least that wide to either side
COLUMNS = ("kind", "hex", "offset", "cycles", "uncertainty", "predicted", "low", "high", "error")


@dataclass(frozen=True)
class HeldOut:
    """A loop that no pass learned from: cycles an iteration, measured and predicted.

    predicted, low and high are None without figures; error is the reason.
    """

    kind: str
    code: bytes
    offset: int
    cycles: float
    uncertainty: float
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    error: str = ""

    @property
    def off(self) -> float:
        """The relative error of the prediction."""
        return abs((self.predicted or 0.0) / self.cycles - 1)

    @property
    def ends(self) -> tuple[float, float]:
        """The measurement as multiples of the least and of the most predicted cycles."""
        low = self.low if self.low is not None else self.predicted
        high = self.high if self.high is not None else self.predicted
        return self.cycles / (low or self.cycles), self.cycles / (high or self.cycles)

    def within(self, span: Span) -> bool:
        """True if the measurement lies in the range of the prediction."""
        least, most = self.ends
        return least >= span.least and most <= span.most


@dataclass(frozen=True)
class Judgement:
    """Errors of a core on held-out code of one kind."""

    kind: str
    asked: int
    answered: int
    error: float  # mean relative error of those that are answered
    near: float  # share of those within 5 %
    within: float  # share of those in the range that others of the held-out code set

    def __str__(self) -> str:
        return (
            f"mean error {100 * self.error:.1f} % of {self.answered} of {self.asked} held-out "
            f"{self.kind}, {self.shares}"
        )

    @property
    def shares(self) -> str:
        """The shares of near predictions and of ranges that hold, in words."""
        return f"{100 * self.near:.0f} % within 5 %, {100 * self.within:.0f} % of the ranges hold"


def span(loops: Sequence[HeldOut]) -> Span:
    """Return the range that holds 95 of 100 measurements of such code, relative to predictions.

    With few measurements it is the range that holds the next one as often: for some dozens, all of
    them.
    """
    ends = [loop.ends for loop in loops if loop.predicted is not None]
    below, above = (sorted(pair[end] for pair in ends) for end in (0, 1))
    outside = max(int(_OUTSIDE * (len(ends) + 1)), 1)
    least, most = (below[outside - 1], above[-outside]) if ends else (1.0, 1.0)
    return Span(min(least, 1 - _NOISE), max(most, 1 + _NOISE))


def widest(loops: Sequence[HeldOut]) -> Span:
    """Return the widest of the ranges of each kind, relative to predictions.

    A common range of all kinds would be that of the kinds with many and accurate predictions.
    """
    kinds = dict.fromkeys(loop.kind for loop in loops)
    spans = [span([loop for loop in loops if loop.kind == kind]) for kind in kinds] or [span(loops)]
    return Span(min(s.least for s in spans), max(s.most for s in spans))


def judged(loops: Sequence[HeldOut]) -> list[Judgement]:
    """Return the judgement of each kind of held-out loops."""
    # The range of each half is set by the other half. Each has every other loop of each kind.
    halves = loops[::2], loops[1::2]
    of_halves = [widest(half) for half in halves]
    spans = {id(loop): of_halves[1 - n] for n, half in enumerate(halves) for loop in half}
    out = []
    for kind in dict.fromkeys(loop.kind for loop in loops):
        of_kind = [loop for loop in loops if loop.kind == kind]
        predicted = [loop for loop in of_kind if loop.predicted is not None]
        if predicted:
            error = fmean(loop.off for loop in predicted)
            near = fmean(loop.off <= _NEAR for loop in predicted)
            within = fmean(loop.within(spans[id(loop)]) for loop in predicted)
            out.append(Judgement(kind, len(of_kind), len(predicted), error, near, within))
    return out


def sentence(judgements: Sequence[Judgement]) -> str:
    """Return a sentence on all kinds: mean errors, shares within 5 %, ranges that hold."""
    parts = [
        f"{100 * j.error:.1f} % on {j.answered} of {j.asked} {j.kind} ({j.shares})"
        for j in judgements
    ]
    return f"mean error on what no pass learned from: {', '.join(parts)}" if parts else ""


def texts(loops: Sequence[HeldOut], core: str) -> dict[str, str]:
    """Return the files of a core that follow from held-out loops, by name."""
    if not any(loop.predicted is not None for loop in loops):
        return {FILE: text(loops)}
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(core_figures.RANGE_COLUMNS)
    kinds = [(kind, memory) for kind in ("loop", "unrolled") for memory in core_figures.MEMORY]
    ends = [f"{end:.3f}" for end in widest(loops)]
    for kind, memory in (*kinds, (core_figures.CALL, core_figures.WHOLE_CALLS)):
        rows.writerow((core, kind, memory, *ends, len(loops), FILE))
    return {FILE: text(loops), core_figures.RANGES: file.getvalue()}


def text(loops: Sequence[HeldOut]) -> str:
    """Return the text of held-out.csv."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for loop in loops:
        figures = (loop.cycles, loop.uncertainty, loop.predicted, loop.low, loop.high)
        shown = ("" if figure is None else f"{figure:.4f}" for figure in figures)
        rows.writerow([loop.kind, loop.code.hex(), loop.offset, *shown, loop.error])
    return file.getvalue()


def read(folder: Path) -> list[HeldOut]:
    """Return the rows of held-out.csv; none if there is no such file.

    InputError if a row cannot be true.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    out = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                figures = {name: float(row[name]) for name in COLUMNS[3:8] if row[name]}
                loop = HeldOut(
                    row["kind"], bytes.fromhex(row["hex"]), int(row["offset"]),
                    error=row["error"], **figures,
                )  # fmt: skip
                if not 0 < loop.cycles < 1e6 or loop.kind not in (BLOCKS, OFFSETS, CALLS):
                    raise ValueError
            except (KeyError, TypeError, ValueError):
                raise InputError(
                    f"{path}: line {number} is no held-out loop; bring the folder here again"
                ) from None
            out.append(loop)
    return out
