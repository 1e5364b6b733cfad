"""The verb improve: better code for a variant with a contract, searched, proven and measured."""

import hashlib
import json
import math
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loopwright import files, histogram, kernels, toolchain
from loopwright.checking import check
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.improving.listing import Line, Listing, lift, parse
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
from loopwright.improving.transformations import TRANSFORMATIONS
from loopwright.judging import call_costs
from loopwright.judging.call_costs import ALIGNMENTS, UNWEIGHTED, CallPoint
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.measuring import measure
from loopwright.microarchs import Microarch
from loopwright.predicting import models
from loopwright.predicting.calls import CallQuestion, of_variants
from loopwright.predicting.question import variant_subject
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "kernel", "candidate", "step", "transformation", "microarch", "cycles", "worst", "gain",
    "bytes", "status", "note",
)  # fmt: skip
_TYPES = dict.fromkeys(("cycles", "worst", "gain"), "float64")
SHOWN = 3  # candidates shown, at most
_LEAST_SPEEDUP = 1.05  # speedup over hand-written code that is reported
_LEAST_LOSS = 0.02  # a loss at one size that is reported
_ALIKE = 0.03  # a smaller relative difference of cycles is none
_MEASURED_SIZES = (64, 256, 1024, 4096)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A listing with the variant of its text, and its costs by core id."""

    listing: Listing
    variant: Variant
    code: Code
    costs: Mapping[str, Cost]

    @property
    def bytes(self) -> int:
        return self.code.size

    @property
    def digest(self) -> str:
        return self.code.sha256


_Assembled = tuple[Listing, Variant, Code]


@dataclass(frozen=True)
class CallComparison(Comparison[_Assembled, Candidate]):
    """The comparison of candidates: cores, sizes, parameters, and the variant that they replace."""

    variant: Variant
    cores: Sequence[Microarch]
    histogram: Histogram | None
    settings: Mapping[str, str]
    folder: Path

    @cached_property
    def points(self) -> tuple[CallPoint, ...]:
        contract = kernels.contract_of(self.variant)
        return call_costs.judged_points(contract, self.histogram)

    def of_variants(self, variants: Iterable[Variant]) -> dict[str, Candidate | InputError]:
        """Return the given variants of kernel.toml with their costs, or the error, by name."""
        contract = kernels.contract_of(self.variant)
        empty = Listing((), contract)
        assembled: list[_Assembled | InputError] = []
        names = []
        for variant in variants:
            names.append(variant.name)
            try:
                assembled.append((empty, variant, assemble.variant_code(variant)))
            except InputError as error:
                assembled.append(error)
        return dict(zip(names, self._costed(assembled), strict=True))

    def _assembled(self, listing: Listing) -> _Assembled:
        """Return a listing with its variant and code; the source is kept."""
        text = listing.render()
        source = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.S"
        source.write_text(text)
        variant = replace(self.variant, name=source.stem, source=source, edits=(), loop="")
        return listing, variant, assemble.variant_code(variant)

    def _with_costs(self, assembled: _Assembled, costs: Mapping[str, Cost]) -> Candidate:
        return Candidate(*assembled, costs)

    def _costed(self, assembled: Sequence[_Assembled | InputError]) -> list[Candidate | InputError]:
        questions: list[tuple[int, Microarch, CallQuestion]] = []
        record_bytes = kernels.contract_of(self.variant).count_bytes
        points = tuple((p.size // record_bytes, p.dst, p.src) for p in self.points)
        for n, item in enumerate(assembled):
            if isinstance(item, InputError):
                continue
            for core in self.cores:
                try:
                    offsets = call_costs.code_offsets(item[1], core)
                except InputError:
                    offsets = (None,)
                for offset in _spread(offsets):
                    question = CallQuestion(item[1], core, points, self.settings, offset)
                    questions.append((n, core, question))
        answers = of_variants([question for _, _, question in questions])
        costs: dict[int, dict[str, list[Mapping[int, float]] | InputError]] = {}
        for (n, core, _), answer in zip(questions, answers, strict=True):
            by_offset = costs.setdefault(n, {}).setdefault(core.id, [])
            error = next((a for a in answer if isinstance(a, InputError)), None)
            if error is not None:
                costs[n][core.id] = InputError(f"{core.id}: {error}")
            elif isinstance(by_offset, list):
                cycles = {
                    p: a.cycles
                    for p, a in zip(self.points, answer, strict=True)
                    if not isinstance(a, InputError)
                }
                by_offset.append(call_costs.mean(cycles, ALIGNMENTS))
        return [
            item if isinstance(item, InputError) else self._candidate(*item, costs[n])
            for n, item in enumerate(assembled)
        ]

    def _candidate(
        self,
        listing: Listing,
        variant: Variant,
        code: Code,
        by_core: Mapping[str, list[Mapping[int, float]] | InputError],
    ) -> Candidate | InputError:
        costs = {}
        for core, by_offset in by_core.items():
            if isinstance(by_offset, InputError):
                return by_offset
            means = [self._over_sizes(sizes) for sizes in by_offset]
            by_size = {s: float(np.mean([o[s] for o in by_offset])) for s in by_offset[0]}
            costs[core] = Cost(float(np.mean(means)), max(means), by_size)
        return Candidate(listing, variant, code, costs)

    def _over_sizes(self, cycles: Mapping[int, float]) -> float:
        sizes = sorted(cycles)
        if self.histogram:
            shares = call_costs.weights(sizes, self.histogram)
            return float(np.dot(shares, [cycles[s] for s in sizes]))
        counted = [math.log(cycles[s]) for s in _counted_sizes(sizes)]
        return math.exp(sum(counted) / len(counted))

    @property
    def described(self) -> str:
        """Return the meaning of a cost in words."""
        if self.histogram:
            return f"mean of a call over the sizes of {self.histogram.name}"
        sizes = _counted_sizes(sorted({p.size for p in self.points}))
        return f"geometric mean over calls of {sizes[0]} to {sizes[-1]} B"


def _counted_sizes(sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes that count without a histogram; all of them if none is in its range."""
    low, high = UNWEIGHTED
    return [size for size in sizes if low <= size <= high] or sizes


