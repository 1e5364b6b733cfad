"""Ports of AArch64 uops from what copies of an instruction take."""

from __future__ import annotations

from itertools import combinations

# All pipes of a kind, and the one of them that runs what only one can.
KINDS = {
    "neoverse-n1": (("STM", "M"), ("VW", "V"), ("LK", "LK"), ("DE", "DE"), ("B", "B")),
    "tsv110": (("ABC", "M"), ("M", "M"), ("FG", "F"), ("LS", "S"), ("BC", "BC")),
    "neoverse-v1": (("STMN", "M"), ("VWXY", "V"), ("LKJ", "LKJ"), ("DE", "DE"), ("BC", "BC")),
}


def bound(ports: list[str], busy: int) -> float:
    """Return the cycles of one of many copies: the most that any set of ports has to do."""
    letters = sorted(set("".join(ports)))
    most = 0.0
    for size in range(1, len(letters) + 1):
        for chosen in combinations(letters, size):
            inside = sum(1 for p in ports if set(p) <= set(chosen))
            most = max(most, inside / size)
    return max(most, busy / max(len(ports[0]), 1) if ports and busy else 0.0)


def fitted(core: str, ports: list[str], cycles: float) -> tuple[list[str], int]:
    """Return uops that take so many cycles, on pipes of the kind that LLVM names.

    Up to three cycles are uops that follow each other, more is one that keeps its pipe. What takes
    twice as long as LLVM's one uop is two of them.
    """
    if len(ports) == 1 and abs(2 * bound(ports, 0) - cycles) <= 0.08 * cycles:
        return ports * 2, 0
    kinds = KINDS[core]
    letters = set("".join(ports))
    every, one = next((k for k in kinds if letters & set(k[0])), kinds[0])
    if letters and letters <= set(every) and len(letters) == 1:
        one = "".join(letters)
    for count in (1, 2, 3):
        for width in range(len(every), 0, -1):
            names = every[:width] if width != 1 else one
            if abs(count / width - cycles) <= 0.08 * cycles:
                return [names] * count, 0
    if cycles < 1:
        return [every], 0
    return [one[:1]], round(cycles)
