"""Calibration: learn a core from timing alone, and write it for the simulator."""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from loopwright import files
from loopwright.calibrating import core_files, doubtful_forms, passes, port_classes, self_check
from loopwright.calibrating.core_model import CoreModel
from loopwright.errors import InputError
from loopwright.microbench import kits, latency, throughput
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.host import Host
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Oracle, Recorded, Replay, Simulated
from loopwright.predicting import held_out

_SHARE, _CYCLES = 0.05, 0.1  # relative and absolute tolerance


def differences(learned: CoreModel, forms: Sequence[Form], core: str) -> pd.DataFrame:
    """Return a row for each throughput and latency that differs from those of a known core."""
    table = Laboratory(Simulated(core, noise=0.0))
    measured = [form for form in forms if not learned.throughputs[form.name].refused]
    rates = throughput.measure(table, measured)
    latencies = latency.measure(table, measured, throughput.cycles(rates))
    rows = []
    for form in measured:
        own, other = learned.throughputs[form.name], rates[form.name]
        pairs = [("throughput", own.cycles, own.uncertainty, other.cycles, other.refused)]
        known = {(one.source, one.target): one for one in latencies[form.name]}
        for one in learned.latencies[form.name]:
            same = known.get((one.source, one.target))
            if same and not one.bound and not one.refused:
                name = f"latency {one.source}>{one.target}"
                pairs.append((name, one.measured, one.uncertainty, same.measured, same.refused))
        for figure, cycles, error, expected, refused in pairs:
            if not refused and abs(cycles - expected) > max(_SHARE * expected, _CYCLES):
                rows.append((form.name, figure, cycles, error, expected))
    return pd.DataFrame(rows, columns=["form", "figure", "measured", "uncertainty", core])


COLUMNS = ["figure", "value", "uncertainty", "note"]
ANSWERS = "answers.jsonl"
HOST = "host"
SIMULATED = "simulated:"
# Extensions that quick keeps
_USUAL_EXTENSIONS = {
    "pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "movbe", "bmi1", "bmi2", "adx", "avx",
    "avx2", "fp", "asimd", "crc32",
}  # fmt: skip
_COMMON = 10.0  # per million instructions of libraries
_ALL_WIDTHS = re.compile(  # kept in all operand widths
    r"mov[sz]x|set\w+|mov|cmp|test|vmov[au]ps|vmovdq[au]|v(extract|insert)[fi]128|vperm(2[fi]128|q)"
)
_RARE = re.compile(r"rc[lr]|sal|lar|lsl|ver[rw]|v?pcmp[ei]str[im](64)?|v?dpp[ds]|v?mpsadbw")


