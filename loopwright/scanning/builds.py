"""Comparison of two builds of a binary: loops hurt, fixed, added or removed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

from loopwright.errors import InputError
from loopwright.rows import Rows, as_frame, counted
from loopwright.scanning.binary_loops import ScannedLoop, loose_shape, shape
from loopwright.scanning.costs import CoreCosts
from loopwright.scanning.scan import Question, Scan, scanned

BUILD_COLUMNS = [
    "function", "change", "microarch", "address_a", "offset_a", "cycles_a", "address_b", "offset_b",
    "cycles_b", "percent", "best_a", "best_b", "file", "section", "line", "error",
]  # fmt: skip

BUILD_TYPES = {
    **dict.fromkeys(("offset_a", "offset_b"), "Int64"),
    **dict.fromkeys(("cycles_a", "cycles_b", "percent", "best_a", "best_b"), "float64"),
}

# In the order of rows, the worst change first.
HURT, SLOWER, REWRITTEN, NEW, GONE, FIXED, FASTER, SAME, UNKNOWN = CHANGES = (
    "hurt", "slower", "rewritten", "new", "gone", "fixed", "faster", "same", "unknown",
)  # fmt: skip
_SAME_PERCENT = 1.0  # largest difference, in percent, that counts as none


@dataclass(frozen=True)
class Pair:
    """A loop of A and its counterpart in B, by their numbers; None if one is missing."""

    a: int | None
    b: int | None
    rewritten: bool = False  # other instructions, of which an iteration may do other work


def match(a: Sequence[ScannedLoop], b: Sequence[ScannedLoop]) -> list[Pair]:
    """Pair the loops of two builds by function and instructions, in the order of addresses.

    Instructions are compared without addresses and distances of branches. The remaining loops of a
    named function are paired by instructions without registers; those that are still left are
    rewritten ones if both builds have as many.
    """
    unpaired_a, unpaired_b = set(range(len(a))), set(range(len(b)))
    pairs: list[Pair] = []
    for key_of in (shape, loose_shape, _function):
        of_a, of_b = _by_key(a, unpaired_a, key_of), _by_key(b, unpaired_b, key_of)
        for key, numbers in of_a.items():
            others = of_b.get(key, [])
            rewritten = key_of is _function
            if not rewritten or len(numbers) == len(others):
                pairs += [Pair(x, y, rewritten) for x, y in zip(numbers, others, strict=False)]
        unpaired_a -= {pair.a for pair in pairs}
        unpaired_b -= {pair.b for pair in pairs}
    pairs += [Pair(n, None) for n in sorted(unpaired_a)]
    return pairs + [Pair(None, n) for n in sorted(unpaired_b)]


def common(a: Sequence[ScannedLoop], b: Sequence[ScannedLoop]) -> dict[int, int]:
    """Return the number in B of each loop of A that B has as well."""
    pairs = [pair for pair in match(a, b) if not pair.rewritten]
    return {p.a: p.b for p in pairs if p.a is not None and p.b is not None}


def _function(_loop: ScannedLoop) -> tuple[object, ...]:
    """Return the shape that all loops of a function share."""
    return ()


def _by_key(
    loops: Sequence[ScannedLoop],
    numbers: set[int],
    key_of: Callable[[ScannedLoop], tuple[object, ...]],
) -> dict[tuple[object, ...], list[int]]:
    by_key: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for n in sorted(numbers, key=lambda n: (loops[n].section, loops[n].address)):
        loop = loops[n]
        if key_of is not shape and not loop.function:
            continue
        by_key[loop.file, loop.written, *key_of(loop)].append(n)
    return by_key


def _cycles(costs: CoreCosts, number: int | None) -> tuple[float | None, float | None]:
    """Return a loop's cycles at its own and at its best offset, None if unknown."""
    if number is None or isnan(costs.cycles[number]):
        return None, None
    return round(costs.cycles[number], 3), round(costs.best[number], 3)


def change(pair: Pair, in_a: CoreCosts, in_b: CoreCosts) -> tuple[str, float | None]:
    """Return a loop's change on a core, one of CHANGES, and its slowdown in percent.

    The percentage is None if a build lacks the loop or a figure for it, or the loop is rewritten.
    """
    if pair.a is None:
        return NEW, None
    if pair.b is None:
        return GONE, None
    if pair.rewritten:
        return REWRITTEN, None
    cycles_a, cycles_b = _cycles(in_a, pair.a)[0], _cycles(in_b, pair.b)[0]
    if cycles_a is None or cycles_b is None:
        return UNKNOWN, None
    percent = 100 * (cycles_b / cycles_a - 1)
    hurt_before, hurt_now = bool(in_a.hurt[pair.a]), bool(in_b.hurt[pair.b])
    word = SAME
    if percent > _SAME_PERCENT:
        word = HURT if hurt_now and not hurt_before else SLOWER
    elif percent < -_SAME_PERCENT:
        word = FIXED if hurt_before and not hurt_now else FASTER
    return word, percent


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    percent = row["percent"]
    return CHANGES.index(str(row["change"])), -percent if isinstance(percent, float) else 0.0


