"""Calls and returns: places at dispatch, and the cycles lost behind a return.

Asked: what a call and its return cost, and what of other work they overlap. Kernels: loops that
call a return once or twice, alone and beside nops, a chain and independent moves. Answer: the
places of both and the bubble with which what was learned predicts the kernels best; a range where
they are not predicted well. Their ports are those of a branch and of a store or a load. What the
kit names as made of the uops of a form that was timed has that form's figures, as an assumption.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import candidate_core, core_files
from loopwright.calibrating.core_model import CoreModel, Doubt, Ports, Uops
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Run

CALL, RETURN = "call rel", "ret"
_BUBBLE = "taken_branch.return_bubble"
_JOINS = "uop_cache.joins"
_JOINED = ("none", "pairs", "others", "all")  # the one that delivers least first
_PLACES = range(1, 5)
_BUBBLES = range(4)  # cycles
_NOPS, _CHAIN, _ADDITIONS = (8, 24), 12, 8
_EXPLAINED = 0.08  # mean relative error of what explains the kernels
_AS_GOOD = 0.002  # of the mean error: what noise makes of it
_PLACE = 0x20F00F00
STACKED = Run(load=_PLACE, store=_PLACE)  # where return addresses lie, for those that simulate


def kernels(kit: Kit) -> dict[str, bytes]:
    """Return loop bodies by what they show; none where the ISA's calls are not asked for."""
    if not kit.CALLED:
        return {}
    register = kit.POOLS["gpr"].own[0]
    link = kit.carry("gpr", "gpr", register, register)
    others = [kit.carry("gpr", "gpr", kit.POOLS["gpr"].constant[0], n) for n in _registers(kit)]
    out = {"a call and a return": kit.CALLED, "two calls and returns": kit.CALLED * 2}
    out |= {f"a call beside {n} nops": kit.CALLED + kit.nop() * n for n in _NOPS}
    out["a call beside a chain"] = kit.CALLED + link * _CHAIN
    out["a call beside moves"] = kit.CALLED + b"".join(others)
    return out


def _registers(kit: Kit) -> Sequence[int]:
    own = kit.POOLS["gpr"].others
    return [own[n % len(own)] for n in range(_ADDITIONS)]


