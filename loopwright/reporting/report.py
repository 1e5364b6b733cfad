"""Reports on kernels: a folder with a page of HTML, plain text, tables and patches."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, kernels, microarchs
from loopwright.errors import InputError
from loopwright.histogram import Histogram, read
from loopwright.judging.published import published
from loopwright.judging.recommend import Kind
from loopwright.judging.verdicts import CONTESTED, EVERY, OPEN, WINS
from loopwright.kernels import Kernel
from loopwright.linux import trees
from loopwright.linux.baseline import against
from loopwright.machine import hosts
from loopwright.paths import VERSION
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import cross_validation, kernel_section, text
from loopwright.reporting.findings import (
    ITERATIONS,
    Arguments,
    Finding,
    ThreadAnswer,
    Timeline,
    clocks,
    cores_of,
    examine,
    model_versions,
    origin_of,
    speed_range,
    threads,
    with_patches,
)
from loopwright.reporting.html import (
    Grid,
    Row,
    Words,
    column,
    core_column,
    grid,
    rendered,
    script_data,
    uop,
)
from loopwright.reporting.text import SENTENCES
from loopwright.rows import Rows, statements


def report(
    kernel_ids: Sequence[str],
    out: Path,
    *,
    sizes: str | None = None,
    quick: bool = False,
    microarch: str | None = None,
    patch: bool = False,
    tree: str | None = None,
    log: Callable[[str], None] = print,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Study kernels (all where none is named); write a report, tables and the host's record.

    microarch ("ID[,ID]" or "all") names the cores to judge for, as recommend's does: each kernel by
    those of its ISA, and where no kernel is named those that have one. Left out: all targets.

    All goes into the folder out: index.html, the same as report.txt, the tables as CSV. With
    patch, the baselines are what tree has (a path; Debian's package where None), and each winner
    is made into a patch against it, below out/patches. log gets a line about each step, progress
    the points measured of a routine and all of them. Files appear whole or not at all.
    """
    histogram = read(sizes) if sizes else None
    chosen = _selected(kernel_ids, microarch)
    linux = trees.find(tree) if patch else None
    if linux:
        log(f"Linux tree: {linux.note}")
    findings = []
    with files.staged(out) as folder:
        for number, kernel in enumerate(chosen, 1):
            log(f"[{number}/{len(chosen)}] {kernel.id}: predict, check{', measure' * (not quick)}")
            with _beside_tree(kernel, linux) as (with_own_code, baselines):
                finding = examine(
                    with_own_code,
                    histogram,
                    quick=quick,
                    baselines=baselines,
                    microarch=cores_of(kernel, microarch),
                    progress=progress,
                )
            if linux is not None:
                finding = with_patches(finding, linux, folder, log)
            findings.append(finding)
        _tables(findings, folder)
        host = hosts.describe()
        (folder / "host.json").write_text(json.dumps(host, indent=1) + "\n")
        (folder / "report.txt").write_text(text.plain_report(findings, host, linux))
        log("drawing the page")
        arguments = Arguments(
            tuple(kernel_ids), sizes, quick, microarch, linux.note if linux else "", tree
        )
        (folder / "index.html").write_text(render(findings, host, arguments, histogram))
    log(f"written: {out / 'report.txt'}, {out / 'index.html'}")
    return findings


def _selected(kernel_ids: Sequence[str], microarch: str | None) -> list[Kernel]:
    """Return the named kernels, or all of the ISAs of the cores.

    InputError for an unknown kernel or core, and for one without a counterpart of its ISA.
    """
    cores = microarchs.select(microarch)
    if not kernel_ids:
        isas = {core.isa for core in cores}
        return [kernel for kernel in kernels.every() if kernel.isa in isas]
    named = [kernels.load(kernel_id) for kernel_id in dict.fromkeys(kernel_ids)]
    for kernel in named:
        microarchs.select(cores_of(kernel, microarch), kernel.isa)
    for core in cores if microarch not in (None, "all") else ():
        if core.isa not in {kernel.isa for kernel in named}:
            raise InputError(f"{core.id} is {core.isa}, and no kernel named is; leave it out")
    return named


def _beside_tree(
    kernel: Kernel, linux: trees.Found | None
) -> AbstractContextManager[tuple[Kernel, dict[str, str]]]:
    """Return a kernel with the tree's own functions, and a sentence on them by routine."""
    if linux is None or linux.path is None:
        return nullcontext((kernel, {}))
    return against(kernel, trees.read(linux.path))


