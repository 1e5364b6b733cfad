"""Front-end search: candidate structures, and the values that explain microbenchmarks.

A structure lists the simulator's parameters with the values to try, in order of preference where
kernels do not tell them apart: the value that limits nothing comes first. The search changes values
one by one and in pairs until nothing improves. The evidence of a value is the kernel that tells it
from other values.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import isnan
from statistics import fmean

from loopwright.calibrating.core_model import AFTER, Confidence, Evidence, assumed
from loopwright.microbench.front_end import Probe

Value = str | int | bool | tuple[tuple[int, int, int], ...]
Values = Mapping[str, Value]

_FALSE_FIRST = (False, True)
_TRUE_FIRST = (True, False)
UOPS = (2, 3, 4)  # uops of instructions whose decoders may differ
_BYTES = (64, 32, 16, 8)  # of aligned blocks of code


def _down(most: int, least: int = 1) -> Sequence[int]:
    return range(most, least - 1, -1)


@dataclass(frozen=True)
class Structure:
    """A kind of front end: fixed values, free values, and parameters to change together.

    starts are values where a search begins, in the place of the preferred ones. untried are values
    that a search does not try, as kernels hardly tell them from one of those it tries. masking are
    parameters of a part that may deliver small loops in the place of all others, and so hides them;
    their values are tried in every combination, and the first parameter stays fixed.
    """

    name: str
    fixed: Values
    free: Mapping[str, Sequence[Value]]
    together: tuple[tuple[str, str], ...] = ()
    starts: Sequence[Values] = ({},)
    untried: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    masking: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def starting_values(self) -> Iterator[dict[str, Value]]:
        """Yield the values that searches begin with."""
        preferred = {name: values[0] for name, values in self.free.items()}
        yield from ({**self.fixed, **preferred, **start} for start in self.starts)

    def partners(self, name: str) -> Iterator[str]:
        """Yield the parameters that are changed together with one."""
        for one, two in self.together:
            if name in (one, two) and one in self.free and two in self.free:
                yield two if name == one else one


_DECODE: Mapping[str, Sequence[Value]] = {
    "decode.width": _down(12),
    "decode.branch_ends": _FALSE_FIRST,
}
PREDECODED = Structure(
    "a predecoder, one complex decoder and simple ones",
    {"front_end.fetch": "predecoded", "uop_cache.rule": "none"},
    {
        "predecode.block_bytes": _BYTES,
        "predecode.width": _down(16),
        "predecode.queue": (64, 48, 40, 32, 28, *_down(25, 12)),
        "predecode.cross_cycles": (0, 1, 2, 3),
        "predecode.lcp_cycles": range(17),
        **_DECODE,
        "decode.fusible_last": _TRUE_FIRST,
        **{f"{AFTER}.{uops}": ("any", *_down(7, 0)) for uops in UOPS},
    },
    (
        ("predecode.block_bytes", "predecode.width"),
        ("predecode.width", "decode.width"),
        ("predecode.queue", "predecode.cross_cycles"),
    ),
)
BLOCKS = Structure(
    "fetch of aligned blocks and equal decoders",
    {"front_end.fetch": "blocks", "fetch.queue": 64, "uop_cache.rule": "none"},
    {"fetch.block_bytes": _BYTES, **_DECODE},
)
COPIES = Structure(
    "an op cache that holds all copies",
    {
        "front_end.fetch": "blocks",
        "uop_cache.rule": "entry",
        "uop_cache.unrolled": True,
        "uop_cache.width": 16,
    },
    {"uop_cache.region_bytes": (64, 32, 16), "uop_cache.line_uops": _down(16)},
)
STRAIGHT = (BLOCKS, COPIES, PREDECODED)

_READ: Mapping[str, Sequence[Value]] = {
    "uop_cache.width": _down(16),
    "uop_cache.reads": _down(4),
    "uop_cache.joins": ("all", "apart", "none"),
    "uop_cache.wide_ends": _FALSE_FIRST,
    "uop_cache.branch_by_end": _FALSE_FIRST,
    "uop_cache.one_region": _FALSE_FIRST,
    "uop_cache.cut_branch_apart": _FALSE_FIRST,
    "uop_cache.overlaps": _FALSE_FIRST,
}
_BUFFER: Mapping[str, Sequence[Value]] = {
    "loop_buffer.enabled": _FALSE_FIRST,
    "loop_buffer.uops": (*range(16, 73), 80, 96, 112, 128, 144),
    # Copies of a loop that the buffer holds, by uops of the loop: none, those of Haswell (Abel and
    # Reineke, ICS 2022), or so many that the start of the next pass does not show.
    "loop_buffer.unroll": (
        (),
        ((1, 4, 8), (5, 5, 6), (6, 6, 5), (7, 8, 4), (9, 12, 3), (13, 28, 2)),
        ((1, 144, 64),),
    ),
}
_MASKING: Mapping[str, Sequence[Value]] = {
    "loop_buffer.enabled": (True,),
    "loop_buffer.uops": (28, 40, 56, 72),
    "loop_buffer.unroll": _BUFFER["loop_buffer.unroll"],
}
# Loops of one branch tell nothing of rules for one branch behind another.
_UNTRIED: Mapping[str, Sequence[Value]] = {"uop_cache.joins": ("others", "pairs")}
# Searches for entries begin where none limits, and where one is read a cycle, as on Zen 4: no
# single change leads from several to one where entries of two regions overlap.
_ENTRIES: Sequence[Values] = ({}, {"uop_cache.reads": 1, "uop_cache.overlaps": True})
_TAKEN, _BUBBLE = "taken_branch.cycles", "fetch.taken_bubble"
_TOGETHER = (
    ("uop_cache.width", "uop_cache.reads"),
    ("uop_cache.width", "uop_cache.joins"),
    ("uop_cache.reads", "uop_cache.overlaps"),
    ("uop_cache.reads", "uop_cache.joins"),
    ("uop_cache.branch_by_end", "uop_cache.cut_branch_apart"),
    ("loop_buffer.enabled", "loop_buffer.uops"),
    ("loop_buffer.uops", "loop_buffer.unroll"),
)


def loops(straight: Values, taken: int) -> Iterator[Structure]:
    """Yield the structures that may deliver loops, given the front end of straight code.

    taken has the cycles of a loop of one branch, some of which may be a fetch bubble.
    """
    entry: dict[str, Sequence[Value]] = {"uop_cache.region_bytes": (64, 32, 16)}
    branches: dict[str, Sequence[Value]] = {"macro_fusion.boundary_bytes": (0, 64, 32, 16)}
    entry |= {"uop_cache.line_uops": _down(16, 4), **_READ}
    if straight["uop_cache.rule"] == "entry":
        free = {n: v for n, v in {**entry, **branches}.items() if n not in COPIES.free}
        name = "the op cache that holds all copies"
        yield Structure(name, straight, free, _TOGETHER, _ENTRIES, _UNTRIED)
        return
    yield _fetched(straight, branches, taken)
    fixed = {**straight, "uop_cache.rule": "entry"}
    together: tuple[tuple[str, str], ...] = (
        *_TOGETHER,
        ("uop_cache.region_bytes", "uop_cache.line_uops"),
    )
    entries = {**entry, **_BUFFER, **branches}
    name = "an op cache of entries"
    yield Structure(name, fixed, entries, together, _ENTRIES, _UNTRIED, _MASKING)
    region: dict[str, Sequence[Value]] = {
        "uop_cache.region_bytes": (32, 64, 16),
        "uop_cache.lines": _down(8),
        "uop_cache.line_uops": (6, 8, 7, 5, 4, 3, 9, 10, 12),
        **_READ,
        "uop_cache.line_wide": ("unlimited", 1),
        "uop_cache.line_rest_counts": _TRUE_FIRST,
        "uop_cache.joins_short_loops": _FALSE_FIRST,
        "uop_cache.pairs": _FALSE_FIRST,
        "uop_cache.branch_erratum": _FALSE_FIRST,
        **_BUFFER,
        **branches,
    }
    together = (
        ("uop_cache.region_bytes", "uop_cache.lines"),
        ("uop_cache.lines", "uop_cache.line_uops"),
        ("uop_cache.pairs", "uop_cache.branch_erratum"),
        *_TOGETHER,
    )
    fixed = {**straight, "uop_cache.rule": "region"}
    starts: list[Values] = [{"uop_cache.region_bytes": size} for size in (32, 64)]
    cut = {"uop_cache.branch_by_end": True, "uop_cache.cut_branch_apart": True}
    starts.append({"uop_cache.region_bytes": 64, **cut})
    # As on Ice Lake, where a line that ends its region overlaps with the next region's first one.
    starts.append(
        {
            "uop_cache.region_bytes": 64,
            "uop_cache.reads": 1,
            "uop_cache.overlaps": True,
            "uop_cache.line_rest_counts": False,
            "uop_cache.line_wide": 1,
            "uop_cache.joins_short_loops": True,
            "uop_cache.branch_by_end": True,
        }
    )
    name = "an op cache of regions"
    yield Structure(name, fixed, region, together, starts, _UNTRIED, _MASKING)


def _fetched(straight: Values, branches: Mapping[str, Sequence[Value]], taken: int) -> Structure:
    """Return the structure that delivers loops like straight code, but for their taken branch."""
    free = dict(branches)
    starts: list[Values] = [{}]
    if straight["front_end.fetch"] == "blocks":
        free[_BUBBLE] = (0, 1, 2, 3)
        if straight["fetch.block_bytes"] == _BYTES[0]:
            # Where dispatch alone limits straight code, blocks may be as small as the dispatch
            # width.
            free["fetch.block_bytes"] = _BYTES
            starts = [{"fetch.block_bytes": size} for size in _BYTES]
        if taken > 1:
            free[_TAKEN] = (taken, 1)
    fixed = {name: value for name, value in straight.items() if name not in free}
    return Structure("no op cache", fixed, free, ((_BUBBLE, _TAKEN),), starts)


_ROUNDS = 6  # at most
_FIRST = 12  # kernels that are predicted first, as they reject most values
_SHARE = 3  # later rounds predict a third of those predicted so far
_LATEST_WEIGHT = 0.3  # of the latest error in the expected error of a kernel
_BETTER = 2e-4  # of the mean error: smaller improvements do not count
_DIFFERENT = 0.01  # relative difference of predictions that a kernel tells apart
SURE = 0.001  # of the mean error that another value adds, at least
_WORTH = 0.03  # of the mean error that masking may add before its other values are searched

BUFFER_PARAMETERS = ("loop_buffer.uops", "loop_buffer.unroll")  # parameters of a loop buffer alone

Key = tuple[tuple[str, Value], ...]
# Predictions of a front end for kernels of these numbers; not a number without an answer.
Predict = Callable[[Values, Sequence[int]], Sequence[float]]


@dataclass(frozen=True)
class StructureFit:
    """A front end of a structure: its values, mean relative error and predictions.

    rivals are other values of the structure that explain the kernels as well.
    """

    structure: Structure
    values: Values
    error: float
    predicted: Sequence[float]
    rivals: Sequence[Values] = ()


def mean_error(predicted: Sequence[float], cycles: Sequence[float]) -> float:
    """Return the mean relative error, each capped at 1."""
    return fmean(_capped_error(p, c) for p, c in zip(predicted, cycles, strict=True))


def _capped_error(predicted: float, cycles: float) -> float:
    return min(abs(predicted - cycles) / cycles, 1.0) if not isnan(predicted) else 1.0


@dataclass
class _Predictions:
    """Predictions of a front end: cycles so far by kernel, and the sum of their errors.

    error is the mean once all kernels are predicted.
    """

    cycles: dict[int, float] = field(default_factory=dict)
    error_sum: float = 0.0
    error: float | None = None


class Search:
    """Search for the values of structures that predict kernels best."""

    def __init__(
        self, predict: Predict, cycles: Sequence[float], alike: Sequence[Sequence[int]] = ()
    ) -> None:
        """Take the function that predicts kernels, and their measured cycles.

        alike groups the numbers of kernels that are cheaper to predict together, each in exactly
        one group; without it each kernel is a group.
        """
        self._predict, self._cycles = predict, cycles
        self._alike = alike or [[n] for n in range(len(cycles))]
        # Expected error of each group by the parameters that were changed.
        self._expected: dict[Sequence[str], dict[int, float]] = defaultdict(dict)
        self._tried: dict[Key, _Predictions] = {}

    def fit(self, structure: Structure) -> StructureFit:
        """Return the best values of a structure; of equally good ones, the preferred."""
        ends = [self._descend(structure, start) for start in structure.starting_values()]
        ends += self._masked(structure, min(ends, key=self._mean_error))
        least = min(map(self._mean_error, ends)) + _BETTER
        values = next(end for end in ends if self._mean_error(end) <= least)
        values = self._preferred(structure, values, self._mean_error(values))
        best = self._mean_error(values)
        rivals = [end for end in ends if self._mean_error(end) < best + SURE and end != values]
        return StructureFit(structure, values, best, self._predicted(values), rivals)

    def _masked(self, structure: Structure, values: Values) -> Iterator[Values]:
        """Yield the best values with masking, if they explain kernels about as well as values."""
        worth = self._mean_error(values) + _WORTH
        names = structure.masking
        combinations = product(*names.values()) if names else ()
        masked = ({**values, **dict(zip(names, own, strict=True))} for own in combinations)
        promising = [one for one in masked if self._mean_error(one, worth) <= worth]
        if promising:
            fixed = next(iter(names))
            free = {name: choices for name, choices in structure.free.items() if name != fixed}
            start = min(promising, key=self._mean_error)
            yield self._descend(replace(structure, free=free), start)

    def alternatives(
        self, fit: StructureFit, name: str
    ) -> Iterator[tuple[Value, float, Sequence[float]]]:
        """Yield the other values of a parameter with their error and predictions.

        Parameters that are changed together with it take their best values; all others are as in
        the fit, or as in one of its rivals.
        """
        structure = fit.structure
        for value in (*structure.free[name], *structure.untried.get(name, ())):
            if value == fit.values[name]:
                continue
            best = {**fit.values, name: value}
            for values in (fit.values, *fit.rivals):
                for tried in self._replaced(structure, values, name, value):
                    least = self._mean_error(best)
                    if self._mean_error(tried, least) < least:
                        best = tried
            yield value, self._mean_error(best), self._predicted(best)

    @staticmethod
    def _replaced(
        structure: Structure, values: Values, name: str, value: Value
    ) -> Iterator[dict[str, Value]]:
        """Yield values with one replaced, alone and with each value of its partners."""
        yield {**values, name: value}
        for partner in structure.partners(name):
            for other in structure.free[partner]:
                yield {**values, name: value, partner: other}

    def _descend(self, structure: Structure, start: Values) -> Values:
        """Return the best values that single changes and pairs of changes lead to from a start."""
        values, least = start, self._mean_error(start)
        for _ in range(_ROUNDS):
            before = least
            for change in self._changes(structure):
                tried = {**values, **change}
                error = self._mean_error(tried, least - _BETTER, tuple(change))
                if error < least - _BETTER:
                    values, least = tried, error
            if least >= before - _BETTER:
                break
        return values

    def _changes(self, structure: Structure) -> Iterator[Mapping[str, Value]]:
        for name, values in structure.free.items():
            yield from ({name: value} for value in values)
        for one, two in structure.together:
            if one in structure.free and two in structure.free:
                for pair in product(structure.free[one], structure.free[two]):
                    yield dict(zip((one, two), pair, strict=True))

    def _preferred(self, structure: Structure, values: Values, least: float) -> Values:
        """Return values with each parameter at the first value that leaves the least error."""
        for name, choices in structure.free.items():
            for value in choices:
                tried = {**values, name: value}
                if self._mean_error(tried, least + _BETTER, (name,)) <= least + _BETTER:
                    values = tried
                    break
        return values

    def _mean_error(
        self, values: Values, enough: float = float("inf"), changed: Sequence[str] = ()
    ) -> float:
        """Return the mean error, or a lower bound above enough as soon as kernels show one.

        changed are the parameters in which the values differ from the best ones so far. Kernels
        that rejected such changes before come first.
        """
        tried = self._tried.setdefault(values_key(values), _Predictions())
        count = len(self._cycles)
        while len(tried.cycles) < count and tried.error_sum <= enough * count:
            self._predict_more(values, tried, self._expected[changed])
        if len(tried.cycles) < count:
            return tried.error_sum / count
        if tried.error is None:
            tried.error = mean_error([tried.cycles[n] for n in range(count)], self._cycles)
        return tried.error

    def _predict_more(
        self, values: Values, tried: _Predictions, expected: dict[int, float]
    ) -> None:
        """Predict more kernels, those with the largest expected error first."""
        open_groups = [n for n, group in enumerate(self._alike) if group[0] not in tried.cycles]
        open_groups.sort(key=lambda n: -expected.get(n, self._expected[()].get(n, 1.0)))
        room = max(_FIRST, len(tried.cycles) // _SHARE)
        chosen = []
        while open_groups and room > 0:
            room -= len(self._alike[open_groups[0]])
            chosen.append(open_groups.pop(0))
        numbers = [number for n in chosen for number in self._alike[n]]
        tried.cycles |= zip(numbers, self._predict(values, numbers), strict=True)
        for n in chosen:
            group = self._alike[n]
            error_sum = sum(_capped_error(tried.cycles[k], self._cycles[k]) for k in group)
            tried.error_sum += error_sum
            error = error_sum / len(group)
            for errors in (expected, self._expected[()]):
                before = errors.get(n, error)
                errors[n] = before + _LATEST_WEIGHT * (error - before)

    def _predicted(self, values: Values) -> Sequence[float]:
        self._mean_error(values)
        cycles = self._tried[values_key(values)].cycles
        return [cycles[n] for n in range(len(self._cycles))]


def values_key(values: Values) -> Key:
    """Return a key that is the same for values with the same effect."""
    disabled = not values.get("loop_buffer.enabled", True)
    return tuple(sorted(v for v in values.items() if not (disabled and v[0] in BUFFER_PARAMETERS)))


# Largest error of a kernel that tells values apart: relative, or in uncertainties.
_RELATIVE, _UNCERTAINTIES = 0.015, 3.0

TimedProbes = Sequence[tuple[Probe, float, float]]  # kernels, their cycles and uncertainties


def evidence_for(search: Search, fit: StructureFit, name: str, timed: TimedProbes) -> Evidence:
    """Return the evidence of a value; an assumption where other values explain as much."""
    alike: list[Value] = []
    best: tuple[float, str] | None = None
    for value, error, predicted in search.alternatives(fit, name):
        kernel = _deciding_kernel(fit, value, predicted, timed)
        if kernel is None or error < fit.error + SURE:
            alike.append(value)
        elif best is None or error < best[0]:
            best = error, kernel
    reason = best[1] if best else ""
    if not alike:
        return Evidence(reason, Confidence.FITTED)
    others = f"no kernel tells it from: {_enumerated(alike)}"
    return assumed(others + (f"; {reason}" if reason else ""))


def _deciding_kernel(
    fit: StructureFit, value: Value, predicted: Sequence[float], timed: TimedProbes
) -> str | None:
    """Return the kernel that speaks most against a value, in words; None if none does.

    A kernel that the chosen values do not explain either does not count.
    """
    most, note = _DIFFERENT, None
    rows = zip(timed, fit.predicted, predicted, strict=True)
    for (probe, cycles, uncertainty), chosen, other in rows:
        if isnan(chosen) or isnan(other):
            continue
        error = abs(chosen - cycles)
        if error > max(_RELATIVE * cycles, _UNCERTAINTIES * uncertainty):
            continue
        gain = (abs(other - cycles) - error) / cycles
        if gain > most:
            most = gain
            note = f"{probe.name}: {cycles:.2f} +- {uncertainty:.2f} cycles, as predicted"
            note += f" {chosen:.2f}; {_as_text(value)} would take {other:.2f}"
    return note


def _as_text(value: Value) -> str:
    if isinstance(value, tuple):
        return str([list(row) for row in value])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _enumerated(values: Sequence[Value]) -> str:
    """Return values as a list, consecutive numbers as ranges."""
    numbers = sorted(v for v in values if isinstance(v, int) and not isinstance(v, bool))
    if len(numbers) == len(values) > 2:
        ranges: list[list[int]] = []
        for number in numbers:
            if ranges and number == ranges[-1][-1] + 1:
                ranges[-1].append(number)
            else:
                ranges.append([number])
        return ", ".join(f"{r[0]} to {r[-1]}" if len(r) > 1 else str(r[0]) for r in ranges)
    return ", ".join(map(_as_text, values))
