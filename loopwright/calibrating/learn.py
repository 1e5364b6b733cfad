"""All experiments in their order: what is learned of a core."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating.experiments import latency, throughput, width
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import classes, mapping, uops
from loopwright.calibrating.ports.classes import Class
from loopwright.calibrating.ports.rule import Ports
from loopwright.calibrating.ports.uops import Uops

Step = Callable[[str], None]


@dataclass(frozen=True)
class Learned:
    """A core as timing shows it: by the names of forms what was measured and concluded of each."""

    width: Width
    classes: Sequence[Class]
    ports: Sequence[Ports]
    throughputs: Mapping[str, Throughput]
    latencies: Mapping[str, Sequence[Latency]]
    uops: Mapping[str, Uops]


def learn(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Learned:
    """Do all experiments; step hears what is being learned."""
    step("dispatch width")
    wide = width.measure(laboratory)
    step(f"throughput of {len(forms)} forms")
    rates = throughput.measure(laboratory, forms)
    runs = [form for form in forms if not rates[form.name].refused]
    step("latencies")
    latencies = latency.measure(laboratory, runs)
    step("classes of forms that share ports")
    found = classes.find(laboratory, runs, rates, latencies, wide.instructions)
    step(f"ports of {len(found)} classes")
    ports, _ = mapping.find(
        [one.size for one in found],
        wide.instructions,
        lambda wanted: classes.unions(laboratory, found, wanted, wide.instructions),
    )
    step("uops of each form")
    core = uops.Core(found, ports, wide.instructions)
    shown = uops.find(laboratory, runs, core, rates, latencies)
    return Learned(wide, found, ports, rates, latencies, shown)
