"""Self-contained HTML pages: their template, tables that sort, figures as SVG."""

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import jinja2
import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from loopwright import files, kernels
from loopwright.errors import InputError
from loopwright.judging.study import MEASURED
from loopwright.machine import hosts
from loopwright.predicting.explain import STEPS
from loopwright.predicting.models import MODELS

INK = "#1b1f24"
FAINT = "#c9ced6"

# Colours with too little contrast on a dark page have a lighter one for it.
OKABE_ITO = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#f0e442")
TOL_MUTED = (
    "#332288", "#cc6677", "#117733", "#88ccee", "#999933", "#882255", "#44aa99", "#aa4499",
    "#ddcc77",
)  # fmt: skip
ON_DARK = {
    INK: "#e6e9ee",
    FAINT: "#4a515c",
    "#0072b2": "#2f8fd0",
    "#56b4e9": "#a5d8f7",
    "#332288": "#9a90f0",
    "#117733": "#45b56a",
    "#882255": "#dd6fa0",
    "#aa4499": "#cf7cc0",
}

_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">")
_HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-/-", "\\|\\|")
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Style:
    """The style of a source or variant: a colour, and a mark readable without colour."""

    colour: str
    marker: str
    hatch: str
    line: str


def source(name: str) -> Style:
    """Return the style of a source: a model's id, or "measured" (in the colour of the text)."""
    if name == MEASURED:
        return Style(INK, "*", "", "-")
    ids = [m.id for m in MODELS]
    at = ids.index(name) if name in ids else crc32(name.encode())
    return _style(OKABE_ITO, at)


def variant(name: str, kernel: str | None = None) -> Style:
    """Return the style of a variant: by its position in kernel.toml, else by its name alone.

    A tree's own function (tree:VERSION) has the colour of the text.
    """
    if kernels.is_own_code(name):
        return Style(INK, "*", "", "--")
    names = list(kernels.load(kernel).variants) if kernel in kernels.ids() else []
    return _style(TOL_MUTED, names.index(name) if name in names else crc32(name.encode()))


def numbered(number: int) -> Style:
    """Return the style of a numbered thing: an instruction of a block."""
    return _style(TOL_MUTED, number)


def _style(colours: tuple[str, ...], position: int) -> Style:
    """Return the style at a position; past the last colour, dashes of lines differ."""
    turn, colour = divmod(position, len(colours))
    n = len(_MARKERS)
    return Style(
        colours[colour],
        _MARKERS[(colour + turn) % n],
        _HATCHES[(colour + turn) % n],
        _DASHES[turn % len(_DASHES)],
    )


_TEMPLATES = resources.files("loopwright.reporting") / "templates"


def rendered(template: str, *, scripts: Sequence[str], style: str = "", **values: Any) -> str:
    """Return a page by the name of its template, with the names of its scripts in their order.

    style names a further style sheet. values are the template's.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("loopwright.reporting", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    return environment.get_template(template).render(
        css="\n".join((_TEMPLATES / name).read_text() for name in ("page.css", style) if name),
        js=[(_TEMPLATES / name).read_text() for name in scripts],
        on_dark=ON_DARK,
        **values,
    )


def check(out: Path) -> None:
    """Raise InputError unless a page can be written to a path."""
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"{out} does not end in .html; name the page so")
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file for the page")
    files.check_writable(out)


def write(page: str, out: Path) -> None:
    """Write a page, whole or not at all; InputError if it cannot be written."""
    check(out)
    files.written(out, page)


NONE = "\N{EM DASH}"


@dataclass(frozen=True)
class Cell:
    """A cell: its text, its sort key, and whether it is a command to be copied."""

    text: str
    order: float | None = None
    command: bool = False


Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Column:
    """A column: head (with the unit), cell of a row, and whether it holds numbers or sentences."""

    head: str
    cell: Callable[[Row], Cell]
    number: bool = False
    wide: bool = False


@dataclass(frozen=True)
class GridRow:
    """A row; facets are the keys that filters use: core, model, variant, notion."""

    cells: Sequence[Cell]
    facets: Mapping[str, str]


@dataclass(frozen=True)
class Grid:
    """A table with a caption; name is an id within the page."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[GridRow]


def grid(
    name: str,
    caption: str,
    rows: pd.DataFrame | Iterable[Row],
    columns: Sequence[Column],
    facets: Callable[[Row], Mapping[str, str]] = lambda _: {},
) -> Grid:
    """Return rows as a table, without the columns that are empty in all of them."""
    records: Iterable[Row] = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    cells = [([column.cell(row) for column in columns], facets(row)) for row in records]
    kept = [
        n
        for n in range(len(columns))
        if not cells or any(of_row[n].text not in ("", NONE) for of_row, _ in cells)
    ]
    shown = [GridRow([of_row[n] for n in kept], row_facets) for of_row, row_facets in cells]
    return Grid(name, caption, [columns[n] for n in kept], shown)


