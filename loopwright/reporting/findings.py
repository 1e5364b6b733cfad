"""Findings on a kernel for a report: evidence, answers to questions of threads, patches."""

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
from loopwright.judging import published, unmeasured
from loopwright.judging.model_accuracy import RANK_NAMES
from loopwright.judging.published import PublishedFigure
from loopwright.judging.recommend import conclude
from loopwright.judging.study import MEASURED, Study, compared, comparison, gather
from loopwright.judging.verdicts import Status, Verdict, simulated_points
from loopwright.kernels import Kernel
from loopwright.linux.message import Evidence
from loopwright.linux.patch import evidence, make
from loopwright.linux.trees import Found
from loopwright.predicting.explain import sources, timeline
from loopwright.predicting.models import MODELS, SIMULATOR
from loopwright.predicting.predict import predict
from loopwright.reporting import cycle_curves

ITERATIONS = 4
_MOST = 160  # uops of one timeline, at most
_APART = 1.02  # least ratio of cycles that differ


@dataclass(frozen=True)
class Timeline:
    """The timeline of a variant on a core at a code offset (bytes mod 64).

    why is the reason to show the offset; cycles is the prediction for an iteration; rows is what
    loopwright.timeline returns, cut after 160 uops.
    """

    variant: str
    microarch: str
    offset: int
    why: str
    cycles: float
    rows: pd.DataFrame


def timelines(kernel_id: str, sweep: pd.DataFrame, table: pd.DataFrame) -> tuple[Timeline, ...]:
    """Return the timelines of a kernel's variants.

    sweep is what cycle_curves.sweep returns, table what compare does.
    """
    out = []
    simulated = table[(table["source"] == SIMULATOR) & table["cycles"].notna()]
    for row in simulated.to_dict("records"):
        variant, core = str(row["variant"]), str(row["microarch"])
        of_variant = sweep[(sweep["variant"] == variant) & (sweep["microarch"] == core)]
        cycles = of_variant.set_index("offset_bytes")["cycles_per_iteration"].dropna()
        for offset, why in _offsets(int(row["offset"]), cycles).items():
            rows = timeline(
                f"{kernel_id}/{variant}", microarch=core, offset=offset, iterations=ITERATIONS
            )
            if rows["error"].eq("").all() and rows["uop"].notna().any():
                cycles_there = float(cycles.get(offset, row["cycles"]))
                out.append(Timeline(variant, core, offset, why, cycles_there, rows.head(_MOST)))
    return tuple(out)


def _offsets(own: int, cycles: pd.Series) -> dict[int, str]:
    """Return the offsets to show: the routine's own, the best and the worst."""
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


def speed_range(percents: Sequence[float]) -> str:
    """Return speed-ups as one text: "+3 %", "-2 to +14 %", "no difference"."""
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
        """The command that gives the answer in full."""
        return (
            f"loopwright recommend {self.kernel} --microarch {self.microarch} "
            f"--against {self.against}"
        )


@dataclass(frozen=True)
class ThreadAnswer:
    """A question with its answer: yes, no, open or contested.

    verdict is that on the pair (None: no evidence), decided_by the parameter of the core whose
    unmeasured value decides ("" if none does), figures the published figures of the pair.
    """

    thread: Thread
    verdict: Verdict | None
    decided_by: str
    figures: tuple[PublishedFigure, ...]

    @property
    def word(self) -> str:
        return _WORDS[self.verdict.status] if self.verdict else "unknown"

    @property
    def predicted(self) -> str:
        """The speed against the other variant, with its evidence."""
        if self.verdict is None:
            return "no evidence"
        ends = [100 * (ratio - 1) for ratio in (self.verdict.speed.low, self.verdict.speed.high)]
        return f"{speed_range(ends)} {RANK_NAMES[self.verdict.rank]} on {self.verdict.core}"

    @property
    def published(self) -> str:
        """The published speed-ups, a range for each machine and scope."""
        return _by_machine(self.figures)

    @property
    def published_there(self) -> str:
        """The published speed-ups of the machines that the core stands for, else all."""
        there = [f for f in self.figures if f.predicted_on == self.thread.microarch]
        return _by_machine(there or self.figures)


