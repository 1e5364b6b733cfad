"""Curves: cycles of loops over code offsets, and of calls over sizes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from loopwright import microarchs
from loopwright.code import loops
from loopwright.code.instructions import Instruction, decode
from loopwright.histogram import Histogram
from loopwright.judging.call_costs import curve
from loopwright.judging.study import MEASURED
from loopwright.predicting import models
from loopwright.predicting.model import Answer
from loopwright.predicting.predict import predict
from loopwright.predicting.question import OFFSETS, Question

BOUNDARIES = (64, 32, 16)  # bytes: cache line, fetch window or op-cache set, fetch block
SLOW = 0.02  # relative excess over the best offset from which an offset is slow
_FITS = 0.9  # least overlap of slow offsets with those that a boundary explains

KEY = ["kernel", "variant", "microarch"]


def sweep(spec: str | None, microarch: str, *, asm: str | None = None) -> pd.DataFrame:
    """Simulate KERNEL[/VARIANT], or the loops of assembly text asm, at every code offset on cores.

    microarch is "ID[,ID]". Returns one row for each variant, core and offset: kernel, variant (a
    loop's label, without a kernel, where it is text), microarch, model, notion, offset_bytes (mod
    64; multiples of 4 on arm64), cycles_per_iteration (a call, where the notion is unrolled),
    slowdown_percent (over the best offset), code (its hex) and error.
    """
    records = []
    for core, subjects in Question(spec, asm=asm, microarch=microarch).select():
        step = 4 if core.isa == "arm64" else 1
        pairs = [(subject, offset) for subject in subjects for offset in OFFSETS[::step]]
        blocks = [subject.block(offset) for subject, offset in pairs if not subject.error]
        answers = iter(models.simulated(blocks, core))
        for subject, offset in pairs:
            answer = Answer.none(subject.error) if subject.error else next(answers)
            records.append(
                {
                    "kernel": subject.key.get("kernel", ""),
                    "variant": list(subject.key.values())[-1],
                    "microarch": core.id,
                    "model": models.SIMULATOR,
                    "notion": subject.notion,
                    "offset_bytes": offset,
                    "cycles_per_iteration": answer.cycles,
                    "code": subject.code.hex(),
                    "error": answer.error,
                }
            )
    rows = pd.DataFrame(records).astype({"cycles_per_iteration": "float64"})
    best = rows.groupby(KEY)["cycles_per_iteration"].transform("min")
    rows.insert(7, "slowdown_percent", 100 * (rows["cycles_per_iteration"] / best - 1))
    return rows


def boundaries(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each variant and core of a sweep that has figures.

    best_cycles and worst_cycles are per iteration, best_offset_bytes and worst_offset_bytes the
    first offsets that have them, slow_offsets those more than 2 % above the best, as text;
    boundary_bytes is the boundary that explains them (missing where none does, or nothing is slow),
    and words has all of it in a sentence.
    """
    out = []
    columns = [
        *KEY, "best_cycles", "best_offset_bytes", "worst_cycles", "worst_offset_bytes",
        "slow_offsets", "boundary_bytes", "words",
    ]  # fmt: skip
    if rows.empty:
        return pd.DataFrame(columns=columns)
    for key, mine in rows.dropna(subset="cycles_per_iteration").groupby(KEY, sort=False):
        cycles, offsets = mine["cycles_per_iteration"], mine["offset_bytes"].to_list()
        limit = cycles.min() * (1 + SLOW)
        slow = [o for o, value in zip(offsets, cycles, strict=True) if value > limit]
        core = str(key[-1])
        loop = bool(mine["notion"].eq("loop").all())
        code = decode(microarchs.load(core).isa, bytes.fromhex(mine["code"].iloc[0]))
        boundary, why = _explain(slow, offsets, code) if loop else (None, "of a call, not a loop")
        low, high = cycles.min(), cycles.max()
        ranges, plural = loops.offset_ranges(slow), "s" if len(slow) > 1 else ""
        words = f"{high:.2f} against {low:.2f} cycles at offset{plural} {ranges}: {why}"
        words = words if slow else f"{low:.2f} cycles at every offset"
        first, last = offsets[int(cycles.argmin())], offsets[int(cycles.argmax())]
        out.append([*key, low, first, high, last, ranges, boundary, words])
    return pd.DataFrame(out, columns=columns).astype({"boundary_bytes": "Int64"})


