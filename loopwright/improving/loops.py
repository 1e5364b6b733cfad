"""Verb improve for bare loops of a text, an object or a program, without a contract."""

import difflib
import hashlib
import math
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from elftools.elf import sections as elf_sections
from elftools.elf.elffile import ELFFile

from loopwright import files, toolchain
from loopwright.code import pieces, snippet
from loopwright.code.binding import lacking, outline
from loopwright.code.elf import Section
from loopwright.code.instructions import decode
from loopwright.code.pieces import Piece
from loopwright.errors import InputError
from loopwright.improving import costs, equality, smt
from loopwright.improving.bare import BEHIND, START, Bare, of_piece
from loopwright.improving.costs import Cost, Known
from loopwright.improving.equality import Proof
from loopwright.improving.improve import COLUMNS, SHOWN, Found, unmeasured, within
from loopwright.improving.journal import Journal, digest_of
from loopwright.improving.listing import Listing
from loopwright.improving.search import Search, Settings, search
from loopwright.improving.transformations import OF_LOOPS
from loopwright.improving.turning import APART
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
_SHOWN_GAIN = 0.1
_NOTHING = 0.01  # measured gains below it do not count
_SLOWER = 0.02  # a measured loss above it counts

Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class LoopsQuestion:
    """The loops to improve, from one of asm (text) and obj (FILE[:SYMBOL]), and the settings.

    microarch names cores (default: the targets of the code's ISA). free are registers, or "flags",
    that are dead behind the loops. out is a folder for the results. With measured off nothing is
    timed. shown is the limit of candidates of a loop. state is a folder for simulated costs.
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
class _Made:
    """The code of a listing.

    main is the code of its main loop, which begins at the code offset. entries has the positions in
    the code of the labels at which outside code enters the loop.
    """

    listing: Listing
    code: bytes
    main: bytes
    offset: int
    entries: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class LoopCandidate(_Made):
    """A loop's new code, and its cycles by core for an iteration of the given loop."""

    costs: Mapping[str, Cost]

    @property
    def bytes(self) -> int:
        """Return the length of all of its code."""
        return len(self.code)

    @property
    def digest(self) -> str:
        """Return a digest of its code."""
        return hashlib.sha256(self.code + bytes([self.offset])).hexdigest()


def shown_gain(core: str) -> float:
    """Return the least gain that exceeds the simulator's error on a core.

    Both figures of a gain may have the mean error of the core's loops, in either direction. Without
    measurements it is UNVALIDATED_PERCENT.
    """
    error = model_accuracy.off_by(models.SIMULATOR, core, model_accuracy.records())
    percent = model_accuracy.UNVALIDATED_PERCENT if error is None else 2 * error
    return 1 + max(_SHOWN_GAIN, percent / 100)


class Least(NamedTuple):
    """The least gain within the range of an unmeasured parameter, and that parameter."""

    gain: float
    at: str = ""


