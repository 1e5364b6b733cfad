"""The uops of forms with memory: of those whose loads and stores are known."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import uops
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.floods import Surplus
from loopwright.calibrating.ports.uops import Found


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    places: Mapping[str, Surplus],
    known: Found,
) -> dict[str, Uops]:
    """Return the uops of forms with memory; known are those of registers."""
    load, store = core.of(core.load), core.of(core.store)
    out = {}
    for form in forms:
        if form.memory and ((form.memory.read and not load) or (form.memory.written and not store)):
            out[form.name] = Uops(0, None, why="no form that loads or stores alone is known")
    rest = [form for form in forms if form.name not in out]
    return out | uops.find(laboratory, rest, core, rates, latencies, places, known).uops
