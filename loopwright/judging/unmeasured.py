"""Unmeasured parameters of a core: their break-evens, and their estimates from calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.code.assemble import PRIVILEGED
from loopwright.errors import InputError, unknown
from loopwright.judging import published as publications
from loopwright.judging.call_costs import percent
from loopwright.judging.margins import Course, sample_points
from loopwright.judging.model_accuracy import LEAST_DIFFERENCE
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import Study, used_runs
from loopwright.judging.verdicts import Case, Simulated, Simulations, Status
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.measuring.store import Run, Store
from loopwright.microarchs import Microarch, Range
from loopwright.predicting.calls import CallCost, CallQuestion, of_variants

COLUMNS = [
    "kernel", "microarch", "parameter", "value", "low", "high", "calls", "outside",
    "error_percent", "machine", "set",
]  # fmt: skip
_SAMPLES = 17  # values of a numeric parameter that are simulated
_MOVES = 0.005  # least change of a call's cycles, relative, for the call to depend on a parameter
_ALIGNMENTS = (  # by the end of a parameter's name: the alignments of calls that depend on it
    ("_odd_line_cycles", ((8, 0), (1, 0))),
    ("_rate_unaligned", ((0, 0), (8, 0))),
    ("odd_side", ((0, 8), (0, 1))),
    ("_startup", ((0, 0),)),
    ("", ((0, 0), (8, 0), (1, 0))),
)


def alignments(parameter: str) -> tuple[tuple[int, int], ...]:
    """Return the alignments of calls that depend on a parameter: (destination, source), bytes."""
    return next(pairs for end, pairs in _ALIGNMENTS if parameter.endswith(end))


@dataclass(frozen=True)
class MeasuredCall:
    """A measured call: variant, privilege level, size in bytes or records, alignment, cycles.

    offset is the code offset of its main loop (None: by its own alignment).
    """

    variant: Variant
    in_kernel: bool
    size: int
    dst: int
    src: int
    cycles: float
    offset: int | None = None

    @classmethod
    def of(cls, variant: Variant, row: Mapping[Any, Any]) -> Self:
        """Return the call of a row of measure, made in user space."""
        size = int(row["size_bytes"]) // kernels.contract_of(variant).count_bytes
        alignments = int(row["dst_align"]), int(row["src_align"])
        at = row.get("offset")
        offset = None if at is None or pd.isna(at) else int(at)
        return cls(variant, False, size, *alignments, float(row["cycles"]), offset)

    @property
    def group(self) -> tuple[str, int]:
        """The key that calls share which differ only by their alignment."""
        return self.variant.id, self.size


def estimate(spec: str, parameter: str, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the value of a parameter at which simulated calls cost the measured cycles.

    spec is KERNEL or KERNEL/VARIANT. rows are those of measure on this machine; where left out,
    those of any machine in the results store, with runs of the kernel module. There is a row for
    each core (microarch). value is the median over the calls that depend on the parameter, low and
    high the quartiles. outside counts the calls whose cycles no value of the range explains,
    error_percent is the mean error of the simulated calls at the value, set the option by which
    other verbs take it. Where a call of the same size does not depend on the parameter, its error
    is subtracted: an error of the simulator in both then cancels. InputError if no call depends
    on the parameter.
    """
    _, variants = kernels.select(spec)
    measured = _stored(variants) if rows is None else _measured(variants, parameter, rows)
    if not measured:
        raise InputError(f"{spec}: no measured calls are known; measure them first")
    out = [_row(spec, parameter, *where, calls) for where, calls in measured.items()]
    return pd.DataFrame(out, columns=COLUMNS)


def unmeasured_here(parameter: str) -> tuple[str, Range]:
    """Return this machine's core and the range of a parameter of it; InputError without either."""
    core = hosts.microarch()
    if core is None:
        raise InputError("no core.toml describes this machine; `loopwright calibrate` makes one")
    return core, _range(microarchs.load(core), parameter)


def _measured(
    variants: Sequence[Variant], parameter: str, rows: pd.DataFrame
) -> Mapping[tuple[str, str], list[MeasuredCall]]:
    core, _ = unmeasured_here(parameter)
    by_name = {v.name: v for v in variants}
    mine = rows[(rows["quantity"] == "call") & (rows["cache"] == "hot") & (rows["cycles"] > 0)]
    calls = [
        MeasuredCall.of(variant, row)
        for row in mine.to_dict("records")
        if (variant := by_name.get(row["variant"]))
    ]
    return {(core, hosts.machine()): calls} if calls else {}


