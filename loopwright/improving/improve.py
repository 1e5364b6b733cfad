"""Verb improve: better code for a variant's contract, searched, proven and measured."""

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loopwright import files, histogram, kernels, toolchain
from loopwright.checking import check
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.improving import costs, family, lifting, listing
from loopwright.improving.costs import Candidate, Question
from loopwright.improving.journal import Journal, digest_of
from loopwright.improving.listing import Listing
from loopwright.improving.search import Search, Settings, search
from loopwright.improving.transformations import TRANSFORMATIONS
from loopwright.judging import call_costs
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.measuring import measure
from loopwright.microarchs import Microarch
from loopwright.predicting import models
from loopwright.predicting.question import variant_subject
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "kernel",
    "candidate",
    "step",
    "transformation",
    "microarch",
    "cycles",
    "worst",
    "gain",
    "bytes",
    "status",
    "note",
)
_TYPES = dict.fromkeys(("cycles", "worst", "gain"), "float64")
SHOWN = 3
_BEATS = 1.05
_SLOWER = 0.02
_NEAR = 0.03
_MEASURED_SIZES = (64, 256, 1024, 4096)

Progress = Callable[[int, int | None, str], None]


@dataclass
class Found:
    """Result of a search: rows, the files written, and a summary in words.

    rows have, for each shown candidate and each core, a row for the original variant (step 0) and
    one for each transformation: cycles of a call, mean and worst over code offsets, gain over the
    previous step, and bytes of code. status is "baseline", "proven" (a candidate's last step, which
    passed the contract checker), "measured" (and this machine confirms the gain), or "withdrawn"
    (this machine does not).
    """

    rows: Rows
    files: Sequence[Path] = ()
    said: list[str] = field(default_factory=list)
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
    """Search better code for KERNEL/VARIANT; a row a step of each candidate on each core.

    microarch names the cores (default: the targets), sizes a histogram. out is a folder for the
    candidates as variants of their kernel. tried is the limit of simulated candidates. With
    measured off nothing is timed. state is a folder for simulated costs, from which an interrupted
    search resumes with the same result. attrs["said"] has a summary in words.
    """
    found = answer(
        spec,
        microarch=microarch,
        sizes=sizes,
        out=out,
        parameters=parameters,
        measured=measured,
        settings=Settings(tried=tried, seed=seed),
        state=state,
    )
    table = found.rows.frame()
    table.attrs["said"] = found.said
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
) -> Found:
    """Answer improve; see `improve`."""
    variant = _variant(spec)
    kernel = kernels.load(variant.kernel)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        question = Question(
            variant,
            costs.cores(microarch, kernel.isa),
            histogram.read(sizes) if sizes else None,
            parameters or {},
            Path(scratch),
        )
        if out is not None:
            files.made_folder(out)  # refuse now, not after a search
        base = _base(question, read(variant))
        hand = question.of_variants(
            v for v in kernel.of_routine(variant.routine) if v.name != variant.name
        )
        journal = None
        if state is not None:
            about = digest_of(question.cores, question.settings, base.digest, question.places)
            journal = Journal(state / f"{variant.id.replace('/', '_')}.jsonl", about)
        found = search(question, base, TRANSFORMATIONS, settings, progress, journal)
        return _told(question, found, hand, out, measured=measured, progress=progress)


def _base(question: Question, start: Listing) -> Candidate:
    """Return the unchanged variant, with the listing that the search begins from."""
    [found] = question.of_variants([question.variant]).values()
    return replace(costs.usable(question, found), listing=start)


def _variant(spec: str) -> Variant:
    """Return the variant to improve; of a kernel with one routine, its baseline."""
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
    """Return a variant's listing: from its text if that is plain assembly, else from its code."""
    contract = kernels.contract_of(variant)
    isa = kernels.load(variant.kernel).isa
    if variant.source.suffix == ".S" and isa == "x86_64":
        return listing.parse(variant.source.read_text(), contract, isa)
    return lifting.lift(assemble.variant_code(variant), contract)


