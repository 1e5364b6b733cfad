"""The one place that says how a model and a variant look, in every figure and on every page.

Models have the colours of Okabe and Ito (2008), variants the "muted" ones of Tol (2021); both are
made to be told apart by colour-blind readers, and each comes with a marker and a hatch, so that a
figure also reads without colour.
"""

from dataclasses import dataclass
from zlib import crc32

from loopwright import kernels
from loopwright.judging.study import MEASURED
from loopwright.predicting.models import MODELS

INK = "#1b1f24"
FAINT = "#c9ced6"

# Those that have too little contrast with a dark page have a lighter twin for it.
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
    """Style of one source or variant: a colour, and a mark that tells it apart without colour."""

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
    """Return the style of a variant: by its place in kernel.toml, else by its name alone.

    What a Linux tree has itself (tree:VERSION) is in the colour of the text.
    """
    if kernels.is_own_code(name):
        return Style(INK, "*", "", "--")
    known = list(kernels.load(kernel).variants) if kernel in kernels.ids() else []
    return _style(TOL_MUTED, known.index(name) if name in known else crc32(name.encode()))


def numbered(number: int) -> Style:
    """Return the style of what only has a number: an instruction of a block."""
    return _style(TOL_MUTED, number)


def _style(colours: tuple[str, ...], at: int) -> Style:
    """Return the style at a place; past the last colour the lines' dashes tell them apart."""
    turn, place = divmod(at, len(colours))
    n = len(_MARKERS)
    return Style(
        colours[place],
        _MARKERS[(place + turn) % n],
        _HATCHES[(place + turn) % n],
        _DASHES[turn % len(_DASHES)],
    )