def _stored(variants: Sequence[Variant]) -> Mapping[tuple[str, str], list[MeasuredCall]]:
    by_machine: dict[tuple[str, str], list[MeasuredCall]] = {}
    with closing(Store.open()) as store:
        for run, core, facts in used_runs(store):
            if calls := [c for v in variants for c in _recorded(store, run, v)]:
                by_machine.setdefault((core, hosts.machine(facts)), []).extend(calls)
    return by_machine


def _recorded(store: Store, run: Run, variant: Variant) -> Iterator[MeasuredCall]:
    code = assemble.code_hash(variant)
    own_gate = not kernels.contract_of(variant).faulting or PRIVILEGED & {*variant.alternatives}
    for record in store.records(run, variant.kernel):
        answer = record.answer
        if record.variant != variant.name or answer["refused"] or not answer["cycles"]:
            continue
        # Where its caller has stac and clac, a figure of the kernel holds what is not simulated.
        if record.object == code or (record.object == f"kernel:{code}" and own_gate):
            size, dst, src = (answer[key] for key in ("count", "dst_align", "src_align"))
            yield MeasuredCall(variant, record.object != code, size, dst, src, answer["cycles"])


def _row(
    spec: str, parameter: str, core_id: str, machine: str, calls: Sequence[MeasuredCall]
) -> list[object]:
    core = microarchs.load(core_id)
    parameter_range = _range(core, parameter)
    texts = [*dict.fromkeys(parameter_range.text(n / (_SAMPLES - 1)) for n in range(_SAMPLES))]
    if not parameter_range.numeric:
        texts = [*parameter_range.values]
    other_values = {
        other.name: other.text(0.0)
        for other in core.ranges
        if other.varied and other.likely is None and other.name != parameter
    }
    answers = [simulated(core, {**other_values, parameter: text}, calls) for text in texts]
    costs = np.array(
        [[c.cycles if isinstance(c, CallCost) else np.nan for c in of] for of in answers]
    )
    cycles = np.array([call.cycles for call in calls])
    answered = ~np.isnan(costs).any(axis=0)
    dependent = answered & (np.ptp(costs, axis=0) > _MOVES * cycles)
    if not answered.any():
        raise InputError(next(str(c) for of in answers for c in of if isinstance(c, InputError)))
    if not dependent.any():
        raise InputError(
            f"{spec}: no measured call depends on {parameter} of {core_id}; "
            "measure a variant and alignments that do"
        )
    excess = _excess(calls, costs, cycles, answered & ~dependent)[:, dependent]
    error = np.abs(excess) / cycles[dependent]
    if parameter_range.numeric and len(texts) == _SAMPLES:
        zeros, outside = _zeros(excess)
        low, value, high = (
            float(f"{parameter_range.at(float(np.quantile(zeros, share))):.4g}")
            for share in (0.25, 0.5, 0.75)
        )
        low, high = sorted((low, high))
        text = f"{value:.4g}"
        figures: tuple[object, ...] = (value, low, high)
        at = float(np.median(zeros)) * (_SAMPLES - 1)
        error_there = float(np.interp(at, range(_SAMPLES), error.mean(axis=1)))
    else:
        best = int(error.mean(axis=1).argmin())
        text = texts[best]
        figure: object = float(text) if parameter_range.numeric else text
        figures, outside, error_there = (figure, figure, figure), 0, float(error[best].mean())
    return [
        spec, core_id, parameter, *figures, int(dependent.sum()), outside, 100 * error_there,
        machine, f"--set {parameter}={text}"
    ]  # fmt: skip


def _range(core: Microarch, parameter: str) -> Range:
    varied = {known.name: known for known in core.ranges if known.varied}
    if parameter not in varied and core.entry(parameter):
        raise InputError(
            f"{parameter} of {core.id} has no range in its core.toml: it is not unmeasured"
        )
    if parameter not in varied:
        raise unknown("parameter", parameter, varied)
    return varied[parameter]


def simulated(
    core: Microarch, overrides: Mapping[str, str], calls: Sequence[MeasuredCall]
) -> list[CallCost | InputError]:
    """Return the simulated cost of measured calls on a core, or the reason why there is none.

    overrides are values of the core's parameters.
    """
    of_code: dict[tuple[str, bool, int | None], list[int]] = {}
    for n, call in enumerate(calls):
        of_code.setdefault((call.variant.id, call.in_kernel, call.offset), []).append(n)
    questions = []
    for numbers in of_code.values():
        first, user = calls[numbers[0]], not calls[numbers[0]].in_kernel
        points = [(calls[n].size, calls[n].dst, calls[n].src) for n in numbers]
        questions.append(
            CallQuestion(first.variant, core, points, overrides, first.offset, in_user_space=user)
        )
    out: dict[int, CallCost | InputError] = {}
    for numbers, answers in zip(of_code.values(), of_variants(questions), strict=True):
        out |= zip(numbers, answers, strict=True)
    return [out[n] for n in range(len(calls))]


