"""The verb improve for bare loops: from assembly text, an object or a program, no contract."""

import difflib
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from loopwright import files, toolchain
from loopwright.code import loops as code_loops
from loopwright.code import snippet
from loopwright.code.binding import lacking, outline
from loopwright.code.elf import Section
from loopwright.code.instructions import decode
from loopwright.code.loops import Piece
from loopwright.errors import InputError
from loopwright.improving import equality, smt
from loopwright.improving.bare import BEHIND, START, Bare, of_piece
from loopwright.improving.equality import Proof
from loopwright.improving.improve import COLUMNS, SHOWN, Outcome, unmeasured, within
from loopwright.improving.listing import Listing
from loopwright.improving.search import (
    Comparison,
    Cost,
    Journal,
    Progress,
    Search,
    Settings,
    digest_of,
    search,
    selected_cores,
)
from loopwright.improving.transformations import LOOP_TRANSFORMATIONS
from loopwright.improving.unrolling import APART
from loopwright.judging import model_accuracy
from loopwright.machine import hosts
from loopwright.measuring import block, measure_blocks
from loopwright.microarchs import Microarch
from loopwright.predicting import models
from loopwright.predicting.model import Answer, Block
from loopwright.rows import Rows, counted

COLUMNS_OF_LOOPS = ("id", *COLUMNS[1:], "proof", "measured_gain", "uncertainty", "assembly")
_TYPES = dict.fromkeys(("cycles", "worst", "gain", "measured_gain", "uncertainty"), "float64")
_MOST_LOOPS = 40
_LEAST_SHOWN = 0.1  # the least gain worth showing, before the simulator's error
_LEAST_MEASURED = 0.01  # a smaller measured gain counts as no gain
_LEAST_LOSS = 0.02  # a larger measured loss counts as a loss


@dataclass(frozen=True)
class LoopsQuestion:
    """The loops to improve, from asm (text) or obj (FILE[:SYMBOL]), and the options.

    microarch names cores; left out, they are the targets of the code's ISA. free are registers, or
    "flags", that no code after the loops reads. out is a folder for the candidates. Without
    measured nothing is timed. shown is the largest number of candidates of a loop. state is a
    folder for the simulated costs of a search.
    """

    asm: str | None = None
    obj: str | None = None
    isa: str | None = None
    microarch: str | None = None
    free: tuple[str, ...] = ()
    parameters: Mapping[str, str] | None = None
    measured: bool = True
    out: Path | None = None
    settings: Settings = Settings(depth=4, tried=240)  # noqa: RUF009
    shown: int = SHOWN
    state: Path | None = None


@dataclass(frozen=True, eq=False)
class _LoopCode:
    """The assembled code of a listing.

    main is the code of its main loop, at code offset `offset`. entries has the offsets in the code
    of the loop's labels at which outside code enters.
    """

    listing: Listing
    code: bytes
    main: bytes
    offset: int
    entries: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class LoopCandidate(_LoopCode):
    """New code for a loop, with its cycles on each core for one iteration of the original loop."""

    costs: Mapping[str, Cost]

    @property
    def bytes(self) -> int:
        return len(self.code)

    @property
    def digest(self) -> str:
        """A hash of the code and its offset."""
        return hashlib.sha256(self.code + bytes([self.offset])).hexdigest()


def shown_gain(core: str) -> float:
    """Return the least gain shown for a core, which exceeds the simulator's error there.

    A gain is a ratio of two figures, each with the mean error of the core's measured loops. Without
    such measurements the error is UNVALIDATED_PERCENT.
    """
    error = model_accuracy.off_by(models.SIMULATOR, core, model_accuracy.records())
    percent = model_accuracy.UNVALIDATED_PERCENT if error is None else 2 * error
    return 1 + max(_LEAST_SHOWN, percent / 100)


class LeastGain(NamedTuple):
    """The least gain over the ranges of unmeasured parameters, and the parameter value it is at."""

    gain: float
    at: str = ""


