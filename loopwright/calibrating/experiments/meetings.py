"""Loads and stores that cross a boundary, lie side by side, or meet in part.

Asked: what an access across a boundary costs, which stores are written to the cache together, and
what a load takes that reads a part of what a store stored, or more. Kernels: accesses of places
that differ in this alone, by what they show; no single one tells a rule.
"""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.experiments import banks, stored
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Kit

BOUNDARIES = (16, 32, 64)  # bytes
VECTOR = "a chain by vectors"
UPPER, MORE = "a chain by the upper half", "a chain by more than was stored"
_LINE = 64  # bytes
_HALF = 4  # bytes of an access before a boundary that it crosses
_TIMES = 6  # accesses of a kernel


def loads(load: Form) -> dict[str, list[bytes]]:
    """Return loads of 8 bytes by the boundary that they cross."""
    steps = [(_LINE + 8) * n for n in range(_TIMES)]
    out = {"loads across nothing": banks.loads(load, steps)}
    for boundary in BOUNDARIES:
        places = [_LINE * (n - _TIMES // 2) + boundary - _HALF for n in range(_TIMES)]
        out[f"loads across {boundary} bytes"] = banks.loads(load, places)
    return out


def stores(store: Form) -> dict[str, list[bytes]]:
    """Return stores of 8 bytes by the boundary that lies between them, or that they cross."""
    out = {
        "stores of one place": stored.stores(store, [0] * _TIMES),
        "stores side by side": stored.stores(store, [8 * n for n in range(16)]),
        "stores a line apart": stored.stores(store, [(_LINE + 8) * n for n in range(16)]),
    }
    for boundary in BOUNDARIES:
        beside = [boundary - 8, boundary] * (_TIMES // 2)
        out[f"stores on either side of {boundary} bytes"] = stored.stores(store, beside)
        across = [boundary - _HALF] * _TIMES
        out[f"stores across {boundary} bytes"] = stored.stores(store, across)
    return out


def narrow(store: Form) -> dict[str, list[bytes]]:
    """Return stores of a form to some lines in turn, and side by side."""
    out = {
        f"bytes stored to {lines} lines in turn": stored.stores(store, [_LINE * n for n in some])
        for lines in (2, _TIMES)
        for some in [[n % lines for n in range(_TIMES)]]
    }
    return out | {"bytes stored side by side": stored.stores(store, list(range(_TIMES)))}


def parts(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return stores and loads of a part or of more; those that are no chain wait for nothing."""
    names = (*kit.FORWARDS["a part"], *kit.FORWARDS["more than was stored"])
    if not all(name in forms for name in names):
        return {}
    store, half, short, load = (forms[name] for name in names)
    return {
        "a chain by the lower half": stored.pair(store, half),
        UPPER: stored.pair(store, half, of={"disp": _HALF}),
        MORE: stored.pair(short, load),
        "a half of what was stored": _apart([store], half),
        "more than was stored": _apart([short], load),
        "what was stored as halves": _apart([short, short], load),
    }


def vectors(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return a store and a load of a vector, as a chain."""
    store, load = (forms.get(name) for name in kit.FORWARDS["vector"])
    return {VECTOR: stored.pair(store, load)} if store and load else {}


def _apart(written: Sequence[Form], load: Form) -> list[bytes]:
    """Return stores side by side of what nothing writes, and a load to a register of its own."""
    out = []
    for n, store in enumerate(written):
        out += stored.stores(store, [_HALF * n])
    return [*out, *banks.loads(load, [0])]
