"""Kits that measure elsewhere: the harness and every kernel, without Python or a compiler."""

import gzip
import hashlib
import io
import lzma
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from loopwright import files, kernels, paths, toolchain
from loopwright.calibrating import port_classes
from loopwright.calibrating.calibrate import chosen
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import ISAS, Variant, contract_of
from loopwright.machine import harness
from loopwright.machine.hosts import FACT_FILES
from loopwright.measuring import block, sweeps
from loopwright.measuring.sweeps import Sweep
from loopwright.microbench import host
from loopwright.microbench.forms import Form
from loopwright.microbench.kept_answers import Replay
from loopwright.portable import dry_run
from loopwright.version import VERSION


def trial_jobs(answers: Path | None, mnemonics: Sequence[str] | None) -> dict[str, tuple[str, int]]:
    """Return the jobs of a round for each ISA, and the number of their trials.

    Without answers it is a first round, for machines of both ISAs; else the trials that the
    answers' machine has not answered yet. InputError if none are left.
    """
    port_classes.solver()

    def choose(forms: Sequence[Form]) -> Sequence[Form]:
        return chosen(forms, quick=False, mnemonics=mnemonics)

    if answers is None:
        return {isa: _trial_jobs(isa, dry_run.first_round(isa, choose)) for isa in ISAS}
    replay = Replay(answers)
    missing = dry_run.further_round(replay, choose)
    if not missing:
        raise InputError(f"{answers}: {replay.name} has answered all that there is to ask")
    return {replay.isa: _trial_jobs(replay.isa, missing)}


def _trial_jobs(isa: str, wanted: dry_run.Round) -> tuple[str, int]:
    lines = [harness.facts_job("facts", FACT_FILES)]
    for key, (what, trial) in wanted.items():
        name = f"{what}/{key}"
        lines.append(block.job(isa, name, host.trial_block(isa, name, trial), 0))
    return "".join(lines), len(wanted)


FOLDER = "loopwright-kit"
_TEMPLATES = {"run": 0o755, "README": 0o644}
_PACKERS = (".tar.xz", ".tar.gz", ".tgz")


COLUMNS = ["file", "bytes", "kit", "variants", "points", "trials"]


def kit(
    output: str | Path,
    *,
    calibrate: bool = False,
    answers: str | Path | None = None,
    mnemonics: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Write a kit to output, FILE.tar.xz or FILE.tar.gz: the same tree gives the same bytes.

    calibrate adds the trials that a core is learned from, of the forms with these mnemonics where
    any are given: a first round for any machine, or with answers, a file that `import` made of an
    earlier round, those which that machine still lacks. Returns a row: the file, its bytes, the
    kit's hash and the numbers of variants, points and trials. InputError if a compiler is
    missing, the name ends otherwise, or no trial is left.
    """
    target = Path(output)
    if not target.name.endswith(_PACKERS):
        raise InputError(f"{target} does not end in .tar.xz or .tar.gz; name the kit so")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder; make it first")
    inside = _files()
    trials = 0
    if calibrate or answers is not None:
        given = None if answers is None else Path(answers)
        for isa, (text, count) in trial_jobs(given, mnemonics).items():
            inside[f"jobs/{isa}.trials"] = text.encode()
            trials += count
    listed = hashlib.sha256()
    for name in sorted(inside):
        listed.update(name.encode() + b"\0" + inside[name])
    hashed = listed.hexdigest()
    for name in _TEMPLATES:
        text = (paths.HARNESS / "kit" / name).read_text().replace("@KIT@", hashed)
        inside[name] = text.replace("@VERSION@", VERSION).encode()
    sums = [
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(inside.items())
    ]
    inside["SHA256SUMS"] = "".join(sums).encode()
    packed = _compress(_tar(inside), target.name)
    files.written(target, packed)
    every = [v for k in kernels.every() for v in k.variants.values()]
    points_inside = sum(len(_points(v)) for v in every)
    row = [str(target), len(packed), hashed, len(every), points_inside, trials]
    return pd.DataFrame([row], columns=COLUMNS)


def _files() -> dict[str, bytes]:
    """Return the files of the kit by name: programs, jobs, licence and sources."""
    files = {"LICENSE": (paths.HOME / "LICENSE").read_bytes()}
    for isa in kernels.ISAS:
        files[f"bin/harness-{isa}"] = _program(isa)
        files[f"jobs/{isa}.jobs"] = _jobs(isa).encode()
    roots = {"harness": paths.HARNESS, "kernels": paths.kernels_root()}
    for name, root in roots.items():
        for path in sorted(p for p in root.rglob("*") if _is_source(p)):
            files[f"source/{name}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return files


def _is_source(path: Path) -> bool:
    return path.is_file() and (
        path.suffix in (".c", ".h", ".S", ".toml", ".md") or path.parent.name == "kit"
    )


def _program(isa: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        program = Path(scratch, "harness")
        strip = toolchain.find(isa).gcc.removesuffix("gcc") + "strip"
        subprocess.run([strip, "-o", program, harness.build(isa)], check=True)
        return program.read_bytes()


def _jobs(isa: str) -> str:
    """Return all jobs of an ISA: facts, then a check and a measurement of each variant."""
    text = harness.facts_job("facts", FACT_FILES)
    for kernel in kernels.every():
        for variant in kernel.variants.values() if kernel.isa == isa else ():
            text += _variant_jobs(variant)
    return text


def _variant_jobs(variant: Variant) -> str:
    contract, code = contract_of(variant), assemble.user_code(variant)
    whole = assemble.variant_code(variant)
    text = harness.check_job(variant.id, code, contract)
    if whole.sha256 != code.sha256:
        text += harness.check_job(variant.id, whole, contract, gated=True)
    return text + harness.measure_job(variant.id, code, contract, _points(variant), 0)


def _points(variant: Variant) -> list[harness.Point]:
    """Return the points of every goal of a variant, with its code at its own alignment."""
    code, contract = assemble.user_code(variant), contract_of(variant)
    goals = sweeps.goals(variant, code, contract, Sweep())
    return list(dict.fromkeys(p for goal in goals for p in goal.points))


def _tar(files: dict[str, bytes]) -> bytes:
    """Return an archive that any tar can unpack: sorted, without times and owners."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size = len(data)
            program = name.startswith("bin/")
            entry.mode = 0o755 if program else _TEMPLATES.get(name, 0o644)
            archive.addfile(entry, io.BytesIO(data))
    return into.getvalue()


def _compress(data: bytes, name: str) -> bytes:
    if name.endswith(".xz"):
        return lzma.compress(data, preset=9)
    return gzip.compress(data, compresslevel=9, mtime=0)
