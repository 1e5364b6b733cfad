"""Put measured variants in relation to one of them: ratios, their intervals, what they mean."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright import kernels
from loopwright.kernels import Variant
from loopwright.measuring import bootstrap
from loopwright.measuring.readings import LEAST

COLUMNS = ["against", "ratio", "ratio_low", "ratio_high", "verdict"]

# Relative: each side is measured against a calibration that is good for LEAST.
FLOOR = 2 * LEAST
# What the exit of a loop costs flips between two values: from placement to placement loops differ
# by this much, whatever the variant.
LOOP_FLOOR = 0.02

FASTER, SLOWER, SAME = "faster", "slower", "no difference"

# Rows that differ in one of these are not compared.
_LIKE = [
    "kernel", "quantity", "dst_align", "src_align", "skew_bytes", "cache", "microarch", "machine"
]  # fmt: skip


def bases(variants: Sequence[Variant], against: str | None = None) -> dict[str, str]:
    """Return for each variant the name of the one to compare it with.

    That is the baseline of its routine, or the variant named by against where it is of the same
    routine; nothing where it is not.
    """
    if against is None:
        return {v.name: kernels.load(v.kernel).routines[v.routine].baseline for v in variants}
    routines = [v.routine for v in variants if v.name == against]
    return {v.name: against if v.routine in routines else "" for v in variants}


def add(rows: pd.DataFrame, against: Mapping[str, str], *, placed: bool) -> pd.DataFrame:
    """Return measured rows with the columns COLUMNS filled in.

    against names for each variant the one to compare with; of others, and of itself, the columns
    stay empty. ratio is the speed by bytes moved (above 1: faster), ratio_low to ratio_high its
    interval at bootstrap.CONFIDENCE, widened by FLOOR. verdict is FASTER, SLOWER, SAME where the
    interval holds 1 (or, of a loop, where the ratio is within LOOP_FLOOR of it), or says why there
    is no ratio. placed: the variants stand at the offsets asked for, and figures of the same one
    are compared.
    """
    given = rows.to_dict("records")
    keys = [_key(row, placed) for row in given]
    found = {(row["variant"], *key): row for row, key in zip(given, keys, strict=True)}
    compared = []
    for row, key in zip(given, keys, strict=True):
        base = found.get((against.get(row["variant"], ""), *key))
        alone = base is None or base is row or row["status"] == "refused"
        compared.append(_NOTHING if alone or base is None else _compare(row, base, key))
    found_columns = pd.DataFrame(compared, columns=COLUMNS, index=rows.index)
    return rows.assign(**{name: found_columns[name] for name in COLUMNS})


_NOTHING: dict[str, Any] = {
    "against": "", "ratio": math.nan, "ratio_low": math.nan, "ratio_high": math.nan, "verdict": ""
}  # fmt: skip


def _key(row: Mapping[Any, Any], placed: bool) -> tuple[object, ...]:
    """Return what two rows must have in common, with None for what neither has."""
    loop = row["quantity"] == "loop"
    of_quantity = None if loop else row["size_bytes"]
    key = (*(row[name] for name in _LIKE), of_quantity, row["offset"] if placed else None)
    return tuple(None if value != value else value for value in key)


def _compare(row: Mapping[Any, Any], base: Mapping[Any, Any], key: object) -> dict[str, Any]:
    answer = {**_NOTHING, "against": base["variant"]}
    if base["status"] == "refused":
        return {**answer, "verdict": f"no ratio: {base['variant']} was refused"}
    if row["clock"] != base["clock"]:
        clocks = f"{base['clock']} and {row['clock']}"
        return {**answer, "verdict": f"no ratio: the clocks differ, {clocks}"}
    if min(row["cycles"], base["cycles"]) <= 0:
        return {**answer, "verdict": "no ratio: a slope that is not above 0"}
    loop = row["quantity"] == "loop"
    scale = row["size_bytes"] / base["size_bytes"] if loop else 1.0
    ratio = scale * base["cycles"] / row["cycles"]
    each = (bootstrap.draws(r["raw"], r["variant"], key) for r in (base, row))
    low, high = bootstrap.interval(scale * next(each) / next(each))
    low, high = min(low, ratio) * (1 - FLOOR), max(high, ratio) * (1 + FLOOR)
    least = LOOP_FLOOR if loop else 0.0
    faster, slower = low > 1 and ratio > 1 + least, high < 1 and ratio < 1 - least
    verdict = FASTER if faster else SLOWER if slower else SAME
    return {**answer, "ratio": ratio, "ratio_low": low, "ratio_high": high, "verdict": verdict}
