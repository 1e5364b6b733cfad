"""Hold the simulator to what threads published of calls and workloads: validation/threads.md.

usage: python validation/threads.py [-o FILE]   (part of make validate)
"""

import argparse
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import markdown_table

from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.judging.published import PublishedFigure, figures, routine_cycles, table
from loopwright.predicting.calls import CallCost, CallQuestion, of_variants

ROOT = Path(__file__).resolve().parent.parent
NEAR = 10.0  # points of percent that a prediction may be off by

MODULE_CORE = "tsv110"
# Bytes of the L1 data cache [chips-cheese-kunpeng920]; a copy takes twice its size.
L1_BYTES = 65536
# Ranges of unmeasured cycles. AROUND: of a call's surroundings (the module's loop, checks of
# copy_to_user()), from nothing to those of a short system call. LINE: more for each 64 bytes, the
# range of core.toml. FAR: more for a line from beyond the L1 cache, from L2's 10 - 4
# [chips-cheese-kunpeng920] to the same with a TLB miss and a shared cache behind.
AROUND = range(0, 121, 5)
LINE = ("0", "0.3", "0.6", "0.8", "1.0", "1.1")
FAR = range(6, 61, 4)
ALIKE = 0.5  # points

# The parameter that decides a pair of variants, and nobody has measured.
DECIDED_BY = {("x86_64/put_event", "write_begin", "put_user_twice"): "serial.stac_clac"}
BATCH = (8, 0, 0)  # events of a call, and its alignments
# Base and highest boost clock, by AMD's product pages.
CLOCKS_GHZ = {"EPYC 7742": (2.25, 3.4)}


@dataclass(frozen=True)
class Unknowns:
    """Cycles around each call, of each 64 bytes, and of a line from beyond the L1 cache."""

    around: int = 0
    line: str = "0"
    far: int = 0

    def __str__(self) -> str:
        """Return them in words."""
        return f"{self.around} around a call, {self.line} a line, {self.far} a line beyond L1"


def module_figures() -> list[PublishedFigure]:
    """Return the speed-ups of calls that a test module timed."""
    published = figures("arm64/copy_user", MODULE_CORE)
    return [f for f in published if f.scope == "call" and f.microarch == MODULE_CORE]


def far_share(figure: PublishedFigure) -> float:
    """Return the share of both buffers that does not fit into the L1 cache."""
    assert figure.size_bytes is not None
    return max(0.0, 1 - L1_BYTES / (2 * figure.size_bytes))


def speedup(figure: PublishedFigure, unknowns: Unknowns) -> float:
    """Return the predicted speed-up of calls in percent."""
    overrides = {"memory.stream_line_cycles": unknowns.line} if float(unknowns.line) else {}
    if miss := round(unknowns.far * far_share(figure)):
        overrides["memory.miss_cycles"] = str(miss)
    variant_cycles, baseline_cycles = (
        routine_cycles(figure, variant, overrides) + unknowns.around
        for variant in (figure.variant, figure.baseline)
    )
    return 100 * (baseline_cycles / variant_cycles - 1)


def best(published: Sequence[PublishedFigure]) -> Unknowns:
    """Return the unknowns that suit figures best: the least mean error in points.

    Calls within the L1 cache choose the first two, the others the third: the least wait of those
    that suit them alike.
    """

    def error(group: Iterable[PublishedFigure], unknowns: Unknowns) -> float:
        return fmean(abs(speedup(f, unknowns) - _percent(f)) for f in group)

    near = [f for f in published if far_share(f) == 0]
    choices = (Unknowns(*both) for both in itertools.product(AROUND, LINE))
    chosen = min(choices, key=lambda u: error(near, u))
    if far := [f for f in published if far_share(f)]:
        far_choices = [Unknowns(chosen.around, chosen.line, n) for n in FAR]
        errors = [error(far, u) for u in far_choices]
        chosen = next(
            u for u, e in zip(far_choices, errors, strict=True) if e <= min(errors) + ALIKE
        )
    return chosen


def _percent(figure: PublishedFigure) -> float:
    assert figure.percent is not None
    return figure.percent


@dataclass(frozen=True)
class ModuleRow:
    """A published call: predicted with the unknowns of the other routine's rows, and with none."""

    figure: PublishedFigure
    unknowns: Unknowns
    predicted: float
    alone: float

    @property
    def published(self) -> float:
        """The published speed-up in percent."""
        return _percent(self.figure)

    @property
    def miss(self) -> float:
        """The error of the prediction in points."""
        return self.predicted - self.published


