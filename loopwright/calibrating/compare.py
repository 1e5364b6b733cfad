"""Where what was measured differs from what a core of models/ answers to the same kernels."""

from collections.abc import Sequence

import pandas as pd

from loopwright.calibrating.experiments import latency, throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.simulated import Simulated

_SHARE, _CYCLES = 0.05, 0.1  # what differs by less than either is the same


def differences(learned: Learned, forms: Sequence[Form], core: str) -> pd.DataFrame:
    """Return a row for each throughput and latency that differs from the core's."""
    table = Laboratory(Simulated(core, noise=0.0))
    measured = [form for form in forms if not learned.throughputs[form.name].refused]
    rates = throughput.measure(table, measured)
    latencies = latency.measure(table, measured, throughput.cycles(rates))
    rows = []
    for form in measured:
        mine, theirs = learned.throughputs[form.name], rates[form.name]
        pairs = [("throughput", mine.cycles, mine.uncertainty, theirs.cycles, theirs.refused)]
        others = {(one.source, one.target): one for one in latencies[form.name]}
        for one in learned.latencies[form.name]:
            other = others.get((one.source, one.target))
            if other is None or one.bound or one.refused:
                continue
            said = f"latency {one.source}>{one.target}"
            pairs.append((said, one.measured, one.uncertainty, other.measured, other.refused))
        for figure, cycles, error, said_cycles, refused in pairs:
            if not refused and abs(cycles - said_cycles) > max(_SHARE * said_cycles, _CYCLES):
                rows.append((form.name, figure, cycles, error, said_cycles))
    return pd.DataFrame(rows, columns=["form", "figure", "measured", "uncertainty", core])
