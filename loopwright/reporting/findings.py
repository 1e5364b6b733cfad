"""Findings on a kernel for a report, with questions of threads, origins of code and patches."""

import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pandas as pd

from loopwright import kernels, microarchs, paths
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.judging import break_even, published, study
from loopwright.judging.evidence import simulated_places
from loopwright.judging.model_accuracy import RANK_NAMES
from loopwright.judging.published import PublishedFigure
from loopwright.judging.recommend import conclude
from loopwright.judging.study import MEASURED, Study, comparison, gather
from loopwright.judging.verdicts import Status, Verdict
from loopwright.kernels import Kernel
from loopwright.linux.message import Evidence
from loopwright.linux.patch import evidence, make
from loopwright.linux.trees import Found
from loopwright.predicting.explain import sources, timeline
from loopwright.predicting.models import MODELS, SIMULATOR
from loopwright.predicting.predict import predict
from loopwright.reporting import cycle_curves

ITERATIONS = 4
_MOST = 160  # uops of one timeline
_APART = 1.02  # cycles whose ratio is below are alike


@dataclass(frozen=True)
class Moment:
    """The timeline of a variant on a core at a code offset (bytes mod 64).

    why says what is special about the offset; cycles is the prediction for it, an iteration; rows
    is what loopwright.timeline returns, cut after 160 uops.
    """

    variant: str
    microarch: str
    offset: int
    why: str
    cycles: float
    rows: pd.DataFrame


def moments(kernel_id: str, sweep: pd.DataFrame, table: pd.DataFrame) -> tuple[Moment, ...]:
    """Return the timelines of a kernel's variants.

    sweep is what cycle_curves.sweep returns, table what compare does.
    """
    found = []
    own = table[(table["source"] == SIMULATOR) & table["cycles"].notna()]
    for row in own.to_dict("records"):
        variant, core = str(row["variant"]), str(row["microarch"])
        mine = sweep[(sweep["variant"] == variant) & (sweep["microarch"] == core)]
        cycles = mine.set_index("offset_bytes")["cycles_per_iteration"].dropna()
        for offset, why in _offsets(int(row["offset"]), cycles).items():
            rows = timeline(
                f"{kernel_id}/{variant}", microarch=core, offset=offset, iterations=ITERATIONS
            )
            if rows["error"].eq("").all() and rows["uop"].notna().any():
                at = float(cycles.get(offset, row["cycles"]))
                found.append(Moment(variant, core, offset, why, at, rows.head(_MOST)))
    return tuple(found)


def _offsets(own: int, cycles: pd.Series) -> dict[int, str]:
    """Return the offsets that tell something, with what they are."""
    out = {own: "where it stands by itself"}
    if cycles.empty or own not in cycles.index:
        return out
    at: dict[int, float] = dict(zip(cycles.index.to_list(), cycles.to_list(), strict=True))
    best, worst = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    if at[own] > at[best] * _APART:
        out[best] = "best"
    if at[worst] > at[own] * _APART:
        out[worst] = "worst"
    return out


def span(percents: Sequence[float]) -> str:
    """Return one text for speed-ups: "+3 %", "-2 to +14 %", "no difference"."""
    low, high = (f"{round(end):+d}" for end in (min(percents), max(percents)))
    if low == high:
        return "no difference" if low == "+0" else f"{low} %"
    return f"{low} to {high} %".replace("+0 ", "0 ")


_WORDS = {
    Status.FASTER: "yes",
    Status.SLOWER: "no",
    Status.ALIKE: "no",
    Status.OPEN: "open",
    Status.CONTESTED: "contested",
}


@dataclass(frozen=True)
class Thread:
    """A question of a thread: is variant faster than against on a core?"""

    id: str
    question: str
    kernel: str
    variant: str
    against: str
    microarch: str

    @property
    def command(self) -> str:
        """Return the command that gives the answer at length."""
        return (
            f"loopwright recommend {self.kernel} --microarch {self.microarch} "
            f"--against {self.against}"
        )