@dataclass(frozen=True)
class LoopComparison(Comparison[_LoopCode, LoopCandidate]):
    """The comparison of candidates for a loop: cycles on each core, at the loop's own position."""

    bare: Bare
    cores: Sequence[Microarch]
    parameters: Mapping[str, str]

    def base(self) -> LoopCandidate:
        """Return the loop itself as a candidate; InputError if a core has no figures for it."""
        bare = self.bare
        needs = outline(bare.isa, bare.code).needs
        for core in self.cores:
            if missing := lacking(bare.isa, bare.code, needs, core.features):
                raise InputError(f"{bare.id}: {missing}, which {core.id} lacks")
        code = _LoopCode(bare.listing, bare.code, bare.code, bare.offset, bare.entries)
        [base] = self._costed([code])
        if isinstance(base, InputError):
            raise InputError(f"{bare.id} has no cost: {base}")
        return base

    def answer(self, candidate: LoopCandidate, core: Microarch) -> Answer:
        """Return the simulator's answer for a candidate's main loop, with its bottleneck."""
        [model] = models.select(models.SIMULATOR, self.parameters)
        [answer] = model.predict([_block(self.bare, candidate)], core)
        return answer

    def _assembled(self, listing: Listing) -> _LoopCode:
        section_text, labels = self.bare.assembled(listing)
        start, end, head = labels[START], labels[BEHIND], labels[listing.head]
        text = section_text[start:end]
        body = decode(self.bare.isa, section_text[head : labels.get(APART, end)], head)
        branch = next((i for i in reversed(body) if i.target == head), None)
        if branch is None:
            raise InputError("its main loop has no branch back")
        entries = {name: labels[name] - start for name in self.bare.entries}
        return _LoopCode(listing, text, section_text[head : branch.end], head % 64, entries)

    def _with_costs(self, assembled: _LoopCode, costs: Mapping[str, Cost]) -> LoopCandidate:
        return LoopCandidate(**vars(assembled), costs=costs)

    def _costed(
        self, assembled: Sequence[_LoopCode | InputError]
    ) -> list[LoopCandidate | InputError]:
        usable = [code for code in assembled if not isinstance(code, InputError)]
        blocks = [Block(self.bare.isa, code.main, "loop", code.offset) for code in usable]
        by_core = {core.id: models.simulated(blocks, core, self.parameters) for core in self.cores}
        results: list[LoopCandidate | InputError] = []
        for n, code in enumerate(usable):
            of_cores = {core: answers[n] for core, answers in by_core.items()}
            errors = [f"{core}: {a.error}" for core, a in of_cores.items() if a.cycles is None]
            cycles = {
                core: (a.cycles or 0.0) / code.listing.iterations for core, a in of_cores.items()
            }
            costs = {core: Cost(each, each, {}) for core, each in cycles.items()}
            results.append(InputError(errors[0]) if errors else self._with_costs(code, costs))
        answered = iter(results)
        return [code if isinstance(code, InputError) else next(answered) for code in assembled]


def least_gain(
    before: Block, after: Block, iterations: float, core: Microarch, parameters: Mapping[str, str]
) -> LeastGain:
    """Return the least gain of code with `iterations` original iterations in one of its own.

    One parameter at a time takes each end of its range, while all others keep their value of
    core.toml. Parameters that the user gave do not vary.
    """
    gains: list[LeastGain] = []
    for name, value in [("", ""), *((r.name, v) for r in core.ranges for v in r.values)]:
        if name in parameters:
            continue
        changed = {**parameters, **({name: value} if name else {})}
        try:
            old, new = models.simulated([before, after], core, changed)
        except InputError:  # the parameter has no effect on this core
            continue
        if old.cycles and new.cycles:
            gains.append(LeastGain(old.cycles * iterations / new.cycles, f"{name} = {value}"))
    return min(gains)


def _block(bare: Bare, candidate: LoopCandidate) -> Block:
    return Block(bare.isa, candidate.main, "loop", candidate.offset)


