"""Import of answers of a kit and of learned cores from other machines, after full checks."""

import hashlib
import json
import re
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, paths
from loopwright.calibrating import core_files, self_check
from loopwright.code import binding
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import results
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.microbench import host, oracle
from loopwright.microbench.oracle import Machine, Timing

CORE_COLUMNS = [
    "core",
    "machine",
    "isa",
    "held_out",
    "asked",
    "answered",
    "error",
    "near",
    "within",
]
_TAKEN = (
    *core_files.CHECKED,
    core_files.PROVENANCE,
    core_files.MEASURED,
    core_files.LEFT_OUT,
    core_files.STRINGS,
)
_MOST_BYTES = 64 << 20


def holds_core(path: Path) -> bool:
    """True if a path is a folder that `calibrate` wrote a core into."""
    return path.is_dir() and (path / core_files.PROVENANCE).is_file()


def import_core(folder: Path) -> pd.DataFrame:
    """Check a folder that holds a learned core, and copy it to the imported cores.

    Checked are its schema, the checksums of its files, that the simulator accepts it, and that it
    predicts its held-out loops as it states. Returns a row for each kind of held-out loops: core,
    machine, ISA, loops asked and answered, mean relative error, share within 5 %, and share of
    ranges that hold. attrs["models"] is the folder for LOOPWRIGHT_MODELS. InputError if a check
    fails; nothing is copied then.
    """
    machine = _machine_of(folder)
    judged = self_check.check(machine, folder)
    if not judged:
        raise InputError(
            f"{folder} holds no held-out loops that its core answers; run calibrate there again"
        )
    models = paths.data_dir() / "cores"
    title = f"loopwright calibrate on {machine.fingerprint}"
    with files.staged(models / folder.name) as scratch:
        for name in _TAKEN:
            if (file := folder / name).is_file():
                shutil.copyfile(file, scratch / name)
    files.written(models / "sources.toml", core_files.sources(title, folder.name))
    rows = [
        (
            folder.name,
            machine.name,
            machine.isa,
            judgement.kind,
            judgement.asked,
            judgement.answered,
            judgement.error,
            judgement.near,
            judgement.within,
        )
        for judgement in judged
    ]
    found = pd.DataFrame(rows, columns=CORE_COLUMNS)
    found.attrs["models"] = str(models)
    return found


def _machine_of(folder: Path) -> Machine:
    """Return the machine of a core whose files are unchanged."""
    provenance = _toml(folder / core_files.PROVENANCE)
    if provenance.get("schema") != core_files.SCHEMA:
        raise InputError(
            f"{folder / core_files.PROVENANCE}: schema {provenance.get('schema')!r}, and this "
            f"version reads {core_files.SCHEMA}; take the version that wrote it"
        )
    sums = provenance.get("sha256")
    if not isinstance(sums, dict):
        raise InputError(f"{folder / core_files.PROVENANCE} has no sums of its files")
    for name in core_files.CHECKED:
        file = folder / name
        if not file.is_file():
            if name in sums:
                raise InputError(f"{file} is missing; bring the whole folder here again")
            continue
        if file.stat().st_size > _MOST_BYTES:
            raise InputError(f"{file} is larger than any core's; it is no file of calibrate")
        if hashlib.sha256(file.read_bytes()).hexdigest() != sums.get(name):
            raise InputError(f"{file} is not as calibrate wrote it; bring the folder here again")
    core = _toml(folder / "core.toml")
    try:
        text, table = ((folder / n).read_text() for n in core_files.CHECKED[:2])
        binding.Core(text, table, {})
        return Machine(
            str(core["isa"]),
            str(provenance["machine"]),
            str(provenance["fingerprint"]),
            frozenset(map(str, core["features"])),
            core.get("host", {}),
        )
    except (KeyError, OSError, TypeError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{folder}: the simulator takes no such core: {error}") from None


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


ANSWER_COLUMNS = ["file", "machine", "microarch", "clock", "new", "there", "refused", "answers"]
_HEAD = "loopwright_results"
_MARK = "calibration"
_FORMAT = 1
_NAMED = re.compile(r"[a-z]+/([0-9a-f]{24})")
_MOST_CYCLES = 1e9


def holds_calibration(path: Path) -> bool:
    """True if a file holds trials measured by a kit."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(1 << 16))
    except (OSError, ValueError):
        return False
    return isinstance(head, dict) and _HEAD in head and _MARK in head


def import_calibration(path: Path) -> pd.DataFrame:
    """Add the answers of a kit's file to earlier ones of its machine.

    Returns a row: the file, the machine, its core ("" if unknown), the clock, the number of new and
    of known answers, the refusals among the file's answers, and the path of all answers, for
    `calibrate --machine` and `kit --calibrate`. InputError if the kit did not finish, where a
    line is damaged, and where the file mixes two machines.
    """
    lines = list(_lines(path))
    machine, core = _answering(path, lines)
    readings = _readings(path, lines, machine)
    found = {key: host.timing_of(of) for key, of in readings.items()}
    found = {key: one for key, one in found.items() if not one.transient}
    folder = paths.data_dir() / "calibrations" / machine.name
    answers = folder / "answers.jsonl"
    before = oracle.read_answers(answers).known if answers.exists() else {}
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
    return pd.DataFrame([row], columns=ANSWER_COLUMNS)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file whose last line declares it complete."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{path}: line {number} is damaged; bring the file here again")
        if number == len(lines) - 1 and "end" in record and not lines[-1]:
            yield record
            return
        yield record
    raise InputError(
        f"{path} was cut short; let the kit end: ./run --calibrate --resume {path.name}"
    )


def _answering(path: Path, lines: list[dict[str, Any]]) -> tuple[Machine, str]:
    """Return the machine of a file, and the id of its core."""
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
        machine = Machine(
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
    path: Path, lines: list[dict[str, Any]], machine: Machine
) -> Mapping[str, list[BlockReading]]:
    """Return the readings of each trial by its key."""
    out: dict[str, list[BlockReading]] = defaultdict(list)
    count, process = 0, {}
    for number, line in enumerate(lines[2:], 3):
        if line.get("id") == "clock":
            fingerprint = str(line.get("fingerprint"))
            if f"kit {fingerprint}" != machine.fingerprint:
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


def _write(path: Path, machine: Machine, answers: Mapping[str, Timing]) -> None:
    """Write a whole file of answers, or nothing."""
    with files.replaced(path) as part, part.open("w") as out:
        out.write(json.dumps(oracle.head(machine)) + "\n")
        out.writelines(json.dumps(oracle.answer(k, t)) + "\n" for k, t in answers.items())
        out.write(json.dumps({"end": len(answers)}) + "\n")
