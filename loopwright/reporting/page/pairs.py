"""Published speed-ups beside predicted ones, a row of the chart for each pair of variants."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright.reporting.findings import Finding
from loopwright.reporting.percents import span
from loopwright.reporting.threads import ThreadAnswer

LEFT, RIGHT = -50, 150  # ends of the axis, percent
TICKS = (0, 50, 100)
_KEYS = ["kernel", "variant", "baseline", "machine", "scope"]


@dataclass(frozen=True)
class Pair:
    """A pair of variants on a machine: texts, and marks as positions in percent of the axis.

    predicted_at has the ends of the predicted range, None where there is no prediction. cut says
    that a mark lies beyond the axis and is drawn at its end.
    """

    name: str
    where: str
    published: str
    predicted: str
    published_at: tuple[float, ...]
    predicted_at: tuple[float, float] | None
    cut: bool

    @property
    def label(self) -> str:
        """Return the row in words."""
        return f"{self.name}, {self.where}: published {self.published}, predicted {self.predicted}"


def at(percent: float) -> float:
    """Return where a speed-up lies on the axis, in percent of its length."""
    return round(100 * (min(max(percent, LEFT), RIGHT) - LEFT) / (RIGHT - LEFT), 2)


def pairs(
    findings: Sequence[Finding], figures: pd.DataFrame, answers: Sequence[ThreadAnswer]
) -> list[Pair]:
    """Return the rows of a report's kernels; figures is what loopwright.published returns."""
    kernels = {found.kernel.id for found in findings}
    known = figures[
        figures["percent"].notna() & figures["retracted"].eq("") & figures["kernel"].isin(kernels)
    ]
    of_thread = {(a.thread.kernel, a.thread.variant, a.thread.against): a for a in answers}
    return [
        _pair(mine, of_thread.get((str(key[0]), str(key[1]), str(key[2]))))
        for key, mine in known.groupby(_KEYS, sort=False)
    ]


def _pair(rows: pd.DataFrame, answer: ThreadAnswer | None) -> Pair:
    first = rows.iloc[0]
    published = [float(value) for value in rows["percent"]]
    predicted = [float(value) for value in rows["predicted"].dropna()]
    core = first["predicted_on"]
    said = f"{span(predicted)} ({first['kind']}, {core})" if predicted else ""
    if answer and answer.verdict and answer.verdict.core == core and first["kind"] != "loop":
        # The range over what nobody has measured of the core.
        speed = answer.verdict.speed
        predicted += [100 * (ratio - 1) for ratio in (speed.low, speed.high)]
        said = f"{span(predicted)} (call, {core})"
    ends = (min(predicted), max(predicted)) if predicted else None
    return Pair(
        name=f"{first['variant']} against {first['baseline']}",
        where=f"{first['machine']}, {first['scope']}",
        published=span(published),
        predicted=said or f"none: {first['error']}",
        published_at=tuple(sorted({at(value) for value in published})),
        predicted_at=(at(ends[0]), at(ends[1])) if ends else None,
        cut=any(not LEFT <= value <= RIGHT for value in (*published, *predicted)),
    )