def column(
    head: str,
    of: str | Callable[[Row], Any] = "",
    digits: int | None = None,
    *,
    sign: bool = False,
    wide: bool = False,
) -> Column:
    """Return a column of texts, or of numbers with so many decimals.

    of is the key of its values in a row (the head where left out), or returns a row's value or
    cell. sign shows that of positive numbers; wide is for sentences.
    """
    value: Callable[[Row], Any] = of if callable(of) else itemgetter(of or head)

    def cell(row: Row) -> Cell:
        content = value(row)
        if isinstance(content, Cell):
            return content
        return text(content) if digits is None else number(content, digits, sign=sign)

    return Column(head, cell, digits is not None, wide)


def core_column() -> Column:
    """Return a column of cores' ids, with this machine's core marked."""
    return column("core", lambda row: hosts.marked(str(row["microarch"])))


def again_column(command: Callable[[Row], str]) -> Column:
    """Return a column of the commands that reproduce each row's figures."""
    return Column("again by", lambda row: Cell(command(row), command=True))


def text(value: Any) -> Cell:
    """Return a cell of text, empty if the value is missing."""
    return Cell("" if value is None or value is pd.NA or value != value else str(value))


def number(
    value: Any, digits: int = 2, *, sign: bool = False, doubt: Any = None, mark: str = ""
) -> Cell:
    """Return a cell of a number, a dash where it is missing.

    doubt is its uncertainty; mark is appended to a figure with a remark.
    """
    if value is None or pd.isna(value):
        return Cell(NONE)
    has_doubt = doubt is not None and pd.notna(doubt)
    if has_doubt and 0 < doubt < 0.5 * 10**-digits:
        digits += 1
    shown = f"{value:{'+' if sign else ''},.{digits}f}"
    if has_doubt:
        shown += f" \N{PLUS-MINUS SIGN} {doubt:,.{digits}f}"
    return Cell(shown + mark, float(value))


def variant_facet(kernel: str, variant: Any) -> str:
    """Return the key of a variant in filters: variants of two kernels may share a name."""
    return f"{kernel}/{variant}"


class Words:
    """Texts by number, in the order of their first use; the empty one is 0."""

    def __init__(self) -> None:
        self._of = {"": 0}

    def number(self, text: str) -> int:
        return self._of.setdefault(text, len(self._of))

    @property
    def all(self) -> Sequence[str]:
        """All texts, by number."""
        return list(self._of)


def uop(row: Row, words: Words) -> list[int | None]:
    """Return a row of a timeline as the scripts of a page read it.

    Iteration and instruction, the numbers of the texts for the uop's role, port and wait, then the
    cycle of each step (None: skipped).
    """
    what = ", ".join(filter(None, (row["role"], row["how"])))
    texts = (what, row["port"] or "", row["waited_for"] or "")
    cycles = (row[f"{step}_cycle"] for step in STEPS)
    return [row["iteration"], row["instruction"], *map(words.number, texts), *cycles]


def script_data(data: Mapping[str, Any]) -> str:
    """Return data as JSON that is safe in a script element."""
    # "</script>" in a text must not end the element.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


_THEMED = (*ON_DARK, "#ffffff")  # white is the page, behind bars and between cells


def inline(figure: Figure, name: str, label: str) -> str:
    """Return a figure as an svg element.

    name keeps its ids apart from those of other figures of the page; label is its alternative text.
    Its fixed colours become CSS variables, --p- and their six digits.
    """
    out = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "axes.unicode_minus": False}
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        figure.savefig(
            out,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.S)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r'\bid="([^"]*)"', lambda m: f'id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = re.sub(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--sans)", text)
    text = re.sub("|".join(_THEMED), lambda m: f"var(--p-{m[0][1:]})", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    text = re.sub(r"<defs>\s*</defs>", "", re.sub(r"\s*\n\s*", "\n", text))
    # Width and height in CSS; the view box keeps the shape.
    head, tail = text.split(">", 1)
    width = figure.get_size_inches()[0] * 96
    head = re.sub(r'\s(?:width|height|version|xmlns(?::xlink)?)="[^"]*"', "", head)
    safe = label.replace("&", "and").replace('"', "'").replace("<", "less than ")
    style = f'style="width:{width:.0f}px"'
    return f'{head} role="img" aria-label="{safe}" {style}>{tail}'.replace("xlink:href", "href")
