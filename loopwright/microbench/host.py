"""Host oracle: trials as jobs of the harness, readings as timings.

A kit on another machine uses the same jobs and timings.
"""

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.machine import harness, hosts
from loopwright.measuring import block, measure_blocks
from loopwright.measuring.block import Block
from loopwright.measuring.measure_blocks import BlockReading
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
    successful = [reading for reading in readings if not reading.refused]
    if successful:
        row = measure_blocks.result(successful[-1:], 1)
        return Timing(row["cycles"], row["uncertainty"])
    last = readings[-1]
    unsteady = sum(reading.unsteady for reading in readings)
    if last.unsteady and unsteady >= _UNSTEADY:
        return Timing(None, refused=f"{last.refused}; so in {unsteady} tries")
    return Timing(None, refused=last.refused, transient=last.disturbed)


_TRIES = 4  # tries of a disturbed trial
_PORTION = 16  # most trials that a worker takes at a time
_TRIALS = 400  # of a harness process, which begins with a self-test
_MOST_LOUD = 20  # waits for a quiet core in vain after which the self-test is repeated
_PATIENCE = 180  # s without an answer, before the run ends
_WORKERS = 2  # processes at a time, each on its own cores
# s before another self-test: the first pause, doubled after each that fails, and the longest
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


def _cores() -> list[set[int]]:
    """Return the CPUs of each physical core that this process may use."""
    allowed = os.sched_getaffinity(0)
    cores: dict[str, set[int]] = {}
    for cpu in sorted(allowed):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        name = path.read_text() if path.is_file() else str(cpu)
        cores.setdefault(name, set()).add(cpu)
    return list(cores.values())


class _Attempt(NamedTuple):
    """A trial to read, with its number and the tries before."""

    number: int
    tries: int
    trial: Trial


class _Queue:
    """Trials to read, which workers take in portions; disturbed ones come back to its end."""

    def __init__(self, trials: Sequence[Trial], unsteady: dict[str, list[BlockReading]]) -> None:
        """Take trials, and the unsteady readings of earlier queues by the key of their trial."""
        self._unsteady = unsteady
        self._waiting = deque(_Attempt(number, 0, trial) for number, trial in enumerate(trials))
        self._open = len(trials)  # trials without a final timing
        self._answered = time.monotonic()  # when the last answer came, or the queue began
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._timings: dict[int, Timing] = {}

    def take(self) -> list[_Attempt]:
        """Return a portion of trials; none if all timings are final."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.done)
            if self.done:
                return []
            count = max(min(_PORTION, len(self._waiting) // (2 * _WORKERS)), 1)
            return [self._waiting.popleft() for _ in range(count)]

    def give(self, taken: Sequence[_Attempt], readings: Sequence[BlockReading]) -> None:
        """Take the readings of a portion: final timings, or further attempts."""
        with self._changed:
            for attempt, reading in zip(taken, readings, strict=True):
                unsteady = self._unsteady[attempt.trial.key]
                timing = timing_of([*unsteady, reading])
                self._timings[attempt.number] = timing
                if reading.unsteady:
                    unsteady.append(reading)
                if not reading.disturbed:
                    self._answered = time.monotonic()
                if timing.transient and attempt.tries + 1 < _TRIES:
                    self._waiting.append(attempt._replace(tries=attempt.tries + 1))
                else:
                    self._open -= 1
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until all timings are final."""
        with self._changed:
            self._changed.wait_for(lambda: self.done, seconds)

    def report_loud(self, why: str) -> None:
        """Take a report of a loud core: an error if there was no answer for long."""
        if time.monotonic() - self._answered > _PATIENCE:
            self.end(
                InputError(
                    f"nothing can be timed here now: {why}; run it again, which goes on from "
                    "here, when less runs on this machine"
                )
            )

    def end(self, error: BaseException) -> None:
        """Let no worker take more, and wait() raise an error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    @property
    def done(self) -> bool:
        """True if all timings are final, or an error ended the queue."""
        return not self._open or self._error is not None

    def wait(self) -> list[Timing]:
        """Return the timings of all trials, in order, when they are final."""
        with self._changed:
            self._changed.wait_for(lambda: self.done)
        if self._error:
            raise self._error
        return [self._timings[number] for number in range(len(self._timings))]


class _Worker:
    """A harness process on its own CPUs, replaced after some trials; each begins with a self-test.

    It takes trials when its core is quiet. Two workers may share a core, whatever topology the
    machine reports; then one waits while the other works.
    """

    def __init__(self, isa: str, cpus: Collection[int]) -> None:
        self._isa = isa
        self._harness: harness.Session | None = None
        self._taken = 0  # trials of the process
        self._loud = 0  # waits for a quiet core in vain
        self._pause, self._until = _PAUSE, 0.0
        # A process inherits the CPUs of the thread that starts it.
        self._thread = ThreadPoolExecutor(1, "trials", os.sched_setaffinity, (0, cpus))

    def serve(self, queue: _Queue) -> None:
        """Begin to read the trials of a queue."""
        self._thread.submit(self._serve, queue)

    def _serve(self, queue: _Queue) -> None:
        try:
            while not queue.done:
                usable = self._harness and self._taken < _TRIALS and self._loud < _MOST_LOUD
                if (usable or self._begin(queue)) and self._await_quiet(queue):
                    taken = queue.take()
                    queue.give(taken, self._read(taken))
        except BaseException as error:
            self.end()
            queue.end(error)

    def _begin(self, queue: _Queue) -> bool:
        """Begin a process; False if its self-test fails, or its pause is not over."""
        self.end()
        if time.monotonic() < self._until:
            queue.pause(self._until - time.monotonic())
            return False
        self._harness = harness.Session(self._isa)
        (clock,) = self._harness.answers([harness.clock_job("clock")])
        if not clock["refused"]:
            self._pause = _PAUSE
            return True
        self.end()
        queue.report_loud(clock["refused"])
        self._until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return False

    def _await_quiet(self, queue: _Queue) -> bool:
        """Wait for a quiet core; False if none came for half a second."""
        assert self._harness
        (answer,) = self._harness.answers([harness.quiet_job("quiet")])
        if answer["quiet"]:
            self._loud = 0
        else:
            self._loud += 1
            queue.report_loud("something shares the core")
        return bool(answer["quiet"])

    def _read(self, taken: Sequence[_Attempt]) -> list[BlockReading]:
        """Read trials once; another try uses other numbers of copies or iterations."""
        assert self._harness
        self._taken += len(taken)
        jobs = []
        for number, tries, trial in taken:
            name = str(number)
            jobs.append(block.job(self._isa, name, trial_block(self._isa, name, trial), tries))
        return [BlockReading.of(record) for record in self._harness.answers(jobs)]

    def end(self) -> None:
        """End the process, so that the next one tests itself."""
        if self._harness:
            self._harness.close()
        self._harness, self._taken, self._loud = None, 0, 0


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
        shares = [set[int]().union(*cores[n::_WORKERS]) for n in range(min(_WORKERS, len(cores)))]
        self._workers = [_Worker(self.isa, cpus) for cpus in shares]
        self._unsteady: dict[str, list[BlockReading]] = defaultdict(list)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Time each trial on the harness; loops come with their branch.

        Disturbed trials are repeated. Where the self-test fails, wait for a quiet machine;
        InputError if none comes.
        """
        queue = _Queue(trials, self._unsteady)
        try:
            for worker in self._workers:
                worker.serve(queue)
            return queue.wait()
        except BaseException as error:
            queue.end(error)
            for worker in self._workers:
                worker.end()
            raise
