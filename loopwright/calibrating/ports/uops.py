"""The uops of each form: from its class, or from what it adds to blockers of classes' ports.

What is found has to predict what the form takes alone, and where that leaves doubt, in mixtures
with each class; where it does not, nothing is said of the form.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isnan

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.kernels import Brought
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import blockers, held, like, narrow
from loopwright.calibrating.ports.blockers import Asked, Surplus
from loopwright.calibrating.ports.choices import Case, Listed, Numbers
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports

_FUSED = 2  # uops that may share a place
_CHANGING = 4  # uops of a change of memory, which may all share one
_ALONE = 0.04  # relative: how far what a form takes alone may lie from what dispatch takes
_FEW = 4  # forms of the same uops, that tell nothing of the places of another
_SAMPLE = 24  # forms of which all blockers are asked, to see what dispatch counts
_SAID = 2 / 3  # of those that tell it: what is bound early seems to have more uops
_DOUBT = 0.25, 0.85  # share of them between which as many more are asked


@dataclass(frozen=True)
class Found:
    """Uops by the names of forms, and whether dispatch counts them, or instructions."""

    uops: dict[str, Uops]
    counts: bool


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    places: Mapping[str, Surplus],
    known: Found | None = None,
    brought: Brought | None = None,
) -> Found:
    """Return the uops of each form; known are those of forms that others are like.

    brought is as held.brought has it, where there are more forms with memory than these.
    """
    if core.early_binding:
        places = {name: replace(one, uops=one.early_binding) for name, one in places.items()}
    spans = blockers.spans(laboratory, forms, rates, latencies)
    lasting = {name: said for name, said in spans.items() if isinstance(said, int)}
    out = {name: Uops(0, None, why=said) for name, said in spans.items() if isinstance(said, str)}
    left = [form for form in forms if form.name in lasting]
    counts = known.counts if known else _counts(laboratory, core, left, lasting, places, rates)
    if counts:
        out |= {
            form.name: Uops(0, None, why="nops beside it show no whole number of places")
            for form in left
            if places[form.name].uops is None
        }
        left = [form for form in left if form.name not in out]
    if brought is None:
        brought = held.brought(forms, rates, places)
    others = like.Like(core, known.uops if known else {}, latencies)
    for some in others.split(left):
        cases = [
            Case(
                form,
                lasting[form.name],
                _places(places[form.name]),
                _numbers(form, places[form.name].uops if counts else None, latencies[form.name]),
                rates[form.name].cycles,
                () if _idle(form, latencies[form.name]) else others.guess(form),
                any(one.plain and one.cycles > 1 for one in latencies[form.name]),
                {} if (own := core.class_of(form.name)) is None else {own: Surplus(1, 1.0, 0.0)},
            )
            for form in some
        ]
        narrow.solve(laboratory, core, cases)
        found = {one.form.name: _of(core, one, places[one.form.name], counts) for one in cases}
        hold = partial(
            held.hold,
            laboratory,
            core,
            rates=rates,
            latencies=latencies,
            brought=brought,
            known=others.known,
        )
        held_ = hold([one.form for one in cases], found)
        if not counts:
            # It may count instructions, or pairs of uops; where that does not explain it, uops.
            failed = [one.form for one in cases if one.found and held_[one.form.name].ports is None]
            again = {form.name: _counted(found[form.name]) for form in failed}
            held_ |= {n: one for n, one in hold(failed, again).items() if one.ports is not None}
        others.learn(held_)
        out |= held_
    return Found(out if counts else _agreed(core, out, known.uops if known else {}), counts)


def _agreed(core: Core, found: dict[str, Uops], known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return uops with as many places as most forms have whose uops compute on the same ports.

    What delivers code may hide some of them; known are those of forms without memory.
    """

    every = {**known, **found}
    like = {
        n: tuple(sorted(core.computing(one.ports or ()), key=sorted)) for n, one in every.items()
    }
    places: dict[tuple[Ports, ...], Counter[int]] = defaultdict(Counter)
    for name, one in every.items():
        if len(like[name]) > 1:
            places[like[name]][one.places] += 1
    out = dict(found)
    for name, one in found.items():
        seen = places[like[name]]
        for most, times in seen.most_common(1):
            if 2 * times > seen.total() > _FEW:
                out[name] = replace(one, places=most)
    return out