def _told(
    question: Question,
    found: Search[Candidate],
    hand: Mapping[str, Candidate | InputError],
    out: Path | None,
    *,
    measured: bool,
    progress: Progress | None,
) -> Found:
    """Prove, measure and write the best candidates, and describe them."""
    proven, refused = _proven(found, progress)
    name = question.variant.name
    labels = [f"{name}_improved{n if n > 1 else ''}" for n in range(1, len(proven) + 1)]
    named = dict(zip(labels, proven, strict=True))
    said = [f"cycles a call: {question.said}; pipeline simulator; in parentheses the worst offset"]
    status = dict.fromkeys(named, "proven")
    notes = dict.fromkeys(named, "")
    if measured and named and not found.interrupted:
        _measure(question, named, status, notes, progress)
    rows = [
        row
        for label, one in named.items()
        for row in _rows(question, found, label, one, status[label], notes[label])
    ]
    if not named:
        rows = list(_rows(question, found, name, found.base, "baseline", ""))
    said += [line for label, one in named.items() for line in _slower(found, label, one)]
    said += list(_hand_written(question, found, hand, proven))
    alike = _alike(question, hand)
    if alike:
        said.append(_beaten(question, found.base, alike, proven))
    said += [f"withdrawn: {notes[label]}" for label in named if status[label] == "withdrawn"]
    said += [f"refused by the contract checker: {why}" for why in refused]
    said += list(_bounds(question, proven[0] if proven else found.base))
    dropped = sum(found.dropped.values())
    said.append(
        f"{found.tried} candidates simulated"
        + (f", {dropped} of them without a figure on some core" if dropped else "")
        + (", interrupted: the best so far" if found.interrupted else "")
    )
    said += [f"without a figure: {why} ({n} times)" for why, n in found.dropped.items()]
    keep = {label: one for label, one in named.items() if status[label] != "withdrawn"}
    written: Sequence[Path] = ()
    if out is not None and keep:
        how = {label: _how(question, found, one) for label, one in keep.items()}
        paths = {label: found.path(one) for label, one in keep.items()}
        written = family.write(out, question.variant, paths, how)
    fastest = {core.id: _fastest(alike, core) for core in question.cores} if alike else {}
    return Found(Rows(COLUMNS, rows, _TYPES), written, said, found.interrupted, fastest)


_LEAST_GAIN = 0.01
_MOST_REFUSED = 6


def _proven(
    found: Search[Candidate], progress: Progress | None
) -> tuple[list[Candidate], list[str]]:
    """Return the best candidates that honour the contract, and what others violated.

    The next best candidate replaces a refused one.
    """
    proven: list[Candidate] = []
    refused: dict[str, str] = {}
    while len(proven) < SHOWN and len(refused) < _MOST_REFUSED:
        better = (
            one
            for one in found.pareto(refused)
            if one not in proven and max(found.robust(one).values()) > 1 + _LEAST_GAIN
        )
        if (one := next(better, None)) is None:
            break
        if progress:
            progress(len(proven), SHOWN, "proving")
        rows = check.run([one.variant])
        if check.holds(rows, [one.variant]):
            proven.append(one)
        else:
            why = rows["failure"].iloc[0] or f"coverage: {rows['coverage'].iloc[0]}"
            refused[one.digest] = f"{'; '.join(one.listing.steps)}: {why}"
    return proven, list(refused.values())


