"""The tables of a patch's message, at most 75 columns wide."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright.judging import call_costs
from loopwright.judging.call_costs import Place, Row, signed_percent
from loopwright.judging.study import HERE, MEASURED

_WHERE = ["microarch", "source"]
_MEASURED_BY = ["microarch", "machine", "clock"]  # figures of others never meet
Figures = Mapping[tuple[str, ...], Mapping[Any, Any]]


def predictions(
    base: pd.DataFrame, ours: pd.DataFrame, off_by: Mapping[tuple[str, str], float]
) -> str:
    """Return a line for each core and model with a figure that counts of both, "" where none has.

    base and ours are rows of compare; off_by is that of evidence.Judged.
    """
    was, now = (_by(_predicted(rows), _WHERE) for rows in (base, ours))
    lines = [
        [*key, _error(off_by.get((key[0], key[1]))), *_both(was[key], now[key])]
        for key in now
        if key in was
    ]
    heads = ["core", "model", "off by", "now", "patched", "change"]
    return aligned(heads, lines, left=2) if lines else ""


def _predicted(rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:
        return rows
    return rows[(rows["source"] != MEASURED) & rows["cycles"].notna() & rows["excluded"].eq("")]


def unpredicted(base: pd.DataFrame, ours: pd.DataFrame) -> dict[str, list[str]]:
    """Return the cores, by model, on which a model has no figure that counts of both."""
    if base.empty or ours.empty:
        return {}
    asked = [tuple(map(str, pair)) for pair in ours[_WHERE].drop_duplicates().to_numpy()]
    was, now = (_by(_predicted(rows), _WHERE) for rows in (base, ours))
    out: dict[str, list[str]] = {}
    for key in asked:
        if key[1] != MEASURED and not (key in was and key in now):
            out.setdefault(key[1], []).append(key[0])
    return out


def _error(percent: float | None) -> str:
    return "?" if percent is None else f"{percent:.0f} %"


def loops(base: pd.DataFrame, ours: pd.DataFrame) -> list[tuple[str, str]]:
    """Return for each machine that measured both loops where that was, and the table."""
    was, now = (_by(_measured(rows), _MEASURED_BY) for rows in (base, ours))
    heads = ["now", "patched", "change"]
    return [
        (_place(key), aligned(heads, [_both(was[key], now[key], doubt=True)], left=0))
        for key in now
        if key in was
    ]


def _measured(rows: pd.DataFrame) -> pd.DataFrame:
    return rows if rows.empty else rows[(rows["source"] == MEASURED) & rows["cycles"].notna()]


def _place(key: tuple[str, ...]) -> str:
    core, machine, clock = key
    return f"{machine} ({'no core known' if core in ('', HERE) else core}), clock {clock}"


def _by(rows: pd.DataFrame, columns: list[str]) -> Figures:
    if rows.empty:
        return {}
    return {tuple(str(row[c]) for c in columns): row for row in rows.to_dict("records")}


def _both(was: Row, now: Row, *, doubt: bool = False) -> list[str]:
    """Return the cycles of both, and the change of the time that they take."""
    cells = []
    for row in (was, now):
        cycles = row["cycles_per_unit"]
        error = f" +- {_up(row['uncertainty'] * cycles / row['cycles'])}" if doubt else ""
        shown = f"{cycles:.2f}" if cycles < 100 else f"{cycles:.0f}"
        cells.append(shown + ("" if doubt else _startup(row)) + error)
    return [*cells, signed_percent(100 * (now["cycles_per_unit"] / was["cycles_per_unit"] - 1))]


def _startup(row: Row) -> str:
    """Return what comes once before a string instruction's first, in cycles; ? where not known."""
    startup = row["startup_cycles"]
    return "" if startup == 0 else " +?" if pd.isna(startup) else f" +{startup:.0f}"


def calls(base: pd.DataFrame, ours: pd.DataFrame, asked: Sequence[Place]) -> list[tuple[str, str]]:
    """Return for each machine that measured calls of both where that was, and a table by size.

    It has least and most cycles over the places of each size, and least and most change at one of
    them. asked are the places that a judgement rests on: sizes of which one is missing, of either,
    have a dash, since what is left would not be of the same calls.
    """
    if base.empty or ours.empty:
        return []
    out = []
    of_base = dict(iter(base.groupby(_MEASURED_BY, sort=False, dropna=False)))
    for key, mine in ours.groupby(_MEASURED_BY, sort=False, dropna=False):
        theirs = of_base.get(key)
        if theirs is None:
            continue
        names = (theirs["variant"].iloc[0], mine["variant"].iloc[0])
        known = [
            call_costs.measured_calls(rows, str(n))
            for rows, n in zip((theirs, mine), names, strict=True)
        ]
        pairs = call_costs.paired_calls(*known)
        if not pairs:
            continue
        sizes = sorted({place.size for place in (*asked, *pairs)})
        lines = [_size(size, asked, pairs) for size in sizes]
        where = _place(tuple(str(part) for part in key))
        out.append((where, aligned(["bytes", "now", "patched", "change"], lines, left=0)))
    return out


def _size(size: int, asked: Sequence[Place], pairs: Mapping[Place, tuple[Row, Row]]) -> list[str]:
    wanted = [p for p in asked if p.size == size] or [p for p in pairs if p.size == size]
    if not all(place in pairs for place in wanted):
        return [str(size), "-", "-", "-"]
    both = [pairs[place] for place in wanted]
    changes = [100 * (now["cycles"] / was["cycles"] - 1) for was, now in both]
    sides = [_cycles([pair[n] for pair in both]) for n in (0, 1)]
    span = _span([signed_percent(c).removesuffix(" %") for c in (min(changes), max(changes))])
    return [str(size), *sides, f"{span} %"]


def _cycles(rows: Sequence[Row]) -> str:
    cycles = [row["cycles"] for row in rows]
    doubt = max(row["uncertainty"] for row in rows)
    return f"{_span([f'{c:.1f}' for c in (min(cycles), max(cycles))])} +- {_up(doubt)}"


def _up(uncertainty: float) -> str:
    """Return an uncertainty with two decimals, rounded up: never smaller than it is."""
    return f"{math.ceil(100 * uncertainty) / 100:.2f}"


def _span(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
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
