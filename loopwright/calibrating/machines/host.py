"""This host as a machine for experiments: the harness times what it is given."""

import csv
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopwright import toolchain
from loopwright.calibrating.machines.machine import Timing, Trial, by_notion
from loopwright.machine import hosts, recognise
from loopwright.measuring.blocks.verb import measure_blocks

_TRIES = ("disturbed", "slopes are inconsistent", "accepted", "neighbour")


class Host:
    """The machine that this runs on."""

    def __init__(self, processes: int = 1) -> None:
        """Let as many processes agree on each figure."""
        self.isa = toolchain.host_isa()
        self.name = "host"
        self.features = hosts.features()
        self.host: Mapping[str, Any] = recognise.table(hosts.here())
        self.fingerprint = f"host {hosts.machine()}"
        self._processes = processes

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Have the harness time each trial; its loops come with their branch."""
        out: list[Timing] = [Timing(None)] * len(trials)
        for notion, chosen in by_notion(trials):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "trials.csv"
                with path.open("w", newline="") as file:
                    rows = csv.writer(file)
                    rows.writerow(["id", "hex", "offset"])
                    rows.writerows((n, trials[n].code.hex(), trials[n].offset) for n in chosen)
                table = measure_blocks(path, notion=notion, processes=self._processes)
            for row in table.to_dict("records"):
                out[int(row["id"])] = _timing(row)
        return out


def _timing(row: Mapping[Hashable, Any]) -> Timing:
    if row["status"] == "refused":
        why = str(row["reason"])
        return Timing(None, refused=why, passing=any(word in why for word in _TRIES))
    return Timing(float(row["cycles"]), float(row["uncertainty"]))
