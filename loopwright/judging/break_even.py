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

# What parameters are, in words, and what they count.
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
_FOLLOWED = 3  # parameters of a pair
_SAME = 0.005  # a margin that moves by less does not move


@dataclass(frozen=True)
class BreakEven:
    """The speed of a variant against another along one unmeasured parameter of a core.

    Its courses are along the range with all else as it is worst for the variant, and as it is best.
    """

    simulated: Simulated
    unknown: Range
    courses: tuple[Course, Course]

    @cached_property
    def sure(self) -> tuple[Course, Course]:
        """The courses of the speed that is more than the simulator may be off by."""
        return _courses(self.simulated, self.unknown.name, 1 + self.simulated.accuracy.doubt)

    @property
    def moves(self) -> float:
        """Return how far it moves the speed at most, as the natural logarithm of a ratio."""
        return max(course.moves for course in self.courses)

    @property
    def turns(self) -> bool:
        """Say whether it decides which of the two is faster."""
        return any(course.zeros for course in self.courses)

    @property
    def settled(self) -> bool | None:
        """Return whether the variant is faster (True) or slower (False) all along; else None."""
        signs = {m > 0 for course in self.courses for m in course.margins}
        return signs.pop() if len(signs) == 1 else None

    @property
    def monotone(self) -> bool:
        """Say whether the speed only rises or only falls along the range."""
        return all(course.monotone for course in self.courses)

    def values(self, courses: Sequence[Course]) -> list[float]:
        """Return the values of the parameter at which courses turn, ascending."""
        return sorted({self.unknown.at(zero) for c in courses for zero in c.zeros})


def break_evens(one: Simulated) -> list[BreakEven]:
    """Return how unmeasured parameters move the speed, the one that moves it most first.

    Of many the few that move it most alone.
    """
    out = []
    for name in one.unknown[:_FOLLOWED]:
        found = BreakEven(one, one.margins.unknown[name], _courses(one, name, 1.0))
        if found.moves > _SAME:
            out.append(found)
    return _by_moves(out)


def _by_moves(known: Iterable[BreakEven]) -> list[BreakEven]:
    """Return first those that decide which of the two is faster, then what moves it most."""
    return sorted(known, key=lambda b: (b.turns, b.moves), reverse=True)


def _courses(one: Simulated, name: str, least: float) -> tuple[Course, Course]:
    """Return the courses of a speed over least, with all else at its worst and at its best."""
    worst, best = (
        one.margins.course(one.variant, one.against, name, one.sizes, worst=worst, least=least)
        for worst in (True, False)
    )
    return worst, best


def described(found: BreakEven) -> str:
    """Say in a sentence where the variant is faster.

    "movsq_aligned beats movsq on zen2 where a misaligned rep movs costs more than 4.1 cycles for 64
    bytes (of 2 to 42.7; string.movs_rate_unaligned below 15.6)".
    """
    if not found.unknown.numeric or found.unknown.name not in _WORDS:
        return _by_value(found)
    one = found.simulated
    pair = f"{one.variant} beats {one.against} on {one.margins.core.id}"
    what, unit = _WORDS[found.unknown.name]
    ends = _values(found, [*found.unknown.ends])
    name = f"--set {found.unknown.name}"
    if found.settled is not None:
        if not found.settled:
            pair = f"{one.against} beats {one.variant} on {one.margins.core.id}"
        sure = "" if found.settled is False else _surely(found)
        return f"{pair} for every cost of {what} from {_span(ends, unit)}{sure} ({name}=...)"
    if not found.turns:
        return (
            f"{pair} for every cost of {what} from {_span(ends, unit)}, or not for any: by what "
            f"else is not measured ({name}=...)"
        )
    dear = max(found.courses, key=lambda c: len(c.zeros)).margins[-1] > 0
    at = _values(found, found.values(found.courses))
    turn = "more" if dear else "less"
    odd = "" if found.monotone else ", though the speed does not run one way along it"
    raw = " to ".join(f"{v:.4g}" for v in found.values(found.courses))
    return (
        f"{pair} where {what} costs {turn} than {_span(at, unit)}{_surely(found)}, of "
        f"{_span(ends, unit)} that it may{odd} ({name}={raw})"
    )


def _by_value(found: BreakEven) -> str:
    """Say how fast the variant is at the values of a parameter that is no cost."""
    one, unknown = found.simulated, found.unknown
    worst, best = (course.margins for course in found.courses)
    along = sample_points(unknown)
    said: dict[str, str] = {}
    for place, low, high in zip(along, worst, best, strict=True):
        ends = dict.fromkeys(f"{100 * (np.exp(end) - 1):+.1f} %" for end in (low, high))
        said.setdefault(unknown.text(place), " to ".join(ends))
    values = "; ".join(f"{speed} with {unknown.name}={value}" for value, speed in said.items())
    return f"{one.variant} against {one.against} on {one.margins.core.id}: {values}"


def _surely(found: BreakEven) -> str:
    """Say from where on the difference is more than the simulator may be off by."""
    doubt = 100 * found.simulated.accuracy.doubt
    known = _values(found, found.values(found.sure))
    unit = _WORDS.get(found.unknown.name, ("", ""))[1]
    if known:
        return f" (by more than the {doubt:.0f} % it may be off, from {_span(known[-1:], unit)})"
    if all(m > 0 for course in found.sure for m in course.margins):
        return f", by more than the {doubt:.0f} % it may be off"
    return f", never by more than the {doubt:.0f} % it may be off"


