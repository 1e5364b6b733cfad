"""A scan, or the changes between two builds, as one self-contained HTML page."""

import base64
import gzip
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from loopwright.errors import InputError
from loopwright.paths import VERSION
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import findings
from loopwright.reporting.html import Grid, Words, column, grid, rendered, script_data, uop
from loopwright.rows import Rows
from loopwright.scanning import binary_loops, scan
from loopwright.scanning import builds as builds_module
from loopwright.scanning import costs as scan_costs
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.builds import CHANGES, BuildComparison, Pair
from loopwright.scanning.costs import LINE, CoreCosts, best_offset, boundary, finite
from loopwright.scanning.fixes import Fix
from loopwright.scanning.scan import Question, Scan


def command(question: Question, out: Path, other: Path | str | None = None) -> str:
    """Return the command for the page of a scan, or of two builds with another file."""
    parts = ["loopwright scan", shlex.quote(str(question.file))]
    parts += [shlex.quote(str(other))] if other is not None else []
    for option in ("microarch", "symbols", "features", "profile"):
        if (value := getattr(question, option)) is not None:
            parts.append(f"--{option} {shlex.quote(str(value))}")
    return " ".join([*parts, f"--html {shlex.quote(str(out))}"])


_UNCHANGED = {CHANGES.index(change) for change in (builds_module.SAME, builds_module.UNKNOWN)}


@dataclass(frozen=True)
class Changes:
    """The pairs of loops that a page lists, and by core the change of each: an index of CHANGES."""

    pairs: Sequence[Pair]
    by_core: Sequence[Sequence[int]]
    left_out: int

    def listed(self, side: str) -> list[int]:
        """Return the numbers of the loops of build "a" or "b", in order."""
        return sorted(n for pair in self.pairs if (n := getattr(pair, side)) is not None)

    def changed(self, side: str) -> list[int]:
        """Return the numbers of the loops that changed on some core, the worst first."""
        worst = [min(of_pair) for of_pair in zip(*self.by_core, strict=True)]
        order = sorted(range(len(self.pairs)), key=lambda at: worst[at])
        numbers = [getattr(self.pairs[at], side) for at in order if worst[at] not in _UNCHANGED]
        return [n for n in numbers if n is not None]

    def data(self) -> dict[str, Any]:
        """Return the pairs as indexes of the listed loops (-1: none), and their changes."""
        return {
            "a": self._places("a"),
            "b": self._places("b"),
            "change": ["".join(map(str, of_core)) for of_core in self.by_core],
        }

    def _places(self, side: str) -> list[int]:
        at = {n: m for m, n in enumerate(self.listed(side))}
        return [at.get(getattr(pair, side), -1) for pair in self.pairs]


def changes(builds: BuildComparison, most: int) -> Changes:
    """Return the changes of the loops of two builds; of too many, the worst."""
    a, b, pairs = builds.a, builds.b, builds.pairs
    by_core = [
        [CHANGES.index(builds_module.change(pair, *costs)[0]) for pair in pairs]
        for costs in zip(a.costs, b.costs, strict=True)
    ]
    worst = [min(of_pair) for of_pair in zip(*by_core, strict=True)]
    kept = sorted(sorted(range(len(pairs)), key=lambda at: worst[at])[:most])
    return Changes(
        [pairs[at] for at in kept],
        [[of_core[at] for at in kept] for of_core in by_core],
        len(pairs) - len(kept),
    )


ITERATIONS = 4  # iterations of a timeline
MOST_CODE = 2_000_000  # bytes of packed instructions and fixes in a page, at most
MOST_TIMELINES = 1_500_000  # bytes of packed timelines in a page, at most
TOGETHER = 64  # loops of one pack
_ROWS = 160  # uops of one timeline, at most
_APART = 1.02  # least ratio of cycles that differ


