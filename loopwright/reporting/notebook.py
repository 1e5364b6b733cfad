"""Views for notebooks: tables of figures side by side, and figures chosen from menus."""

import base64
import html
import io
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import ipywidgets as widgets
import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.judging.study import MEASURED, exclusions
from loopwright.predicting.models import MODELS, SIMULATOR
from loopwright.predicting.predict import predict

_ROW = ["variant", "microarch"]


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of compare, or of predict of assembly text, with the sources side by side.

    Columns: variant (or a loop's label), microarch, unit (the amount of work that cycles are for,
    alike for all variants of a routine; an iteration, of assembly text), bytes_per_iteration,
    SOURCE_cycles for each model with a figure and for the measurement, with its
    measured_uncertainty_cycles; spread_percent, of the models' largest figure over the least.
    Excluded figures and measurements of a part are missing here: unanswered has the reasons.
    """
    counted = _as_compared(rows).query("cycles.notna() and excluded == '' and note == ''")
    models = [m.id for m in MODELS if m.id in set(counted["source"])]
    sources = [*models, *([MEASURED] if MEASURED in set(counted["source"]) else [])]
    per_unit = counted.pivot_table(
        index=_ROW, columns="source", values="cycles_per_unit", sort=False
    )[sources]
    wide = per_unit.add_suffix("_cycles")
    of_rows = counted.groupby(_ROW, sort=False)
    wide.insert(0, "bytes_per_iteration", of_rows["bytes_per_iteration"].max().astype("Int64"))
    wide.insert(0, "unit", of_rows["unit"].first())
    if MEASURED in sources:
        measured = counted[counted["source"] == MEASURED]
        scaled = measured["uncertainty"] * measured["cycles_per_unit"] / measured["cycles"]
        of_row = measured.assign(uncertainty=scaled).groupby(_ROW)["uncertainty"]
        wide["measured_uncertainty_cycles"] = of_row.first()
    most, least = per_unit[models].max(axis=1), per_unit[models].min(axis=1)
    wide["spread_percent"] = 100 * (most / least - 1)
    return wide.reset_index().rename_axis(columns=None)


def against_baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the speeds of compare relative to the baseline's: above 1 is faster.

    Columns: routine, variant, and a SOURCE on MICROARCH for each that has a figure.
    """
    compared = rows[rows["vs_baseline"].notna()]
    source_on_core = compared["source"] + " on " + compared["microarch"]
    wide = compared.assign(where=source_on_core).pivot_table(
        index=["routine", "variant"], columns="where", values="vs_baseline", sort=False
    )
    return wide.reset_index().rename_axis(columns=None)


def unanswered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the missing figures: microarch, source, why (the reason), and the variants."""
    rows = _as_compared(rows)
    cycles = rows["cycles"].map("{:.2f} is ".format)
    why = rows["error"].fillna("").mask(rows["excluded"].ne(""), cycles + rows["excluded"])
    why = why.mask(rows["cycles"].notna() & rows["note"].ne(""), "measured " + rows["note"])
    missing = rows.assign(why=why)[why.ne("")]
    by_reason = missing.groupby(["microarch", "source", "why"], sort=False)["variant"]
    variants = by_reason.agg(lambda names: ", ".join(dict.fromkeys(names)))
    return variants.rename("variants").reset_index()


def _as_compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of compare, or rows of predict with the columns of compare."""
    if "excluded" in rows:
        return rows
    rows = rows.rename(columns={"id": "variant", "model": "source"})
    return rows.assign(
        excluded=exclusions(rows), note="", unit="an iteration", cycles_per_unit=rows["cycles"]
    )


APART = 5.0  # percent of spread above which models disagree
_SAME = 0.02  # relative

Row = dict[Hashable, Any]


def disagreements(kernel: str, cores: Sequence[str]) -> pd.DataFrame:
    """Ask all models about KERNEL on those of the cores (ids) that run it; explain differences.

    One row for each variant and core on which the models' figures are more than 5 % apart, or one
    of them is below its lower bound, the widest first: variant, microarch, offset_bytes, unit,
    spread_percent (of the largest over the least), MODEL_cycles for that unit of each model with a
    possible figure, and why, the reason in words.
    """
    isa = kernels.load(kernel).isa
    microarch = ",".join(core for core in cores if microarchs.load(core).isa == isa)
    rows = _by_unit(kernel, predict(kernel, microarch=microarch, model="all"))
    ideal = predict(kernel, microarch=microarch, parameters={"front_end": "ideal"})
    ideal = _by_unit(kernel, ideal)
    without_front_end = ideal.set_index(["variant", "microarch"])["cycles"].to_dict()
    out = []
    for key, mine in rows[rows["cycles"].notna()].groupby(["variant", "microarch"]):
        variant, core = key
        possible = mine[~mine["low"]]
        cycles = possible.set_index("model")["cycles"]
        spread = 100 * (cycles.max() / cycles.min() - 1)
        if spread > APART or mine["low"].any():
            out.append(
                {
                    "variant": variant,
                    "microarch": core,
                    "offset_bytes": mine["offset"].iloc[0],
                    "unit": mine["unit"].iloc[0],
                    "spread_percent": spread,
                    **{f"{model}_cycles": value for model, value in cycles.items()},
                    "why": _why(mine.to_dict("records"), float(without_front_end[key])),
                }
            )
    figures = [f"{m.id}_cycles" for m in MODELS if any(f"{m.id}_cycles" in row for row in out)]
    columns = ["variant", "microarch", "offset_bytes", "unit", "spread_percent", *figures, "why"]
    table = pd.DataFrame(out, columns=columns)
    return table.sort_values("spread_percent", ascending=False, ignore_index=True)