def _tables(findings: list[Finding], folder: Path) -> None:
    tables = {
        "predictions": [f.study.predictions for f in findings],
        "checks": [f.study.checks for f in findings],
        "measurements": [f.study.measurements for f in findings],
        "compare": [f.table for f in findings],
        "recommendations": [f.recommendation for f in findings],
        "bands": [f.bands for f in findings],
        "calls": [f.calls for f in findings],
        "alignment": [f.sweep for f in findings],
        "assumptions": [f.assumed for f in findings],
    }
    for name, parts in tables.items():
        if filled := [part for part in parts if not part.empty]:
            whole = pd.concat(filled, ignore_index=True)
            whole = whole.drop(columns="raw", errors="ignore")  # the results store has them
            whole.to_csv(folder / f"{name}.csv", index=False)


HERE = "*"  # marks this machine's core in the verdicts
_BY_CORE = (Kind.SPLIT, Kind.OPEN, Kind.CONTESTED)
_WORDS = {
    Kind.WINNER: "ship",
    Kind.SPLIT: "split",
    Kind.OPEN: "open",
    Kind.CONTESTED: "contested",
    Kind.BASELINE: "keep",
    Kind.SHORT: "unknown",
    Kind.SILENT: "unknown",
}


@dataclass(frozen=True)
class RoutineVerdict:
    """A routine's verdict: its word, the rest of the sentence, and its verdicts by core.

    word is "ship", "split", "open", "contested", "keep" or "unknown". cores has for cores, and
    conditions on them, the variants that win there by size, or "open".
    """

    kernel: str
    routine: str
    word: str
    sentence: str
    cores: tuple[tuple[str, str], ...]

    @property
    def section(self) -> str:
        """The id of the section with the details."""
        return kernel_name(self.kernel)


def kernel_name(kernel: str) -> str:
    """Return the id of a kernel's section on the page."""
    return kernel.replace("/", "-").replace("_", "-")


def verdicts(findings: Sequence[Finding]) -> list[RoutineVerdict]:
    """Return the verdict on every routine of a report."""
    return [
        _verdict(finding, {str(key): value for key, value in row.items()})
        for finding in findings
        for row in finding.recommendation.to_dict("records")
    ]


def _verdict(finding: Finding, row: dict[str, object]) -> RoutineVerdict:
    routine, winner, baseline = (str(row[key]) for key in ("routine", "winner", "baseline"))
    bands = finding.bands
    if len(bands):
        bands = bands[(bands["routine"] == routine) & (bands["microarch"] != EVERY)]
    kind = Kind(str(row["answer"]))
    if kind is Kind.WINNER:
        sentence = f"{winner}, {row['margin_percent']:+.0f} % against {baseline}"
    elif kind is Kind.BASELINE:
        sentence = f"{baseline}: no variant is proven faster"
    elif kind in _BY_CORE:
        sentence = f"against {baseline}"
    else:
        sentence = str(kind)
    cores = tuple(_cores(bands)) if kind in _BY_CORE and len(bands) else ()
    word = _WORDS[kind]
    return RoutineVerdict(finding.kernel.id, routine, word, sentence, cores)


def _cores(bands: pd.DataFrame) -> list[tuple[str, str]]:
    """Return cores with the wins and contested wins on them by size, then those where it is open.

    The list is empty if it is open on all of them. Cores with the same bands share an entry, and
    a condition that changes nothing has none. HERE marks this machine's core.
    """
    text_of: dict[tuple[str, str], str] = {}
    for (core, condition), mine in bands.groupby(["microarch", "condition"], sort=False):
        records = mine.to_dict("records")
        parts = _bands([band for band in records if band["status"] in (WINS, CONTESTED)])
        is_open = OPEN in set(mine["status"]) and not condition
        text_of[str(core), str(condition)] = ", ".join(parts) or ("open" if is_open else "")
    of_text: dict[str, list[str]] = {}
    for (core, condition), won in text_of.items():
        if won and not (condition and won == text_of.get((core, ""))):
            name = hosts.marked(str(core), HERE)
            where = f"{name} if {condition}" if condition else name
            of_text.setdefault(won, []).append(where)
    if set(of_text) == {"open"}:  # the verdict says so
        return []
    order = sorted(of_text, key=lambda won: won == "open")
    return [(", ".join(of_text[won]), won) for won in order]


