"""Say how often a measurement of known cost holds the cost within its uncertainty.

usage: python validation/streams.py [--rows N] [--load N] [-o FILE]   (make streams)
Measures blocks whose cost is a multiple of what the self-test knows of this core's instructions, so
many times each: as the machine is, and beside processes that keep CPUs and memory busy. Ends with
exit code 1 where fewer than 95 % of the figures of a stream hold.
"""

import argparse
import multiprocessing
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import loopwright as lw
from loopwright.machine import hosts
from loopwright.measuring.measure import self_test

LEAST = 95.0  # percent of the figures that their uncertainty has to cover
BUSY_BYTES = 32 << 20  # memory that a busy process walks


@dataclass(frozen=True)
class Stream:
    """A block of known cost: count times the cost of an instruction of a self-test's loop."""

    name: str
    hex: str
    notion: str
    count: int
    loop: str


STREAMS = (
    Stream("four loads", "488b03488b4b08488b5310488b7318", "unrolled", 4, "load stream"),
    Stream("nine loads", "488b03" "488b4b08" "488b5310" "488b7318" "4c8b4320" "4c8b4b28"
           "4c8b5330" "4c8b5b38" "4c8b6340", "unrolled", 9, "load stream"),
    Stream("two stores", "48890348894b08", "unrolled", 2, "store stream"),
    Stream("imul chain", "480fafc0", "unrolled", 1, "imul chain"),
    Stream("add chain", "4801d8", "unrolled", 1, "add chain"),
    Stream("imul chain, loop", "480fafc0", "loop", 1, "imul chain"),
    Stream("four adds, loop", "4801d84801d84801d84801d8", "loop", 4, "add chain"),
)  # fmt: skip


def known() -> dict[str, float]:
    """Return the documented cycles an instruction of the self-test's loops."""
    loops = self_test(1)
    loops = loops[loops["basis"] == "documented"]
    return dict(zip(loops["loop"], loops["known"], strict=True))


def measure(rows: int, costs: dict[str, float]) -> pd.DataFrame:
    """Measure every stream whose cost is known, rows times each, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for notion in ("unrolled", "loop"):
            streams = [s for s in STREAMS if s.notion == notion and s.loop in costs]
            path = Path(folder, f"{notion}.csv")
            lines = [f"{n},{s.hex}" for _ in range(rows) for n, s in enumerate(streams)]
            path.write_text("\n".join(["id,hex", *lines, ""]))
            figures = lw.measure_blocks(path, notion=notion)
            figures["stream"] = [streams[int(n)].name for n in figures["id"]]
            figures["known"] = [
                costs[streams[int(n)].loop] * streams[int(n)].count for n in figures["id"]
            ]
            parts.append(figures)
    return pd.concat(parts, ignore_index=True)


def busy() -> None:
    """Keep a CPU and its caches at work until the end."""
    memory = bytearray(BUSY_BYTES)
    while True:
        memory = memory[1:] + memory[:1]


@contextmanager
def beside(count: int) -> Iterator[None]:
    """Run that many busy processes until the block ends."""
    workers = [multiprocessing.Process(target=busy, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()


def table(figures: pd.DataFrame) -> pd.DataFrame:
    """Return a row a stream: counts of figures, their errors, and the share that holds."""
    lines = []
    for stream, of_stream in figures.groupby("stream", sort=False):
        cost = float(of_stream["known"].iloc[0])
        rows = of_stream[of_stream["status"] == "ok"]
        error = rows["cycles"] - cost
        lines.append(
            {
                "stream": stream,
                "known": cost,
                "rows": len(of_stream),
                "refused": int((of_stream["status"] == "refused").sum()),
                "bimodal": int((of_stream["status"] == "bimodal").sum()),
                "median": rows["cycles"].median(),
                "error p95": error.abs().quantile(0.95),
                "error max": error.abs().max(),
                "uncertainty": rows["uncertainty"].median(),
                "covered %": 100.0 * (error.abs() <= rows["uncertainty"]).mean(),
            }
        )
    return pd.DataFrame(lines)


def text(parts: Sequence[tuple[str, pd.DataFrame]], machine: str) -> str:
    """Return the tables in Markdown."""
    lines = ["# Streams of known cost", "", f"Measured on {machine}, by `streams.py`, in cycles a"]
    lines += [
        "copy or an iteration. A figure is covered that is off by no more than its uncertainty.",
        "",
    ]
    for name, rows in parts:
        lines += [f"## {name}", "", "| " + " | ".join(rows.columns) + " |"]
        lines += ["|" + "---|" * len(rows.columns)]
        for row in rows.itertuples(index=False):
            cells = [f"{x:.4f}" if isinstance(x, float) else str(x) for x in row[:-1]]
            lines += ["| " + " | ".join([*cells, f"{row[-1]:.1f}"]) + " |"]
        lines += [""]
    return "\n".join(lines)


def main() -> int:
    """Measure the streams, alone and under load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500, help="figures of each stream")
    parser.add_argument("--load", type=int, default=2, help="busy processes, for the second half")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    costs, parts = known(), []
    for name, count in (("As it is", 0), (f"Beside {options.load} busy processes", options.load)):
        with beside(count):
            parts.append((name, table(measure(options.rows, costs))))
    page = text(parts, hosts.machine())
    print(page)
    if options.out:
        options.out.write_text(page)
    return int(any((rows["covered %"] < LEAST).any() for _, rows in parts))


if __name__ == "__main__":
    raise SystemExit(main())
