"""The front end of a core: of those that the simulator has, the one that explains what was timed.

Straight code comes first, then loops on top of it. Each structure is fitted to kernels, and those
kept aside say what it is worth. Where no structure explains a kind of code better than dispatch
alone, its front end is one that hardly ever binds, or an ideal one where that holds of both kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating import parameters
from loopwright.calibrating.delivery.probe import LOOPS, STRAIGHT
from loopwright.calibrating.front_ends import candidates
from loopwright.calibrating.front_ends.candidates import Structure, Value, Values
from loopwright.calibrating.front_ends.kernels import IDEAL, Kernels
from loopwright.calibrating.front_ends.search import OF_BUFFER, SURE
from loopwright.calibrating.front_ends.telling import source
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine

_EXPLAINED = 0.05  # mean relative error of kernels, at most
_GAIN = 0.8  # of the error of an ideal front end that is left at most
_LEAST = 8  # kernels that a front end is chosen by
# An op cache that never binds, behind which straight code is decoded all the same.
_FREE: Values = {
    "uop_cache.rule": "entry",
    "uop_cache.region_bytes": 64,
    "uop_cache.line_uops": 16,
    "uop_cache.width": 16,
    "uop_cache.reads": 16,
    "uop_cache.joins": "all",
}
# Fetch and decoders that hardly ever bind.
_UNBOUND: Values = {
    "front_end.fetch": "blocks",
    "fetch.block_bytes": 64,
    "fetch.queue": 64,
    "decode.width": 12,
    "decode.branch_ends": False,
    "uop_cache.rule": "none",
}
_KINDS = ("front_end.fetch", "uop_cache.rule", "uop_cache.unrolled")


@dataclass(frozen=True)
class _Chosen:
    """Values for a kind of code, each with what it rests on, and what the choice came to."""

    values: Mapping[str, tuple[Value, str]]
    said: str
    explained: bool

    @property
    def plain(self) -> Values:
        return {name: value for name, (value, _) in self.values.items()}


def choose(machine: Machine, learned: Learned) -> Learned:
    """Return what was learned with its front end."""
    straight = _straight(Kernels(machine, learned, STRAIGHT))
    chosen = {STRAIGHT: straight}
    structures = list(candidates.loops(straight.plain, parameters.taken(learned)))
    loops = _loops(Kernels(machine, learned, LOOPS), structures, straight)
    timed = any(probe.part == LOOPS for probe in learned.front_end.probes)
    if timed:
        chosen[LOOPS] = loops
    values = {**straight.values, **loops.values}
    if straight.plain == _UNBOUND and not (timed and loops.explained):
        why = straight.values["fetch.block_bytes"][1]
        values = {name: (value, why) for name, value in IDEAL.items()}
    known = {
        name: pair
        for name, pair in values.items()
        if not (name in OF_BUFFER and not values["loop_buffer.enabled"][0])
    }
    said = {part: one.said for part, one in chosen.items()}
    left = {f"front end of {part}": one.said for part, one in chosen.items() if not one.explained}
    found = replace(learned.front_end, parameters=known, said=said, left=left)
    return replace(learned, front_end=found)


def _straight(kernels: Kernels) -> _Chosen:
    """Choose what delivers straight code."""
    if len(kernels.fitted) < _LEAST:
        return _unbound(f"{len(kernels.fitted)} kernels could be predicted", explained=False)
    ideal, worst = kernels.of_ideal()
    said = f"dispatch alone explains {len(kernels.every)} kernels of straight code, "
    said += f"mean error {100 * ideal:.1f} %"
    if worst <= _EXPLAINED:
        return _unbound(said, explained=True)
    chosen = _best(kernels, candidates.STRAIGHT, {})
    better = kernels.error(chosen.plain) < _GAIN * ideal
    if chosen.explained and better:
        return chosen
    if ideal <= _EXPLAINED and not better:
        return _unbound(f"{said}; {chosen.said}", explained=True)
    return _unbound(f"{chosen.said}; an ideal one {100 * ideal:.1f} %", explained=False)


def _unbound(said: str, *, explained: bool) -> _Chosen:
    """Return what delivers straight code as fast as it is dispatched, but for the longest."""
    why = f"assumption: as wide as can be; {said}"
    return _Chosen({name: (value, why) for name, value in _UNBOUND.items()}, said, explained)


def _loops(kernels: Kernels, structures: Sequence[Structure], straight: _Chosen) -> _Chosen:
    """Choose what delivers loops, where it is known what delivers straight code."""
    if len(kernels.fitted) < _LEAST:
        return _free(straight, f"{len(kernels.fitted)} loops could be predicted")
    chosen = _best(kernels, structures, straight.values)
    if chosen.explained:
        return chosen
    return _free(straight, chosen.said)


def _free(straight: _Chosen, said: str) -> _Chosen:
    """Return an op cache that never binds; one that holds all copies stays as it is."""
    if straight.plain["uop_cache.rule"] == "entry":
        return _Chosen({}, f"{said}; that of straight code is taken", explained=False)
    why = f"assumption: it never binds loops; {said}"
    return _Chosen({name: (value, why) for name, value in _FREE.items()}, said, explained=False)


def _best(
    kernels: Kernels, structures: Sequence[Structure], before: Mapping[str, tuple[Value, str]]
) -> _Chosen:
    """Return the structure that explains kernels best, with what each of its values rests on."""
    search, fits = kernels.best(structures)
    fit = fits[0]
    kept = kernels.kept(fit.values)
    said = f"{fit.structure.name}: mean error {100 * fit.error:.1f} % of {len(kernels.fitted)} "
    said += f"kernels, {100 * kept:.1f} % of {len(kernels.aside)} kept aside"
    said += "".join(f"; {one.structure.name} {100 * one.error:.1f} %" for one in fits[1:])
    rivals = [one for one in fits[1:] if one.error < fit.error + SURE]
    alike = [one.structure.name for one in rivals]
    values = dict(before)
    for name, value in fit.values.items():
        if name in fit.structure.free:
            why = source(search, fit, name, kernels.fitted)
            others = [one.structure.name for one in rivals if one.values.get(name) != value]
            if others and not why.startswith("assumption"):
                why = f"assumption: not of {' and '.join(others)}, which explains as much; {why}"
        elif name in before and before[name][0] == value:
            continue
        elif alike and name in _KINDS:
            why = f"assumption: kernels do not tell it from {' and '.join(alike)}; {said}"
        else:
            why = said if name in _KINDS else "assumption: not measured"
        assumed = why.startswith("assumption")
        values[name] = value, why if assumed else parameters.fitted(why)
    return _Chosen(values, said, max(fit.error, kept) <= _EXPLAINED)