@dataclass(frozen=True)
class OfLoop:
    """The comparison of candidates for a loop: cycles on cores, at the loop's place."""

    bare: Bare
    cores: Sequence[Microarch]
    parameters: Mapping[str, str]

    def base(self) -> LoopCandidate:
        """Return the loop itself; InputError where a core has no figures for it."""
        bare = self.bare
        needs = outline(bare.isa, bare.code).needs
        for core in self.cores:
            if missing := lacking(bare.isa, bare.code, needs, core.features):
                raise InputError(f"{bare.id}: {missing}, which {core.id} lacks")
        made = _Made(bare.listing, bare.code, bare.code, bare.offset, bare.entries)
        [found] = self._costed([made])
        if isinstance(found, InputError):
            raise InputError(f"{bare.id} has no cost: {found}")
        return found

    def candidates(
        self, listings: Sequence[Listing], known: Mapping[str, Known] | None = None
    ) -> list[LoopCandidate | InputError]:
        """Return the candidate of each listing, or the refusal; known has costs by text."""
        with ThreadPoolExecutor(toolchain.cpus()) as pool:
            made = list(pool.map(self._assembled, listings))
        return costs.merged(
            [one.render() for one in listings],
            made,
            known or {},
            self._costed,
            lambda one, found: LoopCandidate(**vars(one), costs=found),
        )

    def answer(self, one: LoopCandidate, core: Microarch) -> Answer:
        """Return the simulator's answer for a candidate's main loop, with its bottleneck."""
        [model] = models.select(models.SIMULATOR, self.parameters)
        [found] = model.predict([_block(self.bare, one)], core)
        return found

    def _assembled(self, listing: Listing) -> _Made | InputError:
        try:
            text, labels = assemble(self.bare, listing)
        except InputError as error:
            return error
        start, end, head = labels[START], labels[BEHIND], labels[listing.head]
        whole = text[start:end]
        body = decode(self.bare.isa, text[head : labels.get(APART, end)], head)
        back = next((i for i in reversed(body) if i.target == head), None)
        if back is None:
            return InputError("its main loop has no branch back")
        entries = {name: labels[name] - start for name in self.bare.entries}
        return _Made(listing, whole, text[head : back.end], head % 64, entries)

    def _costed(self, made: Sequence[_Made | InputError]) -> list[LoopCandidate | InputError]:
        there = [one for one in made if not isinstance(one, InputError)]
        blocks = [Block(self.bare.isa, one.main, "loop", one.offset) for one in there]
        by_core = {core.id: models.simulated(blocks, core, self.parameters) for core in self.cores}
        out: list[LoopCandidate | InputError] = []
        for n, one in enumerate(there):
            costs_of: dict[str, Cost] = {}
            wrong = ""
            for core, answers in by_core.items():
                if (cycles := answers[n].cycles) is None:
                    wrong = wrong or f"{core}: {answers[n].error}"
                else:
                    mine = cycles / one.listing.turns
                    costs_of[core] = Cost(mine, mine, {})
            out.append(InputError(wrong) if wrong else LoopCandidate(**vars(one), costs=costs_of))
        seen = iter(out)
        return [one if isinstance(one, InputError) else next(seen) for one in made]


def least_gain(
    before: Block, after: Block, turns: float, core: Microarch, parameters: Mapping[str, str]
) -> Least:
    """Return the least gain of code whose iteration does so many of the other code's.

    One parameter is at an end of its unmeasured range, all others at their value in core.toml.
    """
    found: list[Least] = []
    for name, value in [("", ""), *((r.name, v) for r in core.ranges for v in r.values)]:
        if name in parameters:
            continue
        changed = {**parameters, **({name: value} if name else {})}
        try:
            old, new = models.simulated([before, after], core, changed)
        except InputError:  # the parameter has no effect on this core
            continue
        if old.cycles and new.cycles:
            found.append(Least(old.cycles * turns / new.cycles, f"{name} = {value}"))
    return min(found)


def _block(bare: Bare, one: LoopCandidate) -> Block:
    return Block(bare.isa, one.main, "loop", one.offset)


def assemble(bare: Bare, listing: Listing) -> tuple["bytes", dict[str, int]]:
    """Return the text of a loop's source, and the positions of its labels."""
    tools = toolchain.find(bare.isa)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        made = Path(scratch, "loop.o")
        command = [tools.gcc, "-c", "-Wa,--keep-locals", "-x", "assembler", "-", "-o", str(made)]
        source = bare.source(listing)
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            said = next(
                (x for x in done.stderr.splitlines() if "Error: " in x), done.stderr.strip()
            )
            raise InputError(f"it does not assemble: {said.split('Error: ')[-1]}")
        with made.open("rb") as file:
            image = ELFFile(file)
            if image.get_section_by_name(".rela.text") is not None:
                raise InputError("it needs a linker: its branches lead out of their section")
            text = cast(elf_sections.Section, image.get_section_by_name(".text")).data()
            table = cast(elf_sections.SymbolTableSection, image.get_section_by_name(".symtab"))
            return text, {s.name: s["st_value"] for s in table.iter_symbols() if s.name}