def answer_loops(question: LoopsQuestion, progress: Progress | None = None) -> Outcome:
    """Search better code for loops, prove it equal, and measure it on this machine.

    Rows are those of improve, for each loop by its id: cycles of one iteration of the original, at
    the code offset that a candidate gets in the loop's place. proof is the evidence of equality; a
    candidate without it has no row, and the reason is in findings. measured_gain is the speedup on
    this machine as a ratio, with its uncertainty; assembly is the code. InputError if there is no
    loop that can be improved.
    """
    loops = _loops(question)
    if question.out is not None:
        files.made_folder(question.out)  # refused now, not behind a search
    cores = selected_cores(question.microarch, loops[0][1].isa)
    rows: list[tuple[Any, ...]] = []
    findings = ["cycles an iteration of the loop, where it lies; pipeline simulator"]
    written: list[Path] = []
    refused: list[str] = []
    interrupted = False
    for section, piece in loops:
        try:
            improved = improve_loop(section, piece, cores, question, progress)
        except InputError as error:
            refused.append(str(error))
            continue
        if question.measured and not improved.search.interrupted:
            improved.measure(progress)
        rows += improved.rows()
        findings += improved.findings()
        if question.out is not None:
            written += improved.write(question.out)
        if interrupted := improved.search.interrupted:
            break
    if len(refused) == len(loops):
        others = f" (and {counted(len(loops) - 1, 'loop')} more)" if len(loops) > 1 else ""
        raise InputError(f"{refused[0]}{others}")
    findings += [f"left alone: {why}" for why in refused if not interrupted]
    return Outcome(Rows(COLUMNS_OF_LOOPS, rows, _TYPES), written, findings, interrupted)


def _loops(question: LoopsQuestion) -> list[tuple[Section, Piece]]:
    """Return the requested loops; InputError if there are none, or more than _MOST_LOOPS."""
    if (question.asm is None) == (question.obj is None):
        raise InputError("give one of KERNEL/VARIANT, --asm FILE and --obj FILE[:SYMBOL]")
    if question.isa is not None and question.asm is None:
        raise InputError("--isa is for assembly text: give it with --asm FILE")
    if question.asm is not None:
        loops, name = snippet.loops_of(question.asm, question.isa), "the assembly"
    else:
        loops, name = code_loops.loops_of(str(question.obj)), str(question.obj)
    if not loops:
        raise InputError(f"{name} has no loop: improve takes loops, and variants of kernels")
    if len(loops) > _MOST_LOOPS:
        raise InputError(
            f"{name} has {len(loops)} loops, more than {_MOST_LOOPS}: name a routine, FILE:SYMBOL"
        )
    return loops


def improve_loop(
    section: Section,
    piece: Piece,
    cores: Sequence[Microarch],
    question: LoopsQuestion,
    progress: Progress | None = None,
) -> "Improved":
    """Return a loop with its best candidates that are proven equal to it, not yet measured.

    InputError for a loop that cannot be improved, and where a core has no figures for it.
    """
    bare = of_piece(section, piece, question.free)
    features = frozenset.intersection(*(core.features for core in cores))
    bare = replace(bare, listing=replace(bare.listing, features=features))
    comparison = LoopComparison(bare, cores, question.parameters or {})
    journal = None
    if question.state is not None:
        inputs = bare.code, bare.offset, bare.listing.render()
        digest = digest_of(cores, comparison.parameters, *inputs)
        journal = Journal(question.state / f"{_file_stem(bare.id)}.jsonl", digest)
    base = comparison.base()
    result = search(comparison, base, LOOP_TRANSFORMATIONS, question.settings, progress, journal)
    improved = Improved(comparison, result)
    improved.prove(question.shown, progress)
    return improved