@dataclass(frozen=True)
class ThreadAnswer:
    """A question with its answer: yes, no, open or contested.

    verdict is what the evidence says of the pair (None: no evidence), decided_by the parameter of
    the core whose unmeasured value decides ("" where none does), figures what was published of the
    pair.
    """

    thread: Thread
    verdict: Verdict | None
    decided_by: str
    figures: tuple[PublishedFigure, ...]

    @property
    def word(self) -> str:
        """Return the answer in a word."""
        if self.verdict is None:
            return "unknown"
        return _WORDS[self.verdict.status]

    @property
    def predicted(self) -> str:
        """Return the speed against the other variant, with its evidence."""
        if self.verdict is None:
            return "no evidence"
        ends = [100 * (ratio - 1) for ratio in (self.verdict.speed.low, self.verdict.speed.high)]
        return f"{span(ends)} {RANK_NAMES[self.verdict.rank]} on {self.verdict.core}"

    @property
    def published(self) -> str:
        """Return the published speed-ups, a range for each machine and scope."""
        return _by_machine(self.figures)

    @property
    def published_there(self) -> str:
        """Return the published speed-ups of the machines that the core stands for, or of all."""
        there = [f for f in self.figures if f.predicted_on == self.thread.microarch]
        return _by_machine(there or self.figures)


def threads() -> list[Thread]:
    """Return the questions of kernels/threads.toml."""
    text = (paths.HOME / "kernels" / "threads.toml").read_text(encoding="utf-8")
    return [Thread(id=key, **table) for key, table in tomllib.loads(text).items()]


def answers(found: Study, sizes: Histogram | None) -> tuple[ThreadAnswer, ...]:
    """Answer the questions about a kernel by the evidence that was gathered on it.

    A kernel of $LOOPWRIGHT_KERNELS may lack what a question compares with: it is not asked then.
    """
    return tuple(
        _answer(thread, found, sizes)
        for thread in threads()
        if thread.kernel == found.kernel.id and thread.against in found.kernel.variants
    )


def _answer(thread: Thread, found: Study, sizes: Histogram | None) -> ThreadAnswer:
    kernel = study.compared(found.kernel, thread.against)
    asked = replace(
        found,
        kernel=kernel,
        cores=(microarchs.load(thread.microarch),),
        predictions=found.predictions[found.predictions["variant"].isin(kernel.variants)],
        measurements=found.measurements[found.measurements["variant"].isin(kernel.variants)]
        if len(found.measurements)
        else found.measurements,
    )
    judgement = conclude(asked, sizes)
    [answer] = judgement.answers.values()
    verdicts = [case.verdicts for case in answer.cases if case.variant.name == thread.variant]
    verdict = verdicts[0].get(thread.microarch) if verdicts else None
    simulated = verdict.simulated if verdict is not None else None
    turning = (
        (one.unknown.name for one in break_even.break_evens(simulated) if one.turns)
        if simulated
        else ()
    )
    return ThreadAnswer(
        thread,
        verdict,
        next(iter(turning), ""),
        tuple(
            figure
            for figure in published.table()
            if (figure.kernel, figure.variant, figure.baseline)
            == (thread.kernel, thread.variant, thread.against)
            and figure.percent is not None
            and not figure.retracted
        ),
    )


def _by_machine(figures: Sequence[PublishedFigure]) -> str:
    groups: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        assert figure.percent is not None
        groups.setdefault((figure.scope, figure.machine), []).append(figure.percent)
    return "; ".join(
        f"{span(every)} ({scope}, {machine})" for (scope, machine), every in groups.items()
    )