def answer_loops(asked: LoopsQuestion, progress: Progress | None = None) -> Found:
    """Search better code for loops, show that it is equal, and measure it here.

    Rows are those of improve, for each loop by its id: cycles of one iteration of the loop, at the
    code offset of a candidate in its place. proof names the method that showed a candidate equal to
    the loop; others have no row, and said has the reason. measured_gain is the speed-up on this
    machine with its uncertainty; assembly is the candidate's code. InputError if no loop can be
    improved.
    """
    found = _loops(asked)
    if asked.out is not None:
        files.made_folder(asked.out)  # refuse now, not after a search
    cores = costs.cores(asked.microarch, found[0][1].isa)
    rows: list[tuple[Any, ...]] = []
    said = ["cycles an iteration of the loop, where it lies; pipeline simulator"]
    written: list[Path] = []
    refused: list[str] = []
    for section, piece in found:
        try:
            one = improve_loop(section, piece, cores, asked, progress)
        except InputError as error:
            refused.append(str(error))
            continue
        if asked.measured and not one.search.interrupted:
            one.measure(progress)
        rows += one.rows()
        said += one.said()
        if asked.out is not None:
            written += one.write(asked.out)
        if one.search.interrupted:
            return Found(Rows(COLUMNS_OF_LOOPS, rows, _TYPES), written, said, interrupted=True)
    if len(refused) == len(found):
        more = f" (and {counted(len(found) - 1, 'loop')} more)" if len(found) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    said += [f"left alone: {why}" for why in refused]
    return Found(Rows(COLUMNS_OF_LOOPS, rows, _TYPES), written, said)


def _loops(asked: LoopsQuestion) -> list[tuple[Section, Piece]]:
    """Return the given loops; InputError where there is none, or far too many."""
    if (asked.asm is None) == (asked.obj is None):
        raise InputError("give one of KERNEL/VARIANT, --asm FILE and --obj FILE[:SYMBOL]")
    if asked.isa is not None and asked.asm is None:
        raise InputError("--isa is for assembly text: give it with --asm FILE")
    if asked.asm is not None:
        found, name = snippet.loops_of(asked.asm, asked.isa), "the assembly"
    else:
        found, name = pieces.loops_of(str(asked.obj)), str(asked.obj)
    if not found:
        raise InputError(f"{name} has no loop: improve takes loops, and variants of kernels")
    if len(found) > _MOST_LOOPS:
        raise InputError(
            f"{name} has {len(found)} loops, more than {_MOST_LOOPS}: name a routine, FILE:SYMBOL"
        )
    return found


def improve_loop(
    section: Section,
    piece: Piece,
    cores: Sequence[Microarch],
    asked: LoopsQuestion,
    progress: Progress | None = None,
) -> "Improved":
    """Return a loop with its best candidates that are equal to it, not measured yet.

    InputError for a loop that cannot be improved, and where a core has no figures for it.
    """
    bare = of_piece(section, piece, asked.free)
    common = frozenset.intersection(*(core.features for core in cores))
    bare = replace(bare, listing=replace(bare.listing, features=common))
    question = OfLoop(bare, cores, asked.parameters or {})
    journal = None
    if asked.state is not None:
        bare = question.bare
        about = digest_of(cores, question.parameters, bare.code, bare.offset, bare.listing.render())
        journal = Journal(asked.state / f"{_stem(bare.id)}.jsonl", about)
    found = search(question, question.base(), OF_LOOPS, asked.settings, progress, journal)
    one = Improved(question, found)
    one.prove(asked.shown, progress)
    return one


