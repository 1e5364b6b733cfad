"""The uops of forms with memory: of those whose loads and stores are known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import held, uops
from loopwright.calibrating.ports.blockers import Surplus
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports
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
    """Return the uops of forms with memory; known are those of registers.

    Plain loads of vectors come first: what else loads vectors has the ports that they have.
    """
    load, store = core.of(core.load), core.of(core.store)
    out = {}
    for form in forms:
        if form.memory and ((form.memory.read and not load) or (form.memory.written and not store)):
            out[form.name] = Uops(0, None, why="no form that loads or stores alone is known")
    rest = [form for form in forms if form.name not in out]
    plain = [form for form in rest if form.name in laboratory.kit.LOADS.values()]
    brought = held.brought(forms, rates, places)
    for some in (plain, [form for form in rest if form not in plain]):
        found = uops.find(laboratory, some, core, rates, latencies, places, known, brought).uops
        out |= found
        core = replace(core, vectors=_vectors(core, plain, out))
        known = replace(known, uops=known.uops | found)
    return out


def _vectors(core: Core, forms: Sequence[Form], found: Mapping[str, Uops]) -> dict[int, Ports]:
    """Return the ports of loads to vectors by their bits, as far as such loads are one uop."""
    out: dict[int, Ports] = {}
    for form in forms:
        ports = found[form.name].ports or ()
        if len(ports) == 1 and core.accesses(ports[0]):
            out |= {one.bits: ports[0] for one in form.chosen if one.kind == "vector"}
    return out