def threads() -> list[Thread]:
    """Return the questions of kernels/threads.toml."""
    text = (paths.HOME / "kernels" / "threads.toml").read_text(encoding="utf-8")
    return [Thread(id=key, **table) for key, table in tomllib.loads(text).items()]


def answers(study: Study, sizes: Histogram | None) -> tuple[ThreadAnswer, ...]:
    """Answer the questions about a kernel by the evidence gathered on it.

    A kernel of $LOOPWRIGHT_KERNELS may lack the variant to compare with; the question is then left
    out.
    """
    return tuple(
        _answer(thread, study, sizes)
        for thread in threads()
        if thread.kernel == study.kernel.id and thread.against in study.kernel.variants
    )


def _answer(thread: Thread, study: Study, sizes: Histogram | None) -> ThreadAnswer:
    kernel = compared(study.kernel, thread.against)
    predictions, measurements = (
        rows[rows["variant"].isin(kernel.variants)] if len(rows) else rows
        for rows in (study.predictions, study.measurements)
    )
    study_of_thread = replace(
        study,
        kernel=kernel,
        cores=(microarchs.load(thread.microarch),),
        predictions=predictions,
        measurements=measurements,
    )
    judgement = conclude(study_of_thread, sizes)
    [answer] = judgement.answers.values()
    verdicts = [case.verdicts for case in answer.cases if case.variant.name == thread.variant]
    verdict = verdicts[0].get(thread.microarch) if verdicts else None
    simulated = verdict.simulated if verdict is not None else None
    break_evens = unmeasured.break_evens(simulated) if simulated else ()
    parameter = next((b.unknown.name for b in break_evens if b.decides), "")
    pair = thread.kernel, thread.variant, thread.against
    figures = (f for f in published.table() if (f.kernel, f.variant, f.baseline) == pair)
    standing = tuple(f for f in figures if f.percent is not None and not f.retracted)
    return ThreadAnswer(thread, verdict, parameter, standing)


def _by_machine(figures: Sequence[PublishedFigure]) -> str:
    groups: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        assert figure.percent is not None
        groups.setdefault((figure.scope, figure.machine), []).append(figure.percent)
    return "; ".join(
        f"{speed_range(every)} ({scope}, {machine})" for (scope, machine), every in groups.items()
    )


@dataclass(frozen=True)
class Finding:
    """A kernel's study, its comparison table, its recommendation, and its patches.

    bands has the best variant by range of sizes, as recommend.Judgement has it. sweep has the
    simulator's cycles over code offsets, boundaries their explanation in words, timelines those of
    its variants; evidence is what patches state. answers are those to the questions of mailing
    lists about the kernel. assumed has a row for each figure of the simulator and each unmeasured
    parameter that it depends on (loopwright.sources). calls has the predicted cost of whole calls
    on each core judged for and on this one. baselines has the tree's own baseline by routine;
    patches maps a routine to one line: the patch files, or the reason for none; texts holds the
    patch files by name.
    """

    study: Study
    table: pd.DataFrame
    recommendation: pd.DataFrame
    sweep: pd.DataFrame
    boundaries: pd.DataFrame
    timelines: tuple[Timeline, ...]
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
        """The kernel, with the tree's own functions among its variants."""
        return self.study.kernel

    def cores(self) -> list[str]:
        return [str(core) for core in self.table["microarch"].unique()]


def clocks(findings: Sequence[Finding]) -> list[str]:
    """Return the clocks of all measurements."""
    measured = [f.study.measurements for f in findings if len(f.study.measurements)]
    return sorted({str(c) for rows in measured for c in rows["clock"].dropna() if c})


@cache
def model_versions() -> dict[str, str]:
    """Return each model's version by its id, or the reason why it is not installed."""
    out = {}
    for model in MODELS:
        try:
            out[model.id] = model.version()
        except InputError as error:
            out[model.id] = str(error).split(":")[0]
    return out


def origin_of(source: str, machine: str, clock: str) -> str:
    """Return the origin of a source's number; machine and clock are a measurement's."""
    if source == MEASURED:
        return f"measured: {machine}, clock {clock}"
    return model_versions().get(source, source)


