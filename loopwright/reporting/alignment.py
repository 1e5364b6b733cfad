"""Cycles over code offsets: the table behind heat maps, and which boundary hurts, in words."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from loopwright import microarchs
from loopwright.code.instructions import Instruction, decode
from loopwright.predicting.predict import predict
from loopwright.predicting.question import Question

BOUNDARIES = (64, 32, 16)  # bytes: cache line, fetch window or uop-cache set, fetch block
SLOW = 0.02  # relative: above the best offset by more than that is slow
_FITS = 0.9  # of slow and explained offsets, the share that are both

KEY = ["kernel", "variant", "microarch"]


def sweep(
    spec: str | None, microarch: str, *, model: str | None = None, asm: str | None = None
) -> pd.DataFrame:
    """Predict KERNEL[/VARIANT], or the loops of assembly text asm, at every code offset on cores.

    microarch is "ID[,ID]". Returns one row for each variant, core and offset: kernel, variant (a
    loop's label, without a kernel, where it is text), microarch, model, notion, offset_bytes (mod
    64; multiples of 4 on arm64), cycles_per_iteration (a call, where the notion is unrolled),
    slowdown_percent (over the best offset), code (its hex) and error.
    """
    rows = predict(spec, asm=asm, microarch=microarch, model=model, offset="all")
    rows = rows.rename(columns={"offset": "offset_bytes", "cycles": "cycles_per_iteration"})
    if asm is not None:
        rows = rows.rename(columns={"id": "variant"}).assign(kernel="")
    if microarchs.select(microarch)[0].isa == "arm64":
        rows = rows[rows["offset_bytes"] % 4 == 0]
    best = rows.groupby(KEY)["cycles_per_iteration"].transform("min")
    rows["slowdown_percent"] = 100 * (rows["cycles_per_iteration"] / best - 1)
    codes = {
        (core.id, list(one.key.values())[-1]): one.code.hex()
        for core, about in Question(spec, asm=asm, microarch=microarch).select()
        for one in about
    }
    pairs = zip(rows["microarch"], rows["variant"], strict=True)
    rows["code"] = [codes[pair] for pair in pairs]
    kept = [
        "kernel", "variant", "microarch", "model", "notion", "offset_bytes",
        "cycles_per_iteration", "slowdown_percent", "code", "error",
    ]  # fmt: skip
    return rows[kept].reset_index(drop=True)


def boundaries(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each variant and core of a sweep that has figures.

    best_cycles and worst_cycles are per iteration, best_offset_bytes and worst_offset_bytes the
    first offsets that have them, slow_offsets those more than 2 % above the best, as text;
    boundary_bytes is the boundary that explains them (missing where none does, or nothing is
    slow), and words says all of it in a sentence.
    """
    found = []
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
        kernel, variant, core = map(str, key)
        loop = bool(mine["notion"].eq("loop").all())
        code = decode(microarchs.load(core).isa, bytes.fromhex(mine["code"].iloc[0]))
        boundary, why = _explain(slow, offsets, code) if loop else (None, "of a call, not a loop")
        low, high = cycles.min(), cycles.max()
        words = (
            f"{low:.2f} cycles at every offset"
            if not slow
            else f"{high:.2f} against {low:.2f} cycles at offset{'s' if len(slow) > 1 else ''} "
            f"{ranges(slow)}: {why}"
        )
        found.append(
            {
                "kernel": kernel,
                "variant": variant,
                "microarch": core,
                "best_cycles": low,
                "best_offset_bytes": offsets[int(cycles.argmin())],
                "worst_cycles": high,
                "worst_offset_bytes": offsets[int(cycles.argmax())],
                "slow_offsets": ranges(slow),
                "boundary_bytes": boundary,
                "words": words,
            }
        )
    return pd.DataFrame(found, columns=columns).astype({"boundary_bytes": "Int64"})


def ranges(offsets: Sequence[int]) -> str:
    """Return offsets as text: 3-7, 35-39; steps of 4 count as neighbours where all are steps."""
    step = 4 if offsets and all(o % 4 == 0 for o in offsets) and len(offsets) > 1 else 1
    spans: list[list[int]] = []
    for offset in sorted(offsets):
        if spans and offset - spans[-1][1] == step:
            spans[-1][1] = offset
        else:
            spans.append([offset, offset])
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in spans)


def _explain(
    slow: Sequence[int], offsets: Sequence[int], code: Sequence[Instruction]
) -> tuple[int | None, str]:
    """Return the boundary that slow offsets put into the code, and where, in words."""
    if not slow:
        return None, ""
    best: tuple[float, int | None, str] = (0.0, None, "")
    for size in BOUNDARIES:
        for reach, end in _ends(code):
            blocks = {o: (o % size + reach) // size + 1 for o in offsets}
            least = min(blocks.values())
            share = _overlap(slow, (o for o, n in blocks.items() if n > least))
            if share > best[0]:
                what = (
                    f"a {size}-byte boundary lies"
                    if least == 1
                    else (f"{least} boundaries of {size} bytes lie, not {least - 1},")
                )
                best = (share, size, f"where {what} {end}")
    if best[0] >= _FITS:
        return best[1], f"{'mostly ' if best[0] < 1 else ''}{best[2]}"
    for size in reversed(BOUNDARIES):
        residues = {o % size for o in slow}
        if size < 64 and set(slow) == {o for o in offsets if o % size in residues}:
            return size, f"the same in every {size} bytes"
    return None, "no single boundary explains it"


def _ends(code: Sequence[Instruction]) -> Iterator[tuple[int, str]]:
    """Yield how far code may reach before a boundary matters, in bytes, and what that is.

    Fetch sees bytes; uop caches see where instructions start, a fused pair as one.
    """
    yield code[-1].end - 1, f"inside its {code[-1].end} bytes"
    yield code[-1].end, "inside or right behind its branch"
    for ins in reversed(code[-2:]):
        yield ins.address, f"before {ins.mnemonic} starts, {ins.address} bytes in"


def _overlap(one: Iterable[int], other: Iterable[int]) -> float:
    """Return the share of what is in either that is in both."""
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) if a | b else 0.0