def _bands(won: Sequence[Mapping[Hashable, object]]) -> list[str]:
    """Return variants with the sizes at which each wins, or is contested."""
    sizes: dict[str, list[str]] = {}
    for band in won:
        low, high = band["from_bytes"], band["to_bytes"]
        mark = " contested" if band["status"] == CONTESTED else ""
        sizes.setdefault(f"{band['variant']}{mark}", []).append(
            f"{low}" if low == high else f"{low}-{high}"
        )
    return [f"{variant} {', '.join(ranges)} B" for variant, ranges in sizes.items()]


LEFT, RIGHT = -50, 150  # ends of the axis, percent
TICKS = (0, 50, 100)
_KEYS = ["kernel", "variant", "baseline", "machine", "scope"]


@dataclass(frozen=True)
class Pair:
    """A pair of variants on a machine: texts, and marks as positions in percent of the axis.

    predicted_at has the ends of the predicted range, None if there is no prediction. cut is True
    if a mark lies beyond the axis and is drawn at its end.
    """

    name: str
    where: str
    published: str
    predicted: str
    published_at: tuple[float, ...]
    predicted_at: tuple[float, float] | None
    cut: bool

    @property
    def label(self) -> str:
        """The row in words."""
        return f"{self.name}, {self.where}: published {self.published}, predicted {self.predicted}"


def at(percent: float) -> float:
    """Return the position of a speed-up on the axis, in percent of its length."""
    return round(100 * (min(max(percent, LEFT), RIGHT) - LEFT) / (RIGHT - LEFT), 2)


def pairs(
    findings: Sequence[Finding], figures: pd.DataFrame, answers: Sequence[ThreadAnswer]
) -> list[Pair]:
    """Return the rows of a report's kernels; figures is what loopwright.published returns."""
    kernel_ids = {finding.kernel.id for finding in findings}
    compared = figures[
        figures["percent"].notna()
        & figures["retracted"].eq("")
        & figures["kernel"].isin(kernel_ids)
    ]
    of_thread = {(a.thread.kernel, a.thread.variant, a.thread.against): a for a in answers}
    return [
        _pair(mine, of_thread.get((str(key[0]), str(key[1]), str(key[2]))))
        for key, mine in compared.groupby(_KEYS, sort=False)
    ]


def _pair(rows: pd.DataFrame, answer: ThreadAnswer | None) -> Pair:
    first = rows.iloc[0]
    published = [float(value) for value in rows["percent"]]
    predicted = [float(value) for value in rows["predicted"].dropna()]
    core = first["predicted_on"]
    prediction = f"{speed_range(predicted)} ({first['kind']}, {core})" if predicted else ""
    if answer and answer.verdict and answer.verdict.core == core and first["kind"] != "loop":
        # The range over what nobody has measured of the core.
        speed = answer.verdict.speed
        predicted += [100 * (ratio - 1) for ratio in (speed.low, speed.high)]
        prediction = f"{speed_range(predicted)} (call, {core})"
    ends = (min(predicted), max(predicted)) if predicted else None
    return Pair(
        name=f"{first['variant']} against {first['baseline']}",
        where=f"{first['machine']}, {first['scope']}",
        published=speed_range(published),
        predicted=prediction or f"none: {first['error']}",
        published_at=tuple(sorted({at(value) for value in published})),
        predicted_at=(at(ends[0]), at(ends[1])) if ends else None,
        cut=any(not LEFT <= value <= RIGHT for value in (*published, *predicted)),
    )


def timeline_data(findings: list[Finding], arguments: Arguments) -> str:
    """Return the timelines as JSON that may stand in a script element.

    words holds every text; a timeline's rows are those of html.uop, with the number of the
    instruction's text behind that of the instruction.
    """
    words = Words()
    timelines = []
    for finding in findings:
        for timeline in finding.timelines:
            command = arguments.figure(
                finding.kernel.id,
                timeline.variant,
                timeline.microarch,
                SIMULATOR,
                str(timeline.offset),
            )
            if " predict " in command:
                command += f" --timeline {ITERATIONS}"
            timelines.append(
                {
                    "kernel": finding.kernel.id,
                    "variant": timeline.variant,
                    "core": timeline.microarch,
                    "offset": timeline.offset,
                    "why": timeline.why,
                    "cycles": round(timeline.cycles, 2),
                    "again": command,
                    "rows": list(_uops(timeline, words)),
                }
            )
    origin = model_versions()[SIMULATOR]
    return script_data({"origin": origin, "words": words.all, "timelines": timelines})


