"""The uops of each form: from classes, or from what it adds to floods of each class's ports.

What is found has to predict what the form takes alone and in mixtures with each class; where it
does not, nothing is said of the form.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import floods, held
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.floods import Surplus
from loopwright.calibrating.ports.rule import Ports


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
    counts: bool | None = None,
) -> Found:
    """Return the uops of each form, and whether dispatch counts uops, if that is not known yet."""
    own = {n: p for c, p in zip(core.classes, core.ports, strict=True) for n in c.members}
    hold = partial(held.hold, laboratory, core, rates=rates, latencies=latencies)
    out = {name: Uops(1, (ports,), why="of a class") for name, ports in own.items()}
    out = hold([form for form in forms if form.name in own], out)
    # What has one uop in a class and another elsewhere looks like a member, and is none.
    others = [form for form in forms if form.name not in own or out[form.name].ports is None]
    spans: dict[str, int] = {}
    for name, span in floods.spans(laboratory, others, rates).items():
        if isinstance(span, str):
            out[name] = Uops(0, None, why=span)
        else:
            spans[name] = span
    left = [form for form in others if form.name in spans]
    places = floods.dispatched(laboratory, left, spans, core.width)
    answers = iter(
        floods.measure(
            laboratory,
            [(form, one.flood, spans[form.name]) for form in left for one in core.classes],
        )
    )
    seen = {form.name: [next(answers) for _ in core.classes] for form in left}
    if counts is None:
        counts = _dispatch_counts_uops(core, seen, places)
    for form in left:
        idle = _idle(form, latencies[form.name])
        shown = places[form.name]
        fused = form.memory is not None
        out[form.name] = _solve(core, seen[form.name], shown, counts, idle, fused)
    out |= hold([form for form in left if out[form.name].ports is not None], out)
    if not counts:
        # Dispatch may count instructions, or pairs of uops; where that does not explain it, uops.
        failed = [form for form in left if out[form.name].ports is None]
        single = {f.name: _shown(core, seen[f.name]) for f in failed}
        again = {n: Uops(len(some), some, why="by floods") for n, some in single.items() if some}
        found = hold([form for form in failed if form.name in again], out | again)
        out |= {name: one for name, one in found.items() if one.ports is not None}
    return Found({form.name: out[form.name] for form in forms}, counts)


def _dispatch_counts_uops(
    core: Core, seen: Mapping[str, Sequence[Surplus]], places: Mapping[str, Surplus]
) -> bool:
    """Say whether places at dispatch are uops: those of most that floods show several of."""
    several = {name: len(_shown(core, one) or ()) for name, one in seen.items()}
    known = {n: places[n].uops or 0 for n, count in several.items() if count > 1}
    return 2 * sum(known[n] >= several[n] for n in known) > len(known)


def _idle(form: Form, latencies: Sequence[Latency]) -> bool:
    """Say whether a form may need no port: its result is there at once, or it has none."""
    if not any(operand.written for operand in form.operands):
        return True
    return any(one.cycles == 0 and not one.bound for one in latencies)


def _shown(core: Core, seen: Sequence[Surplus]) -> tuple[Ports, ...] | None:
    """Return the uops that floods show, first those of the fewest ports; None if nothing fits."""
    count: Counter[Ports] = Counter()
    for ports, one in sorted(zip(core.ports, seen, strict=True), key=lambda p: len(p[0])):
        if one.uops is None:
            return None
        more = one.uops - sum(n for p, n in count.items() if p < ports)
        if more < 0:
            return None
        count[ports] = more
    return tuple(count.elements())


def _solve(
    core: Core, seen: Sequence[Surplus], places: Surplus, counts: bool, idle: bool, fused: bool
) -> Uops:
    """Return the uops that explain what floods show, and what it takes at dispatch.

    counts says that places at dispatch are uops; fused, that those of memory and those that compute
    may share one.
    """
    if any(one.uops is None for one in seen) or (counts and places.uops is None):
        return Uops(0, None, why="floods of ports show no whole number of uops")
    uops = _shown(core, seen)
    if uops is None:
        return Uops(0, None, why="floods of ports contradict each other")
    if not counts:
        memory = sum(one in (core.of(core.load), core.of(core.store)) for one in uops)
        computing = len(uops) - memory
        return Uops(max(1, min(places.uops or computing, computing)), uops, why="by floods")
    assert places.uops is not None
    missing = max(places.uops - len(uops), 0 if fused else -len(uops))
    if missing < 0:
        return Uops(0, None, why="it takes fewer places at dispatch than floods show uops")
    if not uops and places.uops == 1 and idle:
        return Uops(1, (), why="no port is needed")
    return Uops(places.uops, uops + (core.wide,) * missing, why="by floods and dispatch")