def _values(found: BreakEven, values: Sequence[float]) -> list[float]:
    """Return values of a parameter as costs, ascending: a rate as cycles for a line."""
    known = [v for v in values if v > 0] if found.unknown.rate else values
    return sorted(_LINE / v if found.unknown.rate else v for v in known)


def _span(values: Sequence[float], unit: str) -> str:
    shown = list(dict.fromkeys(f"{v:.3g}" for v in (values[0], values[-1])))
    return f"{' to '.join(shown)} {unit}".rstrip()


_OPEN = 2  # pairs with the baseline that are followed on a core, those that may gain most


def deciding_break_evens(
    found: Study, cases: Sequence[Case], calls: Simulations
) -> list[BreakEven]:
    """Return the break-evens of a routine: of the pairs that were published, then of open ones."""
    out: list[BreakEven] = []
    asked = {core.id: calls.of_core[core.id] for core in found.targets if core.id in calls.of_core}
    for core, margins in asked.items():
        pairs = [p for p in _published(found, core) if margins.answers(*p)]
        open_ = [
            c.simulated[core]
            for c in cases
            if core in c.simulated and not c.lacking.get(core) and _worth(c, core)
        ]
        open_.sort(key=lambda one: one.speed.high, reverse=True)
        pairs += [(one.variant, one.against) for one in open_[:_OPEN]]
        seen: set[frozenset[str]] = set()
        for variant, against in pairs:
            if frozenset((variant, against)) not in seen and margins.between(variant, against):
                seen.add(frozenset((variant, against)))
                if of_pair := calls.pair(core, variant, against):
                    out += break_evens(of_pair)[:1]
    return out


def _worth(case: Case, core: str) -> bool:
    """Say whether it may gain, and what is not known decides whether it does."""
    one, verdict = case.simulated[core], case.verdicts.get(core)
    settled = (Status.FASTER, Status.SLOWER)
    decided = verdict is not None and verdict.uncontested in settled
    return not decided and bool(one.unknown) and one.speed.high > 1 + LEAST_DIFFERENCE


def _published(found: Study, core: str) -> list[tuple[str, str]]:
    """Return the pairs of variants that somebody published a speed-up of on a core."""
    return list(dict.fromkeys((f.variant, f.baseline) for f in pair_figures(found, core)))


def pair_figures(found: Study, core: str) -> list[PublishedFigure]:
    """Return the published speed-ups of a kernel's pairs on a core, but for retracted ones."""
    return [f for f in publications.figures(found.kernel.id, core) if not f.retracted]


def published_speedups(found: Study, core: str, variant: str, against: str) -> str:
    """Say what was published of the speed of a variant against another on a core, or nothing."""
    spans: dict[str, list[float]] = {}
    for f in pair_figures(found, core):
        if (f.variant, f.baseline) == (variant, against) and f.percent is not None:
            what = f.quantity if f.scope == "workload" else f.scope
            where = f.machine if f.microarch == core else f"{f.machine}, {f.microarch}"
            own = f"; the routine's own: {f.bound}" if f.share_before is not None else ""
            spans.setdefault(f"{what}, {where}{own}", []).append(f.percent)
    said = []
    for where, percents in spans.items():
        ends = dict.fromkeys(f"{end:+.1f}" for end in (min(percents), max(percents)))
        said.append(f"{' to '.join(ends)} % ({where})")
    return f"{variant} against {against}: {', '.join(said)}" if said else ""


def in_words(known: Sequence[BreakEven]) -> str:
    """Return break-evens in words."""
    parts = (part for one in known for part in (described(one), one.simulated.alignment))
    return "; ".join(filter(None, parts))


def decided(found: Study, calls: Simulations) -> str:
    """Say what is answered of the published pairs that depend on no unmeasured parameter."""
    out = []
    for core, margins in calls.of_core.items():
        for variant, against in _published(found, core):
            of_pair = calls.pair(core, variant, against)
            if of_pair and not margins.between(variant, against):
                ends = (percent(of_pair.speed.low), percent(of_pair.speed.high))
                out.append(
                    f"{variant} is {' to '.join(dict.fromkeys(ends))} against {against} on {core}, "
                    f"where {of_pair.assumptions}"
                )
    return "; ".join(out)


def measure_first(found: Study, cases: Sequence[Case], known: Sequence[BreakEven]) -> str:
    """Say which parameter to measure first on which core, and the commands that print its value."""
    said: dict[tuple[str, str], str] = {}
    for one in _by_moves(known):
        pair, name = one.simulated, one.unknown.name
        core = pair.margins.core.id
        if (core, name) in said:
            continue
        who = pair.margins.teller(pair.variant, pair.against, name)
        told = f"--estimate {name}"
        pairs = ",".join(f"{dst}:{src}" for dst, src in estimate.alignments(name))
        how = f"loopwright measure {found.kernel.id}/{who} --align {pairs} {told}"
        if any(case.partial for case in cases):
            how = (
                f"loopwright kmod source {found.kernel.id} -o kmod, then with what its run wrote "
                f"loopwright import FILE and loopwright measure {found.kernel.id} {told} --stored"
            )
        moves = 100 * (np.exp(one.moves) - 1)
        said[core, name] = f"{name} on {core} (moves the speed by up to {moves:.0f} %): {how}"
    return "; ".join(said.values())
