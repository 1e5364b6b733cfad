"""The rows of a measurement: what a result is as columns."""

from collections.abc import Sequence
from typing import Any

from loopwright.checking.check import user_space_note
from loopwright.kernels import Variant
from loopwright.measuring import ratios
from loopwright.measuring.readings import Result

PROCESSES = 3

COLUMNS = [
    "kernel",
    "variant",
    "quantity",
    "unit",
    "size_bytes",
    "dst_align",
    "src_align",
    "skew_bytes",
    "cache",
    "offset",
    "cycles",
    "p10",
    "p90",
    "uncertainty",
    "samples",
    "dropped",
    "dropped_from",
    "dropped_to",
    "processes",
    "clock",
    "status",
    "reason",
    "microarch",
    "machine",
    "self_test",
    "milliseconds",
    *ratios.COLUMNS,
    "note",
    "raw",
]


def row(
    variant: Variant, offset: int, result: Result, microarch: str, machine: str, tested: str
) -> dict[str, Any]:
    """Return the columns of a result of a variant on a machine that was tested so."""
    left_out = user_space_note(variant)
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "offset": offset,
        "microarch": microarch,
        "machine": machine,
        "self_test": tested,
        **result.columns(),
        "note": "; ".join(note for note in (left_out, result.note) if note),
    }


def self_test(processes: Sequence[Sequence[dict[str, Any]]]) -> str:
    """Say in a line what each known loop read, from the least to the most of the processes.

    One that was refused in all of them, as a stream may be where two others hold, says so.
    """
    read: dict[str, list[float]] = {}
    for tests in processes:
        for test in tests:
            some = read.setdefault(test["name"], [])
            some += [] if test["cycles"] is None else [test["cycles"]]
    return ", ".join(f"{name} {_span(cycles)}" for name, cycles in read.items())


def _span(values: Sequence[float]) -> str:
    if not values:
        return "refused"
    low, high = (f"{v:.4f}" for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
