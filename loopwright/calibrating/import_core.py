"""Import a core that `calibrate` learned elsewhere: checked whole, or not taken at all."""

import hashlib
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, paths
from loopwright.calibrating import core_files, self_check
from loopwright.code import binding
from loopwright.errors import InputError
from loopwright.microbench.oracle import Elsewhere

COLUMNS = ["core", "machine", "isa", "held_out", "asked", "answered", "error", "near", "within"]
_TAKEN = (
    *core_files.CHECKED,
    core_files.PROVENANCE,
    core_files.MEASURED,
    core_files.LEFT_OUT,
    core_files.STRINGS,
)
_MOST_BYTES = 64 << 20


def holds_core(path: Path) -> bool:
    """Say whether a path is a folder that `calibrate` wrote a core into."""
    return path.is_dir() and (path / core_files.PROVENANCE).is_file()


def import_core(folder: Path) -> pd.DataFrame:
    """Check a folder that holds a learned core, and copy it below the cores that were brought in.

    Checked are its schema, the sums of its files, that the simulator takes it, and that it predicts
    its own held-out loops as it says. Returns a row for each kind of these: the core, the machine,
    the ISA, loops asked and answered, mean relative error, shares within 5 % and within the range.
    attrs["models"] is the folder for LOOPWRIGHT_MODELS. InputError where a check fails; nothing is
    copied then.
    """
    machine = _machine(folder)
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
            one.kind,
            one.asked,
            one.answered,
            one.error,
            one.near,
            one.within,
        )
        for one in judged
    ]
    found = pd.DataFrame(rows, columns=COLUMNS)
    found.attrs["models"] = str(models)
    return found


def _machine(folder: Path) -> Elsewhere:
    """Return the machine of a core whose files are whole."""
    said = _toml(folder / core_files.PROVENANCE)
    if said.get("schema") != core_files.SCHEMA:
        raise InputError(
            f"{folder / core_files.PROVENANCE}: schema {said.get('schema')!r}, and this version "
            f"reads {core_files.SCHEMA}; take the version that wrote it"
        )
    sums = said.get("sha256")
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
        return Elsewhere(
            str(core["isa"]),
            str(said["machine"]),
            str(said["fingerprint"]),
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
