"""Break-evens: values of unmeasured parameters at which one variant overtakes another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwright.judging import estimate
from loopwright.judging import published as publications
from loopwright.judging.call_costs import percent
from loopwright.judging.evidence import Simulations
from loopwright.judging.margins import Course, sample_points
from loopwright.judging.model_accuracy import LEAST_DIFFERENCE
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Case, Simulated, Status
from loopwright.microarchs import Range

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
    def sure(self) -> tuple[Course, Course]:
        """The courses of the speed less the error of the simulator."""
        return _courses(self.simulated, self.unknown.name, 1 + self.simulated.accuracy.doubt)

    @property
    def moves(self) -> float:
        """The largest change of the speed over the range: the natural logarithm of a ratio."""
        return max(course.moves for course in self.courses)

    @property
    def turns(self) -> bool:
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
        if break_even.moves > _SAME:
            out.append(break_even)
    return _by_moves(out)


def _by_moves(known: Iterable[BreakEven]) -> list[BreakEven]:
    """Return break-evens in order: those that decide the faster variant, then by their effect."""
    return sorted(known, key=lambda b: (b.turns, b.moves), reverse=True)


def _courses(pair: Simulated, name: str, least: float) -> tuple[Course, Course]:
    """Return the courses of a speed divided by least: all else at its worst, and at its best."""
    worst, best = (
        pair.margins.course(pair.variant, pair.against, name, pair.sizes, worst=worst, least=least)
        for worst in (True, False)
    )
    return worst, best


def described(break_even: BreakEven) -> str:
    """Return a sentence on where the variant is faster.

    "movsq_aligned beats movsq on zen2 where a misaligned rep movs costs more than 4.1 cycles for 64
    bytes (of 2 to 42.7; string.movs_rate_unaligned below 15.6)".
    """
    if not break_even.unknown.numeric or break_even.unknown.name not in _WORDS:
        return _by_value(break_even)
    pair = break_even.simulated
    sentence = f"{pair.variant} beats {pair.against} on {pair.margins.core.id}"
    what, unit = _WORDS[break_even.unknown.name]
    ends = _values(break_even, [*break_even.unknown.ends])
    name = f"--set {break_even.unknown.name}"
    if break_even.settled is not None:
        if not break_even.settled:
            sentence = f"{pair.against} beats {pair.variant} on {pair.margins.core.id}"
        sure = "" if break_even.settled is False else _surely(break_even)
        return f"{sentence} for every cost of {what} from {_span(ends, unit)}{sure} ({name}=...)"
    if not break_even.turns:
        return (
            f"{sentence} for every cost of {what} from {_span(ends, unit)}, or not for any: by "
            f"what else is not measured ({name}=...)"
        )
    dear = max(break_even.courses, key=lambda c: len(c.zeros)).margins[-1] > 0
    at = _values(break_even, break_even.values(break_even.courses))
    turn = "more" if dear else "less"
    odd = "" if break_even.monotone else ", though the speed does not run one way along it"
    raw = " to ".join(f"{v:.4g}" for v in break_even.values(break_even.courses))
    return (
        f"{sentence} where {what} costs {turn} than {_span(at, unit)}{_surely(break_even)}, of "
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
    known = _values(break_even, break_even.values(break_even.sure))
    unit = _WORDS.get(break_even.unknown.name, ("", ""))[1]
    if known:
        return f" (by more than the {doubt:.0f} % it may be off, from {_span(known[-1:], unit)})"
    if all(m > 0 for course in break_even.sure for m in course.margins):
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
    asked = {core.id: calls.of_core[core.id] for core in study.targets if core.id in calls.of_core}
    for core, margins in asked.items():
        pairs = [p for p in _published(study, core) if margins.answers(*p)]
        open_ = [
            c.simulated[core]
            for c in cases
            if core in c.simulated and not c.lacking.get(core) and _worth(c, core)
        ]
        open_.sort(key=lambda verdict: verdict.speed.high, reverse=True)
        pairs += [(verdict.variant, verdict.against) for verdict in open_[:_OPEN]]
        seen: set[frozenset[str]] = set()
        for variant, against in pairs:
            if frozenset((variant, against)) not in seen and margins.between(variant, against):
                seen.add(frozenset((variant, against)))
                if of_pair := calls.pair(core, variant, against):
                    out += break_evens(of_pair)[:1]
    return out


def _worth(case: Case, core: str) -> bool:
    """True if a variant may gain on a core, and unmeasured parameters decide it."""
    pair, verdict = case.simulated[core], case.verdicts.get(core)
    settled = (Status.FASTER, Status.SLOWER)
    decided = verdict is not None and verdict.uncontested in settled
    return not decided and bool(pair.unknown) and pair.speed.high > 1 + LEAST_DIFFERENCE


def _published(study: Study, core: str) -> list[tuple[str, str]]:
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


def in_words(known: Sequence[BreakEven]) -> str:
    """Return break-evens in words, separated by semicolons."""
    parts = (
        part
        for break_even in known
        for part in (described(break_even), break_even.simulated.alignment)
    )
    return "; ".join(filter(None, parts))


def decided(study: Study, calls: Simulations) -> str:
    """Return the simulated speeds of published pairs that no unmeasured parameter moves."""
    out = []
    for core, margins in calls.of_core.items():
        for variant, against in _published(study, core):
            of_pair = calls.pair(core, variant, against)
            if of_pair and not margins.between(variant, against):
                ends = (percent(of_pair.speed.low), percent(of_pair.speed.high))
                out.append(
                    f"{variant} is {' to '.join(dict.fromkeys(ends))} against {against} on {core}, "
                    f"where {of_pair.assumptions}"
                )
    return "; ".join(out)


def measure_first(study: Study, cases: Sequence[Case], known: Sequence[BreakEven]) -> str:
    """Return the parameters to measure first, with the commands that measure them, in words."""
    texts: dict[tuple[str, str], str] = {}
    for break_even in _by_moves(known):
        pair, name = break_even.simulated, break_even.unknown.name
        core = pair.margins.core.id
        if (core, name) in texts:
            continue
        variant = pair.margins.teller(pair.variant, pair.against, name)
        option = f"--estimate {name}"
        pairs = ",".join(f"{dst}:{src}" for dst, src in estimate.alignments(name))
        command = f"loopwright measure {study.kernel.id}/{variant} --align {pairs} {option}"
        if any(case.partial for case in cases):
            command = (
                f"loopwright kmod source {study.kernel.id} -o kmod, then with what its run wrote "
                f"loopwright import FILE and loopwright measure {study.kernel.id} {option} --stored"
            )
        moves = 100 * (np.exp(break_even.moves) - 1)
        texts[core, name] = f"{name} on {core} (moves the speed by up to {moves:.0f} %): {command}"
    return "; ".join(texts.values())