class Improved:
    """A loop with its candidates.

    named has the shown candidates, the best first; proofs and status have their results; refused
    has the reasons for dropping others.
    """

    def __init__(self, question: OfLoop, found: Search[LoopCandidate]) -> None:
        """Take the result of a search."""
        self.question, self.search = question, found
        self.named: dict[str, LoopCandidate] = {}
        self.proofs: dict[str, Proof] = {}
        self.status: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.measured: dict[str, tuple[float, float]] = {}
        self.refused: list[str] = []
        self.shown = {core.id: shown_gain(core.id) for core in question.cores}

    def prove(self, most: int, progress: Progress | None) -> None:
        """Name the best candidates that are equal to the loop, up to a limit."""
        better = [
            one
            for one in self.search.pareto()
            if any(gain >= self.shown[core] for core, gain in self.search.gains(one).items())
        ]
        for one in better:
            if len(self.named) == most:
                break
            if progress:
                progress(len(self.named), most, "proving")
            if (least := self._least(one)) is not None:
                what = f"{least.gain:.2f} times as fast if {least.at}, which nobody has measured"
                self.refused.append(f"{'; '.join(one.listing.steps)}: {what}")
                continue
            proof = equality.compare(self.question.bare, one.code, one.entries)
            if not proof.failure:
                unproven = smt.prove(self.question.bare, one.code, one.entries)
                proof = replace(proof, unproven=unproven)
            if not proof.holds:
                self.refused.append(f"{'; '.join(one.listing.steps)}: {proof}")
                continue
            label = f"improved{len(self.named) + 1 if self.named else ''}"
            self.named[label], self.proofs[label] = one, proof
            self.status[label], self.notes[label] = "proven", ""

    def _least(self, one: LoopCandidate) -> Least | None:
        """Return the least gain of a candidate on the core where that is largest, None if shown."""
        question, base = self.question, self.search.base
        before, after = _block(question.bare, base), _block(question.bare, one)
        found = []
        for core in question.cores:
            if self.search.gains(one)[core.id] >= self.shown[core.id]:
                turns, given = one.listing.turns, question.parameters
                found.append(least_gain(before, after, turns, core, given))
                if found[-1].gain >= self.shown[core.id]:
                    return None
        return max(found)

    def measure(self, progress: Progress | None) -> None:
        """Measure candidates in turns with the loop, where this machine can."""
        bare = self.question.bare
        if not self.named or not toolchain.find(bare.isa).native:
            return
        blocks = [
            block.of_code(name, one.main, one.offset, bare.isa, "loop")
            for name, one in {bare.id: self.search.base, **self.named}.items()
        ]

        def step(done: int, total: int) -> None:
            if progress:
                progress(done, total, "measuring")

        rows = measure_blocks.measure_in_turns(bare.isa, blocks, measure_blocks.TURNS, step)
        base, *others = rows
        for label, row in zip(self.named, others, strict=True):
            wrong = next((r["reason"] for r in (base, row) if r["status"] == "refused"), "")
            if wrong:
                self.notes[label] = unmeasured(wrong)
            else:
                self._judge(label, base, row)

    def _judge(self, label: str, base: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        one = self.named[label]
        ratio = base["cycles"] * one.listing.turns / row["cycles"]
        share = base["uncertainty"] / base["cycles"] + row["uncertainty"] / row["cycles"]
        error = ratio * share
        self.measured[label] = ratio, error
        core = hosts.microarch() or "this machine"
        figure = (
            f"{ratio:.2f} times as fast (± {error:.2f}) on {core}, {row['clock']}: "
            f"{base['cycles']:.2f} and {row['cycles'] / one.listing.turns:.2f} cycles an iteration"
        )
        said = self.search.gains(one).get(core, 1.0)
        self.notes[label] = f"measured {figure}"
        if ratio - error > 1:
            self.status[label] = "measured"
        elif core in one.costs and ratio + error < 1 - _SLOWER:
            self.status[label] = "withdrawn"
            self.notes[label] += "; it is slower here"
        elif said >= self.shown.get(core or "", math.inf) and ratio < 1 + _NOTHING + error:
            self.status[label] = "withdrawn"
            self.notes[label] += "; the simulator was wrong there"
        elif core in one.costs:
            self.notes[label] += f"; predicted {said:.2f}: the gain is of another core"

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of each candidate, or of the loop alone without any."""
        if not self.named:
            base = self.search.base
            return list(self._steps("baseline", [base], "baseline", "", ""))
        return [
            row
            for label, one in self.named.items()
            for row in self._steps(
                label,
                self.search.path(one),
                self.status[label],
                self.notes[label],
                str(self.proofs[label]),
            )
        ]

    def _steps(
        self, label: str, path: Sequence[LoopCandidate], status: str, note: str, proof: str
    ) -> Iterable[tuple[Any, ...]]:
        nan = float("nan")
        bare = self.question.bare
        for n, stage in enumerate(path):
            last = n == len(path) - 1
            ratio, error = self.measured.get(label, (nan, nan)) if last else (nan, nan)
            for core in self.question.cores:
                cycles = stage.costs[core.id].mean
                before = path[n - 1].costs[core.id].mean if n else cycles
                yield (
                    bare.id,
                    label,
                    n,
                    stage.listing.steps[-1] if n else bare.id,
                    core.id,
                    round(cycles, 3),
                    round(cycles, 3),
                    round(before / cycles, 3),
                    stage.bytes,
                    "baseline" if not n else status if last else "",
                    note if last and n else "",
                    proof if last and n else "",
                    ratio,
                    error,
                    _shown(bare, stage.listing) if last and n else "",
                )

    def said(self) -> list[str]:
        """Describe the candidates, the refusals, and the bottleneck of the loop."""
        bare, found = self.question.bare, self.search
        out = [f"{bare.id}: {label}: {proof}" for label, proof in self.proofs.items()]
        out += [f"{bare.id}: {bare.around}"] if self.named else []
        out += [f"{bare.id}: no candidate: {why}" for why in self.refused]
        best = next(iter(self.named.values()), found.base)
        for core in self.question.cores:
            gain = found.gains(best)[core.id]
            what = f"{gain:.2f} times as fast" if best is not found.base else "nothing better found"
            out.append(f"{bare.id}: {core.id}: {what}; bound by {self.bound(best, core)}")
        dropped = sum(found.dropped.values())
        out.append(
            f"{bare.id}: {found.tried} candidates simulated"
            + (f", {dropped} of them without a figure" if dropped else "")
            + (", interrupted: the best so far" if found.interrupted else "")
        )
        return out

    def bound(self, one: LoopCandidate, core: Microarch) -> str:
        """Describe the bottleneck of a candidate's main loop on a core."""
        found = self.question.answer(one, core)
        limit = (found.bottleneck or "what is not known").replace(
            "balanced: ", "several limits alike: "
        )
        if not found.cycles or not found.bound:
            return limit
        return (
            f"{limit} ({within(found.cycles, found.bound)} of what its ports, dispatch and "
            "dependencies allow)"
        )

    def text(self, label: str) -> str:
        """Return a candidate's assembly, ready to replace the loop."""
        return _shown(self.question.bare, self.named[label].listing)

    def diff(self, label: str, before: str, after: str, notes: Sequence[str]) -> str:
        """Return a candidate as a diff of the loop's assembly; before and after name the sides.

        notes has a comment for each instruction of the loop.
        """
        bare = self.question.bare
        old, new = (_inside(bare, one) for one in (bare.listing, self.named[label].listing))
        made = list(difflib.unified_diff(old, new, before, after, n=len(old), lineterm=""))
        mark = _comment(bare.isa)
        width = max(len(line.expandtabs()) for line in old) + 2
        left = iter(notes)
        for n, line in enumerate(made[3:], 3):
            note = next(left, "") if line.startswith((" \t", "-\t")) else ""
            text = line[1:].expandtabs()
            made[n] = line[0] + (f"{text:<{width}}{mark} {note}" if note else text)
        return "\n".join(made)

    def write(self, out: Path) -> list[Path]:
        """Write each candidate that is not withdrawn to a file."""
        made = []
        stem = _stem(self.question.bare.id)
        for label in self.named:
            if self.status[label] != "withdrawn":
                path = out / f"{stem}_{label}.s"
                files.written(path, self.text(label))
                made.append(path)
        return made


def _stem(name: str) -> str:
    """Return the name of a loop as a file name."""
    return re.sub(r"[^\w.+-]+", "_", name).lstrip(".")


def _shown(bare: Bare, listing: Listing) -> str:
    """Return a listing ready to replace the loop."""
    comment = _comment(bare.isa)
    notes = [f"{comment} in the place of {bare.id}: {'; '.join(listing.steps)}"]
    notes += [f"{comment} what goes to its byte {n} goes to {at}" for at, n in bare.entries.items()]
    return "\n".join([*notes, *_inside(bare, listing), ""])


def _inside(bare: Bare, listing: Listing) -> list[str]:
    """Return the lines of a listing from its start on, without its offset directives."""
    source = bare.source(listing).splitlines()
    return source[source.index(f"{START}:") :]


def _comment(isa: str) -> str:
    return "#" if isa == "x86_64" else "//"