def module_rows() -> list[ModuleRow]:
    """Return all calls of the test module, each predicted by the other routine's unknowns."""
    published = module_figures()
    chosen = {
        variant: best([f for f in published if f.variant != variant])
        for variant in dict.fromkeys(f.variant for f in published)
    }
    return [
        ModuleRow(f, chosen[f.variant], speedup(f, chosen[f.variant]), speedup(f, Unknowns()))
        for f in published
    ]


@dataclass(frozen=True)
class SystemCall:
    """A system call timed with two variants: the time saved, and the predicted cycles saved.

    predicted is the speed-up in percent at the median clock_ghz of rows of other sizes.
    """

    figure: PublishedFigure
    saved_us: float
    cycles: float
    predicted: float

    @property
    def clock_ghz(self) -> float:
        """The clock at which the predicted cycles are the time saved."""
        return self.cycles / self.saved_us / 1000


def system_calls() -> list[SystemCall]:
    """Return timed system calls as differences, in which the call's own cost cancels."""
    saved = {
        f: (
            f.before - f.after,
            routine_cycles(f, f.baseline) - routine_cycles(f, f.variant),
        )
        for f in table()
        if f.scope == "system call" and f.unit == "us" and f.baseline
        if f.before is not None and f.after is not None
    }
    calls = []
    for f, (saved_us, cycles) in saved.items():
        others = [c / u for g, (u, c) in saved.items() if g.size_bytes != f.size_bytes]
        assert f.after is not None
        predicted = 100 * (cycles / median(others)) / f.after
        calls.append(SystemCall(f, saved_us, cycles, predicted))
    return calls


def workloads() -> list[PublishedFigure]:
    """Return the speed-ups of workloads, which bound those of the routines in them."""
    return [
        f
        for f in table()
        if f.scope == "workload" and f.baseline and f.variant and f.percent is not None
    ]


@dataclass(frozen=True)
class Needed:
    """The least value of a parameter that gives a routine the speed-up of a lower bound.

    value is None where none in the range, from least to most, does.
    """

    parameter: str
    least: int
    most: int
    value: int | None


def needed(figure: PublishedFigure) -> Needed | None:
    """Return the value of the deciding parameter that meets a bound; None if no parameter decides.

    It is None, too, where the figure has no lower bound or the parameter no range.
    """
    parameter = DECIDED_BY.get((figure.kernel, figure.variant, figure.baseline))
    if parameter is None or figure.low_percent is None:
        return None
    entry = microarchs.load(figure.own_core).entry(parameter)
    if "low" not in entry:
        return None
    low, high = int(entry["low"]), int(entry["high"])
    values = range(low, high + 1)
    least_value = next((value for value in values if _meets(figure, parameter, value)), None)
    return Needed(parameter, low, high, least_value)


def _meets(figure: PublishedFigure, parameter: str, value: int) -> bool:
    variants = kernels.load(figure.kernel).variants
    core = microarchs.load(figure.own_core)
    overrides = {parameter: str(value)}
    questions = [
        CallQuestion(variants[name], core, [BATCH], overrides)
        for name in (figure.variant, figure.baseline)
    ]
    [[new], [old]] = of_variants(questions)
    for cost in (new, old):
        if isinstance(cost, InputError):
            raise cost
    assert isinstance(new, CallCost)
    assert isinstance(old, CallCost)
    assert figure.low_percent is not None
    return 100 * (old.cycles / new.cycles - 1) >= figure.low_percent


