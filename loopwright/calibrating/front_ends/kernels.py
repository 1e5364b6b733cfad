"""Kernels of a kind of code that a core has figures for, predicted with candidates."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from loopwright.calibrating import parameters, write
from loopwright.calibrating.delivery.front_end import AFTER
from loopwright.calibrating.delivery.probe import Probe
from loopwright.calibrating.front_ends.candidates import Structure, Values
from loopwright.calibrating.front_ends.search import Fit, Key, Search, error, key
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine
from loopwright.calibrating.machines.simulated import answers
from loopwright.calibrating.ports.core import Uops
from loopwright.code import binding

if TYPE_CHECKING:
    from loopwright_pipeline import Core

IDEAL: Values = {"front_end.mode": "ideal", "front_end.fetch": "blocks", "uop_cache.rule": "none"}
_SURE = 0.03  # relative uncertainty, at most: what is known less well tells little
_CORES = 64  # that are kept: a front end is predicted with several times in a row
_AS_GOOD = 0.0003  # of the mean error that tells no two structures apart
# What is taken to need as much as another form, in kernels alone: operands of 16 bits, with which
# prefixes that change lengths come, and the count of a loop.
_COUNT, _BACK = "dec r64", "jne rel"
_TWINS = {"add r16,i16": "add r32,i32", _COUNT: "dec r32"}


class Kernels:
    """The kernels of a kind of code that the core has figures for."""

    def __init__(self, machine: Machine, learned: Learned, part: str) -> None:
        """Take those of learned.front_end; a form that is not known leaves its kernels out."""
        timed = learned.front_end.of(part)
        every = [row for row in timed if row[2] <= _SURE * row[1]]
        codes = [probe.trial.code for probe, _, _ in every]
        named = binding.forms(machine.isa, codes) if codes else []
        names = {name for some in named for name in some or ()}
        self._machine, self._learned = machine, _of(learned, names)
        self._core = lru_cache(_CORES)(self._make)
        self._table = lru_cache(_CORES)(self._write)
        ideal = self._predicted([probe for probe, _, _ in every], IDEAL)
        self._ideal = [one for one in ideal if one == one]
        self.every = [row for row, known in zip(every, ideal, strict=True) if known == known]
        self.fitted = [row for row in self.every if not row[0].aside]
        self.aside = [row for row in self.every if row[0].aside]

    def _predicted(self, probes: Sequence[Probe], values: Values) -> list[float]:
        try:
            core = self._core(key(values))
        except ValueError:
            return [float("nan")] * len(probes)
        timings = answers(core, [probe.trial for probe in probes])
        return [float("nan") if t.cycles is None else t.cycles for t in timings]

    def _make(self, values: Key) -> "Core":
        """Return the core with a front end."""
        table = self._table(tuple(pair for pair in values if pair[0].startswith(AFTER)))
        return binding.core(parameters.text(self._with(values), self._machine), table, {})

    def _write(self, after: Key) -> str:
        """Return the table of forms, in which no more of a front end stands than this."""
        return write.table(self._with(after), self._machine)

    def _with(self, values: Key) -> Learned:
        tried = {name: (value, "tried") for name, value in values}
        front = replace(self._learned.front_end, parameters=tried)
        return replace(self._learned, front_end=front)

    def predict(self, values: Values, numbers: Sequence[int]) -> list[float]:
        """Predict some of the kernels that choices are made by."""
        return self._predicted([self.fitted[n][0] for n in numbers], values)

    def error(self, values: Values) -> float:
        """Return the mean error of all kernels."""
        predicted = self._predicted([probe for probe, _, _ in self.every], values)
        return error(predicted, [cycles for _, cycles, _ in self.every]) if predicted else 0.0

    def of_ideal(self) -> tuple[float, float]:
        """Return the mean and the largest error of all kernels with an ideal front end."""
        cycles = [cycles for _, cycles, _ in self.every]
        rows = zip(self._ideal, cycles, strict=True)
        worst = max((abs(p - cycles) / cycles for p, cycles in rows), default=0.0)
        return (error(self._ideal, cycles) if cycles else 0.0), worst

    def kept(self, values: Values) -> float:
        """Return the mean error of those kept aside."""
        predicted = self._predicted([probe for probe, _, _ in self.aside], values)
        return error(predicted, [cycles for _, cycles, _ in self.aside]) if predicted else 0.0

    def best(self, structures: Sequence[Structure]) -> tuple[Search, list[Fit]]:
        """Fit structures; return them with the best first, of those as good the one preferred."""
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for n, (probe, _, _) in enumerate(self.fitted):
            numbers[probe.trial.code].append(n)
        cycles = [cycles for _, cycles, _ in self.fitted]
        search = Search(self.predict, cycles, list(numbers.values()))
        fits = [search.fit(one) for one in structures]
        least = min(fit.error for fit in fits)
        best = next(fit for fit in fits if fit.error <= least + _AS_GOOD)
        rest = sorted((fit for fit in fits if fit is not best), key=lambda f: f.error)
        return search, [best, *rest]


def _of(learned: Learned, names: set[str]) -> Learned:
    """Keep a few forms, so that a core is made quickly; those not known need what twins do.

    The count of a loop and its branch, whose ports hardly matter, may use any where none is known.
    """
    uops, latencies = {}, {}
    for name in names:
        known = name in learned.uops and learned.uops[name].ports is not None
        source = name if known else _TWINS.get(name, "")
        if source in learned.uops and learned.uops[source].ports is not None:
            uops[name], latencies[name] = learned.uops[source], learned.latencies[source]
        elif name == _COUNT:
            uops[name], latencies[name] = Uops(1, (learned.core.wide,)), []
    ports = {_BACK: learned.core.wide, **learned.branches.ports}
    branches = replace(learned.branches, ports=ports)
    return replace(learned, uops=uops, latencies=latencies, branches=branches)
