"""Measure loops whose cost is known, to show what a measurement on this machine is worth."""

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import pandas as pd

from loopwright import harness, toolchain
from loopwright.errors import InputError
from loopwright.harness import jobs
from loopwright.machine import hosts
from loopwright.measuring.rounds import Progress

PROCESSES = 3
COLUMNS = [
    "loop",
    "cycles",
    "low",
    "high",
    "known",
    "basis",
    "error_percent",
    "tolerance_percent",
    "held",
    "reason",
    "processes",
    "unit",
    "clock",
    "microarch",
    "machine",
]


def run(processes: int = PROCESSES, progress: Progress | None = None) -> pd.DataFrame:
    """Measure each loop that is known in so many processes; one row a loop.

    cycles an instruction are the median over processes, low and high the extremes, error_percent
    the largest deviation of a process from known. basis says whether known is documented of this
    core, or the nearest whole number of cycles, or of instructions a cycle. held: all processes are
    within the tolerance; reason says why not. progress is called with processes done and all.
    InputError where this machine cannot measure.
    """
    read: dict[str, list[dict[str, Any]]] = {}
    clock = ""
    for done in range(processes):
        if progress:
            progress(done, processes)
        record = next(harness.run(toolchain.host_isa(), jobs.self_test("self_test")))
        if not record["clock"]:
            raise InputError(f"nothing can be measured here: {record['refused']}")
        clock = record["clock"]
        for test in record["self_test"]:
            read.setdefault(test["name"], []).append(test)
    where = {
        "unit": "cycles/instruction",
        "clock": clock,
        "microarch": hosts.microarch() or "",
        "machine": hosts.machine(),
    }
    rows = [{"loop": name, **_row(tests), **where} for name, tests in read.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(tests: list[dict[str, Any]]) -> dict[str, object]:
    read = [t for t in tests if t["cycles"] is not None]
    cycles = [t["cycles"] for t in read] or [math.nan]
    known = next((t["known"] for t in tests if t["known"] is not None), math.nan)
    errors = [100 * abs(t["cycles"] / t["known"] - 1) for t in read]
    return {
        "cycles": median(cycles),
        "low": min(cycles),
        "high": max(cycles),
        "known": known,
        "basis": tests[0]["basis"],
        "error_percent": max(errors, default=math.nan),
        "tolerance_percent": 100 * tests[0]["tolerance"],
        "held": all(t["held"] for t in tests),
        "reason": "; ".join(_reasons(tests)),
        "processes": len(tests),
    }


def _reasons(tests: list[dict[str, Any]]) -> Iterator[str]:
    """Yield why a loop did not hold: its figures, then why it has none in some processes."""
    off = [t for t in tests if t["cycles"] is not None and not t["held"]]
    refused = [t for t in tests if t["cycles"] is None]
    if off:
        worst = max(off, key=lambda t: abs(t["cycles"] / t["known"] - 1))
        yield f"{worst['cycles']:.4f} cycles in {len(off)} of {len(tests)} processes"
    if refused:
        yield f"refused in {len(refused)} of {len(tests)} processes: {refused[-1]['refused']}"
