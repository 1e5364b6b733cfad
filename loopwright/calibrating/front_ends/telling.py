"""What a parameter of a front end rests on: the kernel that tells its value from others."""

from collections.abc import Sequence

from loopwright.calibrating.delivery.probe import Probe
from loopwright.calibrating.front_ends.candidates import Value
from loopwright.calibrating.front_ends.search import SAME, SURE, Fit, Search

# What a kernel may take else than predicted and still tell: relative, or uncertainties.
_AS_SAID, _ERRORS = 0.015, 3.0

Timed = Sequence[tuple[Probe, float, float]]  # kernels, their cycles and uncertainties


def source(search: Search, fit: Fit, name: str, timed: Timed) -> str:
    """Return the sentence; it begins with "assumption" where other values explain as much."""
    same: list[Value] = []
    best: tuple[float, str] | None = None
    for value, error, predicted in search.others(fit, name):
        shown = _shown(fit, value, predicted, timed)
        if shown is None or error < fit.error + SURE:
            same.append(value)
        elif best is None or error < best[0]:
            best = error, shown
    told = best[1] if best else ""
    if not same:
        return told
    others = f"no kernel tells it from: {_list(same)}"
    return f"assumption: {others}" + (f"; {told}" if told else "")


def _shown(fit: Fit, value: Value, predicted: Sequence[float], timed: Timed) -> str | None:
    """Return what the kernel took that speaks most against a value, None where none does.

    A kernel that is not explained by what was chosen either tells nothing.
    """
    most, said = SAME, None
    rows = zip(timed, fit.predicted, predicted, strict=True)
    for (probe, cycles, uncertainty), mine, other in rows:
        if mine != mine or other != other:
            continue
        if abs(mine - cycles) > max(_AS_SAID * cycles, _ERRORS * uncertainty):
            continue
        gain = (abs(other - cycles) - abs(mine - cycles)) / cycles
        if gain > most:
            most = gain
            said = f"{probe.name}: {cycles:.2f} +- {uncertainty:.2f} cycles, as predicted"
            said += f" {mine:.2f}; {_spelled(value)} would take {other:.2f}"
    return said


def _spelled(value: Value) -> str:
    if isinstance(value, tuple):
        return str([list(row) for row in value])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(values: Sequence[Value]) -> str:
    """Return values as a list, numbers that follow each other as a range."""
    numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
    if len(numbers) == len(values) > 2:
        ranges: list[list[int]] = []
        for number in numbers:
            if ranges and number == ranges[-1][-1] + 1:
                ranges[-1].append(number)
            else:
                ranges.append([number])
        return ", ".join(f"{r[0]} to {r[-1]}" if len(r) > 1 else str(r[0]) for r in ranges)
    return ", ".join(map(_spelled, values))
