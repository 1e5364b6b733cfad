"""Scan two builds of a binary and compare them: a check for what a change did to placement."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loopwright.errors import InputError
from loopwright.rows import Rows, as_frame
from loopwright.scanning import compare
from loopwright.scanning.scan import Question, Scan, scanned
from loopwright.scanning.words import counted


@dataclass
class Builds:
    """Two files to compare; loopwright.compare_builds says what each field is."""

    file_a: Path | str
    file_b: Path | str
    _: KW_ONLY
    microarch: str | None = None


@dataclass(frozen=True)
class Between:
    """Two scans with the same cores, and what became of each loop."""

    a: Scan
    b: Scan

    @cached_property
    def found(self) -> list[dict[str, Any]]:
        """Return a row for each loop and core, the worst news first."""
        a, b = self.a, self.b
        return list(compare.rows(a.found.loops, b.found.loops, a.costs, b.costs, b.source.of))

    def rows(self, *, changed: bool = False) -> Rows:
        """Return all rows, or those of loops whose cycles changed, or that came or went."""
        kept = [row for row in self.found if not changed or row["change"] not in _UNCHANGED]
        values = [tuple(row[column] for column in compare.COLUMNS) for row in kept]
        return Rows(tuple(compare.COLUMNS), values, compare.TYPES)

    def slower(self, percent: float) -> list[dict[str, Any]]:
        """Return the rows of loops in both files that got slower by more than so many percent."""
        return [r for r in self.found if r["percent"] is not None and r["percent"] > percent]

    def summary(self) -> Iterator[str]:
        """Yield sentences that say what was compared, and how many loops changed on each core."""
        for name, one in (("A", self.a), ("B", self.b)):
            loops = counted(len(one.found.loops), "innermost loop")
            yield f"{name}: {one.image.path}, {loops} without calls"
        for core in self.b.costs:
            counts = Counter(r["change"] for r in self.found if r["microarch"] == core.core.id)
            said = [f"{counts[change]:,} {change}" for change in compare.CHANGES if counts[change]]
            yield f"{core.core.id}: {', '.join(said) or 'no loops'}"


_UNCHANGED = (compare.SAME, compare.UNKNOWN)


def both(asked_a: Question, asked_b: Question) -> Between:
    """Scan two files; InputError where they are of different ISAs."""
    a, b = scanned(asked_a), scanned(asked_b)
    if a.image.isa != b.image.isa:
        raise InputError(
            f"{a.image.path} is code of {a.image.isa}, {b.image.path} of {b.image.isa}: give two "
            "builds of one ISA"
        )
    return Between(a, b)


def answer(asked: Builds) -> Rows:
    """Scan two builds of a binary, and say of each loop what became of it between them.

    microarch is as for scan. Loops are paired by function and by their instructions, without
    distances and addresses. Returns a row for each loop and core, the worst news first: function
    (and bytes behind its start), change ("hurt": its offset in file_b hurts it, that in file_a did
    not; "fixed"; "slower" or "faster" by more than 1 % otherwise; "same"; "new", "gone"; "unknown"
    without a figure), microarch, address_a, offset_a (bytes mod 64) and cycles_a (an iteration, as
    predicted) in file_a, the same in file_b, percent (how much slower it is in file_b), best_a,
    best_b (cycles at its best place), file (in an archive), section, line and error.
    """
    one, other = (
        Question(file, microarch=asked.microarch) for file in (asked.file_a, asked.file_b)
    )
    return both(one, other).rows()


compare_builds = as_frame("compare_builds", Builds, answer)
