"""Bring in the answers that a kit measured elsewhere, and trust nothing in its file."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, paths
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import results
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import host, kept_answers
from loopwright.microbench.oracle import Elsewhere, Timing

COLUMNS = ["file", "machine", "microarch", "clock", "new", "there", "refused", "answers"]
_HEAD = "loopwright_results"
_MARK = "calibration"
_FORMAT = 1
_NAMED = re.compile(r"[a-z]+/([0-9a-f]{24})")
_MOST_CYCLES = 1e9


def holds_calibration(path: Path) -> bool:
    """Say whether a file is one that a kit wrote which measured trials."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(1 << 16))
    except (OSError, ValueError):
        return False
    return isinstance(head, dict) and _HEAD in head and _MARK in head


def import_calibration(path: Path) -> pd.DataFrame:
    """Add the answers of a kit's file to those that its machine gave before.

    Returns a row: the file, the machine, the core that it is ("" where none is known), the clock,
    how many answers are new and were there, how many of the file's are refusals, and the file of
    answers, for `calibrate --machine` and `kit --calibrate`. InputError where the kit did not come
    to its end, where a line is damaged, and where two machines are mixed in the file.
    """
    lines = list(_lines(path))
    machine, core = _machine(path, lines)
    readings = _readings(path, lines, machine)
    found = {key: host.timing_of(of) for key, of in readings.items()}
    found = {key: one for key, one in found.items() if not one.passing}
    folder = paths.data_dir() / "calibrations" / machine.name
    answers = folder / "answers.jsonl"
    before = kept_answers.read_answers(answers).known if answers.exists() else {}
    _write(answers, machine, before | found)
    row = {
        "file": str(path),
        "machine": machine.name,
        "microarch": core,
        "clock": next((of[0].clock for of in readings.values()), ""),
        "new": len(found.keys() - before.keys()),
        "there": len(found.keys() & before.keys()),
        "refused": sum(one.cycles is None for one in found.values()),
        "answers": str(answers),
    }
    return pd.DataFrame([row], columns=COLUMNS)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file whose last one says that nothing is missing."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise InputError(f"{path}: line {number} is damaged; bring the file here again")
        if number == len(lines) - 1 and "end" in said and not lines[-1]:
            yield said
            return
        yield said
    raise InputError(
        f"{path} was cut short; let the kit end: ./run --calibrate --resume {path.name}"
    )


def _machine(path: Path, lines: list[dict[str, Any]]) -> tuple[Elsewhere, str]:
    """Return the machine that a file is from, and the id of its core."""
    head = lines[0]
    if head.get(_HEAD) != _FORMAT:
        raise InputError(f"{path} is of another format; use the version that made the kit")
    heads = [n for n, line in enumerate(lines, 1) if _HEAD in line]
    if len(heads) > 1:
        raise InputError(
            f"{path} mixes two runs: line {heads[1]} begins another; bring each file by itself"
        )
    try:
        banner = lines[1]
        facts, found = hosts.of_banner(banner)
        fingerprint = str(banner["fingerprint"])
        name = hosts.slug(hosts.machine(facts))
        machine = Elsewhere(
            facts.isa,
            f"{name[:40]}-{fingerprint[:6]}",
            f"kit {fingerprint}",
            facts.features,
            hosts.recognition_table(facts),
        )
    except (IndexError, KeyError, ValueError):
        raise InputError(f"{path} does not say what machine it is from") from None
    if nothing := lines[-1].get("nothing_measured"):
        raise InputError(f"{path}: nothing was measured there: {nothing}")
    return machine, found.core or ""


def _readings(
    path: Path, lines: list[dict[str, Any]], machine: Elsewhere
) -> Mapping[str, list[BlockReading]]:
    """Return the readings of each trial by its key."""
    out: dict[str, list[BlockReading]] = defaultdict(list)
    count, process = 0, {}
    for number, line in enumerate(lines[2:], 3):
        if line.get("id") == "clock":
            said = str(line.get("fingerprint"))
            if f"kit {said}" != machine.fingerprint:
                raise InputError(f"{path} mixes two machines: line {number} is of another")
            process = _process(path, number, line)
            continue
        if "end" in line or line.get("id") == "plan":
            continue
        named = _NAMED.fullmatch(str(line.get("id")))
        try:
            if named is None:
                raise ValueError
            reading = BlockReading.of(line)
            results.clock(line, process)
            if not reading.refused:
                results.block(line, _MOST_CYCLES)
                results.left_out(line, results.integer(line, "samples", 1, 1 << 16))
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}: line {number} is no answer to a trial, or says what cannot be; bring the "
                "file here again"
            ) from None
        out[named[1]].append(reading)
        count += 1
    declared = lines[-1].get("readings")
    if count != declared:
        raise InputError(f"{path} has {count} of {declared} readings; bring the file here again")
    return out


def _process(path: Path, number: int, line: dict[str, Any]) -> dict[str, Any]:
    try:
        results.process(line)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}: line {number} says of a clock what cannot be; bring the file here again"
        ) from None
    return line


def _write(path: Path, machine: Elsewhere, answers: Mapping[str, Timing]) -> None:
    """Write a whole file of answers or nothing."""
    with files.replaced(path) as part, part.open("w") as out:
        out.write(json.dumps(kept_answers.head(machine)) + "\n")
        out.writelines(json.dumps(kept_answers.answer(k, t)) + "\n" for k, t in answers.items())
        out.write(json.dumps({"end": len(answers)}) + "\n")
