"""How long uops take that are bound by ports: the rule that all mixtures obey.

cycles = max over sets Q of ports of (uops whose ports all lie in Q) / |Q|: Ritter and Hack,
"Explainable Port Mapping Inference with Sparse Performance Counters for AMD's Zen
Architectures", ASPLOS 2024. Sets that are unions of the uops' own suffice.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations

Ports = frozenset[int]


def cycles(uops: Mapping[Ports, float]) -> float:
    """Return the cycles that uops take by their ports, how many of each."""
    return max(
        (sum(n for p, n in uops.items() if p <= q) / len(q) for q in unions(uops)), default=0
    )


def unions(sets: Iterable[Ports]) -> set[Ports]:
    """Return all unions of some of the sets."""
    out: set[Ports] = set()
    for one in set(sets):
        if one:
            out |= {one} | {one | other for other in out}
    return out


def subsets(count: int, most: int) -> list[tuple[int, ...]]:
    """Return the choices of 2 to most out of so many."""
    return [c for size in range(2, most + 1) for c in combinations(range(count), size)]
