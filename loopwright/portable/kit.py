"""Kits that measure elsewhere, and the import of their answers and of cores learned there.

A kit holds the harness, every kernel, and trials that a core is learned from. The machine that
measures needs neither Python nor a compiler nor a solver. An import changes nothing before all
checks have passed.
"""

import gzip
import hashlib
import io
import json
import lzma
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, kernels, microarchs, paths, toolchain
from loopwright.calibrating import core_files, passes, port_classes, self_check
from loopwright.calibrating.calibrate import chosen
from loopwright.calibrating.passes import Step, measure_basis
from loopwright.code import assemble, binding
from loopwright.errors import InputError
from loopwright.kernels import ISAS, Variant, contract_of
from loopwright.machine import harness, hosts
from loopwright.machine.hosts import FACT_FILES
from loopwright.measuring import block, readings, results
from loopwright.measuring.measure_blocks import BlockReading
from loopwright.measuring.readings import Sweep
from loopwright.microbench import host, kits, latency, oracle, throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Machine, Oracle, Replay, Simulated, Timing, Trial
from loopwright.paths import VERSION

_SAMPLED = 200  # throughputs by which cores are compared with a machine
_NEAR_RATE = 0.05  # relative difference up to which throughputs agree

Round = dict[str, tuple[str, Trial]]  # experiment and trial, by the trial's key
Choice = Callable[[Sequence[Form]], Sequence[Form]]


def trial_jobs(answers: Path | None, mnemonics: Sequence[str] | None) -> dict[str, tuple[str, int]]:
    """Return the jobs of a round for each ISA, and the number of their trials.

    Without answers it is a first round, for machines of both ISAs; else a further round, of the
    trials that the answers' machine has not answered yet. InputError if none are left.
    """
    port_classes.solver()

    def choose(forms: Sequence[Form]) -> Sequence[Form]:
        return chosen(forms, quick=False, mnemonics=mnemonics)

    if answers is None:
        return {isa: _trial_jobs(isa, first_round(isa, choose)) for isa in ISAS}
    replay = Replay(answers)
    missing = further_round(replay, choose)
    if not missing:
        raise InputError(f"{answers}: {replay.name} has answered all that there is to ask")
    return {replay.isa: _trial_jobs(replay.isa, missing)}


def _trial_jobs(isa: str, trials: Round) -> tuple[str, int]:
    lines = [harness.facts_job("facts", FACT_FILES)]
    for key, (experiment, trial) in trials.items():
        name = f"{experiment}/{key}"
        lines.append(block.job(isa, name, host.trial_block(isa, name, trial), 0))
    return "".join(lines), len(trials)


FOLDER = "loopwright-kit"
_TEMPLATES = {"run": 0o755, "README": 0o644}
_ENDINGS = (".tar.xz", ".tar.gz", ".tgz")


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
    if not target.name.endswith(_ENDINGS):
        raise InputError(f"{target} does not end in .tar.xz or .tar.gz; name the kit so")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first")
    contents = _contents()
    trials = 0
    if calibrate or answers is not None:
        answers_path = None if answers is None else Path(answers)
        for isa, (text, count) in trial_jobs(answers_path, mnemonics).items():
            contents[f"jobs/{isa}.trials"] = text.encode()
            trials += count
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode() + b"\0" + contents[name])
    kit_hash = digest.hexdigest()
    for name in _TEMPLATES:
        text = (paths.HARNESS / "kit" / name).read_text().replace("@KIT@", kit_hash)
        contents[name] = text.replace("@VERSION@", VERSION).encode()
    sums = [
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(contents.items())
    ]
    contents["SHA256SUMS"] = "".join(sums).encode()
    packed = _compress(_tar(contents), target.name)
    files.written(target, packed)
    variants = [v for k in kernels.every() for v in k.variants.values()]
    points = sum(len(_points(v)) for v in variants)
    row = [str(target), len(packed), kit_hash, len(variants), points, trials]
    return pd.DataFrame([row], columns=COLUMNS)


