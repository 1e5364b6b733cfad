"""The tables of a patch's message, at most 75 columns wide."""

import math

import pandas as pd

_WHERE = ["core", "model", "notion"]
_ORIGIN = ["machine", "microarch", "clock", "quantity"]  # figures of others never meet
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


def measurements(base: pd.DataFrame, ours: pd.DataFrame, name: str) -> list[str]:
    """Return headings and tables of what was measured of a function; empty where nothing was."""
    if base.empty or ours.empty:
        return []
    good = [rows[rows["cycles"].notna() & (rows["status"] != "refused")] for rows in (base, ours)]
    out = []
    theirs_by, mine_by = (dict(iter(rows.groupby(_ORIGIN, sort=False))) for rows in good)
    for key in (key for key in mine_by if key in theirs_by):
        theirs, mine = theirs_by[key], mine_by[key]
        machine, core, clock, quantity = key
        where = f"Measured on {machine} ({core or 'no core known'}), clock {clock}"
        if quantity == "loop":
            head = f"{where}: the main loop of {name}, in brackets bytes per cycle:"
            out += [head, _loops(theirs, mine)]
        else:
            head = f"{where}: {mine['unit'].iloc[0]} of {name}, over the alignments tried:"
            out += [head, _calls(theirs, mine)]
    if len(good[1]) < len(ours):
        out.append(
            f"{len(ours) - len(good[1])} of {len(ours)} measurements of the patched code were "
            "refused: too noisy to trust."
        )
    return out


def _loops(theirs: pd.DataFrame, mine: pd.DataFrame) -> str:
    rows = []
    for who, found in (("baseline", theirs), ("patched", mine)):
        row = found.iloc[0]
        rate = row["size_bytes"] / row["cycles"]
        cycles = f"{row['cycles']:.2f} +- {_up(row['uncertainty'])} ({rate:.1f})"
        rows.append([who, cycles, row["unit"]])
    return _aligned(["", "measured", "unit"], rows, left=1)


def _calls(theirs: pd.DataFrame, mine: pd.DataFrame) -> str:
    """Return a table by size: least and most cycles, and least and most change by alignment."""
    sizes = [s for s in dict.fromkeys(mine["size_bytes"]) if s in set(theirs["size_bytes"])]
    rows = []
    for size in sizes[:: max(1, -(-len(sizes) // _MOST_ROWS))]:
        where = ["dst_align", "src_align"] if "src_align" in mine else ["dst_align"]
        was, now = (f[f["size_bytes"] == size].set_index(where) for f in (theirs, mine))
        both = now.index.intersection(was.index).unique()
        if both.empty:
            continue
        was, now = was.loc[both], now.loc[both]
        change = 100 * (now["cycles"].astype(float) / was["cycles"].astype(float) - 1)
        span = _span([f"{c:+.1f}" for c in (change.min(), change.max())])
        rows.append([f"{size:.0f}", _cycles(was), _cycles(now), f"{span} %"])
    return _aligned(["bytes", "baseline", "patched", "change"], rows, left=0)


def _cycles(rows: pd.DataFrame) -> str:
    low, high = rows["cycles"].min(), rows["cycles"].max()
    return f"{_span([f'{c:.1f}' for c in (low, high)])} +- {_up(rows['uncertainty'].max())}"


def _up(uncertainty: float) -> str:
    """Return an uncertainty with two decimals, rounded up: never smaller than it is."""
    return f"{math.ceil(100 * uncertainty) / 100:.2f}"


def _span(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


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