@dataclass(frozen=True)
class Finding:
    """A kernel's study, its comparison table, its recommendation, and what became of patches.

    bands says which variant is best from which size to which, as recommend.Judgement has it.
    sweep has the simulator's cycles over code offsets, boundaries what they mean in words, and
    moments the timelines; evidence is what patches say. answers are those to the questions of
    mailing lists about the kernel. assumed has a row for each figure of the simulator and each
    parameter that it would follow and nobody has measured (loopwright.sources).
    calls has what whole calls are predicted to cost on each core judged for and on this one.
    baselines says by routine what the baseline is in the tree; patches maps a routine to one line:
    the patch files, or why there is none; texts holds the patch files by name.
    """

    study: Study
    table: pd.DataFrame
    recommendation: pd.DataFrame
    sweep: pd.DataFrame
    boundaries: pd.DataFrame
    moments: tuple[Moment, ...]
    evidence: Evidence
    answers: tuple[ThreadAnswer, ...] = ()
    assumed: pd.DataFrame = field(default_factory=pd.DataFrame)
    bands: pd.DataFrame = field(default_factory=pd.DataFrame)
    calls: pd.DataFrame = field(default_factory=pd.DataFrame)
    baselines: dict[str, str] = field(default_factory=dict)
    patches: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        """Return the kernel, with the tree's own functions among its variants."""
        return self.study.kernel

    def cores(self) -> list[str]:
        """Return the cores that there are rows for."""
        return [str(core) for core in self.table["microarch"].unique()]


def clocks(findings: Sequence[Finding]) -> list[str]:
    """Return the clocks of all that was measured."""
    measured = [f.study.measurements for f in findings if len(f.study.measurements)]
    return sorted({str(c) for rows in measured for c in rows["clock"].dropna() if c})


@cache
def model_versions() -> dict[str, str]:
    """Return each model's version by its id, or why it is not here."""
    out = {}
    for model in MODELS:
        try:
            out[model.id] = model.version()
        except InputError as error:
            out[model.id] = str(error).split(":")[0]
    return out


def origin_of(source: str, machine: str, clock: str) -> str:
    """Return where a number of a source comes from; machine and clock are a measurement's."""
    if source == MEASURED:
        return f"measured: {machine}, clock {clock}"
    return model_versions().get(source, source)


def with_patches(
    finding: Finding, tree: Found, folder: Path, said: Callable[[str], None]
) -> Finding:
    """Write a patch for each winner below folder/patches and return the finding with notes."""
    notes: dict[str, str] = {}
    texts: dict[str, str] = {}
    for row in finding.recommendation.to_dict("records"):
        routine, winner = str(row["routine"]), str(row["winner"])
        if winner:
            notes[routine], files = _one(finding, winner, tree, folder)
            texts |= {str(path.relative_to(folder)): path.read_text() for path in files}
            said(f"  patch for {winner}: {notes[routine]}")
    return replace(finding, patches=notes, texts=texts)


def _one(finding: Finding, winner: str, tree: Found, folder: Path) -> tuple[str, list[Path]]:
    """Return what became of a winner's patch, in a line, and the files."""
    # Not the studied kernel's: with a tree's own code beside them its variants are copies.
    variant = kernels.load(finding.kernel.id).variants[winner]
    if tree.path is None:
        return tree.note, []
    if variant.unpatchable:
        return f"none: {variant.unpatchable}", []
    out = folder / "patches" / finding.kernel.id.replace("/", "-")
    try:
        made = make(variant, tree.path, out, finding.evidence)
    except InputError as error:
        return f"none: {error}", []
    if made.status != "written":
        return f"{made.status} in {tree.note}", []
    return ", ".join(str(path.relative_to(folder)) for path in made.files), list(made.files)


