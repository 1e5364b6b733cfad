"""The host as an oracle: trials as jobs of the harness, readings as timings.

A kit elsewhere uses the same jobs and timings.
"""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.machine import harness, hosts
from loopwright.measuring import block, measure_blocks
from loopwright.measuring.block import Block
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import kits
from loopwright.microbench.oracle import COUNTER, Timing, Trial

_SAMPLES = 10  # the least that the harness makes a reading of: there are tens of thousands
_UNSTEADY = 8  # tries without one speed, though nothing disturbed them, after which there is none


def trial_block(isa: str, name: str, trial: Trial) -> Block:
    """Return a trial as a block that has that name."""
    counter = COUNTER[isa] if trial.notion == "loop" else ""
    # Pointers are aligned to lines, so that displacements say what lies in one.
    return Block(
        name, trial.notion, trial.offset, trial.code, counter,
        x87=trial.x87, wide=True, samples=_SAMPLES,
    )  # fmt: skip


def timing_of(readings: Sequence[BlockReading]) -> Timing:
    """Return the figure that one of some tries brought, or the refusal of the last.

    A refusal is passing where the code is no reason for it. Code that had no one speed again and
    again has none.
    """
    known = [one for one in readings if not one.refused]
    if known:
        found = measure_blocks.result(known[-1:], 1)
        return Timing(found["cycles"], found["uncertainty"])
    last = readings[-1]
    unsteady = sum(one.unsteady for one in readings)
    if last.unsteady and unsteady >= _UNSTEADY:
        return Timing(None, refused=f"{last.refused}; so in {unsteady} tries")
    return Timing(None, refused=last.refused, passing=last.disturbed)


_PAUSES = (0.2, 0.4, 0.8, 1.6, *[3.0] * 11)  # s, before a machine that answered nothing is asked
_NOPS = 8  # of a trial that any quiet machine answers
_TRIES = 4  # of a trial that was disturbed
_NEIGHBOUR = 0.1  # s, before what was refused throughout is tried again
_TRIALS = 400  # of a process of the harness, which begins with the self-test
_WORKERS = 2  # processes at a time, each on cores of its own
_ALL = 40  # trials of a turn before which all self-tests fail, where cores are one


def _cores() -> list[set[int]]:
    """Return the CPUs of each physical core that this process may use."""
    allowed = os.sched_getaffinity(0)
    cores: dict[str, set[int]] = {}
    for cpu in sorted(allowed):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        name = path.read_text() if path.is_file() else str(cpu)
        cores.setdefault(name, set()).add(cpu)
    return list(cores.values())


class _Worker:
    """A process of the harness on CPUs of its own, which begins anew with the self-test."""

    def __init__(self, isa: str, cpus: Collection[int]) -> None:
        self._isa = isa
        self._kept: harness.Kept | None = None
        self._given = 0
        self.lost = False  # whether the self-test failed before all that was read last
        # What a thread starts runs where the thread may.
        self._thread = ThreadPoolExecutor(1, "trials", os.sched_setaffinity, (0, cpus))

    def read(self, named: Mapping[str, Block], turn: int) -> Future[list[BlockReading]]:
        """Have each block read once."""
        return self._thread.submit(self._read, named, turn)

    def _read(self, named: Mapping[str, Block], turn: int) -> list[BlockReading]:
        left = [block.job(self._isa, name, one, turn) for name, one in named.items()]
        out: list[BlockReading] = []
        while left:
            if self._given >= _TRIALS:
                self.end()
            jobs, left = left[: _TRIALS - self._given], left[_TRIALS - self._given :]
            self._given += len(jobs)
            try:
                self._kept = self._kept or harness.Kept(self._isa)
                records = list(self._kept.answers(jobs))
            except BaseException:
                self.end()
                raise
            out += map(BlockReading.of, records)
            # A process whose self-test failed takes no sample of anything.
            self.lost = all(one["disturbed"] and not one["taken"] for one in records)
            if self.lost:
                self.end()
        return out

    def end(self) -> None:
        """Have the next process of the harness test itself."""
        if self._kept:
            self._kept.close()
        self._kept, self._given = None, 0


class Host:
    """The machine that this runs on: trials run on up to two of its cores at a time."""

    def __init__(self) -> None:
        """Describe the machine."""
        self.isa = toolchain.host_isa()
        self.name = "host"
        self.features = hosts.features()
        self.host: Mapping[str, Any] = hosts.recognition_table(hosts.here())
        self.fingerprint = f"host {hosts.machine()}"
        cores = _cores()
        parts = [set[int]().union(*cores[n::_WORKERS]) for n in range(min(_WORKERS, len(cores)))]
        self._workers = [_Worker(self.isa, cpus) for cpus in parts]
        self._unsteady: dict[str, list[BlockReading]] = defaultdict(list)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Have the harness time each trial; its loops come with their branch.

        What was disturbed is tried some times. Where others keep it from timing anything, nops
        included, wait for it to be quiet; InputError where that does not come.
        """
        if not trials:
            return []
        nops = Trial(kits.of(self.isa).nop() * _NOPS, "unrolled")
        for pause in _PAUSES:
            found = self._tried(trials)
            if not all(one.passing for one in found) or not self._tried([nops])[0].passing:
                return found
            self._end()
            time.sleep(pause)
        raise InputError(
            f"nothing can be timed here now: {found[0].refused}; run it again, which goes on from "
            "here, when less runs on this machine"
        )

    def _tried(self, trials: Sequence[Trial]) -> list[Timing]:
        """Try trials, and those again that are disturbed."""
        found: dict[int, Timing] = {}
        left = list(range(len(trials)))
        for turn in range(_TRIES):
            again = []
            read = self._read([trials[n] for n in left], turn)
            for n, reading in zip(left, read, strict=True):
                unsteady = self._unsteady[trials[n].key]
                found[n] = timing_of([*unsteady, reading])
                if reading.unsteady:
                    unsteady.append(reading)
                if found[n].passing:
                    again.append(n)
            if all(one.disturbed and not one.unsteady for one in read) and turn + 1 < _TRIES:
                time.sleep(_NEIGHBOUR)
            left = again
            if not left:
                break
        return [found[n] for n in range(len(trials))]

    def _read(self, trials: Sequence[Trial], turn: int) -> list[BlockReading]:
        """Have each read once; another turn has other numbers of copies, or of iterations.

        What one core did not answer the next turn asks another one.
        """
        named = [(str(n), trial_block(self.isa, str(n), t)) for n, t in enumerate(trials)]
        count = len(self._workers)
        shares = [dict(named[(n + turn) % count :: count]) for n in range(count)]
        readings = [
            worker.read(share, turn)
            for worker, share in zip(self._workers, shares, strict=True)
            if share
        ]
        try:
            wait(readings)
        except BaseException:
            self._end()
            raise
        out: dict[str, BlockReading] = {}
        for share, some in zip(filter(None, shares), readings, strict=True):
            out |= zip(share, some.result(), strict=True)
        # Cores that disturb each other are one core, whatever the machine says of them.
        if len(out) >= _ALL and all(worker.lost for worker in self._workers):
            del self._workers[1:]
        return [out[name] for name, _ in named]

    def _end(self) -> None:
        """Have the next processes of the harness test themselves."""
        for worker in self._workers:
            worker.end()
