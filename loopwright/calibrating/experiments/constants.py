"""Constants that rename adds: additions of them to a register need no port and no cycle.

Asked: up to which constant. Kernel: a register to which a constant is added and from which it is
taken again, so that what rename has added stays within it. Answer: the cycles of an addition, by
the constant; less than most of a cycle where rename does it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory

_POWERS = range(7, 16)  # of two, around which constants are tried
_TIMES = 8  # additions of a kernel
_RENAMED = 0.7  # cycles
_TRIED = (1, *(n for power in _POWERS for n in ((1 << power) - 1, 1 << power)))
_MORE = 1 << 16
NONE = 0


@dataclass(frozen=True)
class Constants:
    """The largest constant tried that rename adds, NONE where it adds none."""

    limit: int
    said: str


def measure(laboratory: Laboratory, form: Form | None) -> Constants:
    """Return the constants that rename adds; form adds any, none stands for no such form."""
    if form is None:
        return Constants(NONE, "")
    register = form.kit.POOLS["gpr"].back[0]
    asked = [
        [form.encode({"0": register, "i": sign * n}) for sign in (1, -1)] * (_TIMES // 2)
        for n in _TRIED
    ]
    answers = zip(_TRIED, laboratory.time(asked), strict=True)
    known = {n: figure.cycles / _TIMES for n, figure in answers if figure}
    slow = min((n for n, cycles in known.items() if cycles >= _RENAMED), default=_MORE)
    limit = max((n for n in known if n < slow), default=NONE)
    if not limit:
        return Constants(NONE, "")
    said = f"{known[1]:.2f} cycles for each addition of 1"
    return Constants(limit, said + (f", {known[slow]:.2f} of {slow}" if slow in known else ""))


def computed(
    latencies: Mapping[str, Sequence[Latency]], constants: Constants, names: Sequence[str]
) -> dict[str, Sequence[Latency]]:
    """Return latencies with those that additions of these names have where a unit does them."""
    out = dict(latencies)
    if constants.limit:
        for name in names:
            out[name] = [_of_a_unit(one) for one in latencies.get(name, ())]
    return out


def _of_a_unit(latency: Latency) -> Latency:
    return latency if latency.refused else replace(latency, cycles=1, bound=False)
