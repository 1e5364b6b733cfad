"""Compare the loops of two builds: what got hurt, what was mended, what came and went."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwright.scanning.costs import CoreCosts
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.shapes import loose, shape

COLUMNS = [
    "function", "change", "microarch", "address_a", "offset_a", "cycles_a", "address_b", "offset_b",
    "cycles_b", "percent", "best_a", "best_b", "file", "section", "line", "error",
]  # fmt: skip

TYPES = {
    **dict.fromkeys(("offset_a", "offset_b"), "Int64"),
    **dict.fromkeys(("cycles_a", "cycles_b", "percent", "best_a", "best_b"), "float64"),
}

# From the worst news on, as rows are ordered.
HURT, SLOWER, NEW, GONE, MENDED, FASTER, SAME, UNKNOWN = CHANGES = (
    "hurt", "slower", "new", "gone", "fixed", "faster", "same", "unknown",
)  # fmt: skip
_SAME = 1.0  # percent: a difference up to here is none


@dataclass(frozen=True)
class Pair:
    """A loop of A and the same one of B, by their numbers; None where the other has none."""

    a: int | None
    b: int | None


def match(a: Sequence[ScannedLoop], b: Sequence[ScannedLoop]) -> list[Pair]:
    """Pair the loops of two builds, by function and instructions, in the order of addresses.

    Instructions are compared without the distances of branches and without addresses. What is left
    of a function with a name is paired by what instructions do, whatever their registers.
    """
    left_a, left_b = set(range(len(a))), set(range(len(b)))
    pairs: list[Pair] = []
    for keys in (shape, loose):
        of_a, of_b = _by_key(a, left_a, keys), _by_key(b, left_b, keys)
        for key, numbers in of_a.items():
            pairs += [Pair(x, y) for x, y in zip(numbers, of_b.get(key, ()), strict=False)]
        left_a -= {pair.a for pair in pairs}
        left_b -= {pair.b for pair in pairs}
    pairs += [Pair(n, None) for n in sorted(left_a)]
    return pairs + [Pair(None, n) for n in sorted(left_b)]


def rows(
    a: Sequence[ScannedLoop],
    b: Sequence[ScannedLoop],
    costs_a: Sequence[CoreCosts],
    costs_b: Sequence[CoreCosts],
    line: Callable[[ScannedLoop], str],
) -> Iterator[dict[str, Any]]:
    """Yield a row (COLUMNS) for each pair and core: what changed, cycles in both.

    percent is how much slower the loop of B is, negative where it is faster; line says where in the
    source a loop of B is. The order is that of changes, worst first, then how much.
    """
    pairs = match(a, b)
    out = [
        _row(pair, a, b, in_a, in_b, line)
        for in_a, in_b in zip(costs_a, costs_b, strict=True)
        for pair in pairs
    ]
    yield from sorted(out, key=_badness)


def _by_key(
    loops: Sequence[ScannedLoop],
    numbers: set[int],
    keys: Callable[[ScannedLoop], tuple[object, ...]],
) -> dict[tuple[object, ...], list[int]]:
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for n in sorted(numbers, key=lambda n: (loops[n].section, loops[n].address)):
        loop = loops[n]
        if keys is loose and not loop.function:
            continue
        found[loop.file, loop.written, *keys(loop)].append(n)
    return found


def _row(
    pair: Pair,
    a: Sequence[ScannedLoop],
    b: Sequence[ScannedLoop],
    in_a: CoreCosts,
    in_b: CoreCosts,
    line: Callable[[ScannedLoop], str],
) -> dict[str, Any]:
    was = None if pair.a is None else a[pair.a]
    now = None if pair.b is None else b[pair.b]
    one = now or was
    assert one is not None
    cycles_a, best_a = _cycles(in_a, pair.a)
    cycles_b, best_b = _cycles(in_b, pair.b)
    word, percent = change(pair, in_a, in_b)
    errors = [
        costs.errors[n]
        for costs, n in ((in_a, pair.a), (in_b, pair.b))
        if n is not None and n in costs.errors
    ]
    return {
        "function": one.where,
        "change": word,
        "microarch": in_b.core.id,
        "address_a": f"{was.address:#x}" if was else "",
        "offset_a": was.offset if was else None,
        "cycles_a": cycles_a,
        "address_b": f"{now.address:#x}" if now else "",
        "offset_b": now.offset if now else None,
        "cycles_b": cycles_b,
        "percent": None if percent is None else round(percent, 1),
        "best_a": best_a,
        "best_b": best_b,
        "file": one.file,
        "section": one.section,
        "line": line(one) if now else "",
        "error": errors[0] if errors else "",
    }


def _cycles(costs: CoreCosts, number: int | None) -> tuple[float | None, float | None]:
    """Return what a loop takes where it lies and at its best, None where nothing is known."""
    if number is None or np.isnan(costs.cycles[number]):
        return None, None
    return round(float(costs.cycles[number]), 3), round(float(costs.best[number]), 3)


def change(pair: Pair, in_a: CoreCosts, in_b: CoreCosts) -> tuple[str, float | None]:
    """Return what became of a loop on a core, one of CHANGES, and by how many percent it is slower.

    No percentage where it is not in both builds, or one of them has no figure for it.
    """
    if pair.a is None:
        return NEW, None
    if pair.b is None:
        return GONE, None
    cycles_a, cycles_b = _cycles(in_a, pair.a)[0], _cycles(in_b, pair.b)[0]
    if cycles_a is None or cycles_b is None:
        return UNKNOWN, None
    percent = 100 * (cycles_b / cycles_a - 1)
    was, now = bool(in_a.hurt[pair.a]), bool(in_b.hurt[pair.b])
    word = SAME
    if percent > _SAME:
        word = HURT if now and not was else SLOWER
    elif percent < -_SAME:
        word = MENDED if was and not now else FASTER
    return word, percent


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    percent = row["percent"]
    return CHANGES.index(str(row["change"])), -percent if isinstance(percent, float) else 0.0