def _packed(
    numbers: Sequence[int], details: Callable[[Sequence[int], Words], list[Any]], most: float
) -> tuple[list[str], list[int]]:
    """Return the packed details of as many loops as fit, and the numbers of these loops.

    They are packed in the order given: base64 of gzip of JSON, up to TOGETHER loops in each, with
    the texts that the loops refer to by number.
    """
    packs: list[str] = []
    for at in range(0, len(numbers), TOGETHER):
        words = Words()
        loops = details(numbers[at : at + TOGETHER], words)
        text = json.dumps({"words": words.all, "loops": loops}, separators=(",", ":"))
        packs.append(base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode())
        if sum(map(len, packs)) > most:
            packs.pop()
            break
    return packs, list(numbers[: len(packs) * TOGETHER])


def _loop(scan: Scan, number: int, words: Words) -> dict[str, Any]:
    """Return a loop's code, its instructions (position, length, text), and its fix."""
    loop = scan.found.loops[number]
    try:
        lines = binary_loops.listing(loop)
    except InputError:  # no core has figures for it either, and its row has the error
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

    The offsets are the loop's own and, where it is slower there, its best one.
    """
    loops = scan.found.loops
    asked = [(m, offset) for m, n in enumerate(numbers) for offset in _offsets(costs, n, loops[n])]
    timelines = binary_loops.timelines(
        [(loops[numbers[m]], offset) for m, offset in asked], costs.core, ITERATIONS
    )
    out: list[list[list[Any]]] = [[] for _ in numbers]
    for (m, offset), rows in zip(asked, timelines, strict=True):
        out[m].append([offset, [uop(row, words) for row in rows[:_ROWS]]])
    return out


def _offsets(costs: CoreCosts, number: int, loop: ScannedLoop) -> Iterator[int]:
    row = costs.table[number]
    if isnan(row[loop.offset]):
        return
    yield loop.offset
    if row[loop.offset] > _APART * costs.best[number]:
        yield best_offset(row)


# Columns of rows, their heads, and of numbers their digits.
_COLUMNS = {
    "address": ("address", None), "function": ("function", None), "into": ("bytes into it", 0),
    "change": ("change", None), "microarch": ("core", None), "offset": ("code offset, B", 0),
    "offset_a": ("A: code offset, B", 0), "offset_b": ("B: code offset, B", 0),
    "cycles": ("cycles/iteration", 2), "best": ("at best", 2), "worst": ("at worst", 2),
    "cycles_a": ("A: cycles/iteration", 2), "cycles_b": ("B: cycles/iteration", 2),
    "percent": ("slower by, %", 1), "share": ("share of all cycles, %", 2),
    "saved": ("would save, %", 2), "limit": ("limit", None), "fix": ("fix", None),
    "error": ("error", None),
}  # fmt: skip


def _first_rows(rows: Rows, caption: str) -> Grid:
    """Return the rows that are visible without scripts."""
    columns = [column(h, n, digits) for n, (h, digits) in _COLUMNS.items() if n in rows.columns]
    return grid("first", caption, rows.records()[:_FIRST], columns)


HURT, DEPENDS, INDIFFERENT, NONE = "hdi-"  # states of a loop on a core


@dataclass(frozen=True)
class Side:
    """A scan, and the numbers of the loops that the page lists, in the order of addresses."""

    scan: Scan
    numbers: Sequence[int]
    words: Words
    _strips: dict[tuple[float, ...], int] = field(default_factory=dict, init=False)

    def data(self) -> dict[str, Any]:
        """Return the columns of its loops; a strip is cycles and run lengths over offsets in turn.

        Texts are numbers of words. For each core, state has a letter for each loop, strip its
        number (-1: none); the other columns have only some loops, by their index.
        """
        loops = [self.scan.found.loops[n] for n in self.numbers]
        sections = self._sections()
        at = {(file, name): n for n, (file, name, *_) in enumerate(sections)}
        where = [at[loop.file, loop.section] for loop in loops]
        number = self.words.number
        found_fixes = self.scan.found_fixes
        weights = self.scan.weights
        # Only this side's strips: they are read by number.
        costs = [self._cost(n) for n in range(len(self.scan.costs))]
        return {
            "path": str(self.scan.image.path),
            "sections": [[number(f), number(s), hex(a), size] for f, s, a, size in sections],
            "section": where,
            "at": [x.address - sections[s][2] for x, s in zip(loops, where, strict=True)],
            "function": [number(loop.function) for loop in loops],
            "into": [loop.into for loop in loops],
            "line": [number(self.scan.source.of(loop)) for loop in loops],
            "bytes": [loop.length for loop in loops],
            "fix": [number(found_fixes[n].words) for n in self.numbers],
            "kind": [number(_kind(found_fixes[n])) for n in self.numbers],
            "share": [round(weights.shares[n], 4) for n in self.numbers] if weights else None,
            "whole": [m for m, n in enumerate(self.numbers) if weights and n in weights.whole],
            "strips": [list(strip) for strip in self._strips],
            "costs": costs,
        }

    def _sections(self) -> list[tuple[str, str, int, int]]:
        """Return the file, name, address and size of each section that holds one of the loops."""
        loops = self.scan.found.loops
        held = {(loops[n].file, loops[n].section) for n in self.numbers}
        return [
            (s.file, s.name, s.address, len(s.code))
            for s in self.scan.image.sections
            if (s.file, s.name) in held
        ]

    def _cost(self, core: int) -> dict[str, Any]:
        costs = self.scan.costs[core]
        states = _states(costs)
        hurt = [scan.Ranked(n, core) for n in self.numbers if states[n] == HURT]
        limits = scan.limits(self.scan.found.loops, self.scan.costs, hurt)
        out: dict[str, Any] = {"strip": [], "limit": {}, "boundary": {}, "error": {}}
        for m, n in enumerate(self.numbers):
            out["strip"].append(self._strip(costs, n))
            if (ranked := scan.Ranked(n, core)) in limits:
                out["limit"][m] = self.words.number(limits[ranked])
            if crossing := boundary(self.scan.found.loops[n], costs.table[n]):
                crossed = self.words.number(crossing.crossed)
                out["boundary"][m] = [crossing.size, crossed, crossing.at]
            if n in costs.errors:
                out["error"][m] = self.words.number(costs.errors[n])
        out["state"] = "".join(states[n] for n in self.numbers)
        return out

    def _strip(self, costs: CoreCosts, number: int) -> int:
        figures = finite(costs.table[number])
        if not figures:
            return -1
        turns: list[float] = []
        for value in figures:
            cycles = round(value, 3)
            if turns and turns[-2] == cycles:
                turns[-1] += 1
            else:
                turns += [int(cycles) if cycles == int(cycles) else cycles, 1]
        assert LINE % len(figures) == 0
        return self._strips.setdefault(tuple(turns), len(self._strips))


def _states(costs: CoreCosts) -> str:
    marks = (
        NONE if isnan(cycles) else HURT if hurt else DEPENDS if depends else INDIFFERENT
        for cycles, hurt, depends in zip(costs.cycles, costs.hurt, costs.depends, strict=True)
    )
    return "".join(marks)


def _kind(fix: Fix) -> str:
    if fix.candidate is None:
        return fix.words
    kinds = {
        "align": f"align {fix.candidate.alignment}",
        "routine": f"align routine {fix.candidate.alignment}",
        "align, pad": "align and pad",
        "pad": "pad",
    }
    return kinds.get(fix.candidate.kind, f"{fix.candidate.kind} encoding")


__all__ = ["command", "of_builds", "of_scan"]

_LOOKS = {
    builds_module.HURT: "loud", builds_module.SLOWER: "loud", builds_module.FIXED: "good",
    builds_module.FASTER: "good", builds_module.SAME: "faint", builds_module.UNKNOWN: "none",
}  # fmt: skip
MOST = 60_000  # loops that a page lists, at most
_FIRST = 20  # rows that are visible without scripts
# The states of rows: their letters in the data, their names, and their styles on the map.
STATES = {
    "scan": (
        ("h", "hurt", "loud"), ("d", "depends", "middle"), ("i", "indifferent", "faint"),
        ("-", "no figure", "none"),
    ),
    "builds": tuple(
        (str(n), change, _LOOKS.get(change, "middle")) for n, change in enumerate(CHANGES)
    ),
}  # fmt: skip
_SCRIPTS = (
    "timeline.js", "data.js", "view.js", "strip.js", "code.js", "loop.js", "table.js", "map.js",
    "start.js",
)  # fmt: skip


def of_scan(scan: Scan, again: str) -> str:
    """Return the page of a scan; again is the command that writes it again.

    All loops are in its table and on its map, with their strips over code offsets; as many as fit,
    those with the largest losses first, also have their instructions and timelines.
    """
    ranked = list(dict.fromkeys(candidate.loop for candidate in scan.ranking))[:MOST]
    words, numbers = Words(), sorted(ranked)
    side = Side(scan, numbers, words).data() | _details(scan, ranked, numbers)
    left_out = len(scan.found.loops) - len(numbers)
    first = _first_rows(scan.rows(_FIRST), "The loops with the largest losses")
    summary = list(scan.summary())
    return _page("scan", [scan], [side], None, words, left_out, again, first, summary)


def of_builds(builds: BuildComparison, again: str) -> str:
    """Return the page of the changes between two builds; again is as for of_scan."""
    words, listed = Words(), changes(builds, MOST)
    sides, scans = [], [builds.b, builds.a]
    for side, build in zip("ba", scans, strict=True):
        numbers = listed.listed(side)
        own = _details(build, listed.changed(side), numbers, share=0.5)
        sides.append(Side(build, numbers, words).data() | own)
    first = _first_rows(builds.rows(changed=True), "The largest changes")
    pairs, summary = listed.data(), list(builds.summary())
    return _page("builds", scans, sides, pairs, words, listed.left_out, again, first, summary)


def _details(
    scan: Scan, chosen: Sequence[int], listed: Sequence[int], share: float = 1.0
) -> dict[str, Any]:
    """Return packs of details, and the indexes of the listed loops that they hold.

    One has instructions and fixes, the other timelines for each core. share is the part of the
    page's room.
    """

    def code(numbers: Sequence[int], words: Words) -> list[Any]:
        return [_loop(scan, n, words) for n in numbers]

    def timelines(numbers: Sequence[int], words: Words) -> list[Any]:
        by_core = [_timelines(scan, costs, numbers, words) for costs in scan.costs]
        return [list(of_loop) for of_loop in zip(*by_core, strict=True)]

    at = {n: m for m, n in enumerate(listed)}
    out: dict[str, Any] = {"together": TOGETHER}
    for details, most in ((code, MOST_CODE), (timelines, MOST_TIMELINES)):
        packs, held = _packed(chosen, details, share * most)
        out[details.__name__] = {"packs": packs, "held": [at[n] for n in held]}
    return out


def _page(
    kind: str,
    scans: Sequence[Scan],
    sides: Sequence[dict[str, Any]],
    pairs: dict[str, Any] | None,
    words: Words,
    left_out: int,
    again: str,
    first: Grid,
    summary: Sequence[str],
) -> str:
    cores = [costs.core for costs in scans[0].costs]
    data = {
        "kind": kind,
        "isa": scans[0].image.isa,
        "cores": [core.id for core in cores],
        "origin": findings.model_versions()[SIMULATOR],
        "command": again,
        "states": STATES[kind],
        "words": words.all,
        "sides": sides,
        "pairs": pairs,
    }
    texts = words.all
    return rendered(
        "scan.html.j2",
        style="scan.css",
        scripts=_SCRIPTS,
        kind=kind,
        version=VERSION,
        origin=findings.model_versions()[SIMULATOR],
        scans=scans,
        cores=cores,
        states=STATES[kind],
        fixes=sorted({texts[n] for n in sides[0]["kind"]} - {""}),
        sections=sorted({texts[name] for _, name, *_ in sides[0]["sections"]}),
        files=sorted({texts[file] for file, *_ in sides[0]["sections"]} - {""}),
        loops=len(sides[0]["at"]),
        held=len(sides[0]["code"]["held"]),
        timed=len(sides[0]["timelines"]["held"]),
        left_out=left_out,
        hurt=scan_costs.HURT,
        indifferent=scan_costs.INDIFFERENT,
        command=again,
        summary=summary,
        first=first,
        data=script_data(data),
    )
