"""Learn a core from timing alone, and write it as one that the simulator takes."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from loopwright import files
from loopwright.calibrating import core_files, doubtful_forms, passes, port_classes, self_check
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.time_left import TimeLeft
from loopwright.errors import InputError
from loopwright.microbench import kits, latency, throughput
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.host import Host
from loopwright.microbench.kept_answers import Recorded, Replay
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Oracle
from loopwright.microbench.simulated import Simulated

_SHARE, _CYCLES = 0.05, 0.1  # what differs by less than either is the same


def differences(learned: CoreModel, forms: Sequence[Form], core: str) -> pd.DataFrame:
    """Return a row for each throughput and latency that differs from the core's."""
    table = Laboratory(Simulated(core, noise=0.0))
    measured = [form for form in forms if not learned.throughputs[form.name].refused]
    rates = throughput.measure(table, measured)
    latencies = latency.measure(table, measured, throughput.cycles(rates))
    rows = []
    for form in measured:
        mine, theirs = learned.throughputs[form.name], rates[form.name]
        pairs = [("throughput", mine.cycles, mine.uncertainty, theirs.cycles, theirs.refused)]
        others = {(one.source, one.target): one for one in latencies[form.name]}
        for one in learned.latencies[form.name]:
            other = others.get((one.source, one.target))
            if other is None or one.bound or one.refused:
                continue
            said = f"latency {one.source}>{one.target}"
            pairs.append((said, one.measured, one.uncertainty, other.measured, other.refused))
        for figure, cycles, error, said_cycles, refused in pairs:
            if not refused and abs(cycles - said_cycles) > max(_SHARE * said_cycles, _CYCLES):
                rows.append((form.name, figure, cycles, error, said_cycles))
    return pd.DataFrame(rows, columns=["form", "figure", "measured", "uncertainty", core])


