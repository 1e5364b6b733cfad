"""Keep what is measured on this machine in the results store, as it comes."""

import secrets
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from loopwright import harness, toolchain
from loopwright.code.instructions import Code
from loopwright.harness import jobs
from loopwright.kernels import Variant
from loopwright.machine.hosts import FACT_FILES
from loopwright.store.runs import Record, Run, Store

ORIGIN = "measure"


class Recorder:
    """One run on this machine. With resume it goes on with the newest one like it, if there is.

    Like it: of this machine, by this protocol; what an other clock counted is left alone.
    """

    def __init__(self, store: Store, *, resume: bool = False) -> None:
        self._store = store
        self._resume = resume
        self._process = 0

    def known(self, variant: Variant, code: Code, shift: int) -> Iterator[Mapping[str, Any]]:
        """Yield what the harness said of this code, shift bytes off a line, before an interrupt."""
        if not self._resume:
            return
        for record in self._store.records(self._run, variant.kernel):
            answer = record.answer
            same = record.variant == variant.name and record.object == code.sha256
            if same and answer["offset"] == shift and answer["clock"] == self._clock:
                yield answer

    def self_tests(self) -> list[list[dict[str, Any]]]:
        """Return the self-tests of the processes before an interrupt."""
        if not self._resume:
            return []
        return [answer["self_test"] for answer in self._store.processes(self._run).values()]

    def begin_process(self, clock: Mapping[str, Any]) -> None:
        """Say that another process of the harness began, and which clock it has."""
        self._process = max(self._store.processes(self._run), default=0) + 1
        self._store.add(self._run, [], {self._process: clock})

    def keep(self, variant: Variant, code: Code, answer: Mapping[str, Any]) -> None:
        """Keep one answer of the harness; it is safe when this returns."""
        record = Record(self._process, variant.kernel, variant.name, code.sha256, answer)
        self._store.add(self._run, [record])

    @cached_property
    def _clock(self) -> str:
        return str(next(harness.run(toolchain.host_isa(), jobs.clock("clock")))["clock"])

    @cached_property
    def _run(self) -> Run:
        banner = next(harness.run(toolchain.host_isa(), jobs.facts("facts", FACT_FILES)))
        if self._resume:
            for run in self._store.runs():
                like = (run.machine, run.protocol, run.origin)
                if like == (banner["fingerprint"], banner["protocol"], ORIGIN):
                    return run
        return Run(
            uid=secrets.token_hex(16),
            machine=banner["fingerprint"],
            started=banner["time"],
            protocol=banner["protocol"],
            origin=ORIGIN,
            banner=banner,
        )