def _explain(
    slow: Sequence[int], offsets: Sequence[int], code: Sequence[Instruction]
) -> tuple[int | None, str]:
    """Return the boundary whose position in the code explains the slow offsets, in words."""
    if not slow:
        return None, ""
    best: tuple[float, int | None, str] = (0.0, None, "")
    for size in BOUNDARIES:
        for reach, end in _ends(code):
            blocks = {o: (o % size + reach) // size + 1 for o in offsets}
            least = min(blocks.values())
            share = _overlap(slow, (o for o, n in blocks.items() if n > least))
            if share > best[0]:
                several = f"{least} boundaries of {size} bytes lie, not {least - 1},"
                boundary = f"a {size}-byte boundary lies" if least == 1 else several
                best = (share, size, f"where {boundary} {end}")
    if best[0] >= _FITS:
        return best[1], f"{'mostly ' if best[0] < 1 else ''}{best[2]}"
    for size in reversed(BOUNDARIES):
        residues = {o % size for o in slow}
        if size < 64 and set(slow) == {o for o in offsets if o % size in residues}:
            return size, f"the same in every {size} bytes"
    return None, "no single boundary explains it"


def _ends(code: Sequence[Instruction]) -> Iterator[tuple[int, str]]:
    """Yield positions in the code, in bytes, that a boundary may have to lie before, in words too.

    Fetch works on bytes; op caches on the addresses of instructions, a fused pair as one.
    """
    yield code[-1].end - 1, f"inside its {code[-1].end} bytes"
    yield code[-1].end, "inside or right behind its branch"
    for ins in reversed(code[-2:]):
        yield ins.address, f"before {ins.mnemonic} starts, {ins.address} bytes in"


def _overlap(first: Iterable[int], second: Iterable[int]) -> float:
    """Return the Jaccard index of two sets: the share of their union that is in both."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a | b else 0.0


SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)

COLUMNS = [
    "variant", "microarch", "source", "size_bytes", "cost_cycles", "uncertainty_cycles",
    "low_cycles", "high_cycles", "clock", "machine", "note",
]  # fmt: skip
_PREDICTED = {
    "cycles": "cost_cycles", "model": "source", "cheap": "low_cycles", "dear": "high_cycles"
}  # fmt: skip
_MEANS = {
    "cost_cycles": "mean_cost_cycles", "low_cycles": "low_cycles", "high_cycles": "high_cycles"
}  # fmt: skip


def measured(
    measurements: pd.DataFrame, *, dst_align: int = 0, src_align: int = 0, cache: str = "hot"
) -> pd.DataFrame:
    """Return measured costs of a call, at one pair of alignments (bytes from a page's start).

    cache is "hot" or "cold"; measurements is what measure returns. One row a variant and size:
    size_bytes, cost_cycles a call, uncertainty_cycles, and the origin: source, microarch, clock,
    machine; note names the part that a measurement left out. low_cycles and high_cycles are of
    predictions that depend on unmeasured parameters.
    """
    if measurements.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = measurements[
        (measurements["quantity"] == "call")
        & (measurements["dst_align"] == dst_align)
        & (measurements["src_align"] == src_align)
        & (measurements["cache"] == cache)
        & (measurements["status"] != "refused")
    ]
    rows = rows.rename(columns={"cycles": "cost_cycles", "uncertainty": "uncertainty_cycles"})
    rows = rows.assign(source=MEASURED, microarch=rows["microarch"].replace("", "this host"))
    table = rows.reindex(columns=COLUMNS)
    return table.sort_values(["variant", "size_bytes"], kind="stable", key=_as_they_come)


def predicted(
    spec: str,
    microarch: str,
    sizes: Sequence[int] = SIZES,
    *,
    dst_align: int = 0,
    src_align: int = 0,
) -> pd.DataFrame:
    """Return the predicted cost of whole calls on cores, in the columns of measured.

    microarch is "ID[,ID]". Calls without a prediction are left out; `loopwright predict --sizes`
    has the reasons.
    """
    rows = predict(spec, microarch=microarch, sizes=sizes, align=[(dst_align, src_align)])
    return of_calls(rows)


def of_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of predict for whole calls in the columns of measured.

    low_cycles to high_cycles is the range of the cost over the core's unmeasured parameters; both
    are missing where it does not depend on them. Where the simulator has no figure for such a
    parameter there is only a range, and note has the reason. Rows without either are left out.
    """
    answered = rows[rows["cycles"].notna() | rows["cheap"].notna()].rename(columns=_PREDICTED)
    why = answered["note"].where(answered["cost_cycles"].notna(), answered["error"])
    answered = answered.assign(uncertainty_cycles=np.nan, clock="", machine="", note=why)
    return answered[COLUMNS]


def crossovers(costs: pd.DataFrame) -> pd.DataFrame:
    """Return the cheapest variant by size: one row for each range of sizes.

    costs is what measured or called returns, of one routine, core and source. from_bytes and
    to_bytes bound the range at the crossover points, interpolated linearly between known sizes.
    cheapest is the variant, or those that may be it: within their uncertainty, or within the range
    of unmeasured parameters. Sizes at which a variant has no cost are ranges of their own without a
    cheapest; lacking names the variant.
    """
    columns = ["from_bytes", "to_bytes", "cheapest", "lacking"]
    ranges = with_ranges(costs)
    if ranges.empty:
        return pd.DataFrame(columns=columns)
    lowest, grid, highest = (
        ranges.pivot_table(index="size_bytes", columns="variant", values=column).sort_index()
        for column in ("low_cycles", "cost_cycles", "high_cycles")
    )
    may_be = lowest.le(highest.min(axis=1), axis=0)
    # Noise differs from size to size: a variant that may be the cheapest at all of them is. An
    # unmeasured parameter has one value at all sizes: where it decides, there is a stretch.
    has_ranges = costs.reindex(columns=COLUMNS)["low_cycles"].notna().any()
    stretches: list[_Stretch] = []
    for (label, row), (_, may_be_cheapest) in zip(grid.iterrows(), may_be.iterrows(), strict=True):
        size = float(str(label))
        lacking = [str(name) for name in row.index[row.isna()]]
        last = stretches[-1] if stretches else None
        names: list[str] = []
        if not lacking:
            names = [str(name) for name in row.index[may_be_cheapest.astype(bool)]]
        kept = [name for name in last.names if name in names] if last else []
        if last and has_ranges and last.names != names:
            kept = []
        if last and last.lacking == lacking and (kept or lacking):
            stretches[-1] = _Stretch(last.low, size, kept, lacking)
        else:
            stretches.append(_Stretch(size, size, names, lacking))
    rows = []
    low = stretches[0].low
    for stretch, following in zip(stretches, [*stretches[1:], None], strict=True):
        high = stretch.high
        if following and stretch.names and following.names:
            high = _crossing(grid[stretch.names[0]] - grid[following.names[0]], high, following.low)
        rows.append([low, high, " = ".join(stretch.names), ", ".join(stretch.lacking)])
        meet = following is not None and stretch.names and following.names
        low = high if meet else following.low if following else high
    return pd.DataFrame(rows, columns=columns)


def with_ranges(costs: pd.DataFrame) -> pd.DataFrame:
    """Return costs with the range of each as low_cycles and high_cycles, in every row.

    The range is that of the uncertainty of a measurement or of a core's unmeasured parameters, else
    the cost itself. Where only a range is known, the cost is its geometric mean.
    """
    out = costs.reindex(columns=COLUMNS)
    low, high = (out[end].astype(float) for end in ("low_cycles", "high_cycles"))
    cost = out["cost_cycles"].astype(float).fillna((low * high) ** 0.5)
    spread = out["uncertainty_cycles"].fillna(0.0)
    low, high = low.fillna(cost - spread), high.fillna(cost + spread)
    return out.assign(cost_cycles=cost, low_cycles=low, high_cycles=high)


@dataclass(frozen=True)
class _Stretch:
    """Sizes from low to high over which the same variants are cheapest, or the same are lacking."""

    low: float
    high: float
    names: list[str]
    lacking: list[str]


def _crossing(gap: pd.Series, low: float, high: float) -> float:
    """Return the zero of a difference of costs that is known at two sizes, else the larger one."""
    before, after = float(gap[low]), float(gap[high])
    if before * after >= 0:
        return high
    return low - before * (high - low) / (after - before)


def weighted(costs: pd.DataFrame, histogram: Histogram) -> pd.DataFrame:
    """Return the mean cost of a call under a histogram of sizes, by variant, cheapest first.

    Columns: variant, mean_cost_cycles, low_cycles and high_cycles (its range, as in between),
    sizes_known_percent (the share of calls within the sizes of costs; beyond them the cost is
    extrapolated from the last two), lacking: the sizes that other variants have a cost for and this
    one has not, so that it has no mean.
    """
    sizes = costs["size_bytes"]
    covered = sum(
        b.count
        for b in histogram.buckets
        if b.high is not None and b.low >= sizes.min() and b.high <= sizes.max() + 1
    )
    rows = []
    for name, mine in with_ranges(costs).groupby("variant", sort=False):
        lacking = sorted({*sizes} - {*mine["size_bytes"]})
        means = {
            mean: np.nan if lacking else histogram.mean(curve(mine.assign(cycles=mine[column])))
            for column, mean in _MEANS.items()
        }
        if costs.loc[mine.index, "cost_cycles"].isna().any():  # only a range is known
            means["mean_cost_cycles"] = np.nan
        share = 100 * covered / histogram.total
        rows.append([name, *means.values(), share, ", ".join(f"{size:.0f} B" for size in lacking)])
    columns = ["variant", *_MEANS.values(), "sizes_known_percent", "lacking"]
    return pd.DataFrame(rows, columns=columns).sort_values("mean_cost_cycles", ignore_index=True)


def _as_they_come(column: pd.Series) -> pd.Series:
    """Return a sort key that keeps variants in the order in which they appear."""
    if column.name != "variant":
        return column
    return column.map({name: n for n, name in enumerate(column.unique())})
