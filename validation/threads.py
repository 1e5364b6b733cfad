"""Hold whole calls to what threads published at a size: validation/threads.md.

usage: python validation/threads.py [-o FILE]   (part of make validate)
A published figure is of more than the call: of what the module or the system call around it adds,
and of lines that pass the core. These are parameters here, with ranges; none is taken from the row
that it is compared with, nor from one of the same size and routine: for each row those are taken
that suit the other rows of its machine best. Rows that no parameter explains stay wrong, and are
shown.
"""

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import pandas as pd

from loopwright import kernels
from loopwright.cores import microarchs
from loopwright.errors import InputError
from loopwright.judging import published
from loopwright.predicting import calls
from loopwright.predicting.calls import CallQuestion

ROOT = Path(__file__).resolve().parent.parent
# Bytes that one call moves at most: reading /dev/zero clears a page at a time
# (read_iter_zero() in drivers/char/mem.c).
CHUNK = {"call": 1 << 30, "system call": 4096}
# What is not known of what stands around a call, in cycles: a range of round numbers, from nothing
# to what a system call may take. And what a line that passes through the core costs a copy on
# TSV110, where core.toml has a range (memory.stream_line_cycles).
AROUND = {"call": range(0, 121, 5), "system call": range(0, 1501, 50)}
EACH = {"call": (0,), "system call": range(0, 601, 25)}
LINE = {"tsv110": ("0", "0.3", "0.6", "0.8", "1.0", "1.1")}


@dataclass(frozen=True)
class Figure:
    """A published speed-up in percent of a variant over another, at a size."""

    kernel: str
    variant: str
    baseline: str
    core: str
    size: int
    scope: str
    published: float


@dataclass(frozen=True)
class Around:
    """Cycles around all calls of a figure, with each of them, and of a line that passes."""

    once: int
    each: int
    line: str

    def __str__(self) -> str:
        line = f", {self.line} a line" if self.line else ""
        each = f", {self.each} with each chunk" if self.each else ""
        return f"{self.once} cycles{each}{line}"


NOTHING = Around(0, 0, "")


def figures() -> list[Figure]:
    """Return the published speed-ups that name a size, of cores that are modelled."""
    return [
        Figure(f.kernel, f.variant, f.baseline, f.predicted_on, f.size_bytes, f.scope, f.percent)
        for f in published.table()
        if f.predicted_on and f.variant and f.baseline and f.scope in CHUNK
        if f.size_bytes is not None and f.percent is not None and not f.retracted
        if (f.microarch == f.predicted_on and f.scope == "call") or f.chunk_bytes
    ]


@cache
def _cycles(kernel: str, variant: str, core: str, size: int, line: str) -> float:
    given = {"memory.stream_line_cycles": line} if line else {}
    chosen = kernels.load(kernel).variants[variant]
    question = CallQuestion(chosen, microarchs.load(core), [(size, 0, 0)], given, None, True)
    [[found]] = calls.of_variants([question])
    if isinstance(found, InputError):
        raise InputError(f"{kernel}/{variant} on {core}: {found}")
    return found.cycles


def _cost(figure: Figure, variant: str, around: Around) -> float:
    """Return cycles of what was timed: calls of whole chunks and of the rest, and around them."""
    chunk = CHUNK[figure.scope]
    sizes = [chunk] * (figure.size // chunk) + [figure.size % chunk] * bool(figure.size % chunk)
    key = (figure.kernel, variant, figure.core)
    moved = sum(_cycles(*key, size, around.line) for size in sizes)
    return moved + around.once + around.each * (len(sizes) - 1)


def speedup(figure: Figure, around: Around) -> float:
    """Return the speed-up in percent that calls have with so much around them."""
    fast, slow = (_cost(figure, name, around) for name in (figure.variant, figure.baseline))
    return 100 * (slow / fast - 1)


def best(known: Sequence[Figure]) -> Around:
    """Return what around calls suits figures best: the least mean error in points."""
    scope, core = known[0].scope, known[0].core
    choices = itertools.product(AROUND[scope], EACH[scope], LINE.get(core, ("",)))
    return min((Around(*c) for c in choices), key=lambda a: _error(known, a))


def _error(known: Sequence[Figure], around: Around) -> float:
    return fmean(abs(speedup(f, around) - f.published) for f in known)


def rows() -> Iterator[Mapping[str, object]]:
    """Yield each figure beside its calls alone, and with what the other rows say is around them."""
    every = figures()
    for figure in every:
        kin = [
            f
            for f in every
            if (f.kernel, f.core, f.scope) == (figure.kernel, figure.core, figure.scope)
        ]
        others = [f for f in kin if (f.variant, f.size) != (figure.variant, figure.size)]
        apart = [f for f in kin if f.variant != figure.variant]
        around = best(others) if others else NOTHING
        yield {
            "kernel": figure.kernel,
            "variant": figure.variant,
            "core": figure.core,
            "bytes": figure.size,
            "published": figure.published,
            "calls alone": speedup(figure, NOTHING),
            "with what is around": speedup(figure, around),
            "from the other routine": speedup(figure, best(apart)) if apart else None,
            "around": str(around),
        }


def main() -> None:
    """Compare, and write the table."""
    parser = argparse.ArgumentParser(description="Hold whole calls to what threads published.")
    parser.add_argument("-o", type=Path, default=ROOT / "validation" / "threads.md", metavar="FILE")
    path: Path = parser.parse_args().o
    found = pd.DataFrame(list(rows()))
    parts = ["# Whole calls beside what threads published, in percent", _about(), _table(found)]
    for core, mine in found.groupby("core", sort=False):
        for column in ("calls alone", "with what is around", "from the other routine"):
            known = mine.dropna(subset=[column])
            near = ((known[column] - known["published"]).abs() <= 10).sum()
            if len(known):
                parts.append(f"- {core}, {column}: {near} of {len(known)} within 10 points.")
    path.write_text("\n\n".join(parts[:3]) + "\n\n" + "\n".join(parts[3:]) + "\n")
    print(path.read_text())


def _about() -> str:
    return " ".join(str(__doc__).split("make validate)\n")[1].split())


def _table(found: pd.DataFrame) -> str:
    lines = [list(found.columns), ["---"] * len(found.columns)]
    for row in found.itertuples(index=False):
        lines.append(
            [
                "" if v is None or v != v else f"{v:.1f}" if isinstance(v, float) else str(v)
                for v in row
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/threads.py: {error}") from None
