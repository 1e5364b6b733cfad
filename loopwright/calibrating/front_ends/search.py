"""The front end that explains kernels best: values one by one and in pairs, until none helps."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean

from loopwright.calibrating.front_ends.candidates import Structure, Value, Values

_ROUNDS = 6  # at most
_FIRST = 12  # kernels that are predicted first, as most values are wrong there;
_MORE = 3  # and then one for so many that are known
_RECENT = 0.3  # weight of what values did last in what a kernel is likely to say against others
_BETTER = 2e-4  # of the mean error: less decides nothing
SAME = 0.01  # relative: predictions that no kernel tells apart
SURE = 0.001  # of the mean error that another value has to add
_WORTH = 0.03  # of the mean error that a guise may add before its other values are looked for

OF_BUFFER = ("loop_buffer.uops", "loop_buffer.unroll")  # that a loop buffer alone has

Key = tuple[tuple[str, Value], ...]
# What a front end predicts for kernels of these numbers, not a number where it has no answer.
Predict = Callable[[Values, Sequence[int]], Sequence[float]]


@dataclass(frozen=True)
class Fit:
    """A front end of a structure: its values, its mean relative error, its predictions.

    rivals are other values of the same structure that explain kernels as well.
    """

    structure: Structure
    values: Values
    error: float
    predicted: Sequence[float]
    rivals: Sequence[Values] = ()


def error(predicted: Sequence[float], cycles: Sequence[float]) -> float:
    """Return the mean relative error, where one that is off by all of it counts no more."""
    return fmean(_off(p, c) for p, c in zip(predicted, cycles, strict=True))


def _off(predicted: float, cycles: float) -> float:
    return min(abs(predicted - cycles) / cycles, 1.0) if predicted == predicted else 1.0


@dataclass
class _Tried:
    """Values that were tried: what they predict so far, by kernel, and how far it is off in all.

    error is the mean once all kernels are predicted.
    """

    predicted: dict[int, float] = field(default_factory=dict)
    off: float = 0.0
    error: float | None = None


class Search:
    """Looks for the values of structures that predict kernels best."""

    def __init__(
        self, predict: Predict, cycles: Sequence[float], alike: Sequence[Sequence[int]] = ()
    ) -> None:
        """Take what predicts the kernels, and what they took.

        alike has the numbers of kernels that are cheaper to predict together; each has to be in it
        once. Where it is empty, none are.
        """
        self._predict, self._cycles = predict, cycles
        self._alike = alike or [[n] for n in range(len(cycles))]
        # How far each of them was off with values that changed the same parameters.
        self._against: dict[Sequence[str], dict[int, float]] = defaultdict(dict)
        self._tried: dict[Key, _Tried] = {}

    def fit(self, structure: Structure) -> Fit:
        """Return the best values of a structure; of those that are as good, the preferred ones."""
        ends = [self._descend(structure, first) for first in structure.firsts()]
        ends += self._disguised(structure, min(ends, key=self._error))
        least = min(map(self._error, ends)) + _BETTER
        values = next(one for one in ends if self._error(one) <= least)
        values = self._preferred(structure, values, self._error(values))
        best = self._error(values)
        rivals = [one for one in ends if self._error(one) < best + SURE and one != values]
        return Fit(structure, values, best, self._predicted(values), rivals)

    def _disguised(self, structure: Structure, values: Values) -> Iterator[Values]:
        """Yield the best values with a guise on, if it explains kernels about as well as values."""
        worth = self._error(values) + _WORTH
        some = [one for one in structure.disguised(values) if self._error(one, worth) <= worth]
        if some:
            fixed = next(iter(structure.guises))
            free = {name: values for name, values in structure.free.items() if name != fixed}
            yield self._descend(replace(structure, free=free), min(some, key=self._error))

    def others(self, fit: Fit, name: str) -> Iterator[tuple[Value, float, Sequence[float]]]:
        """Yield the other values of a parameter: each with its error and its predictions.

        What is tried together with it takes the value with which kernels are explained best; all
        else is as in the fit, or as in one of its rivals.
        """
        structure = fit.structure
        for value in (*structure.free[name], *structure.beside.get(name, ())):
            if value != fit.values[name]:
                best = {**fit.values, name: value}
                for values in (fit.values, *fit.rivals):
                    for tried in self._with(structure, values, name, value):
                        if self._error(tried, self._error(best)) < self._error(best):
                            best = tried
                yield value, self._error(best), self._predicted(best)

    @staticmethod
    def _with(
        structure: Structure, values: Values, name: str, value: Value
    ) -> Iterator[dict[str, Value]]:
        """Yield values with one replaced, alone and with each value of its partners."""
        yield {**values, name: value}
        for partner in structure.partners(name):
            for other in structure.free[partner]:
                yield {**values, name: value, partner: other}

    def _descend(self, structure: Structure, first: Values) -> Values:
        """Return where changes lead from some values."""
        values, best = first, self._error(first)
        for _ in range(_ROUNDS):
            before = best
            for change in self._changes(structure):
                tried = {**values, **change}
                found = self._error(tried, best - _BETTER, tuple(change))
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
                if self._error(tried, best + _BETTER, (name,)) <= best + _BETTER:
                    values = tried
                    break
        return values

    def _error(
        self, values: Values, enough: float = float("inf"), changed: Sequence[str] = ()
    ) -> float:
        """Return the mean error; once some of the kernels show that it is above enough, that.

        changed are the parameters by which the values differ from others: kernels that told such
        values before come first.
        """
        tried = self._tried.setdefault(key(values), _Tried())
        count = len(self._cycles)
        while len(tried.predicted) < count and tried.off <= enough * count:
            self._go_on(values, tried, self._against[changed])
        if len(tried.predicted) < count:
            return tried.off / count
        if tried.error is None:
            tried.error = error([tried.predicted[n] for n in range(count)], self._cycles)
        return tried.error

    def _go_on(self, values: Values, tried: _Tried, against: dict[int, float]) -> None:
        """Predict more kernels, those first that are likely to be off most."""
        left = [n for n, some in enumerate(self._alike) if some[0] not in tried.predicted]
        left.sort(key=lambda n: -against.get(n, self._against[()].get(n, 1.0)))
        room = max(_FIRST, len(tried.predicted) // _MORE)
        chosen = []
        while left and room > 0:
            room -= len(self._alike[left[0]])
            chosen.append(left.pop(0))
        numbers = [number for n in chosen for number in self._alike[n]]
        tried.predicted |= zip(numbers, self._predict(values, numbers), strict=True)
        for n in chosen:
            some = self._alike[n]
            off = sum(_off(tried.predicted[k], self._cycles[k]) for k in some)
            tried.off += off
            for known in (against, self._against[()]):
                before = known.get(n, off / len(some))
                known[n] = before + _RECENT * (off / len(some) - before)

    def _predicted(self, values: Values) -> Sequence[float]:
        self._error(values)
        known = self._tried[key(values)].predicted
        return [known[n] for n in range(len(self._cycles))]


def key(values: Values) -> Key:
    """Return what tells values from others that act alike."""
    off = not values.get("loop_buffer.enabled", True)
    return tuple(sorted(v for v in values.items() if not (off and v[0] in OF_BUFFER)))