def _excess(
    calls: Sequence[MeasuredCall],
    costs: NDArray[np.float64],
    cycles: NDArray[np.float64],
    fixed: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return simulated less measured cycles, by sample and call.

    The excess of calls of the same size that are independent of the parameter is subtracted.
    """
    excess: NDArray[np.float64] = costs - cycles
    out = excess.copy()
    for n, call in enumerate(calls):
        references = [m for m, other in enumerate(calls) if fixed[m] and other.group == call.group]
        if references and not fixed[n]:
            out[:, n] -= excess[:, references].mean(axis=1)
    return out


def _zeros(excess: NDArray[np.float64]) -> tuple[list[float], int]:
    """Return the zero of each call's excess, from 0 to 1, and the count of calls without one."""
    zeros, outside = [], 0
    last = len(excess) - 1
    for of_call in excess.T:
        turns = np.flatnonzero((of_call[:-1] > 0) != (of_call[1:] > 0))
        if len(turns):
            n = int(turns[0])
            zeros.append(float((n + of_call[n] / (of_call[n] - of_call[n + 1])) / last))
        else:
            outside += 1
            zeros.append(float(np.abs(of_call).argmin() / last))
    return zeros, outside


# Each parameter in words, and the unit of its value.
_WORDS = {
    "serial.stac_clac": ("stac or clac", "cycles"),
    "string.movs_startup": ("the start of rep movs", "cycles"),
    "string.stos_startup": ("the start of rep stos", "cycles"),
    "memory.stream_line_cycles": ("a stream through the L1 cache, for each 64 bytes,", "cycles"),
    "string.movs_odd_line_cycles": ("a rep movs off its words", "more cycles for 64 bytes"),
    "string.stos_odd_line_cycles": ("a rep stos off its words", "more cycles for 64 bytes"),
    "string.movs_rate_unaligned": ("a misaligned rep movs", "cycles for 64 bytes"),
    "string.stos_rate_unaligned": ("a misaligned rep stos", "cycles for 64 bytes"),
}
_LINE = 64  # bytes
_FOLLOWED = 3  # parameters of a pair of variants, at most
_SAME = 0.005  # a margin that changes by less counts as constant


@dataclass(frozen=True)
class BreakEven:
    """The speed of a variant against another as a function of one unmeasured parameter of a core.

    One course has all other unknowns at the values worst for the variant, the other at the best.
    """

    simulated: Simulated
    unknown: Range
    courses: tuple[Course, Course]

    @cached_property
    def beyond_doubt(self) -> tuple[Course, Course]:
        """The courses of the speed less the error of the simulator."""
        return _courses(self.simulated, self.unknown.name, 1 + self.simulated.accuracy.doubt)

    @property
    def effect(self) -> float:
        """The largest change of the speed over the range: the natural logarithm of a ratio."""
        return max(course.effect for course in self.courses)

    @property
    def decides(self) -> bool:
        """True if the value of the parameter decides which of the two variants is faster."""
        return any(course.zeros for course in self.courses)

    @property
    def settled(self) -> bool | None:
        """True if the variant is faster over the whole range, False if slower, else None."""
        signs = {m > 0 for course in self.courses for m in course.margins}
        return signs.pop() if len(signs) == 1 else None

    @property
    def monotone(self) -> bool:
        """True if the speed only rises or only falls along the range."""
        return all(course.monotone for course in self.courses)

    def values(self, courses: Sequence[Course]) -> list[float]:
        """Return the values of the parameter at which the courses change sign, ascending."""
        return sorted({self.unknown.at(zero) for c in courses for zero in c.zeros})


def break_evens(pair: Simulated) -> list[BreakEven]:
    """Return the break-evens of a pair by parameter, the most influential parameter first.

    At most _FOLLOWED parameters are followed, those that change the speed most.
    """
    out = []
    for name in pair.unknown[:_FOLLOWED]:
        break_even = BreakEven(pair, pair.margins.unknown[name], _courses(pair, name, 1.0))
        if break_even.effect > _SAME:
            out.append(break_even)
    return _by_effect(out)


def _by_effect(break_evens: Iterable[BreakEven]) -> list[BreakEven]:
    """Return break-evens in order: those that decide the faster variant, then by their effect."""
    return sorted(break_evens, key=lambda b: (b.decides, b.effect), reverse=True)


def _courses(pair: Simulated, name: str, least: float) -> tuple[Course, Course]:
    """Return the courses of a speed divided by least: all else at its worst, and at its best."""
    worst, best = (
        pair.margins.course(pair.variant, pair.against, name, pair.sizes, worst=worst, least=least)
        for worst in (True, False)
    )
    return worst, best


def in_a_sentence(break_even: BreakEven) -> str:
    """Return a sentence on the values of the parameter at which the variant is faster.

    "movsq_aligned beats movsq on zen2 where a misaligned rep movs costs more than 4.1 cycles for 64
    bytes (of 2 to 42.7; string.movs_rate_unaligned below 15.6)".
    """
    if not break_even.unknown.numeric or break_even.unknown.name not in _WORDS:
        return _by_value(break_even)
    pair = break_even.simulated
    claim = f"{pair.variant} beats {pair.against} on {pair.margins.core.id}"
    what, unit = _WORDS[break_even.unknown.name]
    ends = _values(break_even, [*break_even.unknown.ends])
    name = f"--set {break_even.unknown.name}"
    if break_even.settled is not None:
        if not break_even.settled:
            claim = f"{pair.against} beats {pair.variant} on {pair.margins.core.id}"
        sure = "" if break_even.settled is False else _surely(break_even)
        return f"{claim} for every cost of {what} from {_span(ends, unit)}{sure} ({name}=...)"
    if not break_even.decides:
        return (
            f"{claim} for every cost of {what} from {_span(ends, unit)}, or not for any: by "
            f"what else is not measured ({name}=...)"
        )
    dear = max(break_even.courses, key=lambda c: len(c.zeros)).margins[-1] > 0
    at = _values(break_even, break_even.values(break_even.courses))
    turn = "more" if dear else "less"
    odd = "" if break_even.monotone else ", though the speed does not run one way along it"
    raw = " to ".join(f"{v:.4g}" for v in break_even.values(break_even.courses))
    return (
        f"{claim} where {what} costs {turn} than {_span(at, unit)}{_surely(break_even)}, of "
        f"{_span(ends, unit)} that it may{odd} ({name}={raw})"
    )


def _by_value(break_even: BreakEven) -> str:
    """Return the speed of the variant at each value of a parameter that is no cost."""
    pair, unknown = break_even.simulated, break_even.unknown
    worst, best = (course.margins for course in break_even.courses)
    along = sample_points(unknown)
    speeds: dict[str, str] = {}
    for share, low, high in zip(along, worst, best, strict=True):
        ends = dict.fromkeys(f"{100 * (np.exp(end) - 1):+.1f} %" for end in (low, high))
        speeds.setdefault(unknown.text(share), " to ".join(ends))
    values = "; ".join(f"{speed} with {unknown.name}={value}" for value, speed in speeds.items())
    return f"{pair.variant} against {pair.against} on {pair.margins.core.id}: {values}"


def _surely(break_even: BreakEven) -> str:
    """Return in words the value from which the gain exceeds the simulator's error."""
    doubt = 100 * break_even.simulated.accuracy.doubt
    costs = _values(break_even, break_even.values(break_even.beyond_doubt))
    unit = _WORDS.get(break_even.unknown.name, ("", ""))[1]
    if costs:
        return f" (by more than the {doubt:.0f} % it may be off, from {_span(costs[-1:], unit)})"
    if all(m > 0 for course in break_even.beyond_doubt for m in course.margins):
        return f", by more than the {doubt:.0f} % it may be off"
    return f", never by more than the {doubt:.0f} % it may be off"


def _values(break_even: BreakEven, values: Sequence[float]) -> list[float]:
    """Return values of a parameter as costs, ascending; a rate becomes cycles per 64-byte line."""
    positive = [v for v in values if v > 0] if break_even.unknown.rate else values
    return sorted(_LINE / v if break_even.unknown.rate else v for v in positive)


def _span(values: Sequence[float], unit: str) -> str:
    shown = list(dict.fromkeys(f"{v:.3g}" for v in (values[0], values[-1])))
    return f"{' to '.join(shown)} {unit}".rstrip()


_OPEN = 2  # open pairs with the baseline that are followed on a core: the largest possible gains


def deciding_break_evens(
    study: Study, cases: Sequence[Case], calls: Simulations
) -> list[BreakEven]:
    """Return the break-evens of a routine: of the published pairs, then of open ones."""
    out: list[BreakEven] = []
    for core in (target for target in study.target_ids if target in calls.of_core):
        margins = calls.of_core[core]
        pairs = [p for p in _published_pairs(study, core) if margins.has_costs(*p)]
        general = [c for c in cases if core in c.simulated and not c.lacking.get(core)]
        open_ = [c.simulated[core] for c in general if _may_gain(c, core)]
        open_.sort(key=lambda simulated: simulated.speed.high, reverse=True)
        pairs += [(s.variant, s.against) for s in open_[:_OPEN]]
        followed: set[frozenset[str]] = set()
        for variant, against in pairs:
            pair = frozenset((variant, against))
            if pair not in followed and margins.parameters(variant, against):
                followed.add(pair)
                if of_pair := calls.pair(core, variant, against):
                    out += break_evens(of_pair)[:1]
    return out


def _may_gain(case: Case, core: str) -> bool:
    """True if a variant may gain on a core, and unmeasured parameters decide it."""
    pair, verdict = case.simulated[core], case.verdicts.get(core)
    settled = (Status.FASTER, Status.SLOWER)
    decided = verdict is not None and verdict.uncontested in settled
    return not decided and bool(pair.unknown) and pair.speed.high > 1 + LEAST_DIFFERENCE


def _published_pairs(study: Study, core: str) -> list[tuple[str, str]]:
    """Return the pairs of variants with a published speed-up on a core."""
    return list(dict.fromkeys((f.variant, f.baseline) for f in pair_figures(study, core)))


def pair_figures(study: Study, core: str) -> list[PublishedFigure]:
    """Return the published speed-ups of a kernel's pairs on a core, without retracted ones."""
    return [f for f in publications.figures(study.kernel.id, core) if not f.retracted]


def published_speedups(study: Study, core: str, variant: str, against: str) -> str:
    """Return the published speeds of a variant against another on a core, in words, or ""."""
    spans: dict[str, list[float]] = {}
    for f in pair_figures(study, core):
        if (f.variant, f.baseline) == (variant, against) and f.percent is not None:
            quantity = f.quantity if f.scope == "workload" else f.scope
            where = f.machine if f.microarch == core else f"{f.machine}, {f.microarch}"
            own_speed = f"; the routine's own: {f.bound}" if f.share_before is not None else ""
            spans.setdefault(f"{quantity}, {where}{own_speed}", []).append(f.percent)
    texts = []
    for where, percents in spans.items():
        ends = dict.fromkeys(f"{end:+.1f}" for end in (min(percents), max(percents)))
        texts.append(f"{' to '.join(ends)} % ({where})")
    return f"{variant} against {against}: {', '.join(texts)}" if texts else ""


def in_words(break_evens: Sequence[BreakEven]) -> str:
    """Return break-evens in words, separated by semicolons."""
    parts = ((in_a_sentence(b), b.simulated.alignment) for b in break_evens)
    return "; ".join(filter(None, chain.from_iterable(parts)))


def independent_speeds(study: Study, calls: Simulations) -> str:
    """Return the simulated speeds of published pairs that no unmeasured parameter moves."""
    out = []
    for core, margins in calls.of_core.items():
        for variant, against in _published_pairs(study, core):
            of_pair = calls.pair(core, variant, against)
            if of_pair and not margins.parameters(variant, against):
                ends = (percent(of_pair.speed.low), percent(of_pair.speed.high))
                out.append(
                    f"{variant} is {' to '.join(dict.fromkeys(ends))} against {against} on {core}, "
                    f"where {of_pair.assumptions}"
                )
    return "; ".join(out)


def measure_first(study: Study, cases: Sequence[Case], break_evens: Sequence[BreakEven]) -> str:
    """Return the parameters to measure first, with the commands that measure them, in words."""
    texts: dict[tuple[str, str], str] = {}
    for break_even in _by_effect(break_evens):
        pair, name = break_even.simulated, break_even.unknown.name
        core = pair.margins.core.id
        if (core, name) in texts:
            continue
        variant = pair.margins.more_dependent(pair.variant, pair.against, name)
        option = f"--estimate {name}"
        pairs = ",".join(f"{dst}:{src}" for dst, src in alignments(name))
        command = f"loopwright measure {study.kernel.id}/{variant} --align {pairs} {option}"
        if any(case.partial for case in cases):
            command = (
                f"loopwright kmod source {study.kernel.id} -o kmod, then with what its run wrote "
                f"loopwright import FILE and loopwright measure {study.kernel.id} {option} --stored"
            )
        most = 100 * (np.exp(break_even.effect) - 1)
        texts[core, name] = f"{name} on {core} (moves the speed by up to {most:.0f} %): {command}"
    return "; ".join(texts.values())
