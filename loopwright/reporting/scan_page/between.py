"""Changes between two builds as the page's data: pairs of loops and the fate of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwright.scanning import builds as builds_module
from loopwright.scanning.builds import CHANGES, Between, Pair

_UNCHANGED = {CHANGES.index(change) for change in (builds_module.SAME, builds_module.UNKNOWN)}


@dataclass(frozen=True)
class Changes:
    """Pairs of loops that a page lists, and by core what became of each: a place in CHANGES."""

    pairs: Sequence[Pair]
    found: Sequence[Sequence[int]]
    left_out: int

    def listed(self, side: str) -> list[int]:
        """Return the numbers of the loops of build "a" or "b", in order."""
        return sorted(n for pair in self.pairs if (n := getattr(pair, side)) is not None)

    def changed(self, side: str) -> list[int]:
        """Return the numbers of those that changed on some core, the worst news first."""
        worst = [min(of_pair) for of_pair in zip(*self.found, strict=True)]
        order = sorted(range(len(self.pairs)), key=lambda at: worst[at])
        numbers = [getattr(self.pairs[at], side) for at in order if worst[at] not in _UNCHANGED]
        return [n for n in numbers if n is not None]

    def data(self) -> dict[str, Any]:
        """Return the pairs by their places among the loops listed (-1: none), and their changes."""
        return {
            "a": self._places("a"),
            "b": self._places("b"),
            "change": ["".join(map(str, of_core)) for of_core in self.found],
        }

    def _places(self, side: str) -> list[int]:
        at = {n: m for m, n in enumerate(self.listed(side))}
        return [at.get(getattr(pair, side), -1) for pair in self.pairs]


def changes(builds: Between, most: int) -> Changes:
    """Return what became of the loops of two builds; of too many those with the worst news."""
    a, b = builds.a, builds.b
    pairs = builds_module.match(a.found.loops, b.found.loops)
    found = [
        [CHANGES.index(builds_module.change(pair, *costs)[0]) for pair in pairs]
        for costs in zip(a.costs, b.costs, strict=True)
    ]
    worst = [min(of_pair) for of_pair in zip(*found, strict=True)]
    kept = sorted(sorted(range(len(pairs)), key=lambda at: worst[at])[:most])
    return Changes(
        [pairs[at] for at in kept],
        [[of_core[at] for at in kept] for of_core in found],
        len(pairs) - len(kept),
    )
