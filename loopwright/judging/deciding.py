"""The numbers that would decide a routine: break-evens of the pairs that are open or were asked."""

from collections.abc import Sequence

from loopwright.judging import break_even, estimate
from loopwright.judging import published as publications
from loopwright.judging.break_even import BreakEven
from loopwright.judging.cases import Simulations
from loopwright.judging.opinions import LEAST
from loopwright.judging.percent import percent
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Case, Status

_OPEN = 2  # pairs with the baseline that are followed on a core, those that may gain most


def numbers(found: Study, cases: Sequence[Case], calls: Simulations) -> list[BreakEven]:
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
                    out += break_even.of(of_pair)[:1]
    return out


def _worth(case: Case, core: str) -> bool:
    """Say whether it may gain, and what is not known decides whether it does."""
    one, verdict = case.simulated[core], case.verdicts.get(core)
    settled = (Status.FASTER, Status.SLOWER)
    decided = verdict is not None and verdict.uncontested in settled
    return not decided and bool(one.unknown) and one.speed.high > 1 + LEAST


def _published(found: Study, core: str) -> list[tuple[str, str]]:
    """Return the pairs of variants that somebody published a speed-up of on a core."""
    return list(dict.fromkeys((f.variant, f.baseline) for f in pair_figures(found, core)))


def pair_figures(found: Study, core: str) -> list[PublishedFigure]:
    """Return the published speed-ups of a kernel's pairs on a core, but for retracted ones."""
    return [f for f in publications.figures(found.kernel.id, core) if not f.retracted]


def published(found: Study, core: str, variant: str, against: str) -> str:
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
    return f"published of {variant} against {against}: {', '.join(said)}" if said else ""


def in_words(found: Study, known: Sequence[BreakEven]) -> str:
    """Return break-evens in words, each with what was published of the pair."""
    out = []
    for one in known:
        pair = one.simulated
        said = published(found, pair.margins.core.id, pair.variant, pair.against)
        parts = (break_even.described(one), said, pair.alignment)
        out.append("; ".join(part for part in parts if part))
    return ". ".join(out)


def decided(found: Study, calls: Simulations) -> str:
    """Say what is answered of the published pairs that depend on no unmeasured parameter."""
    out = []
    for core, margins in calls.of_core.items():
        for variant, against in _published(found, core):
            of_pair = calls.pair(core, variant, against)
            if of_pair and not margins.between(variant, against):
                ends = (percent(of_pair.speed.low), percent(of_pair.speed.high))
                said = published(found, core, variant, against)
                out.append(
                    f"{variant} is {' to '.join(dict.fromkeys(ends))} against {against} on {core}, "
                    f"where {of_pair.assumptions}; {said}"
                )
    return ". ".join(out)


def first(found: Study, cases: Sequence[Case], known: Sequence[BreakEven]) -> str:
    """Say which parameter to measure first on which core, and the commands that print its value."""
    out = []
    for core, name, moves in break_even.first(known):
        pair = next(
            one.simulated
            for one in known
            if one.simulated.margins.core.id == core and one.unknown.name == name
        )
        who = pair.margins.teller(pair.variant, pair.against, name)
        told = f"--estimate {name}"
        pairs = ",".join(f"{dst}:{src}" for dst, src in estimate.alignments(name))
        how = f"loopwright measure {found.kernel.id}/{who} --align {pairs} {told}"
        if any(case.partial for case in cases):
            how = (
                f"loopwright kmod source {found.kernel.id} -o kmod, then with what its run wrote "
                f"loopwright import FILE and loopwright measure {found.kernel.id} {told} --stored"
            )
        out.append(f"{name} on {core} (moves the speed by up to {moves:.0f} %): {how}")
    return "; ".join(out)