def with_patches(
    finding: Finding, tree: Found, folder: Path, report: Callable[[str], None]
) -> Finding:
    """Write a patch for each winner below folder/patches and return the finding with notes."""
    notes: dict[str, str] = {}
    texts: dict[str, str] = {}
    for row in finding.recommendation.to_dict("records"):
        routine, winner = str(row["routine"]), str(row["winner"])
        if winner:
            notes[routine], files = _patch_of(finding, winner, tree, folder)
            texts |= {str(path.relative_to(folder)): path.read_text() for path in files}
            report(f"  patch for {winner}: {notes[routine]}")
    return replace(finding, patches=notes, texts=texts)


def _patch_of(finding: Finding, winner: str, tree: Found, folder: Path) -> tuple[str, list[Path]]:
    """Return the result of a winner's patch in one line, and the files."""
    # Not the variant of the study: beside a tree's own code, its variants are copies.
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
    """Study a kernel, judge its variants, and simulate their offsets and timelines.

    quick measures nothing now; baselines has the tree's own baseline by routine. microarch and
    progress are those of gather.
    """
    study = gather(kernel.id, sizes=sizes, quick=quick, microarch=microarch, progress=progress)
    table = comparison(study)
    simulated = table[(table["source"] == SIMULATOR) & table["cycles"].notna()]
    cores = ",".join(map(str, simulated["microarch"].unique()))
    assumed = sources(kernel.id, microarch=cores) if cores else pd.DataFrame()
    judgement = conclude(study, sizes)
    sweep = cycle_curves.sweep(kernel.id, cores) if cores else pd.DataFrame()
    return Finding(
        study=study,
        table=table,
        recommendation=judgement.rows,
        bands=judgement.bands,
        calls=_calls(study, sizes),
        sweep=sweep,
        boundaries=cycle_curves.boundaries(sweep),
        timelines=timelines(kernel.id, sweep, table),
        evidence=evidence(study, judgement),
        answers=answers(study, sizes),
        assumed=assumed[assumed["least_cycles"].notna()] if cores else assumed,
        baselines=baselines,
    )


def _calls(study: Study, sizes: Histogram | None) -> pd.DataFrame:
    """Return the predicted cost of aligned calls at the sizes of a judgement.

    The cores are those judged for, and this machine's.
    """
    cores = study.target_ids
    if study.host and microarchs.load(study.host).isa == study.kernel.isa:
        cores.insert(0, study.host)
    counts = {
        point.size // contract.count_bytes
        for contract in (routine.contract for routine in study.kernel.routines.values())
        if contract.counted
        for point in simulated_points(contract, sizes, study.alignments)
    }
    return predict(
        study.kernel.id, microarch=",".join(dict.fromkeys(cores)), sizes=sorted(counts) or [1]
    )


def cores_of(kernel: Kernel, microarch: str | None) -> str | None:
    """Return those of the cores asked for that have a kernel's ISA; microarch itself if none."""
    if microarch in (None, "all"):
        return microarch
    mine = [core.id for core in microarchs.select(microarch) if core.isa == kernel.isa]
    return ",".join(mine) or microarch


@dataclass(frozen=True)
class Arguments:
    """The arguments of loopwright report. linux describes the tree ("" if there is none)."""

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
        if self.linux:
            parts = [f"loopwright report {kernel} -o out", *self._common(kernel), "--patch"]
            return " ".join(parts) + self._tree()
        return " ".join([f"loopwright recommend {kernel}", *self._common(kernel)])

    def figure(self, kernel: str, variant: str, core: str, source: str, offset: str = "") -> str:
        """Return the command for a variant's cycles by a source; offset is its code offset."""
        if kernels.is_own_code(variant):
            tree = shlex.quote(self.tree or "debian:6.12")
            return f"loopwright baseline {kernel} --tree {tree}"
        if source == MEASURED:
            return f"loopwright measure {kernel}/{variant}"
        where = f" --offset {offset}" if offset else ""
        return f"loopwright predict {kernel}/{variant} --microarch {core} --model {source}{where}"

    def _common(self, kernel: str = "") -> list[str]:
        out = [f"--sizes {shlex.quote(self.sizes)}"] if self.sizes else []
        cores = cores_of(kernels.load(kernel), self.microarch) if kernel else self.microarch
        out += [f"--microarch {shlex.quote(cores)}"] if cores else []
        return [*out, "--no-measure"] if self.quick else out

    def _tree(self) -> str:
        return f" --tree {shlex.quote(self.tree)}" if self.tree else ""
