"""Comparisons for people: a table for each core, variants down, sources across."""

import pandas as pd

from loopwright.accuracy import LEAST, Accuracy
from loopwright.compare import MEASURED
from loopwright.predict import MODELS
from loopwright.predict.llvm_mca import CorrectedLlvmMca
from loopwright.ratios import SAME
from loopwright.report.layout import table, wrapped

_HEADS = {CorrectedLlvmMca.id: "mca-mended"}  # as long as its columns need


def by_core(rows: pd.DataFrame) -> str:
    """Return as text what loopwright.compare returns."""
    cores = rows["microarch"].unique()
    return "\n".join(_core(str(core), rows[rows["microarch"] == core]) for core in cores)


def _core(core: str, rows: pd.DataFrame) -> str:
    sources = [*(m.id for m in MODELS), MEASURED]
    present = [s for s in sources if rows.loc[rows["source"] == s, "cycles"].notna().any()]
    if not present:
        return "\n".join([*wrapped(f"{core}: no model has an answer."), *_errors(rows), ""])
    units = {"loop": "an iteration of the main loop", "unrolled": "a call"}
    answered = rows.loc[rows["cycles"].notna(), "notion"]
    unit = " or ".join(text for notion, text in units.items() if notion in set(answered))
    body = []
    for variant in rows["variant"].unique():
        mine = rows[rows["variant"] == variant].set_index("source")
        moved = mine["bytes_per_iteration"].dropna()
        first = [str(variant), f"{moved.iloc[-1]:.0f}" if len(moved) else ""]
        body.append([*first, *(_cell(mine, source) for source in present)])
    drawn = table(["variant", "bytes", *(_HEADS.get(s, s) for s in present)], body)
    low = ["  +N: cycles to start a string instruction, ? not known"] if " +" in drawn else []
    low += ["  ! below what the core's loads and stores take: not used"] if "!" in drawn else []
    return "\n".join(
        [
            *wrapped(f"{core}: cycles {unit}"),
            drawn,
            *low,
            *_origin(rows),
            *_accuracy(rows, present),
            *_alike(rows),
            *_errors(rows),
            "",
        ]
    )


def _origin(rows: pd.DataFrame) -> list[str]:
    """Return where the measured column comes from: machine and clock."""
    mine = rows[(rows["source"] == MEASURED) & rows["cycles"].notna()]
    pairs = mine[["machine", "clock"]].drop_duplicates().itertuples(index=False)
    return [line for m, c in pairs for line in wrapped(f"measured: {m}, clock {c}", "  ")]


def _accuracy(rows: pd.DataFrame, sources: list[str]) -> list[str]:
    """Return how far each model is from what was measured, where enough loops are known."""
    real = rows[rows["source"] == MEASURED].set_index("variant")["cycles"]
    out: list[str] = []
    for source in (s for s in sources if s != MEASURED):
        said = rows[rows["source"] == source].set_index("variant")["cycles"]
        found = Accuracy.of(said, real.reindex(said.index))
        if found.count >= LEAST:
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


def _cell(mine: pd.DataFrame, source: str) -> str:
    cycles, error = mine["cycles"].get(source, float("nan")), mine["error_percent"].get(source)
    if pd.isna(cycles):
        return "-"
    mark = "!" if cycles < 0.98 * mine["least_cycles"].get(source, float("nan")) else ""
    startup = mine["startup_cycles"].get(source)
    if source != MEASURED and pd.isna(startup):
        mark += " +?"
    elif startup and startup > 0:
        mark += f" +{startup:.0f}"
    return f"{cycles:.2f}{mark} ({error:+.0f} %)" if pd.notna(error) else f"{cycles:.2f}{mark}"


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