def main() -> None:
    """Compare, and write the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("-o", type=Path, default=ROOT / "validation" / "threads.md", metavar="FILE")
    path: Path = parser.parse_args().o
    path.write_text("\n".join(_page()))
    print(path.read_text())


def _page() -> Iterator[str]:
    yield "# Published figures of the threads, beside predictions\n"
    yield (
        "Speed-ups in percent of a variant over its baseline. The figures and their sources are in "
        "`validation/published.csv`. Nothing is fitted to a row that it is compared with.\n"
    )
    yield from _module()
    yield from _system_calls()
    yield from _workloads()


def _module() -> Iterator[str]:
    rows = module_rows()
    yield f"## Calls that a test module timed ({rows[0].figure.machine}, {MODULE_CORE})\n"
    yield (
        "The module copies between two buffers of 256 KiB, always their first bytes. Three numbers "
        "of cycles are not known: around each call, for each 64 bytes, and for a line from beyond "
        "the L1 cache of 64 KiB (the share of lines that come from there is what of both buffers "
        "does not fit). For each routine they are taken from the rows of the other routine, the "
        f"wait for far lines as the least that is within {ALIKE} points of the best; "
        "`call alone` takes none.\n"
    )
    yield from _table(
        ["variant", "bytes", "published", "from the other routine", "miss", "call alone"],
        (
            [
                r.figure.variant,
                str(r.figure.size_bytes),
                *(f"{percent:+.1f}" for percent in (r.published, r.predicted, r.miss, r.alone)),
            ]
            for r in rows
        ),
    )
    alone = [abs(r.alone - r.published) for r in rows]
    for name, misses in (
        ("from the other routine", [abs(r.miss) for r in rows]),
        ("call alone", alone),
    ):
        yield (
            f"- {name}: mean miss {fmean(misses):.1f} points, "
            f"{sum(m <= NEAR for m in misses)} of {len(misses)} within {NEAR:.0f} points."
        )
    for variant, unknowns in dict.fromkeys((r.figure.variant, r.unknowns) for r in rows):
        yield f"- cycles that {variant} is predicted with: {unknowns}."
    yield ""


def _system_calls() -> Iterator[str]:
    rows = system_calls()
    first = rows[0].figure
    yield f"## System calls, by differences ({first.machine}, {first.microarch})\n"
    yield (
        f"Predicted for {first.own_core}. What a system call takes besides the routine is the same "
        "for both variants, and cancels in the difference. A read of /dev/zero clears a page at a "
        "time. `clock` makes the predicted cycles the time saved; "
        "the thread does not name it. `predicted` uses the median clock of the rows of other "
        "sizes, and the published time of the faster variant.\n"
    )
    yield from _table(
        ["variant", "benchmark", "saved, us", "cycles", "clock, GHz", "published", "predicted",
         "miss"],
        (
            [
                r.figure.variant,
                r.figure.quantity,
                f"{r.saved_us:.4f}",
                f"{r.cycles:.0f}",
                f"{r.clock_ghz:.2f}",
                f"{r.figure.percent:+.1f}",
                f"{r.predicted:+.1f}",
                f"{r.predicted - _percent(r.figure):+.1f}",
            ]
            for r in rows
        ),
    )  # fmt: skip
    misses = [abs(r.predicted - _percent(r.figure)) for r in rows]
    clocks = [r.clock_ghz for r in rows]
    yield (
        f"- mean miss {fmean(misses):.1f} points, at most {max(misses):.1f}; "
        f"clocks {min(clocks):.2f} to {max(clocks):.2f} GHz.\n"
    )


def _workloads() -> Iterator[str]:
    rows = workloads()
    yield "## Workloads: bounds of the routine's own speed-up\n"
    yield (
        "A workload contains the routine and more. If all but the routine is the same for both "
        "variants, the routine gains, or loses, at least as much as the workload. A published "
        "share of the cycles makes the bound tighter; what that assumes stands below.\n"
    )
    yield from _table(
        ["variant", "baseline", "machine", "quantity", "condition", "published", "routine"],
        (
            [
                f.variant,
                f.baseline,
                f.machine,
                f.quantity,
                f.condition,
                f"{f.percent:+.1f}",
                f.bound,
            ]
            for f in rows
        ),
    )
    for f in rows:
        if f.share_before is not None:
            yield f"- {f.variant} in {f.quantity}, {f.bound}: if {f.assumption}."
        if bound := needed(f):
            possible = f"it may be {bound.least} to {bound.most}"
            values = f"from {bound.value} on" if bound.value else "at no value of its range"
            yield (
                f"- {f.variant} in {f.quantity}: the simulator agrees with the bound where "
                f"`{bound.parameter}` is {values} ({possible})."
            )
    yield from _saved(rows)


def _saved(rows: Iterable[PublishedFigure]) -> Iterator[str]:
    """Yield the savings for each 64 bytes, in time and in cycles of the machine's clocks."""
    timed = [f for f in rows if f.saved_ns_per_line is not None and f.machine in CLOCKS_GHZ]
    for name in dict.fromkeys(f.quantity for f in timed):
        group = [f for f in timed if f.quantity == name]
        saved = [f.saved_ns_per_line or 0.0 for f in group]
        slow, fast = CLOCKS_GHZ[group[0].machine]
        yield (
            f"- {group[0].variant}, {name}: {min(saved):.1f} to {max(saved):.1f} ns saved for each "
            f"64 bytes, {slow * min(saved):.0f} cycles at {slow} GHz to "
            f"{fast * max(saved):.0f} at {fast} GHz ({group[0].machine}), if all is the copy's."
        )
    yield ""


def _table(heads: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield markdown_table.table(heads, rows)
    yield ""


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/threads.py: {error}") from None