def choose_calls(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with calls, returns, and what is made of the same uops as others."""
    return _derived(laboratory.kit, _called(laboratory, learned))


def _called(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    asked = kernels(laboratory.kit)
    branch = learned.branches.ports.get(laboratory.kit.JUMP)
    load, store = learned.core.of(learned.core.load), learned.core.stored
    if not asked or branch is None or load is None or not store:
        return learned
    figures = _time(laboratory, asked)
    timed = {**learned.figures, **dict(zip(asked, figures, strict=True))}
    learned = replace(learned, figures=timed)
    if refused := [one.refused for one in figures if not one]:
        left = {CALL: f"calls were not timed: {refused[0]}"}
        known = replace(learned.branches, left={**learned.branches.left, **left})
        return replace(learned, branches=known)
    tried: list[tuple[float, CoreModel]] = []
    for delivery, one, other, bubble in product(_deliveries(learned), _PLACES, _PLACES, _BUBBLES):
        core = _with(delivery, (branch, *store), (branch, load), one, other, bubble)
        tried.append((_error(laboratory, core, asked, figures), core))
    least = min(error for error, _ in tried)
    error, best = next(one for one in tried if one[0] <= least + _AS_GOOD)
    said = f"{len(asked)} loops with calls, mean error {100 * error:.1f} %"
    best = _told_joins(best, [core for off, core in tried if off <= least + _AS_GOOD], said)
    doubted = f"assumption: no rule explains {said}"
    why = core_files.fitted(said) if error <= _EXPLAINED else doubted
    best = replace(best, rules={**best.rules, _BUBBLE: (best.rules[_BUBBLE][0], why)})
    if error <= _EXPLAINED:
        return best
    ends = {
        name: Doubt(replace(uops, places=1), replace(uops, places=_PLACES[-1] + 1), doubted)
        for name in (CALL, RETURN)
        for uops in [best.uops[name]]
    }
    return replace(best, doubts={**best.doubts, **ends})


def _deliveries(learned: CoreModel) -> list[CoreModel]:
    """Return what was learned with each way to read on behind taken branches that is left open."""
    _, why = learned.front_end.parameters.get(_JOINS, ("", ""))
    if not why.startswith("assumption"):
        return [learned]
    return [_joining(learned, joins, why) for joins in _JOINED]


def _joining(learned: CoreModel, joins: object, why: str) -> CoreModel:
    parameters = {**learned.front_end.parameters, _JOINS: (joins, why)}
    return replace(learned, front_end=replace(learned.front_end, parameters=parameters))


def _told_joins(best: CoreModel, alike: Sequence[CoreModel], said: str) -> CoreModel:
    """Return the best core with what its way to read on rests on."""
    joins, why = best.front_end.parameters.get(_JOINS, ("", ""))
    if not why.startswith("assumption"):
        return best
    same = {core.front_end.parameters[_JOINS][0] for core in alike} - {joins}
    if not same:
        return _joining(best, joins, core_files.fitted(said))
    others = ", ".join(sorted(map(str, same)))
    return _joining(best, joins, f"assumption: no kernel tells it from: {others}; {said}")


def _time(laboratory: Laboratory, asked: Mapping[str, bytes]) -> list[Figure]:
    return laboratory.turns(list(asked.values()), [STACKED] * len(asked))


def _with(
    learned: CoreModel,
    call: tuple[Ports, ...],
    back: tuple[Ports, ...],
    places: int,
    places_back: int,
    bubble: int,
) -> CoreModel:
    uops = {
        CALL: Uops(places, call, why="by calls"),
        RETURN: Uops(places_back, back, why="by calls"),
    }
    return replace(
        learned,
        uops={**learned.uops, **uops},
        latencies={**learned.latencies, CALL: (), RETURN: ()},
        stores=learned.stores | {CALL},
        rules={**learned.rules, _BUBBLE: (bubble, "tried")},
    )


def _error(
    laboratory: Laboratory,
    learned: CoreModel,
    asked: Mapping[str, bytes],
    figures: Sequence[Figure],
) -> float:
    """Return the mean relative error of loops with calls whose forms what was learned has."""
    core = candidate_core.candidate_laboratory(
        learned, laboratory.machine, list(asked.values()), {}
    )
    pairs = zip(_time(core, asked), figures, strict=True)
    known = [min(abs(said.cycles / took.cycles - 1), 1.0) for said, took in pairs if said]
    return fmean(known) if known else 1.0


def _derived(kit: Kit, learned: CoreModel) -> CoreModel:
    """Return what was learned with forms that no microbenchmark has, from those that it has.

    They may take a place more than the form that they are taken for.
    """
    core = learned.core
    parts: dict[str, tuple[Ports, ...]] = {
        "load": tuple(one for one in [core.of(core.load)] if one),
        "store": core.stored,
        "compute": (core.wide,),
    }
    uops, latencies, doubts = dict(learned.uops), dict(learned.latencies), dict(learned.doubts)
    stores = set(learned.stores)
    for name, (like, more) in kit.DERIVED.items():
        known, branch = uops.get(like), learned.branches.ports.get(like)
        if known is None and branch is not None:
            known = Uops(1, (branch,))
        timed = name in uops or name in learned.branches.ports
        if known is None or known.ports is None or timed:
            continue
        ports = (*known.ports, *(one for part in more for one in parts[part]))
        why = f"assumption: as {like}" + "".join(f" and a {part}" for part in more)
        uops[name] = replace(known, ports=ports, why=why)
        latencies[name] = latencies.get(like, ()) if not more else ()
        dear = replace(uops[name], places=known.places + 1 + len(more))
        doubts[name] = Doubt(uops[name], dear, why)
        if like in stores or "store" in more:
            stores.add(name)
    return replace(learned, uops=uops, latencies=latencies, doubts=doubts, stores=frozenset(stores))