@dataclass
class Builds:
    """Two files to compare; loopwright.compare_builds describes each field."""

    file_a: Path | str
    file_b: Path | str
    _: KW_ONLY
    microarch: str | None = None


@dataclass(frozen=True)
class BuildComparison:
    """Two scans with the same cores, and the changes of their loops."""

    a: Scan
    b: Scan

    @cached_property
    def pairs(self) -> list[Pair]:
        """The loops of both builds, paired."""
        return match(self.a.found.loops, self.b.found.loops)

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The rows (BUILD_COLUMNS) of each loop and core, the worst change first."""
        cores = zip(self.a.costs, self.b.costs, strict=True)
        rows = (self._row(pair, *both) for both in cores for pair in self.pairs)
        return sorted(rows, key=_badness)

    def _row(self, pair: Pair, in_a: CoreCosts, in_b: CoreCosts) -> dict[str, Any]:
        """Return a loop's row on a core; percent is the slowdown of B."""
        loop_a = None if pair.a is None else self.a.found.loops[pair.a]
        loop_b = None if pair.b is None else self.b.found.loops[pair.b]
        either = loop_b or loop_a
        assert either is not None
        cycles_a, best_a = _cycles(in_a, pair.a)
        cycles_b, best_b = _cycles(in_b, pair.b)
        word, percent = change(pair, in_a, in_b)
        sides = ((in_a, pair.a), (in_b, pair.b))
        errors = [costs.errors[n] for costs, n in sides if n is not None and n in costs.errors]
        return {
            "function": either.where,
            "change": word,
            "microarch": in_b.core.id,
            "address_a": f"{loop_a.address:#x}" if loop_a else "",
            "offset_a": loop_a.offset if loop_a else None,
            "cycles_a": cycles_a,
            "address_b": f"{loop_b.address:#x}" if loop_b else "",
            "offset_b": loop_b.offset if loop_b else None,
            "cycles_b": cycles_b,
            "percent": None if percent is None else round(percent, 1),
            "best_a": best_a,
            "best_b": best_b,
            "file": either.file,
            "section": either.section,
            "line": self.b.source.of(loop_b) if loop_b else "",
            "error": errors[0] if errors else "",
        }

    def rows(self, *, changed: bool = False) -> Rows:
        """Return all rows, or those of loops that changed, came or went."""
        kept = [row for row in self.changes if not changed or row["change"] not in _UNCHANGED]
        values = [tuple(row[column] for column in BUILD_COLUMNS) for row in kept]
        return Rows(tuple(BUILD_COLUMNS), values, BUILD_TYPES)

    def slower(self, percent: float) -> list[dict[str, Any]]:
        """Return the rows of loops in both files that got slower by more than so many percent."""
        return [r for r in self.changes if r["percent"] is not None and r["percent"] > percent]

    def summary(self) -> Iterator[str]:
        """Yield sentences on the files compared, and the changes on each core."""
        for name, scan in (("A", self.a), ("B", self.b)):
            loops = counted(len(scan.found.loops), "innermost loop")
            yield f"{name}: {scan.image.path}, {loops} without calls"
        for core in (on_core.core for on_core in self.b.costs):
            counts = Counter(r["change"] for r in self.changes if r["microarch"] == core.id)
            texts = [f"{counts[change]:,} {change}" for change in CHANGES if counts[change]]
            yield f"{core.id}: {', '.join(texts) or 'no loops'}"
        if rewritten := len({r["address_b"] for r in self.changes if r["change"] == REWRITTEN}):
            yield (
                f"{counted(rewritten, 'loop')} of B with other instructions: an iteration may "
                "do other work, so their cycles are shown and not compared"
            )


_UNCHANGED = (SAME, UNKNOWN)


def scan_both(question_a: Question, question_b: Question) -> BuildComparison:
    """Scan two files; InputError if they are of different ISAs."""
    a, b = scanned(question_a), scanned(question_b)
    if a.image.isa != b.image.isa:
        raise InputError(
            f"{a.image.path} is code of {a.image.isa}, {b.image.path} of {b.image.isa}: give two "
            "builds of one ISA"
        )
    return BuildComparison(a, b)


def answer(builds: Builds) -> Rows:
    """Scan two builds of a binary, and compare each loop.

    microarch is as for scan. Loops are paired by function and by their instructions, without
    distances and addresses. Returns a row for each loop and core, the worst change first: function
    (and the offset in it), change ("hurt": its offset in file_b hurts it, that in file_a did not;
    "fixed"; "slower" or "faster" by more than 1 % otherwise; "same"; "rewritten": other
    instructions, cycles not compared; "new", "gone"; "unknown" without a figure), microarch,
    address_a, offset_a (bytes mod 64) and cycles_a (an iteration, as predicted) in file_a, the same
    for file_b, percent (its slowdown in file_b), best_a, best_b (cycles at its best offset), file
    (in an archive), section, line and error.
    """
    question_a, question_b = (
        Question(file, microarch=builds.microarch) for file in (builds.file_a, builds.file_b)
    )
    return scan_both(question_a, question_b).rows()


compare_builds = as_frame("compare_builds", Builds, answer)
