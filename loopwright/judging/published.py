"""Published speed-ups and rates of the loops of kernels/, beside predictions."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pandas as pd

from loopwright import kernels, microarchs, paths
from loopwright.errors import InputError
from loopwright.predicting import calls
from loopwright.predicting.calls import CallQuestion
from loopwright.predicting.explain import citation
from loopwright.predicting.models import SIMULATOR
from loopwright.predicting.predict import predict

TABLE = paths.HOME / "validation" / "published.csv"
COLUMNS = [
    "kernel", "variant", "baseline", "scope", "size_bytes", "quantity", "unit", "before", "after",
    "percent", "low_percent", "high_percent", "assumption", "condition", "machine", "microarch",
    "predicted_on", "model", "kind", "predicted", "error", "fitted", "retracted", "source", "place",
]  # fmt: skip
LINE_BYTES = 64

Scope = Literal["loop", "call", "system call", "workload"]


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure: a speed-up of variant over baseline, or a figure of variant alone.

    before and after are the figure as it was published, in unit, for baseline and variant; before
    is None if variant stands alone. percent is the speed-up of variant over baseline in percent,
    measured over scope (0: no difference was seen; None: no speed-up). size_bytes is the size of
    one read, write or call, chunk_bytes the largest part that one call of the routine moves,
    dst_align the destination mod 64 (None: aligned, or not stated). microarch is the core of the
    machine, predicted_on the core of models/ that stands for it ("": none). fitted names the
    simulator's parameter that was set by this figure, retracted the reason why its author took it
    back ("" otherwise). source is a title with its address, place the message and the line of it.

    low_percent and high_percent bound the speed-up of the routine itself (None: no bound), under
    the assumption that assumption names: see _bounds().
    """

    kernel: str
    variant: str
    baseline: str
    scope: Scope
    size_bytes: int | None
    chunk_bytes: int | None
    dst_align: int | None
    quantity: str
    unit: str
    before: float | None
    after: float | None
    percent: float | None
    share_before: float | None
    share_after: float | None
    total_bytes: float | None
    condition: str
    machine: str
    microarch: str
    predicted_on: str
    fitted: str
    retracted: str
    source: str
    place: str
    low_percent: float | None
    high_percent: float | None
    assumption: str

    @property
    def sign(self) -> int:
        """1 where variant is faster than baseline, -1 where slower, 0 where neither."""
        return 0 if not self.percent else 1 if self.percent > 0 else -1

    @property
    def own_core(self) -> str:
        """The core of the machine where it is modelled, else the one that stands for it."""
        return self.microarch if self.microarch in microarchs.ids() else self.predicted_on

    @property
    def saved_ns_per_line(self) -> float | None:
        """The time saved for each 64 bytes moved, in ns; None if not published."""
        if self.total_bytes is None or self.before is None or self.after is None:
            return None
        return (self.before - self.after) * 1e9 * LINE_BYTES / self.total_bytes

    @property
    def bound(self) -> str:
        """The bounds of the routine's own speed-up, in words."""
        low, high = self.low_percent, self.high_percent
        if low is not None and high is not None:
            return f"{low:+.0f} to {high:+.0f} %" if low != high else f"{low:+.0f} %"
        if low is not None:
            return f"{low:+.0f} % or more"
        return "not bounded" if high is None else f"{high:+.0f} % or less"


def figures(kernel_id: str, core: str) -> list[PublishedFigure]:
    """Return the published speed-ups of pairs of a kernel's variants on a core.

    Those measured on the core itself and those of machines that it stands for (microarch then
    differs from predicted_on). Retracted and fitted ones are among them, and are marked.
    """
    there = (f for f in table() if f.kernel == kernel_id and core in (f.predicted_on, f.microarch))
    return [f for f in there if f.variant and f.baseline and f.percent is not None]


@cache
def table() -> tuple[PublishedFigure, ...]:
    """Return every row of validation/published.csv."""
    rows = pd.read_csv(TABLE, dtype=str, keep_default_na=False)
    return tuple(_figure(row) for row in rows.to_dict("records"))


