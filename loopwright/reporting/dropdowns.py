"""Choices in a notebook: drop-downs, and what is drawn from them in the cells that follow."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from loopwright.errors import InputError

Part = str | pd.DataFrame | Figure
Drawn = Part | Sequence[Part]

_ROWS = 8  # of a list of which several can be chosen, at most


class Several(list[str]):
    """Options of which several can be chosen; the first so many are, at first."""

    def __init__(self, options: Sequence[str], chosen: int = 2) -> None:
        super().__init__(options)
        self.chosen = tuple(options[:chosen])


class Page:
    """Lines of text, tables and figures, one below the other, as a notebook shows them."""

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

    The first option is chosen at first; one that comes twice is there once. A Several gives a list
    of which more than one can be chosen. What show draws is drawn again
    whenever a choice changes; an InputError is shown in its place. pick["kernel"] is a choice as
    it is, pick["kernel"] = ID makes it.
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
    """Return a table: text at the left, numbers, to two decimals, at the right."""
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
