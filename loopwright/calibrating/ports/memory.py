"""The uops of forms with memory: those of the form with a register in its place, a load, a store.

A guess that is held to what the form adds to floods of the ports it is said to use, and to what it
takes alone. Where it does not hold, floods of all classes tell, as they do of other forms.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import floods, held, uops
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports
from loopwright.calibrating.ports.uops import Found

_SLACK = 0.4  # uops: how far from a whole number a surplus may lie


@dataclass(frozen=True)
class _Guess:
    form: Form
    ports: tuple[Ports, ...]
    busy: int
    places: int
    span: int


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    known: Found,
) -> dict[str, Uops]:
    """Return the uops of forms with memory; known are those of registers."""
    load, store = core.of(core.load), core.of(core.store)
    spans = floods.spans(laboratory, forms, rates)
    guesses = [
        guess
        for form in forms
        if (guess := _guess(form, known.uops.get(form.twin), load, store, spans[form.name]))
    ]
    out = _hold(laboratory, core, guesses, rates, latencies, known.counts)
    for form in forms:
        if form.memory and ((form.memory.read and not load) or (form.memory.written and not store)):
            out[form.name] = Uops(0, None, why="no form that loads or stores alone is known")
    rest = [form for form in forms if form.name not in out]
    return out | uops.find(laboratory, rest, core, rates, latencies, known.counts).uops


def _guess(
    form: Form, twin: Uops | None, load: Ports | None, store: Ports | None, span: int | str
) -> _Guess | None:
    """Return what a form with memory takes if it is its twin with a load, or also with a store."""
    if form.memory is None or not form.memory.read or isinstance(span, str):
        return None
    if twin is None or twin.ports is None:
        return None
    more = [load] * form.memory.read + [store] * form.memory.written
    ports = tuple(one for one in more if one)
    if len(ports) < len(more):
        return None
    return _Guess(form, twin.ports + ports, twin.busy, twin.places, span)


def _hold(
    laboratory: Laboratory,
    core: Core,
    guesses: Sequence[_Guess],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    counts: bool,
) -> dict[str, Uops]:
    """Return the guesses that hold."""
    spans = {guess.form.name: guess.span for guess in guesses}
    places = floods.dispatched(laboratory, [g.form for g in guesses], spans, core.width)
    asked = [
        (guess, number)
        for guess in guesses
        for number, ports in enumerate(core.ports)
        if ports in guess.ports
    ]
    surplus = floods.measure(
        laboratory, [(g.form, core.classes[n].flood, g.span) for g, n in asked]
    )
    wrong = set()
    for (guess, number), seen in zip(asked, surplus, strict=True):
        within = sum(n for p, n in Counter(guess.ports).items() if p <= core.ports[number])
        written = guess.form.memory is not None and guess.form.memory.written
        # Address uops of stores may use ports of loads, and do so at random.
        most = within + 1 if written and core.ports[number] == core.of(core.load) else within
        if not within - _SLACK <= seen.measured <= most + _SLACK:
            wrong.add(guess.form.name)
    out = {}
    for guess in guesses:
        name = guess.form.name
        taken = places[name].uops if counts else guess.places
        if name in wrong or not taken or not set(guess.ports) <= {*core.ports, core.wide}:
            continue
        said = Uops(taken, guess.ports, guess.busy, "as its twin of registers, and memory")
        said = held.alone(core, guess.form, said, rates[name], latencies[name])
        if said.ports is not None:
            out[name] = replace(said, busy=guess.busy or said.busy)
    return out
