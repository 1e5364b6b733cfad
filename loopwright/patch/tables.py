"""The tables of a patch's message, at most 75 columns wide."""

import json
from typing import Any

import pandas as pd

_WHERE = ["core", "model", "notion"]
_MOST_ROWS = 12


def predictions(base: pd.DataFrame, ours: pd.DataFrame) -> str:
    """Return one line for each core, model and notion that has a figure; "" where none has."""
    figures = [_figures(rows) for rows in (base, ours)]
    keys = list(dict.fromkeys([*figures[1], *figures[0]]))
    if not keys:
        return ""
    lines = [[*key, *(figure.get(key, "-") for figure in figures)] for key in keys]
    return _aligned([*_WHERE, "baseline", "patched"], lines, left=3)


def _figures(rows: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    if rows.empty:
        return {}
    known = rows[rows["cycles"].notna()].rename(columns={"microarch": "core"})
    out = {}
    for key, group in known.groupby(_WHERE, sort=False):
        low, high = group["cycles"].min(), group["cycles"].max()
        moved = group["bytes_per_iteration"].iloc[0]
        cycles = _span([_short(low), _short(high)])
        rate = f" ({moved / high:.1f})" if pd.notna(moved) and moved and high else ""
        core, model, notion = map(str, key)
        out[core, model, notion] = cycles + rate
    return out


def _short(cycles: float) -> str:
    return f"{cycles:.2f}" if cycles < 100 else f"{cycles:.0f}"


def unpredicted(base: pd.DataFrame, ours: pd.DataFrame) -> list[str]:
    """Return a sentence for each reason why models have no figure, with those models and cores."""
    if base.empty and ours.empty:
        return []
    rows = pd.concat([frame for frame in (base, ours) if not frame.empty])
    missing = rows[rows["cycles"].isna() & rows["error"].astype(bool)]
    out = []
    for reason, group in missing.groupby("error", sort=False):
        who = ", ".join(dict.fromkeys(group["model"]))
        which = " and ".join(dict.fromkeys(group["variant"]))
        cores = ", ".join(dict.fromkeys(group["microarch"]))
        out.append(f"No figure from {who} for {which} on {cores}: {reason}.")
    return out


def measurements(base: pd.DataFrame, ours: pd.DataFrame) -> list[str]:
    """Return for each quantity a heading and a table; empty where nothing was measured."""
    if base.empty or ours.empty:
        return []
    out = []
    for (quantity, machine, clock), group in _good(ours).groupby(
        ["quantity", "machine", "clock"], sort=False, dropna=False
    ):
        rows = _pairs(_good(base), group, str(quantity))
        if not rows:
            continue
        core = str(group["microarch"].iloc[0] or "a core of no model")
        unit = str(group["unit"].iloc[0])
        out.append(
            f"Measured on {_machine(machine)} ({core}), clock {_machine(clock)}: {quantity}, "
            f"{unit}, least and greatest change over the destination alignments tried:"
        )
        header = ["bytes", "baseline", "patched", "change"]
        out.append(_aligned(header if quantity == "call" else ["", *header[1:]], rows, left=0))
    refused = ours[ours["status"] == "refused"]
    if not refused.empty:
        out.append(
            f"{len(refused)} measurements of the patched code were refused as too noisy to trust."
        )
    return out


def _good(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["cycles"].notna() & (rows["status"] != "refused")]


def _pairs(base: pd.DataFrame, ours: pd.DataFrame, quantity: str) -> list[list[str]]:
    """Return a row for each size: baseline, patched and change, worst and best alignment."""
    base = base[base["quantity"] == quantity]
    sizes = list(dict.fromkeys(ours["size_bytes"].fillna(-1)))
    step = max(1, -(-len(sizes) // _MOST_ROWS))
    out = []
    for size in sizes[::step]:
        theirs = _of_size(base, size).set_index("dst_align", drop=False)
        mine = _of_size(ours, size).set_index("dst_align", drop=False)
        common = [a for a in mine.index.unique() if a in theirs.index]
        if not common:
            continue
        changes = [100 * (_cycles(mine, align) / _cycles(theirs, align) - 1) for align in common]
        change = _span([f"{c:+.1f}" for c in (min(changes), max(changes))]) + " %"
        label = f"{size:.0f}" if size >= 0 else ""
        out.append([label, _range(theirs.loc[common]), _range(mine.loc[common]), change])
    return out


def _of_size(rows: pd.DataFrame, size: float) -> pd.DataFrame:
    return rows[rows["size_bytes"].fillna(-1) == size].fillna({"dst_align": -1})


def _cycles(rows: pd.DataFrame, align: Any) -> float:
    return float(rows.loc[[align], "cycles"].mean())


def _range(rows: pd.DataFrame) -> str:
    cycles, error = rows["cycles"], float(rows["uncertainty"].max())
    return f"{_span([f'{c:.1f}' for c in (cycles.min(), cycles.max())])} +- {error:.1f}"


def _span(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def _machine(value: object) -> str:
    """Return what names a machine or a clock: a text, or the name in a JSON record."""
    text = str(value)
    if not text.startswith("{"):
        return text
    record = json.loads(text)
    return str(record.get("cpu") or record.get("model") or record.get("name") or "this machine")


def _aligned(header: list[str], rows: list[list[str]], left: int) -> str:
    """Return rows as text, two blanks in front; the first `left` columns are flush left."""
    table = [header, *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(header))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(widths[n]) if n < left else cell.rjust(widths[n])
            for n, cell in enumerate(row)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
