"""How right each model has been on each core: models/accuracy.csv, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright import paths
from loopwright.errors import InputError

FILE = "accuracy.csv"
COLUMNS = [
    "core", "model", "what", "against", "rows", "mape_percent", "tau", "held_out", "origin"
]  # fmt: skip
MEASUREMENT = "measurement"

# A model that was farther off than this, on the mean, is not believed where another is.
GOOD_PERCENT = 15.0
LEAST_ROWS = 30  # fewer are too few to say how right a model is
# What nobody has held to loops of a core is taken to be off by at least this.
UNVALIDATED_PERCENT = 20.0
_ABOUT = {
    "call": ("calls", "loops", "unrolled"),
    "loop": ("loops", "unrolled"),
    "unrolled": ("unrolled", "loops"),
    "strings": ("strings",),
}
_WHOLE = ("calls", "loops", "speed-ups")  # what tells of more than single instructions


@dataclass(frozen=True)
class Standing:
    """What is known of a model on a core, for code of a notion.

    error_percent is the mean of its absolute errors over rows that no parameter of it was set by,
    None where there are not LEAST_ROWS of them. described says it in words.
    """

    model: str
    core: str
    error_percent: float | None
    described: str

    @property
    def validated(self) -> bool:
        """Say whether it was held to measurements of the core, and was right."""
        return self.error_percent is not None and self.error_percent <= GOOD_PERCENT

    @property
    def wrong(self) -> bool:
        """Say whether it was held to measurements of the core, and was not right."""
        return self.error_percent is not None and not self.validated


def records() -> pd.DataFrame:
    """Return models/accuracy.csv: one row for what each model was held to on each core.

    what is calls (whole), strings (calls that move their data by string instructions), loops,
    unrolled (blocks), instructions or speed-ups; against is "measurement", or the
    model whose cycles stand for it. mape_percent is the mean absolute error, tau Kendall's tau-b;
    held_out is False where rows among them set parameters of the model. origin says who measured;
    rows is missing where it does not say of how many. Empty where there is no such file; InputError
    where it is not as it must be.
    """
    path = paths.models_root() / FILE
    if not path.is_file():
        return pd.DataFrame(columns=COLUMNS)
    try:
        rows = pd.read_csv(path, keep_default_na=False, na_values={"tau": [""], "rows": [""]})
        missing = [name for name in COLUMNS if name not in rows.columns]
        if missing:
            raise InputError(f"{path}: the header lacks {', '.join(missing)}")
        if not rows["held_out"].isin(["yes", "no"]).all():
            raise InputError(f"{path}: held_out is neither yes nor no in some row")
        rows["held_out"] = rows["held_out"] == "yes"
        rows["rows"] = pd.to_numeric(rows["rows"]).astype("Int64")
        return rows.astype({"mape_percent": float, "tau": float})
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def of(model: str, core: str, notion: str, known: pd.DataFrame) -> Standing:
    """Return what the records known say of a model on a core, of loops or of unrolled code.

    Records of that notion go before those of the other. Several are taken together, each by its
    rows. What another model's cycles stood for counts as far as that one is right itself. Rows that
    set parameters of the model show that it is wrong, but never that it is right.
    """
    mine = known[(known["core"] == core) & (known["model"] == model)]
    for what in _ABOUT[notion]:
        about = mine[mine["what"] == what]
        for rows in (about[about["held_out"]], about):
            total, error = _pooled(rows, core, known)
            if total >= LEAST_ROWS and (rows["held_out"].all() or error > GOOD_PERCENT):
                count = f"{total:,} " if rows["rows"].notna().any() else ""
                said = f"off by {error:.0f} % over {count}{_plural(what)} there"
                return Standing(model, core, error, said)
    return Standing(model, core, None, _otherwise(mine))


def bounded(model: str, core: str, known: pd.DataFrame) -> Standing | None:
    """Return a bound of how far a model is off that only knows the instructions of a core.

    None where those were not held to LEAST_ROWS measurements, or were not right. The error is the
    largest of what is known: of single instructions there; of what was measured of whole loops or
    published of speed-ups there, however little; its mean on loops of the core that it is worst on;
    and UNVALIDATED_PERCENT.
    """
    mine = known[(known["core"] == core) & (known["model"] == model)]
    count, error = _pooled(mine[mine["what"] == "instructions"], core, known)
    if count < LEAST_ROWS or error > GOOD_PERCENT:
        return None
    parts = {f"{error:.0f} % over {count:,} single instructions there": error}
    for what in _WHOLE:
        rows, off = _pooled(mine[(mine["what"] == what) & mine["held_out"]], core, known)
        if rows:
            parts[f"{off:.0f} % over {rows:,} {what} there"] = off
    others = known[(known["model"] == model) & (known["core"] != core) & known["held_out"]]
    for other, rows_of in others[others["what"].isin(("calls", "loops"))].groupby("core"):
        rows, off = _pooled(rows_of, str(other), known)
        if rows >= LEAST_ROWS:
            parts[f"{off:.0f} % over {rows:,} loops on {other}"] = off
    most = max(parts, key=lambda part: parts[part])
    if parts[most] < UNVALIDATED_PERCENT:
        most = f"{error:.0f} % over {count:,} single instructions there, but no loops"
    taken = max(UNVALIDATED_PERCENT, *parts.values())
    return Standing(model, core, taken, f"taken to be off by {taken:.0f} %: {most}")


def _pooled(rows: pd.DataFrame, core: str, known: pd.DataFrame) -> tuple[int, float]:
    """Return how many rows records have together, and their mean error in percent.

    One that does not count its rows is of a whole suite: it is as good as LEAST_ROWS.
    """
    parts = [
        (LEAST_ROWS if pd.isna(row["rows"]) else int(row["rows"]), row["mape_percent"] + more)
        for row in rows.to_dict("records")
        if (more := _of_truth(str(row["against"]), core, known)) is not None
    ]
    total = sum(count for count, _ in parts)
    return total, sum(count * percent for count, percent in parts) / total if total else 0.0


def _of_truth(against: str, core: str, known: pd.DataFrame) -> float | None:
    """Return how far that is from a measurement what a model was held to; None if not known."""
    if against == MEASUREMENT:
        return 0.0
    rows = known[(known["core"] == core) & (known["model"] == against)]
    rows = rows[(rows["against"] == MEASUREMENT) & rows["held_out"]]
    return float(rows["mape_percent"].max()) if len(rows) else None


def _otherwise(mine: pd.DataFrame) -> str:
    """Say what there is of a model that nothing of this kind was kept aside for."""
    if mine.empty:
        return "not validated there"
    best = mine.sort_values("rows", na_position="first").iloc[-1]
    count = "" if pd.isna(best["rows"]) else f"{best['rows']:,} "
    said = f"{best['mape_percent']:.0f} % over {count}{_plural(str(best['what']))}"
    if not best["held_out"]:
        return f"not validated there: {said}, some of which set its parameters"
    return f"not validated there: {said} alone"


def _plural(what: str) -> str:
    return "unrolled blocks" if what == "unrolled" else what


def describe(standings: Sequence[Standing]) -> str:
    """Return in a line what is known of models on a core."""
    return ", ".join(f"{s.model} {s.described}" for s in standings)
