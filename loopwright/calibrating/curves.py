"""Curves of string instructions of a core: as they were measured, or as the simulator has them."""

import csv

from loopwright import paths
from loopwright.calibrating.experiments import strings
from loopwright.calibrating.experiments.strings import Repeated
from loopwright.calibrating.forms import kits
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.machines.simulated import Simulated
from loopwright.calibrating.write import STRINGS
from loopwright.cores.microarchs import Microarch


def measured(core: Microarch) -> dict[Repeated, float]:
    """Return the cycles of each that calibrating timed; none where it was not calibrated."""
    file = paths.models_root() / core.id / STRINGS
    if not file.is_file():
        return {}
    with file.open(newline="") as rows:
        return {
            Repeated(
                row["instruction"].removeprefix("rep "),
                *(int(row[name]) for name in ("bytes", "source_offset", "destination_offset")),
            ): float(row["cycles"])
            for row in csv.DictReader(rows)
            if row["cycles"]
        }


def simulated(core: Microarch) -> dict[Repeated, float]:
    """Return the cycles that the core's parameters say of each, as far as they say any."""
    asked = list(strings.every(kits.of(core.isa)))
    timed = strings.measure(Laboratory(Simulated(core.id, noise=0)), asked)
    return {one.what: one.figure.cycles for one in timed if one.figure}