def examine(
    kernel: Kernel,
    sizes: Histogram | None,
    *,
    quick: bool,
    baselines: dict[str, str],
    microarch: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Finding:
    """Study a kernel, judge its variants, sweep their offsets and look inside the cores.

    quick measures nothing now; baselines says by routine what a tree has. microarch and progress
    are gather's.
    """
    found = gather(kernel.id, sizes=sizes, quick=quick, microarch=microarch, progress=progress)
    compared = comparison(found)
    simulated = compared[(compared["source"] == SIMULATOR) & compared["cycles"].notna()]
    cores = ",".join(map(str, simulated["microarch"].unique()))
    rests_on = sources(kernel.id, microarch=cores) if cores else pd.DataFrame()
    judgement = conclude(found, sizes)
    swept = cycle_curves.sweep(kernel.id, cores) if cores else pd.DataFrame()
    return Finding(
        study=found,
        table=compared,
        recommendation=judgement.rows,
        bands=judgement.bands,
        calls=_calls(found, sizes),
        sweep=swept,
        boundaries=cycle_curves.boundaries(swept),
        moments=moments(kernel.id, swept, compared),
        evidence=evidence(found, judgement),
        answers=answers(found, sizes),
        assumed=rests_on[rests_on["least_cycles"].notna()] if cores else rests_on,
        baselines=baselines,
    )


def _calls(found: Study, sizes: Histogram | None) -> pd.DataFrame:
    """Return what aligned calls are predicted to cost, at the sizes that a judgement looks at.

    On the cores judged for, and on the one that this machine is.
    """
    cores = [core.id for core in found.targets]
    if found.host and microarchs.load(found.host).isa == found.kernel.isa:
        cores.insert(0, found.host)
    counts = {
        place.size // contract.count_bytes
        for contract in (routine.contract for routine in found.kernel.routines.values())
        if contract.counted
        for place in simulated_places(contract, sizes, found.alignments)
    }
    return predict(
        found.kernel.id, microarch=",".join(dict.fromkeys(cores)), sizes=sorted(counts) or [1]
    )


def cores_of(kernel: Kernel, microarch: str | None) -> str | None:
    """Return the cores of a kernel's ISA among those asked for; all where none is of it."""
    if microarch in (None, "all"):
        return microarch
    mine = [core.id for core in microarchs.select(microarch) if core.isa == kernel.isa]
    return ",".join(mine) or microarch


@dataclass(frozen=True)
class Asked:
    """The arguments of loopwright report. linux describes the tree ("" where there is none)."""

    kernels: tuple[str, ...]
    sizes: str | None
    quick: bool
    microarch: str | None
    linux: str
    tree: str | None

    def report(self) -> str:
        """Return the command that writes the report again."""
        parts = ["loopwright report", *self.kernels, "-o out", *self._common()]
        if self.linux:
            parts.append(f"--patch{self._tree()}")
        return " ".join(parts)

    def recommend(self, kernel: str) -> str:
        """Return the command for a recommendation."""
        if self.linux:
            parts = [f"loopwright report {kernel} -o out", *self._common(kernel), "--patch"]
            return " ".join(parts) + self._tree()
        return " ".join([f"loopwright recommend {kernel}", *self._common(kernel)])

    def figure(self, kernel: str, variant: str, core: str, source: str, place: str = "") -> str:
        """Return the command for cycles of a variant by a source; place is its code offset."""
        if kernels.is_own_code(variant):
            tree = shlex.quote(self.tree or "debian:6.12")
            return f"loopwright baseline {kernel} --tree {tree}"
        if source == MEASURED:
            return f"loopwright measure {kernel}/{variant}"
        where = f" --offset {place}" if place else ""
        return f"loopwright predict {kernel}/{variant} --microarch {core} --model {source}{where}"

    def _common(self, kernel: str = "") -> list[str]:
        out = [f"--sizes {shlex.quote(self.sizes)}"] if self.sizes else []
        cores = cores_of(kernels.load(kernel), self.microarch) if kernel else self.microarch
        out += [f"--microarch {shlex.quote(cores)}"] if cores else []
        return [*out, "--no-measure"] if self.quick else out

    def _tree(self) -> str:
        return f" --tree {shlex.quote(self.tree)}" if self.tree else ""