def calibrate(
    out: Path | str,
    *,
    machine: str = HOST,
    quick: bool = False,
    compare: str | None = None,
    mnemonics: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    step: Callable[[str], None] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> pd.DataFrame:
    """Learn the core of a machine and write it below out, a folder for LOOPWRIGHT_MODELS.

    machine is "host", "simulated:ID" (a simulated core with noise, whose parameters settings
    replace) or a file of answers from an earlier run. quick leaves out most operands of 8, 16 and
    256 bits, extensions beyond AVX2, BMI and ADX, rotates through carry, string compares, dot
    products and segment instructions; mnemonics restricts the forms to these. Answers of the
    machine are kept in the folder, so that the same call resumes an interrupted one. step is called
    with the name of each step and the time left, progress with the answers so far, those expected
    in all, and both in words.

    Returns rows of what was learned (figure, value, uncertainty in the unit of the value, note);
    with compare, rows where a measurement differs from that core's answer (form, figure, measured,
    uncertainty, ID). InputError for an unknown machine, for a file that was cut short or mixes two
    machines, and where no whole dispatch width or no port mapping is found.
    """
    port_classes.solver()
    oracle = _machine(machine, settings or {})
    forms = chosen(kits.forms(oracle.isa, oracle.features)[0], quick=quick, mnemonics=mnemonics)
    core_folder = files.made_folder(Path(out) / folder(oracle.name))
    answering = oracle
    recorded = None
    time_left = TimeLeft(len(forms), progress)
    if not isinstance(oracle, Replay):
        answering = recorded = Recorded(oracle, core_folder / ANSWERS, time_left.answered)
        time_left.kept(recorded.kept)
    laboratory = Laboratory(answering)

    def learning(what: str) -> None:
        time_left.step(what)
        if step:
            step(f"{what}{time_left}")

    learned = passes.learn_core(laboratory, forms, learning)
    learning("held-out loops")
    loops = self_check.measure(laboratory, learned, forms)
    self_check_files = held_out.texts(loops, core_folder.name)
    core_files.write_core(learned, oracle, core_folder, self_check_files, quick=quick)
    if recorded:
        recorded.close()
    rows = list(_rows(learned, core_folder))
    if any(name.startswith("avx512") for name in oracle.features):
        rows.append(("not learned", "AVX-512", 0.0, "code that has it gets no prediction"))
    judged = held_out.judged(loops)
    for one in judged:
        rows.append((f"held-out {one.kind}", f"{100 * one.error:.1f} %", 0.0, str(one)))
    rows = [(figure, *rest, f"{figure}: {note}") for figure, *rest, note in rows]
    if judged:
        rows.append(("self-judgement", "", 0.0, held_out.sentence(judged)))
    if isinstance(oracle, Replay) and oracle.missing:
        note = f"trials more would tell: loopwright kit --calibrate {machine}"
        rows.append(("without an answer", len(oracle.missing), 0.0, note))
    if compare:
        return differences(learned, forms, compare)
    return pd.DataFrame(rows, columns=COLUMNS)


def folder(machine: str) -> str:
    """Return the name of the folder that the core of a machine is written to."""
    return machine.replace(":", "-")


def _machine(name: str, settings: Mapping[str, str]) -> Oracle:
    if name.startswith(SIMULATED):
        return Simulated(name.removeprefix(SIMULATED), settings)
    if settings:
        raise InputError("--set changes a simulated core alone; give --machine simulated:ID")
    if name == HOST:
        return Host()
    path = Path(name)
    if not path.is_file():
        raise InputError(f"no machine {name!r}; give host, simulated:ID or a file of answers")
    return Replay(path)


def chosen(
    forms: Sequence[Form], *, quick: bool, mnemonics: Sequence[str] | None
) -> Sequence[Form]:
    """Return the forms to learn; InputError if none is left."""
    if mnemonics is not None:
        forms = [form for form in forms if form.mnemonic in mnemonics]
    if quick:
        common = [form for form in forms if _is_common(form)]
        kept = {form.name for form in forms if _is_usual(form)}
        kept |= {name for form in common for name in (form.name, form.twin)}
        forms = _without_vex_twins([form for form in forms if _kept_by_quick(form, kept)])
    if not forms:
        raise InputError("no form is left to learn; give mnemonics that the machine has")
    return forms


def _kept_by_quick(form: Form, usual: Container[str]) -> bool:
    """True if quick keeps a form; one with memory needs its twin as well."""
    twin = form.twin in usual or not form.twin
    return form.name in _always_needed(form.kit) or (form.name in usual and twin)


def _without_vex_twins(forms: Sequence[Form]) -> Sequence[Form]:
    """Return forms without the less used of two twins with and without a VEX prefix.

    Unused twins without the prefix are dropped. Common forms stay, and those that forms with memory
    operands rest on.
    """
    names = {form.name: form for form in forms}
    usage = kits.per_million()
    for form in sorted(forms, key=lambda one: one.memory is None):
        stored = form.memory is not None and form.memory.written
        twins = [name for name, _ in doubtful_forms.vex_twins(form.name) if name in names]
        is_twin = any(one.twin == form.name for one in names.values())
        kept = stored or is_twin or _is_common(form) or form.name in _always_needed(form.kit)
        if twins and not kept and _rank(usage, form.name) < _rank(usage, twins[0]):
            del names[form.name]
    return list(names.values())


def _rank(usage: Mapping[str, float], name: str) -> tuple[float, bool]:
    return usage.get(name, 0.0), name.startswith("v")


def _always_needed(kit: Kit) -> set[str]:
    """Return the names of forms that microbenchmarks need besides those of each form."""
    pairs = (name for pair in kit.FORWARDS.values() for name in pair)
    return {kit.LOAD, kit.STORE, *kit.LOADS.values(), *kit.UPDATES.values(), *pairs}


def _is_common(form: Form) -> bool:
    """True if libraries use a form often."""
    return kits.per_million().get(form.name, 0.0) >= _COMMON


def _is_usual(form: Form) -> bool:
    """True if a form has the operand widths and extensions of most code."""
    narrow = any(operand.bits not in (0, 32, 64, 128) for operand in form.operands)
    if narrow and not _ALL_WIDTHS.fullmatch(form.mnemonic):
        return False
    return not form.needs - _USUAL_EXTENSIONS and not _RARE.fullmatch(form.mnemonic)


def _rows(learned: CoreModel, folder: Path) -> Iterator[Sequence[object]]:
    """Yield the rows of what was learned: figure, value, uncertainty, note."""
    width = learned.width
    counted = "nops" if width.nops else "moves, as nops share dispatch slots"
    yield "instructions a cycle", width.instructions, width.uncertainty, counted
    for name, window in learned.windows.by_name.items():
        yield name, window.value, (window.high - window.low) / 2, window.note
    for one, ports in zip(learned.core.classes, learned.core.ports, strict=True):
        note = f"and {len(one.members) - 1} forms more"
        yield f"ports of {one.blocker.name}", core_files.shown([ports]), 0.0, note
    all_latencies = [one for latencies in learned.latencies.values() for one in latencies]
    plain = sum(one.plain for one in all_latencies)
    note = f"of {len(all_latencies)} pairs; of others no more than a bound"
    yield "latencies", plain, 0.0, note
    for part, note in learned.front_end.summaries.items():
        yield f"front end of {part}", "", 0.0, note
    known = sum(uops.ports is not None for uops in learned.uops.values())
    left = len(core_files.left_out(learned))
    yield "forms with ports", known, 0.0, f"{left} left out: {folder.name}/{core_files.LEFT_OUT}"


class _Step(NamedTuple):
    """A step of a run, by the beginning of its name, and its usual effort.

    The answers that it needs are per_form for each form, and constant. milliseconds are those of an
    answer on a quiet machine. fits_per_form and fits are the seconds of its fits on idle CPUs, for
    each form and besides.
    """

    name: str
    per_form: float
    constant: int
    milliseconds: float
    fits_per_form: float = 0.0
    fits: float = 0.0


# The figures lie between those of runs on Zen 4 and Golden Cove guests.
STEPS: Sequence[_Step] = (
    _Step("throughput", 1.0, 0, 6.5),
    _Step("latencies", 2.9, 0, 6.3),
    _Step("slots", 1.5, 0, 5.1),
    _Step("classes", 0.35, 500, 6.5),
    _Step("ports", 0.0, 150, 5.4),
    _Step("uops of each", 1.65, 0, 6.1, 0.0022),
    _Step("uops of forms", 2.6, 0, 6.3, 0.0043),
    _Step("front end", 0.0, 730, 5.3),
    _Step("loads", 0.0, 920, 5.9),
    _Step("serialising", 0.0, 640, 9.1),
    _Step("windows", 0.0, 1250, 9.1, 0.0, 4.0),
    _Step("front end that", 0.0, 150, 5.0, 0.0, 28.0),
    _Step("rules of rename", 0.0, 1500, 8.0, 0.0, 8.0),
    _Step("mixtures", 1.28, 0, 9.3, 0.0020, 5.0),
    _Step("forms whose", 0.7, 0, 13.6, 0.0060),
    _Step("calls", 0.0, 120, 11.8, 0.0, 9.0),
    _Step("held-out", 0.0, 270, 9.6, 0.0, 1.0),
)
_TELLING = 400  # answers after which the pace is known
_STEADY = 2000  # answers of the pace, at least, as the last few of a step are often repeats
_LONG = 600  # seconds from which the time left is given in whole minutes
_ALIKE = 4 / 3  # ratio of two estimates that are told as one
_RECENT = 60.0  # seconds of the recent pace
_ASSUMED = 100.0  # seconds of a quiet machine that the usual pace begins with
_LOUD = 0.1  # share of disturbed measurements from which other load is named


class _Mark(NamedTuple):
    """State of a run at a time: answers, seconds, those of a quiet machine, and disturbed ones."""

    now: float
    answers: int
    timed: float
    quiet: float
    disturbed: int


def _quiet_seconds(step: int) -> float:
    """Return the seconds of an answer of a step on a quiet machine."""
    return STEPS[step].milliseconds / 1000


class TimeLeft:
    """Estimate of the time that a run still takes."""

    def __init__(self, forms: int, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Take the number of forms to learn; progress is called as calibrate has it."""
        self._forms, self._progress = forms, progress
        self._needs = [round(step.per_form * forms) + step.constant for step in STEPS]  # answers
        self._kept = self._answers = 0
        self._timed = 0.0  # seconds in which the machine answered
        self._quiet = 0.0  # seconds that a quiet machine would have taken
        self._disturbed = 0  # measurements, which are asked for again
        self._marks = deque([_Mark(time.monotonic(), 0, 0.0, 0.0, 0)])
        self._doing = ""
        self._step, self._began = 0, self._marks[0]  # number of the step, and its first state

    def kept(self, answers: int) -> None:
        """Set the number of answers that an earlier run left."""
        self._kept = answers

    def step(self, what: str) -> None:
        """Set what is learned next."""
        self._doing = what
        names = [n for n, step in enumerate(STEPS) if what.startswith(step.name)]
        if names:
            self._step, self._began = names[-1], self._mark()

    def answered(self, answers: int, seconds: float, disturbed: int) -> None:
        """Count the trials answered by this run; of the last ones, seconds and the disturbed."""
        self._quiet += (answers - self._answers) * _quiet_seconds(self._step)
        self._answers = answers
        self._timed += seconds
        self._disturbed += disturbed
        self._marks.append(self._mark())
        while len(self._marks) > 2 and self._is_telling(self._marks[1]):
            self._marks.popleft()
        if self._progress:
            done, left = self._kept + answers, sum(self._left_by_step().values())
            self._progress(done, done + left, f"{self._doing}{self}")

    def _mark(self) -> _Mark:
        """Return the present state."""
        now = time.monotonic()
        return _Mark(now, self._answers, self._timed, self._quiet, self._disturbed)

    def _is_telling(self, mark: _Mark) -> bool:
        """True if the answers since a mark tell the pace."""
        last = self._marks[-1]
        return last.now - mark.now >= _RECENT and last.answers - mark.answers >= _STEADY

    def _left_by_step(self) -> dict[int, int]:
        """Return the number of answers that each step still needs, by the step's number.

        Answers of an earlier run belong to the first steps.
        """
        kept = max(self._kept - sum(self._needs[: self._step]), 0)
        left = {}
        for step in range(self._step, len(STEPS)):
            needed = self._needs[step] if step > self._step else self._left_of_step()
            left[step] = max(needed - kept, 0)
            kept = max(kept - needed, 0)
        return left

    def _left_of_step(self) -> int:
        """Return the number of answers that the current step still needs."""
        return max(self._needs[self._step] - (self._answers - self._began.answers), 0)

    def seconds(self) -> tuple[float, float] | None:
        """Return the least and the most seconds left; None while the pace is unknown.

        One is by the recent pace and one by the usual one, as other load may last or not. The usual
        pace is that of all answers, so that a loud minute counts no more than a quiet one, and the
        machine is taken to be quiet at first. A pace is relative to a quiet machine.
        """
        if self._answers < _TELLING:
            return None
        first, last = self._marks[0], self._marks[-1]
        recent = (last.timed - first.timed) / max(last.quiet - first.quiet, _quiet_seconds(0))
        usual = (_ASSUMED + self._timed) / (_ASSUMED + self._quiet)
        left = self._left_by_step()
        fits = [
            (step.fits_per_form * self._forms + step.fits) * _slowdown()
            for step in STEPS[self._step :]
        ]
        fitted = last.now - self._began.now - (last.timed - self._began.timed)
        ahead = sum(fits) - min(fitted, fits[0])
        quiet = sum(answers * _quiet_seconds(step) for step, answers in left.items())
        least, most = sorted((recent, usual))
        return quiet * least + ahead, quiet * most + ahead

    def __str__(self) -> str:
        seconds = self.seconds()
        if seconds is None:
            return self._other_load()
        least, most = seconds
        if most <= _ALIKE * least or _length(least) == _length(most):
            return f", about {_length((least + most) / 2)} left{self._other_load()}"
        return f", {_length(least)} to {_length(most)} left{self._other_load()}"

    def _other_load(self) -> str:
        """Say how many measurements other load disturbed lately, where these are many."""
        first, last = self._marks[0], self._marks[-1]
        share = (last.disturbed - first.disturbed) / max(last.answers - first.answers, 1)
        if last.now - first.now < _RECENT or share < _LOUD:
            return ""
        return (
            f"; other load disturbs {100 * share:.0f} % of the measurements (a run may be ended; "
            "the same command goes on from its answers)"
        )


def _length(seconds: float) -> str:
    """Return a time in words."""
    if seconds >= _LONG:
        return f"{round(seconds / 60)} min"
    minutes, rest = divmod(max(round(seconds / 10) * 10, 10), 60)
    return " ".join([f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0))


def _slowdown() -> float:
    """Return the slowdown of computations by other load, by the load average of the last minute.

    A process with real-time priority waits for no other.
    """
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return 1.0
    return max(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 1.0)
