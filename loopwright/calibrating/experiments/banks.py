"""Banks of the cache: loads of one word of which too many cannot start in one cycle.

Asked: how many loads of a cycle can read one word, and how large a word is. Kernels: loads of one
place, of a line and a word each, and of bytes of which one or two lie together and one lies further
on. Answer: the cycles of a load; where those of one place take no longer, no word is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure

_TIMES = 6  # loads of a kernel
_LINE, _WORD = 64, 8  # bytes
_SLOWER = 1.2  # times that loads of one place take
_TOGETHER = (1, 2)
_STEPS = (2, 4, 8, 16, 32)  # bytes
_ONE, _APART = "loads of one place", "loads of a line each"


@dataclass(frozen=True)
class Banks:
    """So many loads of a cycle can read one word of so many bytes; what that rests on."""

    loads: int
    bytes: int | None
    said: str


def asked(load: Form, narrow: Form | None) -> dict[str, list[bytes]]:
    """Return kernels by what they show; narrow loads a byte."""
    places = {_ONE: [0] * _TIMES, _APART: [(_LINE + _WORD) * n for n in range(_TIMES)]}
    out = {name: loads(load, some) for name, some in places.items()}
    if narrow:
        for together in _TOGETHER:
            for step in _STEPS:
                some = [*[0] * together, step] * (_TIMES // (together + 1))
                out[_beside(together, step)] = loads(narrow, some)
    return out


def found(figures: Mapping[str, Figure]) -> Banks | None:
    """Return what figures of the kernels say, None where no word was seen."""
    one, apart = figures.get(_ONE), figures.get(_APART)
    if not one or not apart or one.cycles <= _SLOWER * apart.cycles:
        return None
    loads = round(_TIMES / one.cycles)
    said = f"{_TIMES} {_ONE} take {one.cycles:.1f} cycles, {_APART} {apart.cycles:.1f}"
    if loads not in _TOGETHER:
        return None
    best = max(apart.cycles / _TIMES, 1 / (2 * loads))
    between = (one.cycles / _TIMES + best) / 2
    others = [
        step
        for step in _STEPS
        if (other := figures.get(_beside(loads, step))) and other.cycles / _TIMES < between
    ]
    return Banks(loads, others[0] if others else None, said)


def _beside(together: int, step: int) -> str:
    return f"loads of a byte, one of {together + 1} {step} bytes on"


def loads(form: Form, places: Sequence[int]) -> list[bytes]:
    """Return loads of these places to different registers."""
    (result,) = (one for one in form.chosen if one.written)
    pool = kernels.registers_of(form, result.kind, alone=True)
    return [
        form.encode({**kernels.registers(form, {result.label: register}), "disp": place})
        for register, place in zip(pool, places, strict=False)
    ]