def _rows(
    question: Question, found: Search[Candidate], label: str, one: Candidate, status: str, note: str
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of one candidate, one per step and core."""
    out = []
    path = found.path(one)
    for n, (stage, new) in enumerate(zip(path, family.new_steps(path), strict=True)):
        for core in question.cores:
            cost = stage.costs[core.id]
            before = path[n - 1].costs[core.id] if n else cost
            last = stage is one
            out.append(
                (
                    question.variant.kernel,
                    label,
                    n,
                    "; ".join(new) if n else question.variant.name,
                    core.id,
                    round(cost.mean, 2),
                    round(cost.worst, 2),
                    round(before.mean / cost.mean, 3),
                    stage.bytes,
                    "baseline" if not n else status if last else "",
                    note if last and n else "",
                )
            )
    return out


def _slower(found: Search[Candidate], label: str, one: Candidate) -> Sequence[str]:
    """List the sizes at which a candidate is slower than the original variant."""
    out = []
    for core, cost in one.costs.items():
        before = found.base.costs[core].sizes
        worse = {
            size: 100 * (cycles / before[size] - 1)
            for size, cycles in cost.sizes.items()
            if cycles > before[size] * (1 + _SLOWER)
        }
        if worse:
            sizes = ", ".join(f"{size} B by {percent:.0f} %" for size, percent in worse.items())
            out.append(f"{label} is slower on {core} at {sizes}")
    return out


def _hand_written(
    question: Question,
    found: Search[Candidate],
    hand: Mapping[str, Candidate | InputError],
    proven: Sequence[Candidate],
) -> Sequence[str]:
    """Compare the family's best hand-written variant with the candidates on each core.

    A variant that needs a feature switched off is named apart, as it does not do the same
    everywhere.
    """
    known = {name: one for name, one in hand.items() if isinstance(one, Candidate)}
    alike = _alike(question, hand)
    out = []
    for core in question.cores:
        least = min(one.costs[core.id].mean for one in (*proven, found.base))
        if alike:
            name, cycles = _fastest(alike, core)
            near = abs(least / cycles - 1) <= _NEAR
            beside = "alike" if near else f"{cycles / least:.2f} times as fast"
            missing = "; no transformation leads there" if least > cycles * (1 + _NEAR) else ""
            out.append(
                f"{core.id}: the family's fastest other variant is {name}, {cycles:.1f} cycles; "
                f"the best found takes {least:.1f} ({beside}{missing})"
            )
        apart = {name: one for name, one in known.items() if name not in alike}
        if apart and (other := _fastest(apart, core))[1] < least * (1 - _NEAR):
            needs = " and ".join(known[other[0]].variant.switched_off) or "nothing"
            out.append(
                f"{core.id}: {other[0]} takes {other[1]:.1f} cycles where {needs} is switched off; "
                "no transformation leads there"
            )
    return out


def _alike(
    question: Question, hand: Mapping[str, Candidate | InputError]
) -> Mapping[str, Candidate]:
    """Return the hand-written variants that do the same with the same features switched off."""
    mine = question.variant.switched_off
    return {
        name: one
        for name, one in hand.items()
        if isinstance(one, Candidate) and one.variant.switched_off == mine
    }


def _fastest(known: Mapping[str, Candidate], core: Microarch) -> tuple[str, float]:
    """Return the name and the cycles of the fastest candidate on a core."""
    costs = {name: one.costs[core.id].mean for name, one in known.items()}
    name = min(costs, key=lambda one: costs[one])
    return name, costs[name]


def _beaten(
    question: Question, base: Candidate, hand: Mapping[str, Candidate], proven: Sequence[Candidate]
) -> str:
    """List the cores on which a candidate is as much faster than all hand-written code."""
    best: list[str] = []
    for one in proven:
        faster = [
            core.id
            for core in question.cores
            if _fastest({**hand, "": base}, core)[1] >= one.costs[core.id].mean * _BEATS
        ]
        best = max(best, faster, key=len)
    where = f"on {', '.join(best)}" if best else "on no core"
    return f"a candidate is 5 % faster than every hand-written variant or more {where}"


def _bounds(question: Question, one: Candidate) -> Iterator[str]:
    """Describe the distance of the main loop from its lower bound on each core."""
    for core in question.cores:
        loop = main_loop(one.variant, core, question.settings)
        if loop.cycles:
            bounds = [
                f"{within(loop.cycles, least)} of {of.format(least)}"
                for least, of in (
                    (loop.of_accesses, "what its loads and stores take in any code ({:.2f})"),
                    (loop.of_instructions, "what its ports, dispatch and dependencies do ({:.2f})"),
                )
                if least
            ]
            figure = f"the main loop takes {loop.cycles:.2f} cycles an iteration"
            yield f"{core.id}: {', '.join([figure, *bounds])}"


def within(cycles: float, least: float) -> str:
    """Describe the distance of cycles from their lower bound."""
    return f"within {max(0, math.ceil(100 * (cycles / least - 1) - 0.5))} %"


class MainLoop(NamedTuple):
    """Cycles an iteration of a main loop, and its lower bounds; None where unknown.

    of_accesses is the bound by the core's load and store ports, of_instructions the largest of the
    bounds by ports, dispatch and dependencies of the loop's instructions.
    """

    cycles: float | None = None
    of_accesses: float | None = None
    of_instructions: float | None = None


def main_loop(variant: Variant, core: Microarch, settings: Mapping[str, str]) -> MainLoop:
    """Return the figures of a variant's main loop."""
    try:
        subject = variant_subject(replace(variant, loop=""), core)
        if subject.error or subject.notion != "loop":
            return MainLoop()
        [model] = models.select(models.SIMULATOR, settings)
        [found] = model.predict([subject.block(None)], core)
    except InputError:
        return MainLoop()
    return MainLoop(found.cycles, subject.least_cycles, found.bound)


def _how(question: Question, found: Search[Candidate], one: Candidate) -> str:
    """Describe how a candidate was found, with its predicted gain on each core."""
    gains = ", ".join(f"{core} {gain:.2f}x" for core, gain in found.gains(one).items())
    return (
        f"loopwright improve {question.variant.id}: {'; '.join(one.listing.steps)}. "
        f"Predicted by the pipeline simulator, {question.said}: {gains}."
    )


def _measure(
    question: Question,
    named: Mapping[str, Candidate],
    status: dict[str, str],
    notes: dict[str, str],
    progress: Progress | None,
) -> None:
    """Measure candidates in turns with the original variant, where this machine can."""
    variant = question.variant
    isa = kernels.load(variant.kernel).isa
    if not toolchain.find(isa).native or hosts.lacks(isa, variant.needs):
        return
    asked = [variant, *(replace(one.variant, name=label) for label, one in named.items())]

    def step(done: int, total: int) -> None:
        if progress:
            progress(done, total, "measuring")

    contract = kernels.contract_of(variant)
    sizes = None if contract.fields else [*_MEASURED_SIZES]
    rows = measure.run(asked, sizes=sizes, alignments=[(0, 0)], against=variant.name, progress=step)
    base = call_costs.measured_calls(rows, variant.name)
    clocks = rows["clock"].dropna()
    here = f"{hosts.microarch() or 'this machine'}, {clocks.iloc[0] if len(clocks) else 'no clock'}"
    if left_out := check.user_space_note(variant):
        here += f", {left_out}"
    for label in named:
        pairs = call_costs.paired_calls(base, call_costs.measured_calls(rows, label))
        if not pairs:
            reasons = rows.loc[rows["variant"].isin([variant.name, label]), "reason"]
            notes[label] = unmeasured(next((one for one in reasons if one), "no point repeated"))
            continue
        ratio, low, high = call_costs.speedup(pairs, question.histogram)
        figure = f"{ratio:.2f} times as fast ({low:.2f} to {high:.2f}) as {variant.name} on {here}"
        core = hosts.microarch()
        if low > 1:
            status[label], notes[label] = "measured", f"measured {figure}"
        elif core in named[label].costs and high < 1 + _LEAST_GAIN:
            status[label] = "withdrawn"
            steps = "; ".join(named[label].listing.steps)
            notes[label] = f"{label} ({steps}): measured {figure}; the simulator was wrong there"
        else:
            notes[label] = f"measured {figure}"


# beginnings of reasons that lie in other load of the machine, not in the code
_BY_OTHERS = (
    "disturbed",
    "of no one speed",
    "slopes are inconsistent",
    "more of it takes no longer",
    "no point repeated",
    "something shares the core",
)


def unmeasured(reason: str) -> str:
    """Return a sentence on a candidate without a measurement: the cause, and the fix if known."""
    if reason.startswith("self-test failed"):
        return (
            f"not measured: other work disturbs this machine's clock ({reason}); end it, wait "
            "until `loopwright self-test` passes, and repeat the command"
        )
    if reason.startswith(_BY_OTHERS):
        return f"not measured: other work disturbs this machine ({reason}); repeat it without that"
    return f"not measured: {reason}"