_MOST_OFFSETS = 4


def _spread(offsets: Sequence[int | None]) -> Sequence[int | None]:
    """Return _MOST_OFFSETS or a few more offsets of many, evenly spread."""
    if len(offsets) <= _MOST_OFFSETS:
        return offsets
    return offsets[:: len(offsets) // _MOST_OFFSETS]


def usable(comparison: CallComparison, candidate: Candidate | InputError) -> Candidate:
    """Return a candidate; InputError if it has no cost."""
    if isinstance(candidate, InputError):
        raise InputError(f"{comparison.variant.id} has no cost: {candidate}")
    return candidate


@dataclass
class Outcome:
    """The result of a search: rows, the files written, and findings in words.

    rows have, for each shown candidate and each core, a row for the variant it started from (step
    0) and one for each transformation: cycles of a call, mean and worst over code offsets, gain
    over the step before, and bytes of code. status is "baseline", "proven" (the last step passed
    the contract checker), "measured" (this machine shows the gain), or "withdrawn" (it does not).
    fastest has, by core, the fastest hand-written variant and its cycles.
    """

    rows: Rows
    files: Sequence[Path] = ()
    findings: list[str] = field(default_factory=list)
    interrupted: bool = False
    fastest: Mapping[str, tuple[str, float]] = field(default_factory=dict)


def improve(
    spec: str,
    *,
    microarch: str | None = None,
    sizes: str | None = None,
    out: Path | None = None,
    parameters: Mapping[str, str] | None = None,
    measured: bool = True,
    tried: int = Settings.tried,
    seed: int = 0,
    state: Path | None = None,
) -> "pd.DataFrame":
    """Search better code for KERNEL/VARIANT; one row a step of each candidate on each core.

    microarch names the cores (the targets where left out), sizes a histogram. out is a folder for
    the candidates as variants of their kernel. tried is the largest number of simulated candidates.
    Without measured nothing is timed. state is a folder for simulated costs: an interrupted search
    resumes from there with the same result. attrs["findings"] has the findings in words.
    """
    result = answer(
        spec,
        microarch=microarch,
        sizes=sizes,
        out=out,
        parameters=parameters,
        measured=measured,
        settings=Settings(tried=tried, seed=seed),
        state=state,
    )
    table = result.rows.frame()
    table.attrs["findings"] = result.findings
    return table


def answer(
    spec: str,
    *,
    microarch: str | None,
    sizes: str | None,
    out: Path | None,
    parameters: Mapping[str, str] | None,
    measured: bool,
    settings: Settings,
    progress: Progress | None = None,
    state: Path | None = None,
) -> Outcome:
    """Carry out improve; see there for the parameters and the result."""
    variant = _variant(spec)
    kernel = kernels.load(variant.kernel)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        comparison = CallComparison(
            variant,
            selected_cores(microarch, kernel.isa),
            histogram.read(sizes) if sizes else None,
            parameters or {},
            Path(scratch),
        )
        if out is not None:
            files.made_folder(out)  # fails before the search rather than after it
        [baseline] = comparison.of_variants([variant]).values()
        base = replace(usable(comparison, baseline), listing=read(variant))
        others = comparison.of_variants(
            v for v in kernel.of_routine(variant.routine) if v.name != variant.name
        )
        journal = None
        if state is not None:
            inputs = base.digest, comparison.points
            digest = digest_of(comparison.cores, comparison.settings, *inputs)
            journal = Journal(state / f"{variant.id.replace('/', '_')}.jsonl", digest)
        result = search(comparison, base, TRANSFORMATIONS, settings, progress, journal)
        return _concluded(comparison, result, others, out, measured=measured, progress=progress)


def _variant(spec: str) -> Variant:
    """Return the variant that a spec names; for a kernel with one routine, its baseline."""
    kernel, variants = kernels.select(spec)
    if len(variants) == 1:
        return variants[0]
    if len(kernel.routines) > 1:
        raise InputError(
            f"{spec} has {len(kernel.routines)} routines; name a variant, e.g. {variants[0].id}"
        )
    [routine] = kernel.routines.values()
    return kernel.variants[routine.baseline]


def read(variant: Variant) -> Listing:
    """Return a variant's listing: parsed from plain assembly, else lifted from its code."""
    contract = kernels.contract_of(variant)
    isa = kernels.load(variant.kernel).isa
    if variant.source.suffix == ".S" and isa == "x86_64":
        return parse(variant.source.read_text(), contract, isa)
    return lift(assemble.variant_code(variant), contract)


def _concluded(
    comparison: CallComparison,
    result: Search[Candidate],
    hand_written: Mapping[str, Candidate | InputError],
    out: Path | None,
    *,
    measured: bool,
    progress: Progress | None,
) -> Outcome:
    """Prove, measure and write the best candidates; return the result with findings in words."""
    proven, refused = _proven(result, progress)
    name = comparison.variant.name
    labels = [f"{name}_improved{count if count > 1 else ''}" for count in range(1, len(proven) + 1)]
    named = dict(zip(labels, proven, strict=True))
    findings = [f"cycles a call: {comparison.described}; pipeline simulator; "
                "in parentheses the worst offset"]  # fmt: skip
    status = dict.fromkeys(named, "proven")
    notes = dict.fromkeys(named, "")
    if measured and named and not result.interrupted:
        _measure(comparison, named, status, notes, progress)
    rows = [
        row
        for label, candidate in named.items()
        for row in _rows(comparison, result, label, candidate, status[label], notes[label])
    ]
    if not named:
        rows = list(_rows(comparison, result, name, result.base, "baseline", ""))
    findings += [
        line for label, candidate in named.items() for line in _slower(result, label, candidate)
    ]
    findings += list(_hand_written(comparison, result, hand_written, proven))
    comparable = _comparable(comparison, hand_written)
    if comparable:
        findings.append(_beaten(comparison, result.base, comparable, proven))
    findings += [f"withdrawn: {notes[label]}" for label in named if status[label] == "withdrawn"]
    findings += [f"refused by the contract checker: {reason}" for reason in refused]
    findings += list(_bounds(comparison, proven[0] if proven else result.base))
    findings.append(result.in_words("without a figure on some core"))
    findings += [
        f"without a figure: {reason} ({count} times)" for reason, count in result.dropped.items()
    ]
    kept = {label: candidate for label, candidate in named.items() if status[label] != "withdrawn"}
    written: Sequence[Path] = ()
    if out is not None and kept:
        origins = {label: _origin(comparison, result, best) for label, best in kept.items()}
        paths = {label: result.path(candidate) for label, candidate in kept.items()}
        written = write_variants(out, comparison.variant, paths, origins)
    fastest = (
        {core.id: _fastest(comparable, core) for core in comparison.cores} if comparable else {}
    )
    return Outcome(Rows(COLUMNS, rows, _TYPES), written, findings, result.interrupted, fastest)


_LEAST_GAIN = 0.01
_MOST_REFUSED = 6


def _proven(
    result: Search[Candidate], progress: Progress | None
) -> tuple[list[Candidate], list[str]]:
    """Return the best candidates that pass the contract checker, and the failures of others.

    Where one fails, the next best takes its place.
    """
    proven: list[Candidate] = []
    refused: dict[str, str] = {}
    while len(proven) < SHOWN and len(refused) < _MOST_REFUSED:
        better = (
            c
            for c in result.pareto(refused)
            if c not in proven and max(result.robust(c).values()) > 1 + _LEAST_GAIN
        )
        if (candidate := next(better, None)) is None:
            break
        if progress:
            progress(len(proven), SHOWN, "proving")
        rows = check.run([candidate.variant])
        if check.holds(rows, [candidate.variant]):
            proven.append(candidate)
        else:
            failure = rows["failure"].iloc[0] or f"coverage: {rows['coverage'].iloc[0]}"
            refused[candidate.digest] = f"{'; '.join(candidate.listing.steps)}: {failure}"
    return proven, list(refused.values())


def _rows(
    comparison: CallComparison,
    result: Search[Candidate],
    label: str,
    candidate: Candidate,
    status: str,
    note: str,
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of one candidate: one for each step and core."""
    out = []
    path = result.path(candidate)
    kernel = comparison.variant.kernel
    for n, (stage, new) in enumerate(zip(path, new_steps(path), strict=True)):
        step = "; ".join(new) if n else comparison.variant.name
        last = n and stage is candidate
        status_and_note = "baseline" if not n else status if last else "", note if last else ""
        for core in comparison.cores:
            cost = stage.costs[core.id]
            before = path[n - 1].costs[core.id] if n else cost
            figures = round(cost.mean, 2), round(cost.worst, 2), round(before.mean / cost.mean, 3)
            out.append((kernel, label, n, step, core.id, *figures, stage.bytes, *status_and_note))
    return out


def _slower(result: Search[Candidate], label: str, candidate: Candidate) -> Sequence[str]:
    """Return, in words, the sizes at which a candidate is slower than the original variant."""
    out = []
    for core, cost in candidate.costs.items():
        before = result.base.costs[core].sizes
        losses = {
            size: 100 * (cycles / before[size] - 1)
            for size, cycles in cost.sizes.items()
            if cycles > before[size] * (1 + _LEAST_LOSS)
        }
        if losses:
            sizes = ", ".join(f"{size} B by {percent:.0f} %" for size, percent in losses.items())
            out.append(f"{label} is slower on {core} at {sizes}")
    return out


def _hand_written(
    comparison: CallComparison,
    result: Search[Candidate],
    hand_written: Mapping[str, Candidate | InputError],
    proven: Sequence[Candidate],
) -> Sequence[str]:
    """Return, in words, the cost on each core of the best hand-written variant beside candidates.

    One with other features switched off than the original is reported only where it is faster.
    """
    comparable = _comparable(comparison, hand_written)
    separate = {
        name: candidate
        for name, candidate in hand_written.items()
        if isinstance(candidate, Candidate) and name not in comparable
    }
    out = []
    for core in comparison.cores:
        least = min(candidate.costs[core.id].mean for candidate in (*proven, result.base))
        if comparable:
            name, cycles = _fastest(comparable, core)
            alike = abs(least / cycles - 1) <= _ALIKE
            comparison_text = "alike" if alike else f"{cycles / least:.2f} times as fast"
            remark = "; no transformation leads there" if least > cycles * (1 + _ALIKE) else ""
            out.append(
                f"{core.id}: the family's fastest other variant is {name}, {cycles:.1f} cycles; "
                f"the best found takes {least:.1f} ({comparison_text}{remark})"
            )
        if separate and (fastest := _fastest(separate, core))[1] < least * (1 - _ALIKE):
            switched_off = " and ".join(separate[fastest[0]].variant.switched_off) or "nothing"
            out.append(
                f"{core.id}: {fastest[0]} takes {fastest[1]:.1f} cycles where {switched_off} is "
                "switched off; no transformation leads there"
            )
    return out


def _comparable(
    comparison: CallComparison, hand_written: Mapping[str, Candidate | InputError]
) -> Mapping[str, Candidate]:
    """Return the hand-written variants with the same features switched off as the original."""
    switched_off = comparison.variant.switched_off
    return {
        name: candidate
        for name, candidate in hand_written.items()
        if isinstance(candidate, Candidate) and candidate.variant.switched_off == switched_off
    }


def _fastest(candidates: Mapping[str, Candidate], core: Microarch) -> tuple[str, float]:
    """Return the name and the cycles of the fastest candidate on a core."""
    costs = {name: candidate.costs[core.id].mean for name, candidate in candidates.items()}
    name = min(costs, key=lambda name: costs[name])
    return name, costs[name]


def _beaten(
    comparison: CallComparison,
    base: Candidate,
    hand_written: Mapping[str, Candidate],
    proven: Sequence[Candidate],
) -> str:
    """Return, in words, the cores on which one candidate beats every hand-written variant."""
    best: list[str] = []
    for candidate in proven:
        faster = [
            core.id
            for core in comparison.cores
            if _fastest({**hand_written, "": base}, core)[1]
            >= candidate.costs[core.id].mean * _LEAST_SPEEDUP
        ]
        best = max(best, faster, key=len)
    where = f"on {', '.join(best)}" if best else "on no core"
    return f"a candidate is 5 % faster than every hand-written variant or more {where}"


def _bounds(comparison: CallComparison, candidate: Candidate) -> Iterator[str]:
    """Yield, for each core, the main loop's cycles and its distance from its lower bounds."""
    for core in comparison.cores:
        loop = main_loop(candidate.variant, core, comparison.settings)
        if loop.cycles:
            bounds = [
                f"{within(loop.cycles, least)} of {wording.format(least)}"
                for least, wording in (
                    (loop.of_accesses, "what its loads and stores take in any code ({:.2f})"),
                    (loop.of_instructions, "what its ports, dispatch and dependencies do ({:.2f})"),
                )
                if least
            ]
            figure = f"the main loop takes {loop.cycles:.2f} cycles an iteration"
            yield f"{core.id}: {', '.join([figure, *bounds])}"


def within(cycles: float, least: float) -> str:
    """Return, in words, by how many percent cycles exceed their lower bound."""
    return f"within {max(0, math.ceil(100 * (cycles / least - 1) - 0.5))} %"


class MainLoop(NamedTuple):
    """Cycles an iteration of a main loop, and two lower bounds; None if not known.

    of_accesses is the bound by the core's load and store ports for the loop's accesses,
    of_instructions the largest of ports, dispatch and dependencies of its own instructions.
    """

    cycles: float | None = None
    of_accesses: float | None = None
    of_instructions: float | None = None


def main_loop(variant: Variant, core: Microarch, settings: Mapping[str, str]) -> MainLoop:
    """Return the cycles of a variant's main loop on a core, with the bounds."""
    try:
        subject = variant_subject(replace(variant, loop=""), core)
        if subject.error or subject.notion != "loop":
            return MainLoop()
        [model] = models.select(models.SIMULATOR, settings)
        [answer] = model.predict([subject.block(None)], core)
    except InputError:
        return MainLoop()
    return MainLoop(answer.cycles, subject.least_cycles, answer.bound)


def _origin(comparison: CallComparison, result: Search[Candidate], candidate: Candidate) -> str:
    """Return the origin of a candidate in words, with its predicted gain on each core."""
    gains = ", ".join(f"{core} {gain:.2f}x" for core, gain in result.gains(candidate).items())
    return (
        f"loopwright improve {comparison.variant.id}: {'; '.join(candidate.listing.steps)}. "
        f"Predicted by the pipeline simulator, {comparison.described}: {gains}."
    )


def _measure(
    comparison: CallComparison,
    named: Mapping[str, Candidate],
    status: dict[str, str],
    notes: dict[str, str],
    progress: Progress | None,
) -> None:
    """Measure candidates in alternation with the original variant, where this machine can."""
    variant = comparison.variant
    isa = kernels.load(variant.kernel).isa
    if not toolchain.find(isa).native or hosts.lacks(isa, variant.needs):
        return
    variants = [
        variant,
        *(replace(candidate.variant, name=label) for label, candidate in named.items()),
    ]

    def step(done: int, total: int) -> None:
        if progress:
            progress(done, total, "measuring")

    contract = kernels.contract_of(variant)
    sizes = None if contract.fields else [*_MEASURED_SIZES]
    rows = measure.run(
        variants, sizes=sizes, alignments=[(0, 0)], against=variant.name, progress=step
    )
    base = call_costs.measured_calls(rows, variant.name)
    clocks = rows["clock"].dropna()
    core = hosts.microarch()
    machine = f"{core or 'this machine'}, {clocks.iloc[0] if len(clocks) else 'no clock'}"
    if difference := check.user_space_note(variant):
        machine += f", {difference}"
    for label in named:
        pairs = call_costs.paired_calls(base, call_costs.measured_calls(rows, label))
        if not pairs:
            reasons = rows.loc[rows["variant"].isin([variant.name, label]), "reason"]
            notes[label] = unmeasured(next((r for r in reasons if r), "no point repeated"))
            continue
        ratio, low, high = call_costs.speedup(pairs, comparison.histogram)
        gain = f"{ratio:.2f} times as fast ({low:.2f} to {high:.2f})"
        figure = f"{gain} as {variant.name} on {machine}"
        if low > 1:
            status[label], notes[label] = "measured", f"measured {figure}"
        elif core in named[label].costs and high < 1 + _LEAST_GAIN:
            status[label] = "withdrawn"
            steps = "; ".join(named[label].listing.steps)
            notes[label] = f"{label} ({steps}): measured {figure}; the simulator was wrong there"
        else:
            notes[label] = f"measured {figure}"


# Beginnings of the reasons of refusals by other work on the machine, not by the code.
_DISTURBED = (
    "disturbed",
    "of no one speed",
    "slopes are inconsistent",
    "more of it takes no longer",
    "no point repeated",
    "something shares the core",
)


def unmeasured(reason: str) -> str:
    """Return a sentence for an unmeasured candidate: the cause, and the remedy if known."""
    if reason.startswith("self-test failed"):
        return (
            f"not measured: other work disturbs this machine's clock ({reason}); end it, wait "
            "until `loopwright self-test` passes, and repeat the command"
        )
    if reason.startswith(_DISTURBED):
        return f"not measured: other work disturbs this machine ({reason}); repeat it without that"
    return f"not measured: {reason}"


# Keys of a variant that also hold for another text of it.
_KEPT_KEYS = (
    "routine", "needs", "switched_off", "alternatives", "may_change", "guards", "unreached",
)  # fmt: skip
_PATCH_KEYS = ("requires", "edits")
_MOST_SUBJECT = 50  # characters; the patch's prefix comes before them
_NOT_PATCHED = "its text was made of assembled code: write it into the source by hand"


def with_origin(listing: Listing, variant: Variant) -> Listing:
    """Return a listing with a comment above its function on its origin and transformations."""
    steps = "".join(f"\n *   {step}" for step in listing.steps)
    text = f"/*\n * Found by `loopwright improve {variant.id}`:{steps}\n */"
    starts = [n for n, line in enumerate(listing.lines) if line.text.startswith("SYM_FUNC_START")]
    at = starts[0] if starts else 0
    lines = (*listing.lines[:at], Line("text", text), *listing.lines[at:])
    return replace(listing, lines=lines)


def write_variants(
    out: Path,
    variant: Variant,
    paths: Mapping[str, Sequence[Candidate]],
    origins: Mapping[str, str],
) -> list[Path]:
    """Write a kernel folder with the family's variants and the candidates; return its new files.

    It has the same place below out as below a folder of kernels: LOOPWRIGHT_KERNELS may name out.
    paths has, by name, the candidates from the variant to the one to write, origins the origin in
    words. The folder of the same kernel in out is replaced.
    """
    kernel = kernels.load(variant.kernel)
    isa, family = kernel.id.split("/")
    tables = tomllib.loads((kernel.folder / "kernel.toml").read_text())
    original = next(v for v in tables["variant"] if v["name"] == variant.name)
    text = (kernel.folder / "kernel.toml").read_text().rstrip() + "\n"
    written = []
    with files.staged(out / isa) as scratch:
        folder = scratch / family
        shutil.copytree(kernel.folder, folder)
        for name, path in paths.items():
            source = with_origin(path[-1].listing, variant).render()
            (folder / f"{name}.S").write_text(source)
            table = _variant_table(name, path, original, variant, origins[name])
            text += "\n[[variant]]\n"
            text += "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
            written.append(out / isa / family / f"{name}.S")
        (folder / "kernel.toml").write_text(text)
    return [*written, out / isa / family / "kernel.toml"]


def new_steps(path: Sequence[Candidate]) -> Iterator[tuple[str, ...]]:
    """Yield the transformations that each candidate of a path adds to its predecessor.

    Steps of the reader, such as inlining, count with the first transformation.
    """
    for number, stage in enumerate(path):
        yield stage.listing.steps[len(path[number - 1].listing.steps) if number > 1 else 0 :]


def _variant_table(
    name: str, path: Sequence[Candidate], original: Mapping[str, Any], variant: Variant, origin: str
) -> dict[str, Any]:
    candidate = path[-1]
    steps = "; ".join(candidate.listing.steps)
    table: dict[str, Any] = {
        "name": name,
        "summary": f"{variant.name} changed: {steps}",
        "subject": _subject(candidate.listing, kernels.contract_of(variant).symbol),
        "why": f"Found by {origin}",
        "steps": [
            {
                "name": "; ".join(new) if number else variant.name,
                "bytes": stage.bytes,
                "cycles": {core: round(cost.mean, 2) for core, cost in stage.costs.items()},
            }
            for number, (stage, new) in enumerate(zip(path, new_steps(path), strict=True))
        ],
    }
    lifted = variant.source.suffix != ".S" or kernels.load(variant.kernel).isa != "x86_64"
    kept_keys = _KEPT_KEYS if lifted else (*_KEPT_KEYS, *_PATCH_KEYS)
    table |= {key: original[key] for key in kept_keys if key in original}
    if lifted:
        table["unpatchable"] = _NOT_PATCHED
    return table


def _subject(listing: Listing, symbol: str) -> str:
    """Return the subject of a patch: the first transformation, if it fits into a line."""
    function = f"{symbol}()"
    first = listing.steps[0] if listing.steps else ""
    subject = f"{first[:1].upper()}{first[1:]} in {function}"
    return subject if first and len(subject) <= _MOST_SUBJECT else f"Speed up {function}"


def _toml(value: Any) -> str:
    """Return a value in TOML; JSON strings are valid basic strings of TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
