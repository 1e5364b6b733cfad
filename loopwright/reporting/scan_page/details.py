"""Details of a loop that the page shows on request: instructions, fix, timelines; packed."""

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from loopwright.errors import InputError
from loopwright.predicting.explain import STEPS
from loopwright.reporting.scan_page.words import Words
from loopwright.scanning import binary_loops
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.costs import CoreCosts
from loopwright.scanning.scan import Scan

ITERATIONS = 4  # of a timeline
MOST_CODE = 2_000_000  # bytes of packed instructions and fixes in a page
MOST_TIMELINES = 1_500_000  # bytes of packed timelines
TOGETHER = 64  # loops that are packed together
_ROWS = 160  # uops of one timeline
_APART = 1.02  # cycles whose ratio is below are alike
_CYCLES = tuple(f"{step}_cycle" for step in STEPS)


def code(scan: Scan, numbers: Sequence[int], share: float = 1.0) -> tuple[list[str], list[int]]:
    """Return instructions and fixes of as many of some loops as fit, and the numbers of these.

    They are packed in the order given: texts of base64 that hold JSON packed by gzip, each of up to
    64 loops, and the texts that these name by numbers. share is that of the room of a page.
    """

    def of(some: Sequence[int], words: Words) -> list[Any]:
        return [_loop(scan, n, words) for n in some]

    return _packed(numbers, of, share * MOST_CODE)


def timelines(
    scan: Scan, numbers: Sequence[int], share: float = 1.0
) -> tuple[list[str], list[int]]:
    """Return timelines in the same way: of each loop a list of them for each core."""

    def of(some: Sequence[int], words: Words) -> list[Any]:
        by_core = [_timelines(scan, costs, some, words) for costs in scan.costs]
        return [list(of_loop) for of_loop in zip(*by_core, strict=True)]

    return _packed(numbers, of, share * MOST_TIMELINES)


def _packed(
    numbers: Sequence[int], of: Callable[[Sequence[int], Words], list[Any]], most: float
) -> tuple[list[str], list[int]]:
    packs: list[str] = []
    for at in range(0, len(numbers), TOGETHER):
        words = Words()
        loops = of(numbers[at : at + TOGETHER], words)
        text = json.dumps({"words": words.all, "loops": loops}, separators=(",", ":"))
        packs.append(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode())
        if sum(map(len, packs)) > most:
            packs.pop()
            break
    return packs, list(numbers[: len(packs) * TOGETHER])


def _loop(scan: Scan, number: int, words: Words) -> dict[str, Any]:
    """Return the bytes of an iteration, its instructions (place, length, text), and its fix."""
    loop = scan.found.loops[number]
    try:
        lines = binary_loops.listing(loop)
    except InputError:  # then no core has figures for it either, which is said
        lines = []
    return {
        "code": loop.executed.hex(),
        "path": [list(stretch) for stretch in loop.path],
        "exits": [at - loop.address for at in loop.exits],
        "lines": [[line.at, line.length, words.number(line.text)] for line in lines],
        "how": scan.how(number, scan.found_fixes[number]),
    }


def _timelines(
    scan: Scan, costs: CoreCosts, numbers: Sequence[int], words: Words
) -> list[list[list[Any]]]:
    """Return for each loop its timelines on a core: code offset, and a row for each uop.

    Those are of where it lies and, where its place costs it something, of its best place.
    """
    loops = scan.found.loops
    asked = [(m, place) for m, n in enumerate(numbers) for place in _offsets(costs, n, loops[n])]
    found = binary_loops.timelines(
        [(loops[numbers[m]], at) for m, at in asked], costs.core, ITERATIONS
    )
    out: list[list[list[Any]]] = [[] for _ in numbers]
    for (m, at), rows in zip(asked, found, strict=True):
        out[m].append([at, [list(_row(row, words)) for row in rows[:_ROWS]]])
    return out


def _offsets(costs: CoreCosts, number: int, loop: ScannedLoop) -> Iterator[int]:
    row = costs.table[number]
    if np.isnan(row[loop.offset]):
        return
    yield loop.offset
    if row[loop.offset] > _APART * np.nanmin(row):
        yield int(np.nanargmin(row))


def _row(row: dict[str, Any], words: Words) -> Iterator[int | None]:
    """Yield iteration, instruction, the texts of what, port and reason, and cycles by step."""
    yield row["iteration"]
    yield row["instruction"]
    what = (row["role"], row["how"])
    yield words.number(", ".join(part for part in what if part))
    yield words.number(row["port"] or "")
    yield words.number(row["waited_for"])
    for step in _CYCLES:
        yield row[step]
