"""Code that a booted kernel ran: QEMU logs each block that it enters, by its address."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

# Blocks must not be chained to each other, or one would be entered without a word.
_LOGGED = "nochain,exec"
_ENTERED = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/")


def watching(log: Path, addresses: Iterable[int]) -> list[str]:
    """Return options of QEMU that log each time one of the addresses is jumped to.

    A block begins at what a jump leads to, and nowhere else in code that falls through to it.
    """
    ranges = ",".join(f"{address:#x}+1" for address in sorted(addresses))
    return ["-d", _LOGGED, "-dfilter", ranges, "-D", str(log)]


def counted(log: Path) -> Counter[int]:
    """Return how often each address was jumped to, by such a log; all 0 where there is none."""
    counts: Counter[int] = Counter()
    if log.exists():
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if entered := _ENTERED.match(line):
                    counts[int(entered[1], 16)] += 1
    return counts
