"""Front-end fit: the structure of the simulator's front end that explains the microbenchmarks.

Straight code comes first, then loops on top of it. Each structure is fitted to microbenchmarks, and
those held out measure its error. Where no structure explains a kind of code better than dispatch
alone, the front end is one that hardly ever limits, or an ideal one where that holds for both
kinds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING

from loopwright.calibrating import core_files, front_end_search
from loopwright.calibrating.core_model import (
    AFTER,
    TRIED,
    UNKNOWN,
    Confidence,
    CoreModel,
    Evidence,
    Parameters,
    assumed,
    fitted,
)
from loopwright.calibrating.front_end_search import (
    BUFFER_PARAMETERS,
    SURE,
    UOPS,
    Key,
    Search,
    Structure,
    StructureFit,
    TimedProbes,
    Value,
    Values,
    evidence_for,
    mean_error,
    values_key,
)
from loopwright.calibrating.ports import Uops
from loopwright.code import binding
from loopwright.microbench.forms import Form
from loopwright.microbench.front_end import LOOPS, STRAIGHT, Probe
from loopwright.microbench.oracle import Oracle, answers

if TYPE_CHECKING:
    from loopwright_pipeline import Core


IDEAL: Values = {"front_end.mode": "ideal", "front_end.fetch": "blocks", "uop_cache.rule": "none"}
_SURE = 0.03  # relative uncertainty of a microbenchmark, at most
_CORES = 64  # cores to keep, as a front end is simulated several times in a row
_AS_GOOD = 0.0003  # of the mean error: structures that differ by less are as good
# Twins whose figures stand in, in these kernels alone: for operands of 16 bits, with their
# length-changing prefixes, and for the count of a loop.
_COUNT, _BACK = "dec r64", "jne rel"
_TWINS = {"add r16,i16": "add r32,i32", _COUNT: "dec r32"}
_FORMS = 2  # forms for each number of uops


def multi_uop_forms(forms: Sequence[Form], known: Mapping[str, Uops]) -> Iterator[tuple[Form, int]]:
    """Yield multi-uop forms with a high throughput and their uops, those of fewest uops first."""
    for slots in UOPS:
        fitting = [form for form in forms if _plain(form) and _has_slots(known[form.name], slots)]
        fitting.sort(key=lambda form: (_port_pressure(known[form.name]), form.name))
        yield from ((form, slots) for form in fitting[:_FORMS])


def _plain(form: Form) -> bool:
    """True if a form uses general registers alone."""
    return form.memory is None and all(o.kind in ("gpr", "flags", "") for o in form.operands)


def _has_slots(uops: Uops, slots: int) -> bool:
    """True if a form has so many slots, a uop for each, and keeps no unit busy."""
    return uops.slots == slots == len(uops.ports or ()) and not uops.busy


def _port_pressure(uops: Uops) -> float:
    """Return the uops on the busiest port, if each uop is spread evenly over its ports."""
    sets = uops.ports or ()
    return max(sum(1 / len(ports) for ports in sets if port in ports) for port in range(64))


class Kernels:
    """Kernels of a kind of code that the core has figures for: all, fitted ones, held-out ones."""

    def __init__(self, machine: Oracle, learned: CoreModel, part: str) -> None:
        """Take kernels of learned.front_end; imprecise ones and those of unknown forms drop out."""
        precise = [row for row in learned.front_end.of(part) if row[2] <= _SURE * row[1]]
        codes = [probe.trial.code for probe, _, _ in precise]
        names_by_code = binding.forms(machine.isa, codes) if codes else []
        names = {name for names in names_by_code for name in names or ()}
        self._machine, self._learned = machine, _with_forms(learned, names)
        self._core_of = lru_cache(_CORES)(self._make_core)
        self._table_of = lru_cache(_CORES)(self._make_table)
        ideal = self._predicted([probe for probe, _, _ in precise], IDEAL)
        self._ideal = [cycles for cycles in ideal if not isnan(cycles)]
        pairs = zip(precise, ideal, strict=True)
        self.timed = [row for row, cycles in pairs if not isnan(cycles)]
        self.fitted = [row for row in self.timed if not row[0].aside]
        self.held_out = [row for row in self.timed if row[0].aside]

    def _predicted(self, probes: Sequence[Probe], values: Values) -> list[float]:
        try:
            core = self._core_of(values_key(values))
        except ValueError:
            return [float("nan")] * len(probes)
        timings = answers(core, [probe.trial for probe in probes])
        return [float("nan") if t.cycles is None else t.cycles for t in timings]

    def _make_core(self, values: Key) -> "Core":
        """Return the core with a front end."""
        table = self._table_of(tuple(pair for pair in values if pair[0].startswith(AFTER)))
        toml = core_files.core_toml(self._learned_with(values), self._machine)
        return binding.Core(toml, table, {})

    def _make_table(self, after: Key) -> str:
        """Return the table of forms, which depends on these front-end values alone."""
        return core_files.instruction_table(self._learned_with(after), self._machine)

    def _learned_with(self, values: Key) -> CoreModel:
        tried = {name: (value, TRIED) for name, value in values}
        front = replace(self._learned.front_end, parameters=tried)
        return replace(self._learned, front_end=front)

    def predict(self, values: Values, numbers: Sequence[int]) -> list[float]:
        """Return the predicted cycles of fitted kernels, by their numbers."""
        return self._predicted([self.fitted[n][0] for n in numbers], values)

    def error(self, values: Values) -> float:
        """Return the mean relative error over all kernels."""
        return self._error(self.timed, values)

    def held_out_error(self, values: Values) -> float:
        """Return the mean relative error over the held-out kernels."""
        return self._error(self.held_out, values)

    def _error(self, timed: TimedProbes, values: Values) -> float:
        predicted = self._predicted([probe for probe, _, _ in timed], values)
        return mean_error(predicted, [cycles for _, cycles, _ in timed]) if timed else 0.0

    def ideal_errors(self) -> tuple[float, float]:
        """Return the mean and the largest relative error of an ideal front end over all kernels."""
        cycles = [cycles for _, cycles, _ in self.timed]
        pairs = zip(self._ideal, cycles, strict=True)
        worst = max((abs(p - c) / c for p, c in pairs), default=0.0)
        return (mean_error(self._ideal, cycles) if cycles else 0.0), worst

    def fit_structures(self, structures: Sequence[Structure]) -> tuple[Search, list[StructureFit]]:
        """Fit structures; return them with the best first, of equally good ones the preferred."""
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for n, (probe, _, _) in enumerate(self.fitted):
            numbers[probe.trial.code].append(n)
        cycles = [cycles for _, cycles, _ in self.fitted]
        search = Search(self.predict, cycles, list(numbers.values()))
        fits = [search.fit(structure) for structure in structures]
        least = min(fit.error for fit in fits)
        best = next(fit for fit in fits if fit.error <= least + _AS_GOOD)
        others = sorted((fit for fit in fits if fit is not best), key=lambda fit: fit.error)
        return search, [best, *others]


def _with_forms(learned: CoreModel, names: set[str]) -> CoreModel:
    """Return the learned core with few forms, so that it is quick to build.

    Unknown forms take the figures of their twins. The counting instruction and branch of a loop may
    use any port if theirs are unknown, as these hardly matter.
    """
    uops, latencies = {}, {}
    for name in names:
        known = name in learned.uops and learned.uops[name].ports is not None
        source = name if known else _TWINS.get(name, "")
        if source in learned.uops and learned.uops[source].ports is not None:
            uops[name], latencies[name] = learned.uops[source], learned.latencies[source]
        elif name == _COUNT:
            uops[name], latencies[name] = Uops(1, (learned.core.all_arithmetic,)), []
    ports = {_BACK: learned.core.all_arithmetic, **learned.branches.ports}
    branches = replace(learned.branches, ports=ports)
    return replace(learned, uops=uops, latencies=latencies, branches=branches)


_EXPLAINED = 0.05  # mean relative error of explained kernels, at most
_GAIN = 0.8  # share of the error of an ideal front end that is left, at most
_LEAST = 8  # kernels to fit a front end to, at least
# An op cache that never limits; straight code is decoded all the same.
_UNLIMITED_OP_CACHE: Values = {
    "uop_cache.rule": "entry",
    "uop_cache.region_bytes": 64,
    "uop_cache.line_uops": 16,
    "uop_cache.width": 16,
    "uop_cache.reads": 16,
    "uop_cache.joins": "all",
}
# Fetch and decoders that hardly ever limit.
_UNLIMITED_FETCH: Values = {
    "front_end.fetch": "blocks",
    "fetch.block_bytes": 64,
    "fetch.queue": 64,
    "decode.width": 12,
    "decode.branch_ends": False,
    "uop_cache.rule": "none",
}
_STRUCTURAL = ("front_end.fetch", "uop_cache.rule", "uop_cache.unrolled")
# Slower delivery of loops than on any known core: entries of few uops, one a cycle, and none
# continued behind a branch.
_SLOWEST_OP_CACHE: Values = {
    "uop_cache.rule": "entry",
    "uop_cache.region_bytes": 64,
    "uop_cache.line_uops": 6,
    "uop_cache.width": 6,
    "uop_cache.reads": 1,
    "uop_cache.joins": "none",
    "uop_cache.branch_by_end": True,
}
_SLOWEST_FETCH: Values = {**_UNLIMITED_FETCH, "fetch.block_bytes": 16, "decode.width": 4}


@dataclass(frozen=True)
class _Choice:
    """Parameters for a kind of code with their evidence, and a summary of the fit.

    least and most are the values that limit least and most of those that kernels leave open; None
    where the parameters themselves are that end of the range.
    """

    parameters: Mapping[str, tuple[Value, Evidence]]
    summary: str
    explained: bool
    least: Values | None = None
    most: Values | None = None

    @property
    def values(self) -> Values:
        """Return the values without their evidence."""
        return {name: value for name, (value, _) in self.parameters.items()}

    def end(self, name: str) -> Values:
        """Return the values of an end of the range, least or most."""
        end = self.least if name == "least" else self.most
        return self.values if self.explained or not end else end


def choose_front_end(machine: Oracle, learned: CoreModel) -> CoreModel:
    """Return the learned core with its front end, as a range where kernels leave it open."""
    straight = _choose_straight(Kernels(machine, learned, STRAIGHT))
    choices = {STRAIGHT: straight}
    taken = core_files.taken_cycles(learned)
    structures = list(front_end_search.loops(straight.values, taken))
    loops = _choose_loops(Kernels(machine, learned, LOOPS), structures, straight)
    if any(probe.part == LOOPS for probe in learned.front_end.probes):
        choices[LOOPS] = loops
    left = {
        f"front end of {part}": choice.summary
        for part, choice in choices.items()
        if not choice.explained
    }
    ends: list[Parameters] = []
    for end in ("least", "most") if left else ():
        values = dict(straight.end(end))
        # Values that loops share with straight code are those of that end of the range.
        values |= {n: v for n, v in loops.end(end).items() if straight.values.get(n) != v}
        why = fitted(f"the {end} of a range")
        ends.append(_without_buffer({name: (value, why) for name, value in values.items()}))
    front_end = replace(
        learned.front_end,
        parameters=_without_buffer({**straight.parameters, **loops.parameters}),
        summaries={part: choice.summary for part, choice in choices.items()},
        left=left,
        ends=(ends[0], ends[1]) if ends else None,
    )
    return replace(learned, front_end=front_end)


def _without_buffer(
    parameters: Mapping[str, tuple[Value, Evidence]],
) -> Parameters:
    """Return parameters without those of a disabled loop buffer."""
    enabled, _ = parameters.get("loop_buffer.enabled", (True, UNKNOWN))
    return {n: pair for n, pair in parameters.items() if enabled or n not in BUFFER_PARAMETERS}


def _choose_straight(kernels: Kernels) -> _Choice:
    """Choose the front end of straight code."""
    if len(kernels.fitted) < _LEAST:
        return _unlimited_fetch(
            f"{len(kernels.fitted)} kernels could be predicted", explained=False
        )
    ideal, worst = kernels.ideal_errors()
    note = f"dispatch alone explains {len(kernels.timed)} kernels of straight code, "
    note += f"mean error {100 * ideal:.1f} %"
    if worst <= _EXPLAINED:
        return _unlimited_fetch(note, explained=True)
    chosen = _best_structure(kernels, front_end_search.STRAIGHT, {})
    better = kernels.error(chosen.values) < _GAIN * ideal
    if chosen.explained and better:
        return chosen
    if ideal <= _EXPLAINED and not better:
        return _unlimited_fetch(f"{note}; {chosen.summary}", explained=True)
    note = f"{chosen.summary}; an ideal one {100 * ideal:.1f} %"
    if better:
        return _doubted(chosen, note, _UNLIMITED_FETCH)
    return replace(_unlimited_fetch(note, explained=False), most=chosen.most)


def _unlimited_fetch(summary: str, *, explained: bool) -> _Choice:
    """Return a front end that delivers straight code at the dispatch width, unless it is long."""
    why = assumed(f"as wide as can be; {summary}")
    parameters = {name: (value, why) for name, value in _UNLIMITED_FETCH.items()}
    return _Choice(parameters, summary, explained, most=None if explained else _SLOWEST_FETCH)


def _doubted(chosen: _Choice, summary: str, least: Values) -> _Choice:
    """Return a choice that explains kernels better than an ideal front end, but not well."""
    parameters = {
        name: (value, why if why.assumed else assumed(why))
        for name, (value, why) in chosen.parameters.items()
    }
    return replace(chosen, parameters=parameters, summary=summary, explained=False, least=least)


def _choose_loops(kernels: Kernels, structures: Sequence[Structure], straight: _Choice) -> _Choice:
    """Choose the front end of loops, given that of straight code."""
    if len(kernels.fitted) < _LEAST:
        return _unlimited_op_cache(straight, f"{len(kernels.fitted)} loops could be predicted")
    chosen = _best_structure(kernels, structures, straight.parameters)
    if chosen.explained:
        return chosen
    unlimited = _unlimited_op_cache(straight, chosen.summary)
    least = {**straight.values, **unlimited.values}
    if kernels.held_out_error(chosen.values) < _GAIN * kernels.held_out_error(least):
        return _doubted(chosen, chosen.summary, least)
    return replace(unlimited, most=chosen.most)


def _unlimited_op_cache(straight: _Choice, summary: str) -> _Choice:
    """Return an op cache that never limits; one that holds unrolled code stays as it is."""
    most = {**straight.values, **_SLOWEST_OP_CACHE}
    if straight.values["uop_cache.rule"] == "entry":
        summary = f"{summary}; that of straight code is taken"
        return _Choice({}, summary, explained=False, most=most)
    why = assumed(f"it never binds loops; {summary}")
    parameters = {name: (value, why) for name, value in _UNLIMITED_OP_CACHE.items()}
    return _Choice(parameters, summary, explained=False, most=most)


def _best_structure(
    kernels: Kernels, structures: Sequence[Structure], before: Mapping[str, tuple[Value, Evidence]]
) -> _Choice:
    """Return the structure that explains kernels best, with the evidence of each value.

    before are the parameters that are chosen already.
    """
    search, fits = kernels.fit_structures(structures)
    fit = fits[0]
    held_out = kernels.held_out_error(fit.values)
    note = f"{fit.structure.name}: mean error {100 * fit.error:.1f} % of {len(kernels.fitted)} "
    note += f"kernels, {100 * held_out:.1f} % of {len(kernels.held_out)} kept aside"
    note += "".join(f"; {other.structure.name} {100 * other.error:.1f} %" for other in fits[1:])
    rivals = [other for other in fits[1:] if other.error < fit.error + SURE]
    parameters = dict(before)
    for name, value in fit.values.items():
        if name in fit.structure.free:
            why = evidence_for(search, fit, name, kernels.fitted)
            others = [one.structure.name for one in rivals if one.values.get(name) != value]
            if others and not why.assumed:
                why = assumed(f"not of {' and '.join(others)}, which explains as much; {why}")
        elif name in before and before[name][0] == value:
            continue
        elif name not in _STRUCTURAL:
            why = UNKNOWN
        elif rivals:
            names = " and ".join(one.structure.name for one in rivals)
            why = assumed(f"kernels do not tell it from {names}; {note}")
        else:
            why = Evidence(note, Confidence.FITTED)
        parameters[name] = value, why if why.assumed else fitted(why)
    most = max(fits, key=lambda one: sum(p for p in one.predicted if not isnan(p))).values
    return _Choice(parameters, note, max(fit.error, held_out) <= _EXPLAINED, most=most)