class Improved:
    """A loop with the result of its search.

    named has the shown candidates, the best first, with proofs and status of each; refused has the
    reason for every candidate that was rejected. measured has speedup and uncertainty; least_shown
    the least gain shown, by core.
    """

    def __init__(self, comparison: LoopComparison, result: Search[LoopCandidate]) -> None:
        self.comparison, self.search = comparison, result
        self.named: dict[str, LoopCandidate] = {}
        self.proofs: dict[str, Proof] = {}
        self.status: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.measured: dict[str, tuple[float, float]] = {}
        self.refused: list[str] = []
        self.least_shown = {core.id: shown_gain(core.id) for core in comparison.cores}

    def prove(self, most: int, progress: Progress | None) -> None:
        """Name up to `most` of the best candidates that are equal to the loop."""
        for candidate in self.search.pareto():
            gains = self.search.gains(candidate)
            if not any(gain >= self.least_shown[core] for core, gain in gains.items()):
                continue
            if len(self.named) == most:
                break
            if progress:
                progress(len(self.named), most, "proving")
            steps = "; ".join(candidate.listing.steps)
            if (least := self._too_small_gain(candidate)) is not None:
                text = f"{least.gain:.2f} times as fast if {least.at}, which nobody has measured"
                self.refused.append(f"{steps}: {text}")
                continue
            proof = equality.compare(self.comparison.bare, candidate.code, candidate.entries)
            if not proof.failure:
                unproven = smt.prove(self.comparison.bare, candidate.code, candidate.entries)
                proof = replace(proof, unproven=unproven)
            if not proof.holds:
                self.refused.append(f"{steps}: {proof}")
                continue
            label = f"improved{len(self.named) + 1 if self.named else ''}"
            self.named[label], self.proofs[label] = candidate, proof
            self.status[label], self.notes[label] = "proven", ""

    def _too_small_gain(self, candidate: LoopCandidate) -> LeastGain | None:
        """Return the highest of the cores' least gains; None if one is large enough to be shown."""
        comparison, base = self.comparison, self.search.base
        before, after = _block(comparison.bare, base), _block(comparison.bare, candidate)
        least_gains = []
        for core in comparison.cores:
            if self.search.gains(candidate)[core.id] >= self.least_shown[core.id]:
                iterations, given = candidate.listing.iterations, comparison.parameters
                least_gains.append(least_gain(before, after, iterations, core, given))
                if least_gains[-1].gain >= self.least_shown[core.id]:
                    return None
        return max(least_gains)

    def measure(self, progress: Progress | None) -> None:
        """Measure candidates in alternation with the loop, where this machine can run them."""
        bare = self.comparison.bare
        if not self.named or not toolchain.find(bare.isa).native:
            return
        blocks = [
            block.of_code(name, candidate.main, candidate.offset, bare.isa, "loop")
            for name, candidate in {bare.id: self.search.base, **self.named}.items()
        ]

        def step(done: int, total: int) -> None:
            if progress:
                progress(done, total, "measuring")

        rows = measure_blocks.measure_in_turns(bare.isa, blocks, measure_blocks.TURNS, step)
        base, *others = rows
        for label, row in zip(self.named, others, strict=True):
            if refused := [r["reason"] for r in (base, row) if r["status"] == "refused"]:
                self.notes[label] = unmeasured(refused[0])
            else:
                self._judge(label, base, row)

    def _judge(self, label: str, base: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        candidate = self.named[label]
        ratio = base["cycles"] * candidate.listing.iterations / row["cycles"]
        share = base["uncertainty"] / base["cycles"] + row["uncertainty"] / row["cycles"]
        uncertainty = ratio * share
        self.measured[label] = ratio, uncertainty
        core = hosts.microarch() or "this machine"
        cycles = row["cycles"] / candidate.listing.iterations
        figure = (
            f"{ratio:.2f} times as fast (± {uncertainty:.2f}) on {core}, {row['clock']}: "
            f"{base['cycles']:.2f} and {cycles:.2f} cycles an iteration"
        )
        predicted = self.search.gains(candidate).get(core, 1.0)
        no_gain = 1 + _LEAST_MEASURED + uncertainty
        self.notes[label] = f"measured {figure}"
        if ratio - uncertainty > 1:
            self.status[label] = "measured"
        elif core in candidate.costs and ratio + uncertainty < 1 - _LEAST_LOSS:
            self.status[label] = "withdrawn"
            self.notes[label] += "; it is slower here"
        elif predicted >= self.least_shown.get(core, math.inf) and ratio < no_gain:
            self.status[label] = "withdrawn"
            self.notes[label] += "; the simulator was wrong there"
        elif core in candidate.costs:
            self.notes[label] += f"; predicted {predicted:.2f}: the gain is of another core"

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of every named candidate, or those of the loop alone if there is none."""
        shown = self.named or {"baseline": self.search.base}
        return [row for label, candidate in shown.items() for row in self._steps(label, candidate)]

    def _steps(self, label: str, candidate: LoopCandidate) -> Iterable[tuple[Any, ...]]:
        unmeasured_gain = float("nan"), float("nan")
        bare, path = self.comparison.bare, self.search.path(candidate)
        for n, stage in enumerate(path):
            last = n and stage is candidate
            annotations = (
                "baseline" if not n else self.status[label] if last else "",
                self.notes[label] if last else "",
                str(self.proofs[label]) if last else "",
                *(self.measured.get(label, unmeasured_gain) if last else unmeasured_gain),
                _assembly(bare, stage.listing) if last else "",
            )
            step = stage.listing.steps[-1] if n else bare.id
            for core in self.comparison.cores:
                cycles = stage.costs[core.id].mean
                before = path[n - 1].costs[core.id].mean if n else cycles
                figures = round(cycles, 3), round(cycles, 3), round(before / cycles, 3)
                yield (bare.id, label, n, step, core.id, *figures, stage.bytes, *annotations)

    def findings(self) -> list[str]:
        """Return the result in words: proofs, refusals, gains and bottlenecks."""
        bare, result = self.comparison.bare, self.search
        out = [f"{bare.id}: {label}: {proof}" for label, proof in self.proofs.items()]
        out += [f"{bare.id}: {bare.liveness}"] if self.named else []
        out += [f"{bare.id}: no candidate: {why}" for why in self.refused]
        best = next(iter(self.named.values()), result.base)
        for core in self.comparison.cores:
            gain = f"{result.gains(best)[core.id]:.2f} times as fast"
            outcome = "nothing better found" if best is result.base else gain
            out.append(f"{bare.id}: {core.id}: {outcome}; bound by {self.bound(best, core)}")
        return [*out, f"{bare.id}: {result.in_words('without a figure')}"]

    def bound(self, candidate: LoopCandidate, core: Microarch) -> str:
        """Return a candidate's bottleneck on a core, in words."""
        answer = self.comparison.answer(candidate, core)
        bottleneck = answer.bottleneck or "what is not known"
        bottleneck = bottleneck.replace("balanced: ", "several limits alike: ")
        if not answer.cycles or not answer.bound:
            return bottleneck
        distance = within(answer.cycles, answer.bound)
        return f"{bottleneck} ({distance} of what its ports, dispatch and dependencies allow)"

    def text(self, label: str) -> str:
        """Return a candidate's assembly, ready to replace the loop."""
        return _assembly(self.comparison.bare, self.named[label].listing)

    def diff(self, label: str, before: str, after: str, notes: Sequence[str]) -> str:
        """Return a candidate as a diff of the loop's assembly; before and after name the sides.

        notes has a comment for each instruction of the loop, shown beside it.
        """
        bare = self.comparison.bare
        old, new = (_from_start(bare, x) for x in (bare.listing, self.named[label].listing))
        diff = list(difflib.unified_diff(old, new, before, after, n=len(old), lineterm=""))
        mark = _comment_mark(bare.isa)
        width = max(len(line.expandtabs()) for line in old) + 2
        pending = iter(notes)
        for n, line in enumerate(diff[3:], 3):
            note = next(pending, "") if line.startswith((" \t", "-\t")) else ""
            text = line[1:].expandtabs()
            diff[n] = line[0] + (f"{text:<{width}}{mark} {note}" if note else text)
        return "\n".join(diff)

    def write(self, out: Path) -> list[Path]:
        """Write the candidates that are not withdrawn, a file each."""
        written = []
        stem = _file_stem(self.comparison.bare.id)
        for label in self.named:
            if self.status[label] != "withdrawn":
                path = out / f"{stem}_{label}.s"
                files.written(path, self.text(label))
                written.append(path)
        return written


def _file_stem(name: str) -> str:
    """Return a file name for a loop."""
    return re.sub(r"[^\w.+-]+", "_", name).lstrip(".")


def _assembly(bare: Bare, listing: Listing) -> str:
    """Return a listing's assembly, ready to replace the loop."""
    comment = _comment_mark(bare.isa)
    notes = [f"{comment} in the place of {bare.id}: {'; '.join(listing.steps)}"]
    notes += [f"{comment} what goes to its byte {n} goes to {at}" for at, n in bare.entries.items()]
    return "\n".join([*notes, *_from_start(bare, listing), ""])


def _from_start(bare: Bare, listing: Listing) -> list[str]:
    """Return the lines of a listing from its start label on, without the padding before it."""
    source = bare.source(listing).splitlines()
    return source[source.index(f"{START}:") :]


def _comment_mark(isa: str) -> str:
    return "#" if isa == "x86_64" else "//"