def _contents() -> dict[str, bytes]:
    """Return the files of the kit by name: programs, jobs, licence and sources."""
    contents = {"LICENSE": (paths.HOME / "LICENSE").read_bytes()}
    for isa in kernels.ISAS:
        contents[f"bin/harness-{isa}"] = _program(isa)
        contents[f"jobs/{isa}.jobs"] = _jobs(isa).encode()
    roots = {"harness": paths.HARNESS, "kernels": paths.kernels_root()}
    for name, root in roots.items():
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            if path.suffix in (".c", ".h", ".S", ".toml", ".md") or path.parent.name == "kit":
                contents[f"source/{name}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return contents


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
    goals = readings.goals(variant, code, contract, Sweep())
    return list(dict.fromkeys(p for goal in goals for p in goal.points))


def _tar(contents: dict[str, bytes]) -> bytes:
    """Return an archive that any tar can unpack: sorted, without times and owners."""
    archive_bytes = io.BytesIO()
    with tarfile.open(fileobj=archive_bytes, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size = len(data)
            program = name.startswith("bin/")
            entry.mode = 0o755 if program else _TEMPLATES.get(name, 0o644)
            archive.addfile(entry, io.BytesIO(data))
    return archive_bytes.getvalue()


def _compress(data: bytes, name: str) -> bytes:
    if name.endswith(".xz"):
        return lzma.compress(data, preset=9)
    return gzip.compress(data, compresslevel=9, mtime=0)


class DryRun(Oracle):
    """An oracle with the known answers of a machine, which records the missing ones.

    The trials of an experiment depend on earlier answers, but a kit needs all its trials in
    advance. So guess, a known core, gives the missing answers. missing has the trials without a
    known answer, in the order of the requests.
    """

    def __init__(
        self, known: Mapping[str, Timing], guess: Oracle, features: frozenset[str]
    ) -> None:
        """Store answers by the keys of their trials."""
        super().__init__(
            guess.isa, guess.name, f"foreseen by {guess.fingerprint}", features, guess.host
        )
        self.missing: dict[str, Trial] = {}
        self._known, self._guess = known, guess

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        timings = {t.key: self._known[t.key] for t in trials if t.key in self._known}
        missing = [trial for trial in trials if trial.key not in timings]
        self.missing |= {trial.key: trial for trial in missing}
        guessed = zip(missing, self._guess.measure(missing), strict=True)
        timings |= {trial.key: timing for trial, timing in guessed}
        return [timings[trial.key] for trial in trials]


class _Silent(Oracle):
    """A machine that refuses every trial."""

    def __init__(self, isa: str) -> None:
        super().__init__(isa, "none", "none", frozenset(), {})

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        return [Timing(None, refused="not measured yet") for _ in trials]


def first_round(isa: str, choose: Choice) -> Round:
    """Return the trials of a first round: those that any core of models/ would need.

    Throughputs and latencies are those of all forms of any core. choose selects the forms to learn.
    """
    trials: Round = {}
    all_forms = choose(kits.forms(isa, None)[0])
    cores = [Simulated(core.id, noise=0) for core in microarchs.select("all", isa)]
    for core in cores:
        forms = choose(kits.forms(isa, core.features)[0])
        _foresee(DryRun({}, core, core.features), forms, trials, measure_basis)
    silent = DryRun({}, _Silent(isa), frozenset())
    rates = throughput.measure(Laboratory(silent), all_forms)
    _record_missing(trials, "throughput", silent)
    latency.measure(Laboratory(silent), all_forms, throughput.cycles(rates))
    _record_missing(trials, "latencies", silent)
    return _by_experiment(trials)


def further_round(answers: Replay, choose: Choice) -> Round:
    """Return the unanswered trials for learning a machine."""
    forms = choose(kits.forms(answers.isa, answers.features)[0])
    trials: Round = {}
    guess = _nearest(answers, forms)
    _foresee(DryRun(answers.timings, guess, answers.features), forms, trials, passes.learn_core)
    return _by_experiment(trials)


def _foresee(
    machine: DryRun,
    forms: Sequence[Form],
    trials: Round,
    experiments: Callable[[Laboratory, Sequence[Form], Step], object],
) -> None:
    """Run the experiments on a dry run, as far as its answers lead, and record missing trials."""
    experiment = ""

    def step(message: str) -> None:
        nonlocal experiment
        _record_missing(trials, experiment, machine)
        experiment = message.split()[0].strip(",")

    # A guess may contradict itself: the trials so far are kept.
    with suppress(InputError):
        experiments(Laboratory(machine), forms, step)
    _record_missing(trials, experiment, machine)


def _record_missing(trials: Round, experiment: str, machine: DryRun) -> None:
    for key, trial in machine.missing.items():
        trials.setdefault(key, (experiment, trial))


def _by_experiment(trials: Round) -> Round:
    """Return trials grouped by experiment, in the order of their first request."""
    order = list(dict.fromkeys(experiment for experiment, _ in trials.values()))
    return dict(sorted(trials.items(), key=lambda item: order.index(item[1][0])))


def _nearest(answers: Replay, forms: Sequence[Form]) -> Oracle:
    """Return the core of models/ whose throughputs are most similar to the measured ones."""
    measured = throughput.measure(Laboratory(answers), forms)
    answered = [form for form in forms if not measured[form.name].refused]
    sample = answered[:: max(1, len(answered) // _SAMPLED)]
    best: tuple[float, Oracle] | None = None
    for core in microarchs.select("all", answers.isa):
        machine = Simulated(core.id, noise=0)
        rates = throughput.measure(Laboratory(machine), sample)
        errors = [
            abs(rates[f.name].cycles / measured[f.name].cycles - 1)
            for f in sample
            if not rates[f.name].refused and measured[f.name].cycles > 0
        ]
        share = sum(error <= _NEAR_RATE for error in errors) / max(1, len(sample))
        if best is None or share > best[0]:
            best = share, machine
    if best is None or not sample:
        raise InputError(
            f"{answers.name}: no throughput is answered, so that nothing tells what to ask; "
            "measure the first round again"
        )
    return best[1]


_SCORES = ("asked", "answered", "error", "near", "within")
CORE_COLUMNS = ["core", "machine", "isa", "held_out", *_SCORES]
_COPIED_FILES = (
    *core_files.CHECKED,
    core_files.PROVENANCE,
    core_files.MEASURED,
    core_files.LEFT_OUT,
    core_files.STRINGS,
)
_MOST_BYTES = 64 << 20


def holds_core(path: Path) -> bool:
    """True if a path is the folder of a core that `calibrate` wrote."""
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
    scores = self_check.check(machine, folder)
    if not scores:
        raise InputError(
            f"{folder} holds no held-out loops that its core answers; run calibrate there again"
        )
    models = paths.data_dir() / "cores"
    title = f"loopwright calibrate on {machine.fingerprint}"
    with files.staged(models / folder.name) as scratch:
        for name in _COPIED_FILES:
            if (file := folder / name).is_file():
                shutil.copyfile(file, scratch / name)
    files.written(models / "sources.toml", core_files.sources(title, folder.name))
    rows = [
        (folder.name, machine.name, machine.isa, score.kind, *(getattr(score, a) for a in _SCORES))
        for score in scores
    ]
    table = pd.DataFrame(rows, columns=CORE_COLUMNS)
    table.attrs["models"] = str(models)
    return table


def _machine_of(folder: Path) -> Machine:
    """Return the machine that a core was learned on; InputError if a file of the core changed."""
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
_TRIAL_ID = re.compile(r"[a-z]+/([0-9a-f]{24})")
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
    lines = list(_answer_lines(path))
    machine, core = _answering_machine(path, lines)
    readings_of = _readings(path, lines, machine)
    timings = {key: host.timing_of(trial_readings) for key, trial_readings in readings_of.items()}
    timings = {key: timing for key, timing in timings.items() if not timing.transient}
    folder = paths.data_dir() / "calibrations" / machine.name
    answers = folder / "answers.jsonl"
    earlier = oracle.read_answers(answers).timings if answers.exists() else {}
    _write_answers(answers, machine, earlier | timings)
    row = {
        "file": str(path),
        "machine": machine.name,
        "microarch": core,
        "clock": next((trial_readings[0].clock for trial_readings in readings_of.values()), ""),
        "new": len(timings.keys() - earlier.keys()),
        "there": len(timings.keys() & earlier.keys()),
        "refused": sum(timing.cycles is None for timing in timings.values()),
        "answers": str(answers),
    }
    return pd.DataFrame([row], columns=ANSWER_COLUMNS)


def _answer_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file; InputError unless its last line declares it complete."""
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


def _answering_machine(path: Path, lines: list[dict[str, Any]]) -> tuple[Machine, str]:
    """Return the machine of a file, and the id of its core, "" if no core.toml describes it."""
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
        facts, recognition = hosts.of_banner(banner)
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
    return machine, recognition.core or ""


def _readings(
    path: Path, lines: list[dict[str, Any]], machine: Machine
) -> Mapping[str, list[BlockReading]]:
    """Return the readings of each trial by its key."""
    readings_of: dict[str, list[BlockReading]] = defaultdict(list)
    count, process = 0, {}
    for number, line in enumerate(lines[2:], 3):
        if line.get("id") == "clock":
            fingerprint = str(line.get("fingerprint"))
            if f"kit {fingerprint}" != machine.fingerprint:
                raise InputError(f"{path} mixes two machines: line {number} is of another")
            process = _checked_process(path, number, line)
            continue
        if "end" in line or line.get("id") == "plan":
            continue
        match = _TRIAL_ID.fullmatch(str(line.get("id")))
        try:
            if match is None:
                raise ValueError
            reading = BlockReading.of(line)
            results.check_clock(line, process)
            if not reading.refused:
                results.check_block(line, _MOST_CYCLES)
                results.check_samples(line, results.integer(line, "samples", 1, 1 << 16))
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}: line {number} is no answer to a trial, or says what cannot be; bring the "
                "file here again"
            ) from None
        readings_of[match[1]].append(reading)
        count += 1
    declared = lines[-1].get("readings")
    if count != declared:
        raise InputError(f"{path} has {count} of {declared} readings; bring the file here again")
    return readings_of


def _checked_process(path: Path, number: int, line: dict[str, Any]) -> dict[str, Any]:
    try:
        results.check_process(line)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}: line {number} says of a clock what cannot be; bring the file here again"
        ) from None
    return line


def _write_answers(path: Path, machine: Machine, answers: Mapping[str, Timing]) -> None:
    """Write a file of answers, whole or not at all."""
    with files.replaced(path) as part, part.open("w") as out:
        out.write(json.dumps(oracle.head(machine)) + "\n")
        out.writelines(json.dumps(oracle.answer(k, t)) + "\n" for k, t in answers.items())
        out.write(json.dumps({"end": len(answers)}) + "\n")
