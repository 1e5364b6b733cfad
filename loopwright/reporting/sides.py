"""Comparisons for people: a table for each core, variants down, sources across."""

import pandas as pd

from loopwright.judging.model_accuracy import LEAST_PAIRS, Accuracy
from loopwright.judging.study import MEASURED
from loopwright.machine import hosts
from loopwright.measuring.readings import SAME
from loopwright.predicting.models import MODELS
from loopwright.reporting.layout import fits, table, wrapped

_HEADS = {m.id: m.short for m in MODELS}


def by_core(rows: pd.DataFrame) -> str:
    """Return as text what loopwright.compare returns."""
    cores = rows["microarch"].unique()
    tables = [
        _core(hosts.marked(str(core)), mine)
        for core in cores
        for mine in [rows[rows["microarch"] == core]]
    ]
    return "\n".join([*tables, *_main_loops(rows)])


def _main_loops(rows: pd.DataFrame) -> list[str]:
    """Say which loop is meant, of the variants that have several or whose choice needs a word."""
    said = rows.drop_duplicates("variant").set_index("variant")["main_loop"]
    several = said[said.str.contains(" loops: |DCZID", regex=True)]
    lines = [line for name, loop in several.items() for line in wrapped(f"- {name}: {loop}", "  ")]
    return [*wrapped("Main loop, of several in the code:"), *lines, ""] if lines else []


def _core(core: str, rows: pd.DataFrame) -> str:
    sources = [*(m.id for m in MODELS), MEASURED]
    present = [s for s in sources if rows.loc[rows["source"] == s, "cycles"].notna().any()]
    if not present:
        units = " or ".join(unit for unit in rows["unit"].dropna().unique() if unit) or "the loop"
        said = f"{core}: no model has cycles for {units} from parameters that are known."
        return "\n".join([*wrapped(said), *_errors(rows), ""])
    answered = rows[rows["cycles"].notna()]
    parts = [
        line for unit in answered["unit"].unique()
        for line in _unit(core, str(unit), rows[rows["unit"] == unit], present)
    ]  # fmt: skip
    drawn = "\n".join(parts)
    low = ["  +N: cycles to start a string instruction, ? not known"] if " +" in drawn else []
    low += ["  ! below what the core's loads and stores take: not used"] if "!" in drawn else []
    notes = [n for n in rows.loc[rows["cycles"].notna(), "note"].unique() if n]
    low += [line for note in notes for line in wrapped(f"* measured {note}: not used", "  ")]
    return "\n".join(
        [
            drawn,
            *low,
            *_caveats(rows),
            *_origin(rows),
            *_accuracy(rows, present),
            *_alike(rows),
            *_errors(rows),
            "",
        ]
    )


def _caveats(rows: pd.DataFrame) -> list[str]:
    """Return what models leave out of their figures: each once, with the variants it is of."""
    told = rows[rows["cycles"].notna() & rows["caveat"].fillna("").ne("")]
    out: list[str] = []
    for (source, caveat), mine in told.groupby(["source", "caveat"], sort=False):
        out += wrapped(f"{source}, {', '.join(mine['variant'].unique())}: {caveat}", "  ")
    return out


def _unit(core: str, unit: str, rows: pd.DataFrame, present: list[str]) -> list[str]:
    """Return the lines of the variants that are compared by one unit.

    Errors stand behind each figure where there is room for them.
    """
    heads = ["variant", "B/iter", *(_HEADS.get(s, s) for s in present)]
    body = _body(rows, present, errors=True)
    if not fits(heads, body):
        body = _body(rows, present, errors=False)
    return [*wrapped(f"{core}: cycles for {unit}"), table(heads, body)]


def _body(rows: pd.DataFrame, present: list[str], *, errors: bool) -> list[list[str]]:
    body = []
    for variant in rows["variant"].unique():
        mine = rows[rows["variant"] == variant].set_index("source")
        moved = mine["bytes_per_iteration"].dropna()
        first = [str(variant), f"{moved.iloc[-1]:.0f}" if len(moved) else ""]
        body.append([*first, *(_cell(mine, source, errors=errors) for source in present)])
    return body


def _origin(rows: pd.DataFrame) -> list[str]:
    """Return where the measured column comes from: machine and clock."""
    mine = rows[(rows["source"] == MEASURED) & rows["cycles"].notna()]
    pairs = mine[["machine", "clock"]].drop_duplicates().itertuples(index=False)
    return [line for m, c in pairs for line in wrapped(f"measured: {m}, clock {c}", "  ")]


def _accuracy(rows: pd.DataFrame, sources: list[str]) -> list[str]:
    """Return how far each model is from what was measured whole, where enough loops are known."""
    whole = (rows["source"] == MEASURED) & rows["note"].eq("")
    real = rows[whole].set_index("variant")["cycles"]
    out: list[str] = []
    for source in (s for s in sources if s != MEASURED):
        said = rows[rows["source"] == source].set_index("variant")["cycles"]
        found = Accuracy.of(said, real.reindex(said.index))
        if found.count >= LEAST_PAIRS:
            tau = f", Kendall's tau {found.tau:.2f}" if found.tau == found.tau else ""
            text = f"{source}: MAPE {found.mape:.0f} %{tau} over {found.count} variants"
            out += wrapped(text, "  ")
    return out


def _alike(rows: pd.DataFrame) -> list[str]:
    """Name the variants whose measured difference from the baseline lies within its interval."""
    names = rows.loc[rows["verdict"] == SAME, "variant"]
    return (
        wrapped(f"no difference from the baseline: {', '.join(names)}", "  ") if len(names) else []
    )


def _cell(mine: pd.DataFrame, source: str, *, errors: bool) -> str:
    row = mine.to_dict("index").get(source, {})
    if pd.isna(row.get("cycles", float("nan"))):
        return "-"
    mark = "!" if row["excluded"] else ""
    mark += "*" if row["note"] else ""
    startup, error = row["startup_cycles"], row["error_percent"]
    if source != MEASURED and pd.isna(startup):
        mark += " +?"
    elif startup and startup > 0:
        mark += f" +{startup:.0f}"
    cycles = f"{row['cycles_per_unit']:.2f}{mark}"
    return f"{cycles} ({error:+.0f} %)" if errors and pd.notna(error) else cycles


def _errors(rows: pd.DataFrame) -> list[str]:
    """Return why cells are empty: each reason once, with the models and variants it is for."""
    missing = rows[rows["cycles"].isna() & rows["error"].fillna("").ne("")]
    out: list[str] = []
    for error, group in missing.groupby("error", sort=False):
        models = ", ".join(group["source"].unique())
        variants = group["variant"].unique()
        who = "" if len(variants) == rows["variant"].nunique() else f" ({', '.join(variants)})"
        out += wrapped(f"- {models}{who}: {error}", "  ")
    return out