def _uops(timeline: Timeline, words: Words) -> Iterator[list[int | None]]:
    for row in Rows.of_frame(timeline.rows).records():
        iteration, instruction, *rest = uop(row, words)
        yield [iteration, instruction, words.number(" ".join(row["text"].split())), *rest]


def render(
    findings: list[Finding],
    host: dict[str, object],
    arguments: Arguments,
    histogram: Histogram | None,
) -> str:
    """Return the page. host is what hosts.describe returns."""
    order = [thread.id for thread in threads()]
    answers = [answer for finding in findings for answer in finding.answers]
    answers.sort(key=lambda answer: order.index(answer.thread.id))
    routine_verdicts = verdicts(findings)
    facets = _facets(findings)
    return rendered(
        "page.html.j2",
        scripts=("folds.js", "filters.js", "sorting.js", "timeline.js", "moments.js"),
        version=VERSION,
        arguments=arguments,
        host=host,
        clocks=clocks(findings),
        unmeasured=sorted({f.study.unmeasured for f in findings} - {""}),
        sources=sorted({str(s) for f in findings for s in f.study.sources}),
        versions=model_versions(),
        answers=answers,
        verdicts=routine_verdicts,
        here=HERE if any(HERE in core for v in routine_verdicts for core, _ in v.cores) else "",
        pairs=pairs(findings, published(), answers),
        ticks=[(tick, at(tick)) for tick in TICKS],
        sentences_of={head: key for head, key in SENTENCES.items() if key != "bands"},
        statements=statements,
        parts=[_part(f, arguments, histogram) for f in findings],
        scatters=list(kernel_section.scatters(findings)),
        accuracy=_accuracy(findings),
        facets=facets,
        ports=kernel_section.ports([c for c in facets["core"] if c in microarchs.ids()]),
        timelines=timeline_data(findings, arguments),
    )


def _part(finding: Finding, arguments: Arguments, histogram: Histogram | None) -> dict[str, Any]:
    """Return the section of a kernel by the template's names."""
    name = kernel_name(finding.kernel.id)
    costs = kernel_section.costs(finding)
    return {
        "name": name,
        "kernel": finding.kernel,
        "finding": finding,
        "judged": finding.recommendation.to_dict("records"),
        "strips": list(kernel_section.strips(finding, name)),
        "bands": kernel_section.bands(finding, name),
        "throughput": list(kernel_section.throughput_bars(finding, name)),
        "throughput_table": kernel_section.throughput_table(finding, arguments, name),
        "steps": kernel_section.steps(finding, name),
        "silent": kernel_section.missing_figures(finding, name),
        "assumed": kernel_section.assumed(finding, name),
        "heat_maps": list(kernel_section.heat_maps(finding, name)),
        "boundaries": kernel_section.boundaries(finding, arguments, name),
        "curves": list(kernel_section.curves(finding, costs, histogram, name)),
        "cheapest": kernel_section.cheapest(finding, costs, name),
        "calls": kernel_section.calls(finding, arguments, name),
        "contract": kernel_section.contract(finding, name),
    }


def _accuracy(findings: list[Finding]) -> Grid | None:
    """Return the accuracy of each model on each core with measurements."""
    pairs = cross_validation.pairs(pd.concat([f.table for f in findings], ignore_index=True))
    if pairs.empty:
        return None
    measured_on = pairs.drop_duplicates("microarch").set_index("microarch")

    def origin(row: Row) -> str:
        machine = measured_on.loc[row["microarch"]]
        measured = f"{machine['machine']}, {machine['clock']}"
        return f"{origin_of(row['source'], '', '')} against {measured}"

    return grid(
        "accuracy",
        "How far the models are from what was measured",
        cross_validation.summary(pairs),
        [
            core_column(), column("model", "source"), column("loops", digits=0),
            column("MAPE, %", "mape_percent", 1), column("Kendall's tau", "kendall_tau", 2),
            column("farthest off, %", "worst_percent", 1, sign=True), column("origin", origin),
        ],
        lambda row: {"core": row["microarch"], "model": row["source"]},
    )  # fmt: skip


def _facets(findings: list[Finding]) -> dict[str, list[str]]:
    """Return the values of each filter, in the order of the tables."""
    whole = pd.concat([f.table for f in findings], ignore_index=True)
    return {
        "kernel": [f.kernel.id for f in findings],
        "core": [str(c) for c in whole["microarch"].unique()],
        "model": [*model_versions(), "measured"],
        "variant": [f"{f.kernel.id}/{name}" for f in findings for name in f.kernel.variants],
        "notion": [str(n) for n in whole["notion"].dropna().unique()],
    }
