"""Evidence as a patch is written from it, and what its message then says."""

import pandas as pd

from loopwright import kernels
from loopwright.judging import call_costs
from loopwright.linux import message
from loopwright.linux.message import Evidence

KERNEL = "x86_64/copy_user"
NAMES = {"copy_user": "rep_movs_alternative"}


def variant(name: str = "loop32") -> kernels.Variant:
    return kernels.load(KERNEL).variants[name]


BYTES = {"movsq_aligned": 64, "loop32": 32}


def compared(*rows: tuple[str, str, str, float | None, str]) -> pd.DataFrame:
    """Rows of compare: variant, core, source, cycles an iteration, and why they do not count."""
    columns = ["variant", "microarch", "source", "cycles", "excluded"]
    table = pd.DataFrame(rows, columns=columns).astype({"cycles": "float64"})
    moved = table["variant"].map(BYTES)
    return table.assign(
        kernel=KERNEL,
        cycles_per_unit=64 * table["cycles"] / moved,
        uncertainty=0.012,
        startup_cycles=0.0,
        machine="Some CPU (guest)",
        clock="tsc-calibrated",
        note="",
    )


def measured(name: str, rows: list[tuple[int, int, float]], note: str = "") -> pd.DataFrame:
    """Measured calls: size, alignment of the destination, cycles."""
    table = pd.DataFrame(rows, columns=["size_bytes", "dst_align", "cycles"])
    return table.assign(
        kernel=KERNEL,
        variant=name,
        quantity="call",
        unit="cycles/call",
        src_align=0,
        skew_bytes=2048,
        cache="hot",
        uncertainty=0.012,
        clock="tsc-calibrated",
        status="ok",
        reason="",
        machine="Some CPU (guest)",
        microarch="zen4",
        note=note,
    )


PLACES = [(size, dst) for size in call_costs.SIZES for dst, _ in call_costs.ALIGNMENTS]


def everywhere(name: str, cycles: float, **more: str) -> pd.DataFrame:
    return measured(name, [(size, dst, cycles) for size, dst in PLACES], **more)


def checks(passed: bool = True, over: tuple[int, int] = (0, 0), unhit: str = "") -> pd.DataFrame:
    columns = ["variant", "over_report_bytes"]
    pairs = list(zip(("movsq_aligned", "loop32"), over, strict=True))
    rows = pd.DataFrame(pairs, columns=columns)
    hit = 8 - len(unhit.split())
    return rows.assign(
        kernel=KERNEL, passed=passed, cases=1234, failure="rbx", entries=8, entries_hit=hit,
        unhit=unhit,
    )  # fmt: skip


def written(evidence: Evidence, name: str = "loop32") -> str:
    return message.Writer(variant(name), NAMES, evidence).body([])


def table_of(body: str) -> list[list[str]]:
    return [line.split() for line in body.splitlines() if line.startswith("  ")]
