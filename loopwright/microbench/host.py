"""Host oracle: trials as jobs of the harness, readings as timings.

A kit on another machine uses the same jobs and timings.
"""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.machine import harness, hosts
from loopwright.measuring import block, measure_blocks
from loopwright.measuring.block import Block
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import kits
from loopwright.microbench.oracle import COUNTER, Oracle, Timing, Trial

_SAMPLES = 10  # the fewest that the harness makes a reading of
_UNSTEADY = 8  # unsteady tries without a disturbance after which code has no stable speed


def trial_block(isa: str, name: str, trial: Trial) -> Block:
    """Return the block of a trial, with that name."""
    counter = COUNTER[isa] if trial.notion == "loop" else ""
    # Pointers are aligned to lines, so that displacements tell what shares a line.
    return Block(
        name, trial.notion, trial.offset, trial.code, counter,
        x87=trial.x87, wide=True, samples=_SAMPLES,
    )  # fmt: skip


def timing_of(readings: Sequence[BlockReading]) -> Timing:
    """Return the figure of the last successful try, or the refusal of the last try.

    A refusal is transient where the code is not its cause. Code that is unsteady again and again
    has no figure.
    """
    successful = [one for one in readings if not one.refused]
    if successful:
        found = measure_blocks.result(successful[-1:], 1)
        return Timing(found["cycles"], found["uncertainty"])
    last = readings[-1]
    unsteady = sum(one.unsteady for one in readings)
    if last.unsteady and unsteady >= _UNSTEADY:
        return Timing(None, refused=f"{last.refused}; so in {unsteady} tries")
    return Timing(None, refused=last.refused, transient=last.disturbed)


# s, before a machine that answered nothing is asked again
_PAUSES = (0.2, 0.4, 0.8, 1.6, *[3.0] * 11)
_NOPS = 8  # of a trial that any quiet machine answers
_TRIES = 4  # tries of a disturbed trial
_NEIGHBOUR = 0.1  # s, before trials that were all disturbed are tried again
_TRIALS = 400  # of a harness process, which begins with a self-test
_WORKERS = 2  # processes at a time, each on its own cores
_SHARED_CORE = 40  # trials of a turn whose failed self-tests show that the cores are one


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
    """A harness process on its own CPUs, restarted with a self-test."""

    def __init__(self, isa: str, cpus: Collection[int]) -> None:
        self._isa = isa
        self._kept: harness.Kept | None = None
        self._given = 0
        self.lost = False  # whether the self-test failed before the last readings
        # A process inherits the CPUs of the thread that starts it.
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
            # A process whose self-test failed takes no samples.
            self.lost = all(one["disturbed"] and not one["taken"] for one in records)
            if self.lost:
                self.end()
        return out

    def end(self) -> None:
        """End the process, so that the next one tests itself."""
        if self._kept:
            self._kept.close()
        self._kept, self._given = None, 0


class Host(Oracle):
    """This machine: trials run on up to two of its cores at a time."""

    def __init__(self) -> None:
        """Describe the machine."""
        super().__init__(
            toolchain.host_isa(),
            "host",
            f"host {hosts.machine()}",
            hosts.features(),
            hosts.recognition_table(hosts.here()),
        )
        cores = _cores()
        parts = [set[int]().union(*cores[n::_WORKERS]) for n in range(min(_WORKERS, len(cores)))]
        self._workers = [_Worker(self.isa, cpus) for cpus in parts]
        self._unsteady: dict[str, list[BlockReading]] = defaultdict(list)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Time each trial on the harness; loops come with their branch.

        Disturbed trials are repeated. Where other load prevents any timing, nops included, wait for
        a quiet machine; InputError if none comes.
        """
        if not trials:
            return []
        nops = Trial(kits.of(self.isa).nop() * _NOPS, "unrolled")
        for pause in _PAUSES:
            found = self._tried(trials)
            if not all(one.transient for one in found) or not self._tried([nops])[0].transient:
                return found
            self._end()
            time.sleep(pause)
        raise InputError(
            f"nothing can be timed here now: {found[0].refused}; run it again, which goes on from "
            "here, when less runs on this machine"
        )

    def _tried(self, trials: Sequence[Trial]) -> list[Timing]:
        """Try trials, and repeat those that are disturbed."""
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
                if found[n].transient:
                    again.append(n)
            if all(one.disturbed and not one.unsteady for one in read) and turn + 1 < _TRIES:
                time.sleep(_NEIGHBOUR)
            left = again
            if not left:
                break
        return [found[n] for n in range(len(trials))]

    def _read(self, trials: Sequence[Trial], turn: int) -> list[BlockReading]:
        """Have each trial read once; another turn uses other numbers of copies or iterations.

        In the next turn, another core reads what one core did not answer.
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
        for share, future in zip(filter(None, shares), readings, strict=True):
            out |= zip(share, future.result(), strict=True)
        # Cores that disturb each other are one core, whatever topology the machine reports.
        if len(out) >= _SHARED_CORE and all(worker.lost for worker in self._workers):
            del self._workers[1:]
        return [out[name] for name, _ in named]

    def _end(self) -> None:
        """End all processes, so that the next ones test themselves."""
        for worker in self._workers:
            worker.end()
