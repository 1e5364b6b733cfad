"""Places at dispatch that blockers do not show, as what delivers code is as slow as dispatch.

A kernel of what takes a place each is longer by the places of a form in it, if dispatch binds it.
Where caches of decoded code do, forms seem to take none, no whole number, or another one. Those of
no number are asked again by bursts (experiments.burst), which the queue in front of dispatch feeds,
and some others; where these show that blockers are wrong, all are. No form takes more places than
are dispatched while it takes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments import burst, shadow
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports.blockers import Surplus

_SAMPLE = 24  # forms that are asked again although blockers show a number
_WRONG = 0.1  # of them: blockers are wrong where more are
_TOLD = 0.5  # of the forms, at least, where bursts are to replace blockers
_NEAR = 0.05  # relative: by how much more than it takes alone its places may be dispatched in
_BUSY = 1.1  # cycles that a form of vectors may take, so that it leaves its unit to the chain


def shown(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    places: Mapping[str, Surplus],
    width: Width,
) -> dict[str, Surplus]:
    """Return the places of forms, those that blockers hide by bursts where these tell."""
    told = [form for form in forms if places[form.name].measured == places[form.name].measured]
    doubtful = [form for form in told if not places[form.name].uops]
    free = [form for form in told if not _busy(form, rates)]
    some = free[:: max(1, len(free) // _SAMPLE)]
    chain = shadow.chain(laboratory)
    idle = burst.idle(laboratory.kit, width)
    steps = burst.measure(laboratory, chain, idle) if chain else None
    if chain is None or steps is None:
        return dict(places)

    def ask(asked: Sequence[Form]) -> dict[str, int]:
        tested = {form.name: kernels.apart(form) for form in asked if not _busy(form, rates)}
        return burst.places(laboratory, chain, idle, steps, tested)

    found = ask(some)
    known = [name for name in found if places[name].uops is not None]
    wrong = [name for name in known if found[name] != places[name].uops]
    every = len(wrong) > max(_WRONG * len(known), 1)
    found |= ask(told if every else doubtful)
    unknown = told if every and len(found) > _TOLD * len(told) else []
    out = {**places, **{form.name: Surplus(None, float("nan"), 0.0) for form in unknown}}
    for form in told if unknown else doubtful:
        if form.name in found:
            uops = found[form.name]
            out[form.name] = Surplus(uops, float(uops), 0.0)
    return out


def possible(
    places: Mapping[str, Surplus], rates: Mapping[str, Throughput], width: Width
) -> dict[str, Surplus]:
    """Return places, no more of a form than are dispatched in what it takes alone."""
    out = dict(places)
    for name, one in places.items():
        most = int(rates[name].cycles * (1 + _NEAR) * width.instructions)
        if one.uops is not None and 0 < most < one.uops:
            out[name] = replace(one, uops=most, measured=float(most))
    return out


def agreed(blocked: Mapping[str, Surplus], places: Mapping[str, Surplus]) -> Mapping[str, Surplus]:
    """Return the places that blockers and bursts show alike, all of bursts where these are few.

    What blockers show is bound by no more than dispatch: so are classes that are founded on it.
    """
    sure = {name: one for name, one in places.items() if blocked[name].uops == one.uops}
    if len(sure) < _TOLD * len(places):
        return places
    return {name: sure.get(name, Surplus(None, float("nan"), 0.0)) for name in places}


def _busy(form: Form, rates: Mapping[str, Throughput]) -> bool:
    """Say whether a form may keep the chain waiting for the unit that it uses."""
    vectors = any(operand.kind == "vector" for operand in form.operands)
    return vectors and rates[form.name].cycles > _BUSY