def _numbers(form: Form, places: int | None, latencies: Sequence[Latency]) -> Numbers:
    """Return how many uops a form may have; places are none where dispatch does not count them.

    A uop of memory and one that computes may share a place. What takes a cycle or more to its
    result needs one at least, also where dispatch hides it.
    """
    idle = _idle(form, latencies)
    if places is None:
        return Numbers(0 if idle else 1)
    least = 0 if places == 1 and idle else places
    most = (_FUSED if form.memory else 1) * places
    changing = form.memory and form.memory.read and form.memory.written
    return Numbers(least, max(most, _CHANGING) if changing else most)


def _counts(
    laboratory: Laboratory,
    core: Core,
    forms: Sequence[Form],
    spans: Mapping[str, int],
    places: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> bool:
    """Say whether places at dispatch are uops, of nearly all that blockers show several of."""
    several = [form for form in forms if core.class_of(form.name) is None]
    step = max(1, len(several) // _SAMPLE)
    votes: list[bool] = []
    for start in dict.fromkeys((0, step // 2)):
        votes += _votes(laboratory, core, several[start::step], spans, places, rates)
        if not votes or not _DOUBT[0] < sum(votes) / len(votes) < _DOUBT[1]:
            break
    return sum(votes) > _SAID * len(votes)


def _votes(
    laboratory: Laboratory,
    core: Core,
    some: Sequence[Form],
    spans: Mapping[str, int],
    places: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> list[bool]:
    """Say of forms that blockers show several uops of whether places at dispatch are as many."""
    numbers = range(len(core.classes))
    asked = [
        Asked(form, core.classes[n].blocking, spans[form.name], rate=rates[form.name].cycles)
        for form in some
        for n in numbers
    ]
    answers = iter(blockers.measure(laboratory, asked))
    listed = Listed(core)
    counted = []
    for form in some:
        seen = [next(answers) for _ in numbers]
        uops = narrow.counted(core, seen)
        if not uops or len(uops) < 2:
            continue
        taken = places[form.name].uops or 0
        enough = Numbers(0, taken)
        cycles = rates[form.name].cycles
        case = Case(form, spans[form.name], taken, enough, cycles, seen=dict(enumerate(seen)))
        # Ports that are chosen badly look like uops more.
        counted.append(taken >= len(uops) or narrow.early_binding(listed, core, case) is not None)
    return counted


def _places(shown: Surplus) -> int:
    """Return how many places a form takes at dispatch, at least."""
    return 1 if isnan(shown.measured) else max(1, ceil(shown.measured - 0.5))


def _idle(form: Form, latencies: Sequence[Latency]) -> bool:
    """Say whether a form may need no port: its result is there at once, or it has none."""
    if not any(operand.written for operand in form.operands):
        return True
    known = [one for one in latencies if one.plain]
    return bool(known) and all(one.cycles == 0 for one in known)


def _of(core: Core, case: Case, places: Surplus, counts: bool) -> Uops:
    """Return the uops of a form with its places at dispatch, or why they are not known."""
    uops = case.found
    if uops is None:
        doubt = any(one.uops is None for one in case.seen.values())
        why = "show no whole number of uops" if doubt else "contradict each other"
        return Uops(0, None, why=f"blockers of ports {why}")
    if not uops:
        return Uops(1 if counts else places.uops or 1, (), why="no port is needed")
    if core.class_of(case.form.name) is not None and uops == (core.of(case.form.name),):
        return Uops(1, uops, why="of a class")
    if counts:
        return Uops(places.uops or 1, uops, why="by blockers and dispatch")
    # What is bound early seems to take more.
    most = len(core.computing(uops) if core.early_binding else uops)
    if places.uops and abs(case.cycles * core.width - places.uops) <= _ALONE * places.uops:
        most = max(most, places.uops)  # alone it takes just as long as dispatch of as many
    return Uops(max(1, min(places.uops or most, most)), uops, why="by blockers")


def _counted(uops: Uops) -> Uops:
    """Return uops that take a place each."""
    return replace(uops, places=len(uops.ports or ()))
