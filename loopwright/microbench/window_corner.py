"""Window sizes by the instructions that fit into the latency of a slow chain.

Microbenchmark: a loop whose iteration is a chain of slow instructions, which is independent of the
previous iteration, and n fillers. As long as the window holds the fillers of an iteration, the
chain of the next one starts before this one's ends. The corner is the least n with which it starts
later: there, cycles over n stop rising by a link of the chain per filler, or jump (after Wong, and
Butcher's robsize, with chains in the place of cache misses).
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import linear_regression

from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import MOST_BYTES, Figure, Laboratory

_WIDE = 4  # fillers a cycle, at most, of any front end
_LEAST = 80.0  # cycles of a chain
_WAITING = 0.8  # share of a chain's cycles, at least, of an iteration whose chain waits
_BESIDE = 1.1  # cycles of two independent chains, at most, relative to one
_FIRST = 12  # the first number of fillers
_STARTS = 12.0  # cycles from a free entry to the start of the instruction that takes it
_LINE = 8  # numbers of fillers beyond the corner
_PARTS = 6  # ranges of fillers to search for a corner, one after the other
_LONG = 3.0  # factor over the fillers' cycles, of chains that fillers wait for
_SPLIT, _NEAR = 8, 6  # parts to split a range of fillers in, and the range to stop at
_ATTEMPTS = 3  # to find a corner, each further on
_MISSED = 0.25  # share of iterations near a corner that may be refused
_SLOPE = 0.1  # of a step per filler: slope of cycles beyond a corner, at most
_ROUGH = 0.15  # of a step: residuals of cycles beyond a corner, at most
_SOFT = 0.2  # of a step: tolerance of the half step at a corner
_SURE = 3.0  # standard deviations
_REGISTERS = (1, 2)  # vector registers of chains


@dataclass(frozen=True)
class Chain:
    """A chain of slow instructions, with the slowest one once at its end.

    start breaks the dependency of its register. cycles is the latency of a link, step that of the
    last one. Two chains can run beside each other, apart from their last links.
    """

    start: bytes
    link: bytes
    cycles: float
    last: bytes
    step: float


@dataclass(frozen=True)
class Filler:
    """Instructions beside the chain: lead, each of which counts as one, and then codes in turn.

    waits says that they wait for the chain; the last step is then that of its last link. factor is
    that by which the chain lasts longer than the fillers. first is the number of fillers
    before the chain. whole is the multiple to which nops round up the slots of an iteration, behind
    the fillers, or behind the chain where some fillers precede it.
    """

    codes: Sequence[bytes]
    lead: Sequence[bytes] = ()
    waits: bool = False
    factor: float = 2.0
    first: int = 0
    whole: int = 1


@dataclass(frozen=True)
class Corner:
    """The least number of fillers with which chains do not overlap: at, between low and high.

    Without at, unseen says that there is none up to most fillers; otherwise why is the reason.
    """

    at: int | None
    low: int = 0
    high: int = 0
    most: int = 0
    links: int = 0
    why: str = ""
    unseen: bool = False


# A search yields the bodies to time next, and receives their figures.
_Search = Generator[Sequence[bytes], Sequence[Figure], Corner]


class Shadow:
    """Loop bodies with a chain, timed on a machine."""

    def __init__(self, laboratory: Laboratory, chain: Chain, ends: int) -> None:
        """Take a machine, the chain, and the slots of the end of a loop."""
        self._laboratory, self._chain, self._ends = laboratory, chain, ends

    @property
    def sharp(self) -> bool:
        """True if the last link takes longer than a new scheduler entry needs to start."""
        return self._chain.step >= _STARTS

    def corners(self, fillers: Sequence[Filler]) -> list[Corner]:
        """Find the corner of each filler, among as many fillers as fit into a loop."""
        alone = self._laboratory.time([list(filler.codes) for filler in fillers])
        return self._run_together(
            [self._search(filler, figure) for filler, figure in zip(fillers, alone, strict=True)]
        )

    def _run_together(self, searches: Sequence[_Search]) -> list[Corner]:
        """Run all searches at once, so that their next bodies are timed together."""
        corners: dict[int, Corner] = {}
        answers: dict[int, Sequence[Figure] | None] = dict.fromkeys(range(len(searches)))
        while answers:
            asked: dict[int, Sequence[bytes]] = {}
            for n, figures in answers.items():
                try:
                    asked[n] = next(searches[n]) if figures is None else searches[n].send(figures)
                except StopIteration as end:
                    corners[n] = end.value
            timed = iter(
                self._laboratory.iterations([body for bodies in asked.values() for body in bodies])
            )
            answers = {n: [next(timed) for _ in bodies] for n, bodies in asked.items()}
        return [corners[n] for n in range(len(searches))]

    def _search(self, filler: Filler, alone: Figure) -> _Search:
        """Find the corner of a filler that alone takes so long, over all numbers of fillers."""
        if not alone:
            return Corner(None, why=alone.refused)
        each = max(alone.cycles / len(filler.codes), 1 / _WIDE)

        def links(n: int) -> int:
            return self._links(filler, n, each)

        def fits(n: int) -> bool:
            return len(self._body(filler, n, links(n))) <= MOST_BYTES

        most = max((n for n in range(MOST_BYTES) if fits(n)), default=0)
        tried = [n for n in (_FIRST * 2**k for k in range(10)) if n < most]
        tried.append(most)
        figures = yield self._bodies(filler, [(n, links(n)) for n in tried])
        sides = [self._waits(f, links(n)) for n, f in zip(tried, figures, strict=True) if f]
        answered = [n for n, f in zip(tried, figures, strict=True) if f]
        if True not in sides:
            if figures[-1]:
                return Corner(None, most=most, unseen=True)
            return Corner(None, most=most, why=figures[-1].refused)
        waiting_at = answered[sides.index(True)]
        first = max((n for n in answered if n < waiting_at), default=0)
        corner = Corner(None, most=most)
        # A temporary obstacle of a chain is no corner: search beyond it.
        for _ in range(_ATTEMPTS):
            first, end = yield from self._between(filler, first, waiting_at, links(waiting_at))
            corner = yield from self._search_near(filler, first + 1, links(end), most)
            if corner.at is not None or end == waiting_at:
                break
            first = end
        return corner

    def _between(
        self, filler: Filler, first: int, last: int, links: int
    ) -> Generator[Sequence[bytes], Sequence[Figure], tuple[int, int]]:
        """Return two close numbers of fillers, between which chains begin to wait."""
        while last - first > _NEAR:
            inside = [first + (last - first) * k // _SPLIT for k in range(1, _SPLIT)]
            figures = yield self._bodies(filler, [(n, links) for n in inside])
            waiting = {n: self._waits(f, links) for n, f in zip(inside, figures, strict=True) if f}
            if not waiting:
                break
            last = min((n for n, one in waiting.items() if one), default=last)
            first = max((n for n, one in waiting.items() if not one and n < last), default=first)
        return first, last

    def near(self, fillers: Sequence[Filler], known: Corner) -> list[Corner]:
        """Find the corner of each filler close to a known one."""
        return self._run_together(
            [self._search_near(filler, known.low, known.links, known.most) for filler in fillers]
        )

    def _search_near(self, filler: Filler, about: int, links: int, most: int) -> _Search:
        """Find the corner at or beyond a number of fillers."""
        width = int((1 - _WAITING) * links + _STARTS / self._chain.cycles) + _LINE
        timed: dict[int, Figure] = {}
        for part in range(_PARTS):
            first = max(about - 2, 1) + part * width
            tried = [n for n in range(first, first + width + 2) if n not in timed]
            figures = yield self._bodies(filler, [(n, links) for n in tried])
            timed |= zip(tried, figures, strict=True)
            refused = [figure.refused for figure in timed.values() if not figure]
            if len(refused) > _MISSED * len(timed):
                return Corner(None, most=most, why=refused[0])
            step = self._chain.step if filler.waits else self._chain.cycles
            place = _corner({n: f for n, f in timed.items() if f}, step, self._chain_cycles(links))
            if place is not None:
                return Corner(*place, most, links)
        return Corner(None, most=most, why=f"no corner near {about} fillers")

    def _links(self, filler: Filler, n: int, each: float) -> int:
        """Return the links with which a chain lasts longer than so many fillers."""
        chain_cycles = max(_LEAST, filler.factor * (n + _FIRST) * each) - self._chain.step
        return max(int(-(-chain_cycles // self._chain.cycles)), 1)

    def _waits(self, figure: Figure, links: int) -> bool:
        """True if an iteration is so long that its chain waits for the one before."""
        return figure.cycles >= _WAITING * self._chain_cycles(links)

    def _chain_cycles(self, links: int) -> float:
        return links * self._chain.cycles + self._chain.step

    def _bodies(self, filler: Filler, counts: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._body(filler, n, links) for n, links in counts]

    def _body(self, filler: Filler, n: int, links: int) -> bytes:
        codes = list(islice(cycle(filler.codes), max(n - len(filler.lead), 0)))
        before, behind = codes[: filler.first], [*filler.lead, *codes[filler.first :]]
        nops = [self._laboratory.kit.SHORT] * (-self.slots(n, links) % filler.whole)
        chain = [self._chain.start, *[self._chain.link] * links, self._chain.last]
        inside = [*nops, *behind] if before else [*behind, *nops]
        return b"".join([*before, *chain, *inside])

    def slots(self, n: int, links: int = 0) -> int:
        """Return the slots of an iteration with so many links besides the last one."""
        return n + 1 + links + 1 + self._ends


def _corner(known: Mapping[int, Figure], step: float, long: float) -> tuple[int, int, int] | None:
    """Return the corner of cycles over fillers, with the range of its position.

    None if the last numbers of fillers do not lie beyond it, where an iteration takes as long as
    a chain: long.
    """
    numbers = sorted(known)
    doubt = _SURE * 2**0.5 * max(figure.uncertainty for figure in known.values())
    first_beyond = numbers[-_LINE]
    for _ in range(_LINE):
        beyond = [n for n in numbers if n >= first_beyond]
        slope, start = linear_regression(beyond, [known[n].cycles for n in beyond])
        missing = {n: slope * n + start - known[n].cycles for n in numbers}

        def first_with(least: float, missing: Mapping[int, float] = missing) -> int:
            return 1 + max((n for n in numbers if missing[n] > least), default=numbers[0] - 1)

        at = first_with(step / 2)
        level = slope * at + start
        if max(missing[n] for n in beyond) > doubt + _ROUGH * step:
            return None
        inside = numbers[0] < at < numbers[-_LINE] + 2
        if not inside or slope > _SLOPE * step or level < long - step:
            return None
        if at + 1 >= first_beyond:
            break
        first_beyond = at + 1
    # Some windows end abruptly. Where an iteration was not timed, the corner may lie beyond it.
    jump = max(step, missing[at - 1])
    doubt = max(doubt, _SOFT * jump)
    low = high = at
    while low - 1 > numbers[0] and missing.get(low - 1, 0.0) < jump / 2 + doubt:
        low -= 1
    while high < numbers[-1] and missing.get(high, jump) > jump / 2 - doubt:
        high += 1
    return at, low, high


def chain(laboratory: Laboratory) -> Chain | None:
    """Return a chain of the slowest link of which two run in parallel; None without one."""
    kit = laboratory.kit
    first, second = _REGISTERS
    links = kit.slow_links(first)
    figures = laboratory.time([[code] for code in links])
    pairs = laboratory.time([[*pair] for pair in zip(links, kit.slow_links(second), strict=True)])
    timed = [(f.cycles, code) for code, f in zip(links, figures, strict=True) if f]
    parallel = [
        (alone.cycles, code)
        for code, alone, both in zip(links, figures, pairs, strict=True)
        if alone and both and both.cycles <= _BESIDE * alone.cycles
    ]
    if not parallel:
        return None
    (cycles, link), (step, last) = max(parallel), max(timed)
    return Chain(kit.break_dependency("vector", first), link, cycles, last, step)


def waiting(kit: Kit) -> Mapping[str, Filler]:
    """Return instructions that wait for the chain and not for each other, by register kind."""
    general, vector = (kit.POOLS[kind].own for kind in ("gpr", "vector"))
    lead = [kit.transfer("vector", "gpr", _REGISTERS[0], general[0])]
    moves = [kit.transfer("gpr", "gpr", general[0], to) for to in general[1:]]
    others = [kit.transfer("vector", "vector", _REGISTERS[0], to) for to in vector]
    both = [code for pair in zip(moves, others, strict=False) for code in pair]
    return {
        "general registers": Filler(moves, lead, waits=True, factor=_LONG),
        "vectors": Filler(others, waits=True, factor=_LONG),
        "both in turn": Filler(both, lead, waits=True, factor=_LONG),
    }
