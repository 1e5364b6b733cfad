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
_CLOSED = 0.8  # share of a chain's cycles that an iteration takes if the next one waits for it
_BESIDE = 1.1  # cycles of two independent chains, at most, relative to one
_FIRST = 12  # the first number of fillers
_STARTS = 12.0  # cycles from a free entry to the start of the instruction that takes it
_LINE = 8  # numbers of fillers beyond the corner
_PARTS = 6  # ranges of fillers to search for a corner, one after the other
_LONG = 3.0  # factor over the fillers' cycles, of chains that fillers wait for
_SPLIT, _NEAR = 8, 6  # parts to split a range of fillers in, and the range to stop at
_AGAIN = 3  # attempts to find a corner further on
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

    waits says that they wait for the chain; the last step is then that of its last link. more is
    the factor by which the chain lasts longer than the fillers. first is the number of fillers
    before the chain. whole is the multiple to which nops round up the slots of an iteration, behind
    the fillers, or behind the chain where some fillers precede it.
    """

    codes: Sequence[bytes]
    lead: Sequence[bytes] = ()
    waits: bool = False
    more: float = 2.0
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
        """Take the slots of the end of a loop."""
        self._laboratory, self._chain, self._ends = laboratory, chain, ends

    @property
    def sharp(self) -> bool:
        """True if the last link takes longer than a new scheduler entry needs to start."""
        return self._chain.step >= _STARTS

    def corners(self, fillers: Sequence[Filler]) -> list[Corner]:
        """Find the corner of each filler, among as many fillers as fit into a loop."""
        alone = self._laboratory.time([list(filler.codes) for filler in fillers])
        return self._together(
            [self._corner(filler, one) for filler, one in zip(fillers, alone, strict=True)]
        )

    def _together(self, searches: Sequence[_Search]) -> list[Corner]:
        """Run all searches at once, so that their next bodies are timed together."""
        found: dict[int, Corner] = {}
        told: dict[int, Sequence[Figure] | None] = dict.fromkeys(range(len(searches)))
        while told:
            wanted: dict[int, Sequence[bytes]] = {}
            for n, figures in told.items():
                try:
                    wanted[n] = next(searches[n]) if figures is None else searches[n].send(figures)
                except StopIteration as end:
                    found[n] = end.value
            every = iter(
                self._laboratory.iterations([one for bodies in wanted.values() for one in bodies])
            )
            told = {n: [next(every) for _ in bodies] for n, bodies in wanted.items()}
        return [found[n] for n in range(len(searches))]

    def _corner(self, filler: Filler, alone: Figure) -> _Search:
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
        sides = [self._closed(f, links(n)) for n, f in zip(tried, figures, strict=True) if f]
        known = [n for n, f in zip(tried, figures, strict=True) if f]
        if True not in sides:
            if figures[-1]:
                return Corner(None, most=most, unseen=True)
            return Corner(None, most=most, why=figures[-1].refused)
        last = known[sides.index(True)]
        first = max((n for n in known if n < last), default=0)
        found = Corner(None, most=most)
        # A temporary obstacle of a chain is no corner: search beyond it.
        for _ in range(_AGAIN):
            first, closed = yield from self._between(filler, first, last, links(last))
            found = yield from self._near(filler, first + 1, links(closed), most)
            if found.at is not None or closed == last:
                break
            first = closed
        return found

    def _between(
        self, filler: Filler, first: int, last: int, links: int
    ) -> Generator[Sequence[bytes], Sequence[Figure], tuple[int, int]]:
        """Return two close numbers of fillers, between which iterations become long."""
        while last - first > _NEAR:
            inside = [first + (last - first) * k // _SPLIT for k in range(1, _SPLIT)]
            figures = yield self._bodies(filler, [(n, links) for n in inside])
            closed = {n: self._closed(f, links) for n, f in zip(inside, figures, strict=True) if f}
            if not closed:
                break
            last = min((n for n, one in closed.items() if one), default=last)
            first = max((n for n, one in closed.items() if not one and n < last), default=first)
        return first, last

    def near(self, fillers: Sequence[Filler], known: Corner) -> list[Corner]:
        """Find the corner of each filler close to a known one."""
        return self._together(
            [self._near(filler, known.low, known.links, known.most) for filler in fillers]
        )

    def _near(self, filler: Filler, about: int, links: int, most: int) -> _Search:
        """Find the corner at or beyond a number of fillers."""
        width = int((1 - _CLOSED) * links + _STARTS / self._chain.cycles) + _LINE
        found: dict[int, Figure] = {}
        for part in range(_PARTS):
            first = max(about - 2, 1) + part * width
            tried = [n for n in range(first, first + width + 2) if n not in found]
            figures = yield self._bodies(filler, [(n, links) for n in tried])
            found |= zip(tried, figures, strict=True)
            refused = [figure.refused for figure in found.values() if not figure]
            if len(refused) > _MISSED * len(found):
                return Corner(None, most=most, why=refused[0])
            step = self._chain.step if filler.waits else self._chain.cycles
            at = _corner({n: f for n, f in found.items() if f}, step, self._long(links))
            if at is not None:
                return Corner(*at, most, links)
        return Corner(None, most=most, why=f"no corner near {about} fillers")

    def _links(self, filler: Filler, n: int, each: float) -> int:
        """Return the links with which a chain lasts longer than so many fillers."""
        wanted = max(_LEAST, filler.more * (n + _FIRST) * each) - self._chain.step
        return max(int(-(-wanted // self._chain.cycles)), 1)

    def _closed(self, figure: Figure, links: int) -> bool:
        return figure.cycles >= _CLOSED * self._long(links)

    def _long(self, links: int) -> float:
        return links * self._chain.cycles + self._chain.step

    def _bodies(self, filler: Filler, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._body(filler, n, links) for n, links in wanted]

    def _body(self, filler: Filler, n: int, links: int) -> bytes:
        codes = list(islice(cycle(filler.codes), max(n - len(filler.lead), 0)))
        before, behind = codes[: filler.first], [*filler.lead, *codes[filler.first :]]
        nops = [self._laboratory.kit.SHORT] * (-self.slots(n, links) % filler.whole)
        chain = [self._chain.start, *[self._chain.link] * links, self._chain.last]
        inside = [*nops, *behind] if before else [*behind, *nops]
        return b"".join([*before, *chain, *inside])

    def slots(self, n: int, links: int = 0) -> int:
        """Return the slots of an iteration; with 0 links, those from the last link to the next
        chain.
        """
        return n + 1 + links + 1 + self._ends


def _corner(found: Mapping[int, Figure], step: float, long: float) -> tuple[int, int, int] | None:
    """Return the corner of cycles over fillers, with the range of its position.

    None if the last numbers of fillers do not lie beyond it, where an iteration takes as long as
    a chain.
    """
    tried = sorted(found)
    doubt = _SURE * 2**0.5 * max(figure.uncertainty for figure in found.values())
    behind = tried[-_LINE]
    for _ in range(_LINE):
        plain = [n for n in tried if n >= behind]
        slope, start = linear_regression(plain, [found[n].cycles for n in plain])
        missing = {n: slope * n + start - found[n].cycles for n in tried}

        def from_(least: float, missing: Mapping[int, float] = missing) -> int:
            return 1 + max((n for n in tried if missing[n] > least), default=tried[0] - 1)

        at = from_(step / 2)
        level = slope * at + start
        if max(missing[n] for n in plain) > doubt + _ROUGH * step:
            return None
        if not tried[0] < at < tried[-_LINE] + 2 or slope > _SLOPE * step or level < long - step:
            return None
        if at + 1 >= behind:
            break
        behind = at + 1
    # Some windows end abruptly. Where an iteration was not timed, the corner may lie beyond it.
    jump = max(step, missing[at - 1])
    doubt = max(doubt, _SOFT * jump)
    low = high = at
    while low - 1 > tried[0] and missing.get(low - 1, 0.0) < jump / 2 + doubt:
        low -= 1
    while high < tried[-1] and missing.get(high, jump) > jump / 2 - doubt:
        high += 1
    return at, low, high


def chain(laboratory: Laboratory) -> Chain | None:
    """Return a chain of the slowest link of which two run in parallel; None without one."""
    kit = laboratory.kit
    one, other = _REGISTERS
    slow = kit.slow_links(one)
    figures = laboratory.time([[code] for code in slow])
    pairs = laboratory.time([list(pair) for pair in zip(slow, kit.slow_links(other), strict=True)])
    timed = [(f.cycles, code) for code, f in zip(slow, figures, strict=True) if f]
    beside = [
        (alone.cycles, code)
        for code, alone, both in zip(slow, figures, pairs, strict=True)
        if alone and both and both.cycles <= _BESIDE * alone.cycles
    ]
    if not beside:
        return None
    (cycles, link), (step, last) = max(beside), max(timed)
    return Chain(kit.break_dependency("vector", one), link, cycles, last, step)


def waiting(kit: Kit) -> Mapping[str, Filler]:
    """Return instructions that wait for the chain and not for each other, by register kind."""
    general, vector = (kit.POOLS[kind].own for kind in ("gpr", "vector"))
    lead = [kit.transfer("vector", "gpr", _REGISTERS[0], general[0])]
    moves = [kit.transfer("gpr", "gpr", general[0], to) for to in general[1:]]
    others = [kit.transfer("vector", "vector", _REGISTERS[0], to) for to in vector]
    both = [code for pair in zip(moves, others, strict=False) for code in pair]
    return {
        "general registers": Filler(moves, lead, waits=True, more=_LONG),
        "vectors": Filler(others, waits=True, more=_LONG),
        "both in turn": Filler(both, lead, waits=True, more=_LONG),
    }