_TEXTS = (
    "kernel", "variant", "baseline", "scope", "quantity", "unit", "condition", "machine",
    "microarch", "predicted_on", "fitted", "retracted", "place",
)  # fmt: skip
_COUNTS = ("size_bytes", "chunk_bytes", "dst_align")
_FIGURES = ("before", "after", "percent", "share_before", "share_after", "total_bytes")


def _figure(row: Mapping[Hashable, str]) -> PublishedFigure:
    fields: dict[str, Any] = {name: row[name] for name in _TEXTS}
    fields |= {name: int(row[name]) if row[name] else None for name in _COUNTS}
    fields |= {name: float(row[name]) if row[name] else None for name in _FIGURES}
    before, after = fields["before"], fields["after"]
    if fields["percent"] is None and row["better"] and None not in (before, after):
        ratio = after / before if row["better"] == "higher" else before / after
        fields["percent"] = 100 * (ratio - 1)
    names = ("scope", "percent", "share_before", "share_after")
    bounds = _bounds(*(fields[name] for name in names))
    fields |= zip(("low_percent", "high_percent", "assumption"), bounds, strict=True)
    return PublishedFigure(**fields, source=citation(row["source"]))


def _bounds(
    scope: Scope, percent: float | None, before: float | None, after: float | None
) -> tuple[float | None, float | None, str]:
    """Return the bounds of the routine's own speed-up in percent, and the assumption behind them.

    A loop's figure is the routine's. A larger scope contains work that both variants have in
    common: the routine gains, or loses, at least as much as the whole. before and after are the
    routine's shares of all cycles in percent. With both, the routine's cycles for a unit of work
    are known, but for whether cycles a unit fall as fast as units a second rise. With one, the
    whole saving is taken from the share.
    """
    if percent is None:
        return None, None, ""
    if scope == "loop":
        return percent, percent, ""
    faster = 1 + percent / 100
    if before is not None and after is not None:
        ends = sorted(100 * (before * by / after - 1) for by in (1, faster))
        assumption = (
            "the shares are of the same work; its cycles fall as its rate rises, or not at all"
        )
        return ends[0], ends[1], assumption
    if before is not None:
        left = before - 100 * (1 - 1 / faster)
        assumption = (
            f"the routine had at most {before:g} % of the cycles, the CPU was the limit, and the "
            "whole difference is the routine's"
        )
        gain = 100 * (before / left - 1) if left > 0 else None
        return (gain, None, assumption) if percent > 0 else (None, gain, assumption)
    assumption = f"all of the {scope} but the routine is the same for both"
    if percent == 0:
        return None, None, assumption
    return (percent, None, assumption) if percent > 0 else (None, percent, assumption)