def _by_unit(kernel: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return predictions with cycles for the unit by which a routine's variants are compared.

    low is True for those below the bound by loads and stores.
    """
    routines = kernels.load(kernel).routines
    contracts = [routines[name].contract for name in rows["routine"]]
    units = pd.Series([c.unit_bytes for c in contracts], index=rows.index)
    scale = units / rows["bytes_per_iteration"].astype("float64")
    return rows.assign(
        low=microarchs.below_bounds(rows),
        unit=[c.unit_name for c in contracts],
        cycles=rows["cycles"] * scale,
        least_cycles=rows["least_cycles"] * scale,
    )


def _why(answers: list[Row], ideal: float) -> str:
    """Return the reasons: impossible figures, the cost of the front end, other bottlenecks."""
    out = [
        f"{a['model']}: {a['cycles']:.2f} is {microarchs.why_below_bounds(a['least_cycles'])}"
        for a in answers
        if a["low"]
    ]
    possible = [a for a in answers if not a["low"]]
    simulated = next((a for a in answers if a["model"] == SIMULATOR), None)
    bare = possible[0]["cycles"] if possible else 0.0
    if simulated and ideal == ideal:
        bare = ideal
        if simulated["cycles"] > bare * (1 + _SAME):
            out.append(
                f"front end: {simulated['cycles'] - bare:.2f} of {SIMULATOR}'s "
                f"{simulated['cycles']:.2f} cycles, which models without one do not see"
            )
    if any(abs(a["cycles"] / bare - 1) > _SAME for a in possible if a is not simulated):
        bottlenecks = [f"{a['model']}: {a['bottleneck'] or 'not said'}" for a in possible]
        out.append(f"they see other bottlenecks ({'; '.join(bottlenecks)})")
    return "; ".join(out) or "not known"


Part = str | pd.DataFrame | Figure
Drawn = Part | Sequence[Part]

_ROWS = 8  # visible rows of a list with several choices, at most


class Several(list[str]):
    """Options of which several can be chosen; the first ones are preselected."""

    def __init__(self, options: Sequence[str], chosen: int = 2) -> None:
        super().__init__(options)
        self.chosen = tuple(options[:chosen])


class Page:
    """Lines of text, tables and figures, one below the other, for a notebook."""

    def __init__(self, drawn: Drawn) -> None:
        self.parts = [drawn] if isinstance(drawn, str | pd.DataFrame | Figure) else list(drawn)

    def _repr_html_(self) -> str:
        return "\n".join(_html(part) for part in self.parts)

    def __repr__(self) -> str:
        return "\n\n".join(_plain(part) for part in self.parts)


class Choices:
    """Drop-downs, one for each name, that later cells draw by.

        pick = Choices(kernel=["x86_64/copy_user", ...], microarchs=Several(["zen2", ...]))
        pick.show(lambda kernel, microarchs: ...)

    The first option is preselected; duplicates are merged. A Several gives a list of which more
    than one can be chosen. show draws again whenever a choice changes; an InputError is shown in
    the place of the drawing. pick["kernel"] reads a choice, pick["kernel"] = ID sets it.
    """

    def __init__(self, **options: Sequence[str]) -> None:
        self._widgets = {name: _widget(name, given) for name, given in options.items()}
        self._state = widgets.Label("")
        display(widgets.HBox([*self._widgets.values(), self._state]))

    def __getitem__(self, name: str) -> Any:
        value = self._widgets[name].value
        return list(value) if isinstance(value, tuple) else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._widgets[name].value = value

    def show(self, draw: Callable[..., Drawn]) -> None:
        """Display what draw returns for the choices, by their names, now and after each change."""
        handle = display(self._page(draw), display_id=True)

        def again(_change: object) -> None:
            self._state.value = "drawing ..."
            try:
                handle.update(self._page(draw))
            finally:
                self._state.value = ""

        for widget in self._widgets.values():
            widget.observe(again, names="value")

    def _page(self, draw: Callable[..., Drawn]) -> Page:
        try:
            return Page(draw(**{name: self[name] for name in self._widgets}))
        except InputError as error:
            return Page(str(error))


def _widget(name: str, given: Sequence[str]) -> Any:
    style = {"description_width": "initial"}
    label = name.replace("_", " ")
    if isinstance(given, Several):
        return widgets.SelectMultiple(
            options=list(dict.fromkeys(given)),
            value=given.chosen,
            rows=min(len(given), _ROWS),
            description=label,
            style=style,
        )
    return widgets.Dropdown(options=list(dict.fromkeys(given)), description=label, style=style)


def _html(part: Part) -> str:
    if isinstance(part, Figure):
        png = io.BytesIO()
        part.savefig(png, format="png", dpi=110)
        data = base64.b64encode(png.getvalue()).decode()
        alt = html.escape(_plain(part), quote=True)
        return f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{data}">'
    if isinstance(part, pd.DataFrame):
        return f'<div style="overflow-x:auto">{_table(part)}</div>'
    return f"<p>{html.escape(part)}</p>"


def _plain(part: Part) -> str:
    if isinstance(part, Figure):
        titles = [axes.get_title(loc="left") or axes.get_title() for axes in part.axes]
        return "figure: " + "; ".join(title for title in titles if title)
    return part if isinstance(part, str) else part.to_string(index=False, na_rep="")


def _table(rows: pd.DataFrame) -> str:
    """Return a table as HTML: text at the left, numbers at the right with two decimals."""
    sides = ["right" if pd.api.types.is_numeric_dtype(rows[c]) else "left" for c in rows.columns]
    head = _row("th", [str(c) for c in rows.columns], sides)
    body = [_row("td", [_cell(v) for v in row], sides) for row in rows.itertuples(index=False)]
    return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    inside = (
        f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(inside)}</tr>"


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
