"""This host as a machine for experiments: the harness times what it is given."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from loopwright import toolchain
from loopwright.calibrating.forms import kits
from loopwright.calibrating.machines import harnessed
from loopwright.calibrating.machines.machine import Timing, Trial
from loopwright.errors import InputError
from loopwright.machine import hosts, recognise
from loopwright.measuring.blocks import turns

_PAUSE = 3.0  # s, before a machine that answered nothing is asked again
_NOPS = 8  # of a trial that any quiet machine answers
_IN_VAIN = 12  # times in a row


class Host:
    """The machine that this runs on."""

    def __init__(self) -> None:
        """Describe the machine."""
        self.isa = toolchain.host_isa()
        self.name = "host"
        self.features = hosts.features()
        self.host: Mapping[str, Any] = recognise.table(hosts.here())
        self.fingerprint = f"host {hosts.machine()}"

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Have the harness time each trial; its loops come with their branch.

        Where others keep it from timing anything, nops included, wait for it to be quiet;
        InputError where that does not come. Where nops can be timed, trials have no one speed.
        """
        if not trials:
            return []
        nops = Trial(kits.of(self.isa).nop() * _NOPS, "unrolled")
        asked = enumerate([*trials, nops])
        blocks = [harnessed.block(self.isa, str(n), trial) for n, trial in asked]
        for _ in range(_IN_VAIN):
            found = [harnessed.timing(got) for got in turns.readings(self.isa, blocks, 1)]
            if not all(one.passing for one in found):
                return found[:-1]
            time.sleep(_PAUSE)
        raise InputError(
            f"nothing can be timed here now: {found[0].refused}; run it again, which goes on from "
            "here, when less runs on this machine"
        )
