"""Answers of an oracle in a file: resumed by an interrupted run, replayed on another machine."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopwright import files
from loopwright.errors import InputError
from loopwright.microbench.oracle import Known, Oracle, Timing, Trial

_KEPT = 200  # trials, seconds on hardware, after which answers are written
FORMAT = 2  # of the file; it counts changes of the format


class Recorded:
    """A machine whose answers are kept in a file and reused."""

    def __init__(
        self,
        machine: Oracle,
        path: Path,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        """Read the file's answers; InputError if they are another machine's.

        progress is called with the number of trials the machine has answered since, and the seconds
        of the last batch.
        """
        self.isa, self.name = machine.isa, machine.name
        self.features, self.fingerprint = machine.features, machine.fingerprint
        self.host = machine.host
        self._machine = machine
        self._known: dict[str, Timing] = {}
        self._progress = progress
        self.asked = 0
        if path.exists():
            content = read_answers(path)
            self._known = content.known
            if content.head["fingerprint"] != self.fingerprint:
                raise InputError(
                    f"{path} holds answers of {content.head['fingerprint']}, and this is "
                    f"{self.fingerprint}; take another folder or remove it"
                )
            with path.open("r+b") as file:
                file.truncate(content.whole)
        else:
            files.written(path, json.dumps(head(machine)) + "\n")
        self.kept = len(self._known)  # answers of an earlier run
        self._path = path
        self._file = path.open("a")

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial; the machine measures those without an answer."""
        missing = list({t.key: t for t in trials if t.key not in self._known}.values())
        before = self.asked
        for start in range(0, len(missing), _KEPT):
            part = missing[start : start + _KEPT]
            began = time.monotonic()
            timings = self._machine.measure(part)
            seconds = time.monotonic() - began
            self._keep(part, timings)
            self.asked = before + start + len(part)
            if self._progress:
                self._progress(self.asked, seconds)
        out = [self._known[t.key] for t in trials]
        for trial in missing:
            if self._known[trial.key].transient:
                del self._known[trial.key]
        return out

    def _keep(self, trials: Sequence[Trial], timings: Sequence[Timing]) -> None:
        with files.writing(self._path):
            for trial, timing in zip(trials, timings, strict=True):
                self._known[trial.key] = timing
                if not timing.transient:
                    self._line(**answer(trial.key, timing))
            self._file.flush()

    def close(self) -> None:
        """Mark the file as complete."""
        with files.writing(self._path):
            self._line(end=len(self._known))
            self._file.close()

    def _line(self, **said: Any) -> None:
        self._file.write(json.dumps(said) + "\n")


def head(machine: Known) -> dict[str, Any]:
    """Return the first line of a file of answers, the identity of the machine."""
    return {
        "format": FORMAT,
        "isa": machine.isa,
        "machine": machine.name,
        "fingerprint": machine.fingerprint,
        "features": sorted(machine.features),
        "host": dict(machine.host),
    }


def answer(key: str, timing: Timing) -> dict[str, Any]:
    """Return the line with the answer to a trial, by its key."""
    return {
        "trial": key,
        "cycles": timing.cycles,
        "uncertainty": timing.uncertainty,
        "refused": timing.refused,
    }


@dataclass(frozen=True)
class Content:
    """Content of a file of answers: head, answers, and the number of valid bytes.

    complete says that the run that wrote it finished.
    """

    head: dict[str, Any]
    known: dict[str, Timing]
    whole: int
    complete: bool


def read_answers(path: Path) -> Content:
    """Read a file of answers, without a last line that was cut short.

    InputError if the file has other content, or mixes two machines.
    """
    known: dict[str, Timing] = {}
    head: dict[str, Any] = {}
    whole, end = 0, None
    lines = files.content(path).splitlines(keepends=True)
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except ValueError:
            if number and number == len(lines) - 1:
                break
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine") from None
        if not isinstance(record, dict) or end is not None:
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine")
        if "end" in record:
            end = record["end"]
            continue
        if "fingerprint" in record:
            if head and record != head:
                raise InputError(f"{path} mixes two machines: line {number + 1} begins another")
            head = record
            if head.get("format") != FORMAT:
                raise InputError(f"{path} has another format than this version writes: {FORMAT}")
        elif "trial" in record and head:
            known[record["trial"]] = Timing(
                record["cycles"], record["uncertainty"], record["refused"]
            )
        else:
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine")
        whole += len(line)
    if not head:
        raise InputError(f"{path} does not say whose answers it holds")
    return Content(head, known, whole, end == len(known))


_UNKNOWN = Timing(None, refused="the file has no answer for it")


class Replay:
    """Answers of another machine; trials without an answer are refused and kept in missing."""

    def __init__(self, path: Path) -> None:
        """Read a file that a run wrote; InputError if that run did not finish."""
        content = read_answers(path)
        if not content.complete:
            raise InputError(
                f"{path} was cut short; let `calibrate` end on the machine that it comes from"
            )
        self.isa = str(content.head["isa"])
        self.name = str(content.head["machine"])
        self.fingerprint = str(content.head["fingerprint"])
        self.features = frozenset(content.head["features"])
        self.host = content.head["host"]
        self.known = content.known
        self.missing: set[str] = set()

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return the answer of each trial from the file."""
        self.missing |= {trial.key for trial in trials} - self.known.keys()
        return [self.known.get(trial.key, _UNKNOWN) for trial in trials]