COLUMNS = ["figure", "value", "uncertainty", "note"]
ANSWERS = "answers.jsonl"
HOST = "host"
SIMULATED = "simulated:"
# What quick keeps: extensions, and no mnemonics of these.
_USUAL = {
    "pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "movbe", "bmi1", "bmi2", "adx", "avx",
    "avx2", "fp", "asimd", "crc32",
}  # fmt: skip
_OFTEN = 10.0  # of a million instructions of libraries
_EVERY = re.compile(  # of all widths
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

    machine is "host", "simulated:ID" (a core of the simulator, with noise; settings replace its
    parameters) or a file of answers that a run left in its folder. quick leaves out most operands
    of 8, 16 and 256 bits, extensions beyond AVX2, BMI and ADX, rotates through carry, compares of
    strings, products of vectors as such and selectors of segments; mnemonics takes these alone.
    What the machine answers is kept in the folder as it comes: the same call goes on where a killed
    one was. step is called with what is learned next and how long the rest takes, progress with
    answers so far, those expected in all, and both in words.

    Returns rows of what was learned (figure, value, uncertainty in cycles or in what the figure
    counts, note); with compare, rows where what was measured differs from what the core of that id
    answers (form, figure, measured, uncertainty, ID). InputError for a machine that there is not, a
    file that was cut short or mixes two machines, and where no whole width or ports are found.
    """
    port_classes.solver()
    known = _machine(machine, settings or {})
    forms = chosen(kits.forms(known.isa, known.features)[0], quick=quick, mnemonics=mnemonics)
    place = files.made_folder(Path(out) / folder(known.name))
    asked = known
    recorded = None
    left = TimeLeft(len(forms), progress)
    if not isinstance(known, Replay):
        asked = recorded = Recorded(known, place / ANSWERS, left.answered)
        left.kept(recorded.kept)
    laboratory = Laboratory(asked)

    def learning(what: str) -> None:
        left.step(what)
        if step:
            step(f"{what}{left}")

    learned = passes.learn_core(laboratory, forms, learning)
    learning("held-out loops")
    held_out = self_check.measure(laboratory, learned, forms)
    checked = self_check.texts(held_out, place.name)
    core_files.write_core(learned, known, place, checked, quick=quick)
    if recorded:
        recorded.close()
    rows = list(_rows(learned, place))
    judged = self_check.judged(held_out)
    for one in judged:
        rows.append((f"held-out {one.kind}", f"{100 * one.error:.1f} %", 0.0, str(one)))
    rows = [(figure, *rest, f"{figure}: {note}") for figure, *rest, note in rows]
    if judged:
        rows.append(("self-judgement", "", 0.0, self_check.sentence(judged)))
    if isinstance(known, Replay) and known.missing:
        note = f"trials more would tell: loopwright kit --calibrate {machine}"
        rows.append(("without an answer", len(known.missing), 0.0, note))
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
    """Return the forms to learn; InputError where none is left."""
    if mnemonics is not None:
        forms = [form for form in forms if form.mnemonic in mnemonics]
    if quick:
        often = [form for form in forms if _often(form)]
        usual = {form.name for form in forms if _usual(form)}
        usual |= {name for form in often for name in (form.name, form.twin)}
        forms = _without_twins([form for form in forms if _quick(form, usual)])
    if not forms:
        raise InputError("no form is left to learn; give mnemonics that the machine has")
    return forms


def _quick(form: Form, usual: Container[str]) -> bool:
    """Say whether quick keeps a form: what is known of one with memory rests on its twin, too."""
    twin = form.twin in usual or not form.twin
    return form.name in _needed(form.kit) or (form.name in usual and twin)


def _without_twins(forms: Sequence[Form]) -> Sequence[Form]:
    """Return forms without those whose twin with or without a VEX prefix is used more often.

    Those without the prefix go where neither is used. What is often used stays, and what a form
    with memory rests on.
    """
    names = {form.name: form for form in forms}
    usage = kits.per_million()
    for form in sorted(forms, key=lambda one: one.memory is None):
        stored = form.memory is not None and form.memory.written
        twins = [name for name, _ in doubtful_forms.vex_twins(form.name) if name in names]
        rested = any(one.twin == form.name for one in names.values())
        kept = stored or rested or _often(form) or form.name in _needed(form.kit)
        if twins and not kept and _rank(usage, form.name) < _rank(usage, twins[0]):
            del names[form.name]
    return list(names.values())


def _rank(usage: Mapping[str, float], name: str) -> tuple[float, bool]:
    return usage.get(name, 0.0), name.startswith("v")


def _needed(kit: Kit) -> set[str]:
    """Return the names of forms that experiments besides those of each form need."""
    pairs = (name for pair in kit.FORWARDS.values() for name in pair)
    return {kit.LOAD, kit.STORE, *kit.LOADS.values(), *kit.UPDATES.values(), *pairs}


def _often(form: Form) -> bool:
    """Say whether libraries use a form often."""
    return kits.per_million().get(form.name, 0.0) >= _OFTEN


def _usual(form: Form) -> bool:
    """Say whether kernels may use a form often: of usual widths and extensions."""
    narrow = any(operand.bits not in (0, 32, 64, 128) for operand in form.operands)
    if narrow and not _EVERY.fullmatch(form.mnemonic):
        return False
    return not form.needs - _USUAL and not _RARE.fullmatch(form.mnemonic)


def _rows(learned: CoreModel, folder: Path) -> Iterator[Sequence[object]]:
    width = learned.width
    counted = "nops" if width.nops else "moves, as nops share places"
    yield "instructions a cycle", width.instructions, width.uncertainty, counted
    for name, window in learned.windows.found.items():
        yield name, window.value, (window.high - window.low) / 2, window.note
    for one, ports in zip(learned.core.classes, learned.core.ports, strict=True):
        yield (
            f"ports of {one.blocker.name}",
            core_files.shown([ports]),
            0.0,
            f"and {len(one.members) - 1} forms more",
        )
    every = [one for some in learned.latencies.values() for one in some]
    plain = [one for one in every if one.plain]
    yield "latencies", len(plain), 0.0, f"of {len(every)} pairs; of others no more than a bound"
    for part, said in learned.front_end.said.items():
        yield f"front end of {part}", "", 0.0, said
    known = sum(one.ports is not None for one in learned.uops.values())
    left = len(core_files.left_out(learned))
    yield "forms with ports", known, 0.0, f"{left} left out: {folder.name}/{core_files.LEFT_OUT}"
