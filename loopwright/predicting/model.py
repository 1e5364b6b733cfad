"""The protocol of throughput models (blocks in, answers out), and programs that run models."""

import json
import select
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from loopwright.code.instructions import Flow, Instruction, decode, executed
from loopwright.microarchs import Microarch

ALIKE = 1.02  # cycles within this ratio count as equal
BALANCED = "balanced:"  # begins the text of several equal limits


@dataclass(frozen=True)
class Block:
    """Code to predict: cycles an iteration in steady state, with all data in the L1 cache.

    notion is "loop" (it ends in a branch to its start) or "unrolled" (copies back to back). offset
    is the code offset: the address of the first byte mod 64.
    """

    isa: str
    code: bytes
    notion: str
    offset: int

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions that it executes, with addresses from its first byte."""
        body = decode(self.isa, self.code)
        return executed(body) if self.notion == "loop" else body

    @property
    def string(self) -> Instruction | None:
        """The first repeated string instruction, if any."""
        return next((i for i in self.instructions if i.string), None)

    @property
    def transfer(self) -> Instruction | None:
        """The first instruction that leaves the block: a call, a return, an indirect jump."""
        leaving = (Flow.CALL, Flow.RETURN, Flow.INDIRECT)
        return next((i for i in self.instructions if i.flow in leaving), None)


@dataclass(frozen=True)
class Answer:
    """A model's answer: cycles an iteration, or None and the error with the reason.

    startup is the cycles once before the first iteration (of a string instruction); None if
    unknown. cheap and dear are the cycles at both ends of the ranges of unmeasured parameters, None
    if the block depends on none. low and high contain 95 % of the measurements of similar code,
    both None if the errors of the model on the core are not recorded. note names the part of the
    block that the model leaves out. limits are all limits that the model sees, each with its
    figure; bound is the largest of ports, dispatch and dependencies alone: no other order,
    alignment or window makes these instructions faster.
    """

    cycles: float | None
    bottleneck: str = ""
    error: str = ""
    startup: float | None = 0.0
    cheap: float | None = None
    dear: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    limits: str = ""
    bound: float | None = None

    @classmethod
    def none(cls, why: str) -> "Answer":
        """Return the answer of a model that has no number."""
        return cls(None, error=why)


class Model(Protocol):
    """A throughput model, as loopwright uses it.

    short is its name in a narrow column. corrects is the id of the model that it replaces where
    both have an answer, or "".
    """

    id: str
    short: str
    corrects: str

    def version(self) -> str:
        """Return name and version; InputError with the way to install a missing model."""
        ...

    def lacks(self, core: Microarch) -> str:
        """Return the reason why it has no answer for any block on a core, or ""."""
        ...

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer for each block, in order; one without an answer gets an error."""
        ...


def unfit(block: Block) -> str:
    """Return the reason why a model of one straight block has no answer for this one, or ""."""
    if block.string:
        return (
            f"{block.string.mnemonic}: its cost depends on count and alignment, "
            "which this model does not see"
        )
    if block.transfer:
        return f"{block.transfer.mnemonic}: this model does not follow control out of the block"
    return ""


class Worker:
    """A program that answers requests, one JSON object a line, while this one lives.

    It gets one request at a time, and is restarted where it has ended.
    """

    def __init__(self, command: Sequence[str | Path], seconds: float | None = None) -> None:
        """Store its command and its time limit for an answer, in seconds."""
        self._command, self._seconds = command, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """Return its answer; {"error": reason} if it ended or took too long."""
        process = self._process = self._process or subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            line = self._answer(process, json.dumps(request).encode() + b"\n")
        except BaseException:
            # A late answer would be taken for the answer to the next request.
            self._end(process)
            raise
        if line is None:
            self._end(process)
            return {"error": f"no answer in {self._seconds:g} s"}
        if not line:
            self._process = None
            return {"error": f"its worker ended (exit {process.wait()})"}
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _answer(self, process: subprocess.Popen[bytes], request: bytes) -> bytes | None:
        """Return a line, b"" at the program's end, None after the time limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except BrokenPipeError:
            return b""
        if self._seconds is not None:
            readable, _, _ = select.select([process.stdout], [], [], self._seconds)
            if not readable:
                return None
        return process.stdout.readline()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.kill()
        process.communicate()
