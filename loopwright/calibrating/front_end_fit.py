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
from typing import TYPE_CHECKING

from loopwright.calibrating import core_files, front_end_search
from loopwright.calibrating.core_model import (
    AFTER,
    TRIED,
    UNKNOWN,
    Confidence,
    CoreModel,
    Evidence,
    assumed,
    fitted,
)
from loopwright.calibrating.front_end_search import (
    OF_BUFFER,
    SURE,
    UOPS,
    Fit,
    Key,
    Search,
    Structure,
    Value,
    Values,
    error,
    evidence_for,
    key,
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
        fit = [form for form in forms if _plain(form) and _needs(known[form.name], slots)]
        quick = sorted(fit, key=lambda f: (_busiest(known[f.name]), f.name))
        yield from ((form, slots) for form in quick[:_FORMS])


def _plain(form: Form) -> bool:
    return form.memory is None and all(o.kind in ("gpr", "flags", "") for o in form.operands)


def _needs(uops: Uops, slots: int) -> bool:
    return uops.slots == slots == len(uops.ports or ()) and not uops.busy


def _busiest(uops: Uops) -> float:
    return max(sum(1 / len(one) for one in uops.ports or () if port in one) for port in range(64))


class Kernels:
    """The kernels of a kind of code that the core has figures for."""

    def __init__(self, machine: Oracle, learned: CoreModel, part: str) -> None:
        """Take kernels of learned.front_end; those with an unknown form are dropped."""
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
        return binding.Core(core_files.core_toml(self._with(values), self._machine), table, {})

    def _write(self, after: Key) -> str:
        """Return the table of forms, which depends on these front-end values alone."""
        return core_files.instruction_table(self._with(after), self._machine)

    def _with(self, values: Key) -> CoreModel:
        tried = {name: (value, TRIED) for name, value in values}
        front = replace(self._learned.front_end, parameters=tried)
        return replace(self._learned, front_end=front)

    def predict(self, values: Values, numbers: Sequence[int]) -> list[float]:
        """Predict some of the kernels that the fit uses."""
        return self._predicted([self.fitted[n][0] for n in numbers], values)

    def error(self, values: Values) -> float:
        """Return the mean relative error over all kernels."""
        predicted = self._predicted([probe for probe, _, _ in self.every], values)
        return error(predicted, [cycles for _, cycles, _ in self.every]) if predicted else 0.0

    def of_ideal(self) -> tuple[float, float]:
        """Return the mean and the largest relative error of an ideal front end over all kernels."""
        cycles = [cycles for _, cycles, _ in self.every]
        rows = zip(self._ideal, cycles, strict=True)
        worst = max((abs(p - cycles) / cycles for p, cycles in rows), default=0.0)
        return (error(self._ideal, cycles) if cycles else 0.0), worst

    def kept(self, values: Values) -> float:
        """Return the mean relative error over the held-out kernels."""
        predicted = self._predicted([probe for probe, _, _ in self.aside], values)
        return error(predicted, [cycles for _, cycles, _ in self.aside]) if predicted else 0.0

    def best(self, structures: Sequence[Structure]) -> tuple[Search, list[Fit]]:
        """Fit structures; return them with the best first, of equally good ones the preferred."""
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


def _of(learned: CoreModel, names: set[str]) -> CoreModel:
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
_FREE: Values = {
    "uop_cache.rule": "entry",
    "uop_cache.region_bytes": 64,
    "uop_cache.line_uops": 16,
    "uop_cache.width": 16,
    "uop_cache.reads": 16,
    "uop_cache.joins": "all",
}
# Fetch and decoders that hardly ever limit.
_UNBOUND: Values = {
    "front_end.fetch": "blocks",
    "fetch.block_bytes": 64,
    "fetch.queue": 64,
    "decode.width": 12,
    "decode.branch_ends": False,
    "uop_cache.rule": "none",
}
_KINDS = ("front_end.fetch", "uop_cache.rule", "uop_cache.unrolled")


# Slower delivery of loops than on any known core: entries of few uops, one a cycle, and none
# continued behind a branch.
_NARROW: Values = {
    "uop_cache.rule": "entry",
    "uop_cache.region_bytes": 64,
    "uop_cache.line_uops": 6,
    "uop_cache.width": 6,
    "uop_cache.reads": 1,
    "uop_cache.joins": "none",
    "uop_cache.branch_by_end": True,
}
_SLOW_FETCH: Values = {**_UNBOUND, "fetch.block_bytes": 16, "decode.width": 4}


@dataclass(frozen=True)
class _Chosen:
    """Values for a kind of code with their evidence, and a summary of the fit.

    least and most are the values that limit least and most of those that kernels leave open; None
    where kernels are explained.
    """

    values: Mapping[str, tuple[Value, Evidence]]
    said: str
    explained: bool
    least: Values | None = None
    most: Values | None = None

    @property
    def plain(self) -> Values:
        return {name: value for name, (value, _) in self.values.items()}


def choose_front_end(machine: Oracle, learned: CoreModel) -> CoreModel:
    """Return the learned core with its front end, as a range where kernels leave it open."""
    straight = _straight(Kernels(machine, learned, STRAIGHT))
    chosen = {STRAIGHT: straight}
    structures = list(front_end_search.loops(straight.plain, core_files.taken(learned)))
    loops = _loops(Kernels(machine, learned, LOOPS), structures, straight)
    if any(probe.part == LOOPS for probe in learned.front_end.probes):
        chosen[LOOPS] = loops
    values = {**straight.values, **loops.values}
    summaries = {part: one.said for part, one in chosen.items()}
    left = {f"front end of {part}": one.said for part, one in chosen.items() if not one.explained}
    ends: list[Mapping[str, tuple[object, Evidence]]] = []
    if left:
        for end in ("least", "most"):
            own: list[Values] = [
                one.plain if one.explained else getattr(one, end) or one.plain
                for one in (straight, loops)
            ]
            # Values that loops share with straight code are those of that end of the range.
            more = {n: v for n, v in own[1].items() if straight.plain.get(n) != v}
            end_values: dict[str, Value] = {**own[0], **more}
            ends.append(
                _without_buffer(
                    {n: (v, fitted(f"the {end} of a range")) for n, v in end_values.items()}
                )
            )
    found = replace(
        learned.front_end,
        parameters=_without_buffer(values),
        said=summaries,
        left=left,
        ends=(ends[0], ends[1]) if ends else None,
    )
    return replace(learned, front_end=found)


def _without_buffer(
    values: Mapping[str, tuple[Value, Evidence]],
) -> dict[str, tuple[object, Evidence]]:
    """Return values without the parameters of a disabled loop buffer."""
    off = not values.get("loop_buffer.enabled", (True, UNKNOWN))[0]
    return {name: pair for name, pair in values.items() if not (off and name in OF_BUFFER)}


def _straight(kernels: Kernels) -> _Chosen:
    """Choose the front end of straight code."""
    if len(kernels.fitted) < _LEAST:
        return _unbound(f"{len(kernels.fitted)} kernels could be predicted", explained=False)
    ideal, worst = kernels.of_ideal()
    note = f"dispatch alone explains {len(kernels.every)} kernels of straight code, "
    note += f"mean error {100 * ideal:.1f} %"
    if worst <= _EXPLAINED:
        return _unbound(note, explained=True)
    chosen = _best(kernels, front_end_search.STRAIGHT, {})
    better = kernels.error(chosen.plain) < _GAIN * ideal
    if chosen.explained and better:
        return chosen
    if ideal <= _EXPLAINED and not better:
        return _unbound(f"{note}; {chosen.said}", explained=True)
    note = f"{chosen.said}; an ideal one {100 * ideal:.1f} %"
    if better:
        return _doubted(chosen, note, _UNBOUND)
    return replace(_unbound(note, explained=False), most=chosen.most)


def _unbound(said: str, *, explained: bool) -> _Chosen:
    """Return a front end that delivers straight code at the dispatch width, unless it is long."""
    why = assumed(f"as wide as can be; {said}")
    values = {name: (value, why) for name, value in _UNBOUND.items()}
    return _Chosen(values, said, explained, most=None if explained else _SLOW_FETCH)


def _doubted(chosen: _Chosen, said: str, least: Values) -> _Chosen:
    """Return a choice that explains kernels better than an ideal front end, but not well."""
    values = {
        name: (value, why if why.assumed else assumed(why))
        for name, (value, why) in chosen.values.items()
    }
    return replace(chosen, values=values, said=said, explained=False, least=least)


def _loops(kernels: Kernels, structures: Sequence[Structure], straight: _Chosen) -> _Chosen:
    """Choose the front end of loops, given that of straight code."""
    if len(kernels.fitted) < _LEAST:
        return _free(straight, f"{len(kernels.fitted)} loops could be predicted")
    chosen = _best(kernels, structures, straight.values)
    if chosen.explained:
        return chosen
    free = _free(straight, chosen.said)
    if kernels.kept(chosen.plain) < _GAIN * kernels.kept({**straight.plain, **free.plain}):
        return _doubted(chosen, chosen.said, {**straight.plain, **free.plain})
    return replace(free, most=chosen.most)


def _free(straight: _Chosen, said: str) -> _Chosen:
    """Return an op cache that never limits; one that holds unrolled code stays as it is."""
    most = {**straight.plain, **_NARROW}
    if straight.plain["uop_cache.rule"] == "entry":
        said = f"{said}; that of straight code is taken"
        return _Chosen({}, said, explained=False, most=most)
    why = assumed(f"it never binds loops; {said}")
    values = {name: (value, why) for name, value in _FREE.items()}
    return _Chosen(values, said, explained=False, most=most)


def _best(
    kernels: Kernels, structures: Sequence[Structure], before: Mapping[str, tuple[Value, Evidence]]
) -> _Chosen:
    """Return the structure that explains kernels best, with the evidence of each value."""
    search, fits = kernels.best(structures)
    fit = fits[0]
    kept = kernels.kept(fit.values)
    note = f"{fit.structure.name}: mean error {100 * fit.error:.1f} % of {len(kernels.fitted)} "
    note += f"kernels, {100 * kept:.1f} % of {len(kernels.aside)} kept aside"
    note += "".join(f"; {one.structure.name} {100 * one.error:.1f} %" for one in fits[1:])
    rivals = [one for one in fits[1:] if one.error < fit.error + SURE]
    alike = [one.structure.name for one in rivals]
    values = dict(before)
    for name, value in fit.values.items():
        if name in fit.structure.free:
            why = evidence_for(search, fit, name, kernels.fitted)
            others = [one.structure.name for one in rivals if one.values.get(name) != value]
            if others and not why.assumed:
                why = assumed(f"not of {' and '.join(others)}, which explains as much; {why}")
        elif name in before and before[name][0] == value:
            continue
        elif alike and name in _KINDS:
            why = assumed(f"kernels do not tell it from {' and '.join(alike)}; {note}")
        else:
            why = Evidence(note, Confidence.FITTED) if name in _KINDS else UNKNOWN
        values[name] = value, why if why.assumed else fitted(why)
    most = max(fits, key=lambda one: sum(p for p in one.predicted if p == p)).values
    return _Chosen(values, note, max(fit.error, kept) <= _EXPLAINED, most=most)
