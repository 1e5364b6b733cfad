"""One scanned file as the page's data: its loops and what they cost, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopwright.reporting.scan_page.words import Words
from loopwright.scanning import scan
from loopwright.scanning.costs import LINE, CoreCosts, boundary
from loopwright.scanning.fixes import Fix
from loopwright.scanning.scan import Scan

HURT, DEPENDS, INDIFFERENT, NONE = "hdi-"  # states of a loop on a core


@dataclass(frozen=True)
class Side:
    """A scan, and the numbers of its loops that the page lists, in the order of addresses."""

    scan: Scan
    numbers: Sequence[int]
    words: Words
    _strips: dict[tuple[float, ...], int] = field(default_factory=dict, init=False)

    def data(self) -> dict[str, Any]:
        """Return its columns; strips are (cycles, places in a row at which it takes them) in turn.

        Texts are given by their numbers. Of a core, state has a letter for each loop, strip its
        number (-1: none), and the rest what only some loops have, by their place in the columns.
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
        hurt = [scan.Place(n, core) for n in self.numbers if states[n] == HURT]
        limits = scan.limits(self.scan.found.loops, self.scan.costs, hurt)
        out: dict[str, Any] = {"strip": [], "limit": {}, "boundary": {}, "error": {}}
        for m, n in enumerate(self.numbers):
            out["strip"].append(self._strip(costs, n))
            if (n, core) in limits:
                out["limit"][m] = self.words.number(limits[n, core])
            if found := boundary(self.scan.found.loops[n], costs.table[n]):
                out["boundary"][m] = [found.size, self.words.number(found.crossed), found.at]
            if n in costs.errors:
                out["error"][m] = self.words.number(costs.errors[n])
        out["state"] = "".join(states[n] for n in self.numbers)
        return out

    def _strip(self, costs: CoreCosts, number: int) -> int:
        row = costs.table[number]
        known = row[~np.isnan(row)]
        if not len(known):
            return -1
        turns: list[float] = []
        for value in known.tolist():
            cycles = round(value, 3)
            if turns and turns[-2] == cycles:
                turns[-1] += 1
            else:
                turns += [int(cycles) if cycles == int(cycles) else cycles, 1]
        assert LINE % len(known) == 0
        return self._strips.setdefault(tuple(turns), len(self._strips))


def _states(costs: CoreCosts) -> str:
    marks = np.where(costs.hurt, HURT, np.where(costs.depends, DEPENDS, INDIFFERENT))
    return "".join(np.where(np.isnan(costs.cycles), NONE, marks).tolist())


def _kind(fix: Fix) -> str:
    """Return what kind of a fix it is, as a filter has it."""
    if fix.candidate is None:
        return fix.words
    kinds = {
        "align": f"align {fix.candidate.alignment}",
        "routine": f"align routine {fix.candidate.alignment}",
        "align, pad": "align and pad",
        "pad": "pad",
    }
    return kinds.get(fix.candidate.kind, f"{fix.candidate.kind} encoding")
