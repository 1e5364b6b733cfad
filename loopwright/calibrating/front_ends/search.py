"""The front end that explains kernels best: values one by one and in pairs, until none helps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from loopwright.calibrating.front_ends.candidates import Structure, Value, Values

_ROUNDS = 6  # at most
_PARTS = 6  # that kernels are predicted in, as most values are wrong in the first one
_BETTER = 2e-4  # of the mean error: less decides nothing
SAME = 0.01  # relative: predictions that no kernel tells apart

# What a front end predicts for kernels of these numbers, not a number where it has no answer.
Predict = Callable[[Values, Sequence[int]], Sequence[float]]


@dataclass(frozen=True)
class Fit:
    """A front end of a structure: its values, its mean relative error, its predictions."""

    structure: Structure
    values: Values
    error: float
    predicted: Sequence[float]


def error(predicted: Sequence[float], cycles: Sequence[float]) -> float:
    """Return the mean relative error, where one that is off by all of it counts no more."""
    return fmean(_off(p, c) for p, c in zip(predicted, cycles, strict=True))


def _off(predicted: float, cycles: float) -> float:
    return min(abs(predicted - cycles) / cycles, 1.0) if predicted == predicted else 1.0


class Search:
    """Looks for the values of structures that predict kernels best."""

    def __init__(self, predict: Predict, cycles: Sequence[float]) -> None:
        """Take what predicts the kernels, and what they took."""
        self._predict, self._cycles = predict, cycles
        every = range(len(cycles))
        self._parts = [every[first::_PARTS] for first in range(_PARTS)]
        self._known: dict[tuple[tuple[str, Value], ...], dict[int, float]] = {}

    def fit(self, structure: Structure) -> Fit:
        """Return the best values of a structure; of those that are as good, the preferred ones."""
        ends = [self._descend(structure, first) for first in structure.firsts()]
        values = min(ends, key=self._error)
        values = self._preferred(structure, values, self._error(values))
        return Fit(structure, values, self._error(values), self._predicted(values))

    def others(self, fit: Fit, name: str) -> Iterator[tuple[Value, float, Sequence[float]]]:
        """Yield the other values of a parameter: each with its error and its predictions.

        What is tried together with it takes the value with which kernels are explained best.
        """
        structure = fit.structure
        for value in (*structure.free[name], *structure.beside.get(name, ())):
            if value != fit.values[name]:
                best = {**fit.values, name: value}
                for partner in structure.partners(name):
                    for other in structure.free[partner]:
                        tried = {**fit.values, name: value, partner: other}
                        if self._error(tried, self._error(best)) < self._error(best):
                            best = tried
                yield value, self._error(best), self._predicted(best)

    def _descend(self, structure: Structure, first: Values) -> Values:
        """Return where changes lead from some values."""
        values, best = first, self._error(first)
        for _ in range(_ROUNDS):
            before = best
            for change in self._changes(structure):
                tried = {**values, **change}
                found = self._error(tried, best - _BETTER)
                if found < best - _BETTER:
                    values, best = tried, found
            if best >= before - _BETTER:
                break
        return values

    def _changes(self, structure: Structure) -> Iterator[Mapping[str, Value]]:
        for name, values in structure.free.items():
            yield from ({name: value} for value in values)
        for one, two in structure.together:
            if one in structure.free and two in structure.free:
                for some in product(structure.free[one], structure.free[two]):
                    yield dict(zip((one, two), some, strict=True))

    def _preferred(self, structure: Structure, values: Values, best: float) -> Values:
        for name, some in structure.free.items():
            for value in some:
                tried = {**values, name: value}
                if self._error(tried, best + _BETTER) <= best + _BETTER:
                    values = tried
                    break
        return values

    def _error(self, values: Values, enough: float = float("inf")) -> float:
        """Return the mean error; once a part of the kernels shows that it is above enough, that."""
        known = self._known.setdefault(key(values), {})
        total = 0.0
        for part in self._parts:
            if part and part[0] not in known:
                known.update(zip(part, self._predict(values, part), strict=True))
            total += sum(_off(known[n], self._cycles[n]) for n in part) / len(self._cycles)
            if total > enough:
                break
        return total

    def _predicted(self, values: Values) -> Sequence[float]:
        self._error(values)
        known = self._known[key(values)]
        return [known[n] for n in range(len(self._cycles))]


def key(values: Values) -> tuple[tuple[str, Value], ...]:
    """Return what tells values from others that act alike."""
    off = not values.get("loop_buffer.enabled", True)
    return tuple(sorted(v for v in values.items() if not (off and v[0] == "loop_buffer.uops")))
