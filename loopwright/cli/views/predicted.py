"""Terminal view of predictions: a line a block; of several models, a column each."""

from collections.abc import Iterator
from typing import Any

from loopwright.cli.views import table
from loopwright.cli.views.table import Figure
from loopwright.rows import Rows

_HIDDEN = ("kernel", "routine")
_OF_A_MODEL = ("model", "cycles", "bottleneck", "error", "startup_cycles", "note")


def show(rows: Rows) -> None:
    """Print predictions; where several models were asked, side by side."""
    models = list(dict.fromkeys(rows.column("model")))
    if len(models) < 2:
        table.show(rows, _HIDDEN)
        return
    shared = [c for c in rows.columns if c not in _OF_A_MODEL]
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    missing: dict[str, list[tuple[str, str, str]]] = {}
    subject = "variant" if "variant" in rows.columns else "id"
    for row in rows.records():
        place = {c: row[c] for c in shared}
        line = lines.setdefault(tuple(place.values()), place | dict.fromkeys(models, Figure("-")))
        if row["cycles"] is None:
            missing.setdefault(row["error"], []).append(
                (row["microarch"], row["model"], row[subject])
            )
        else:
            line[row["model"]] = _cell(row)
    found = Rows.of(lines.values())
    table.draw(found.only(c for c in found.columns if c not in _HIDDEN))
    if any("+" in str(line[m]) for line in lines.values() for m in models):
        print("+N: cycles once, to start a string instruction; +? where that is not known")
    for model, note in dict.fromkeys((r["model"], r["note"]) for r in rows.records() if r["note"]):
        print(f"note: {model}: {note}")
    every = len(set(rows.column(subject)))
    for error, cells in missing.items():
        asked: dict[str, dict[str, None]] = {}
        for core, model, _ in cells:
            asked.setdefault(core, {})[model] = None
        who = (f"{_models(list(mine), models)} on {core}" for core, mine in asked.items())
        what = dict.fromkeys(name for *_, name in cells)
        of = "" if len(what) == every else f" ({', '.join(what)})"
        print(f"- {'; '.join(who)}{of}: {error}")


def calls(rows: Rows) -> None:
    """Print predictions of whole calls, without the columns that say nothing here."""
    known = [c for c in rows.columns if any(not table.blank(v) for v in rows.column(c))]
    table.show(rows.only(known), (*_HIDDEN, "notion"))
    for line in _means(rows.records()):
        print(line)


def _means(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the mean call of a histogram costs, by variant, core and alignments."""
    of_each: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["weight"] is not None:
            key = tuple(
                row[c] for c in ("variant", "microarch", "offset", "dst_align", "src_align")
            )
            of_each.setdefault(key, []).append(row)
    for (variant, core, offset, dst, src), mine in of_each.items():
        where = f"{variant} on {core} at offset {offset}, {dst}:{src}"
        if all(row["cycles"] is not None for row in mine):
            mean = sum(row["weight"] * row["cycles"] for row in mine)
            yield f"mean call of the histogram, {where}: {mean:.1f} cycles{_range(mine)}"
        elif all(row["low"] is not None or row["cycles"] is not None for row in mine):
            yield f"mean call of the histogram, {where}:{_range(mine).removeprefix(',')} cycles"


def _range(rows: list[dict[str, Any]]) -> str:
    """Return what the mean is between by what nobody has measured, or nothing."""
    if all(row["low"] is None for row in rows):
        return ""
    low, high = (
        sum(r["weight"] * (r["cycles"] if r[end] is None else r[end]) for r in rows)
        for end in ("low", "high")
    )
    return f", {low:.1f} to {high:.1f}"


def _models(some: list[str], every: list[str]) -> str:
    return "no model" if some == every else ", ".join(some)


def _cell(row: dict[str, Any]) -> Figure:
    startup = row["startup_cycles"]
    told = "" if startup == 0 else " +?" if startup is None else f" +{startup:.0f}"
    return Figure(f"{row['cycles']:.2f}{told}")