def routine_cycles(
    figure: PublishedFigure, variant: str, overrides: Mapping[str, str] | None = None
) -> float:
    """Return the simulator's cycles of the calls by which a variant moves a figure's size_bytes.

    On the core of the machine, or the one that stands for it, with aligned data in the L1 cache and
    without privileged instructions. InputError if it has no answer.
    """
    assert figure.size_bytes is not None
    size, chunk = figure.size_bytes, figure.chunk_bytes or figure.size_bytes
    sizes = [chunk] * (size // chunk) + [size % chunk] * bool(size % chunk)
    key = tuple(sorted((overrides or {}).items()))
    return sum(_call_cycles(figure.kernel, variant, figure.own_core, n, key) for n in sizes)


@cache
def _call_cycles(
    kernel: str, variant: str, core: str, size: int, overrides: tuple[tuple[str, str], ...]
) -> float:
    chosen = kernels.load(kernel).variants[variant]
    place = [(size // kernels.contract_of(chosen).count_bytes, 0, 0)]
    values = dict(overrides)
    question = CallQuestion(chosen, microarchs.load(core), place, values, in_user_space=True)
    [[cost]] = calls.of_variants([question])
    if isinstance(cost, InputError):
        raise InputError(f"{variant} on {core}: {cost}")
    return cost.cycles


def published(model: str = SIMULATOR) -> pd.DataFrame:
    """Return each published figure beside the prediction of each model ("ID[,ID]" or "all").

    percent is the speed-up of variant over baseline, of what scope names: a loop, whole calls,
    system calls or a workload. before and after are what was published, in unit. low_percent and
    high_percent bound the speed-up of the routine itself, if assumption holds. kind says what
    predicted is of: "call", calls of size_bytes as the simulator runs them, or "loop", the main
    loop with L1 hits, where no size is known or the model knows no calls; a loop's speed-up comes
    near a call's the larger size_bytes is, as long as it fits the caches. predicted is in percent
    for a pair of variants, else in unit. predicted_on is the core that was asked: the machine's, or
    the nearest that is modelled. fitted names the simulator's parameter that was set by this very
    figure, retracted says why its author took it back: no test either. error says why there is no
    prediction. source and place name the message of the figure.
    """
    loop_predictions = {}
    for kernel, core in {(f.kernel, f.predicted_on) for f in table() if _is_here(f)}:
        if core:
            rows = predict(kernel, microarch=core, model=model)
            loop_predictions[kernel, core] = rows.assign(low=microarchs.below_bounds(rows))
    out = []
    for figure in table():
        row = {**vars(figure), "model": "", "kind": "", "predicted": None, "error": ""}
        answers = loop_predictions.get((figure.kernel, figure.predicted_on))
        if answers is None or not _is_here(figure):
            out.append({**row, "error": _not_asked(figure)})
            continue
        for name, of_model in answers.groupby("model", sort=False):
            of_variant = {str(a["variant"]): a for a in of_model.to_dict("records")}
            kind, value, why = _predicted(figure, str(name), of_variant)
            out.append({**row, "model": name, "kind": kind, "predicted": value, "error": why})
    numbers = ("before", "after", "percent", "low_percent", "high_percent", "predicted")
    types = {"size_bytes": "Int64"} | dict.fromkeys(numbers, "float64")
    return pd.DataFrame(out)[COLUMNS].astype(types)


def _is_here(figure: PublishedFigure) -> bool:
    """True if the variants of a figure exist; $LOOPWRIGHT_KERNELS may have others."""
    if not figure.variant or figure.kernel not in kernels.ids():
        return False
    return {figure.variant, figure.baseline} - {""} <= kernels.load(figure.kernel).variants.keys()


def _not_asked(figure: PublishedFigure) -> str:
    if not figure.variant:
        return "of no routine here"
    if not _is_here(figure):
        return "of no variant here"
    return f"{figure.microarch or 'the core of a machine without a name'} is not modelled"


def _predicted(
    figure: PublishedFigure, model: str, answers: Mapping[str, Mapping[Hashable, Any]]
) -> tuple[str, float | None, str]:
    """Return a model's prediction of a figure: its kind, its value, and the reason for None."""
    if figure.baseline and figure.percent is None:
        return "", None, "no speed-up"
    if model == SIMULATOR and figure.baseline and figure.size_bytes is not None:
        try:
            new, old = (routine_cycles(figure, v) for v in (figure.variant, figure.baseline))
        except InputError as error:
            return "call", None, str(error)
        return "call", 100 * (old / new - 1), ""
    value, why = _of_loops(figure, answers)
    return "loop", value, why


def _of_loops(
    figure: PublishedFigure, answers: Mapping[str, Mapping[Hashable, Any]]
) -> tuple[float | None, str]:
    """Return the prediction of a figure by a model's loops, and the reason for None."""
    sides = [answers[side] for side in (figure.variant, figure.baseline) if side]
    for answer in sides:
        if pd.isna(answer["cycles"]):
            return None, f"{answer['variant']}: {answer['error']}"
        if answer["low"]:
            why = microarchs.why_below_bounds(answer["least_cycles"])
            return None, f"{answer['variant']}: {answer['cycles']:.2f} is {why}"
    startup = sides[0]["startup_cycles"]
    if figure.quantity == "startup_cycles":
        return (None, "start-up not known") if pd.isna(startup) else (float(startup), "")
    strings = [answer["variant"] for answer in sides if answer["startup_cycles"] != 0]
    if strings and (figure.baseline or figure.dst_align):
        return None, f"{strings[0]}: a string instruction is predicted at aligned addresses alone"
    rates = [float(answer["bytes_per_iteration"] / answer["cycles"]) for answer in sides]
    if figure.quantity == "bytes_per_cycle":
        return rates[0], ""
    if len(rates) == 1:
        return None, "a share of cycles is not predicted"
    return 100 * (rates[0] / rates[1] - 1), ""
