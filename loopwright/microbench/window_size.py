"""Sizes of windows, by the instructions that fit into the shadow of a slow chain.

Kernel: the iteration of a loop is a chain of slow instructions, which waits for nothing of the
iteration before, and n fillers. As long as the window holds the fillers of an iteration, the chain
of the next one starts before this one's ends. Answer: the least n with which it starts behind it,
where cycles over n stop to rise by a link of the chain for each filler, or jump (after Wong, and
Butcher's robsize, with chains in the place of misses).
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import MOST_BYTES, Figure, Laboratory

_WIDE = 4  # fillers a cycle at most that any front end delivers
_LEAST = 80.0  # cycles of a chain
_CLOSED = 0.8  # share of a chain's cycles that an iteration takes where the next one waits for it
_BESIDE = 1.1  # times as long as one chain that two take which run beside each other
_FIRST = 12  # fillers that are tried first
_STARTS = 12.0  # cycles from a place that becomes free to the start of what takes it
_LINE = 8  # numbers of fillers by which cycles behind the corner are known
_PARTS = 6  # of numbers of fillers that are tried one after the other for a corner
_LONG = 3.0  # times what fillers take, of chains that fillers wait for: they start behind it
_SPLIT, _NEAR = 8, 6  # parts that a range of fillers is split in, down to so many
_AGAIN = 3  # times that a corner is looked for further on
_MISSED = 0.25  # share of iterations near a corner that may be refused
_SLOPE = 0.1  # of a step for each filler that cycles rise by behind a corner at most
_ROUGH = 0.15  # of a step by which cycles behind a corner miss at most
_SOFT = 0.2  # of a step by which the last one may differ from half a one
_SURE = 3.0  # standard deviations
_REGISTERS = (1, 2)  # vector registers of chains


@dataclass(frozen=True)
class Chain:
    """A slow instruction that waits for itself, many times, and behind it the slowest one, once.

    start gives their register a value anew. cycles is what a link of the chain takes, step what its
    last one takes; two chains can run beside each other, but for their last links.
    """

    start: bytes
    link: bytes
    cycles: float
    last: bytes
    step: float


@dataclass(frozen=True)
class Filler:
    """Instructions for the shadow: lead, each of which counts as one, and then codes in turn.

    waits says that they wait for the chain: the last step is then that of its last link. more is
    how many times as long as the fillers the chain has to last. first is how many fillers stand
    before the chain; whole is what the places of an iteration are a multiple of, by nops behind the
    fillers, or where some stand before the chain, behind that.
    """

    codes: Sequence[bytes]
    lead: Sequence[bytes] = ()
    waits: bool = False
    more: float = 2.0
    first: int = 0
    whole: int = 1


@dataclass(frozen=True)
class Corner:
    """The least number of fillers at which chains do not meet: at is the likeliest of low to high.

    Without at, unseen says that there is none up to most fillers; else why says what went wrong.
    """

    at: int | None
    low: int = 0
    high: int = 0
    most: int = 0
    links: int = 0
    why: str = ""
    unseen: bool = False


# A search says which bodies it wants timed next, and is told what they took.
_Search = Generator[Sequence[bytes], Sequence[Figure], Corner]


class Shadow:
    """Bodies of loops with a chain, timed on a machine."""

    def __init__(self, laboratory: Laboratory, chain: Chain, ends: int) -> None:
        """Take the places that the end of a loop takes."""
        self._laboratory, self._chain, self._ends = laboratory, chain, ends

    @property
    def sharp(self) -> bool:
        """Say whether the last link takes longer than what enters the scheduler needs to start."""
        return self._chain.step >= _STARTS

    def corners(self, fillers: Sequence[Filler]) -> list[Corner]:
        """Look for the corner of each filler among as many as a loop takes."""
        alone = self._laboratory.time([list(filler.codes) for filler in fillers])
        return self._together(
            [self._corner(filler, one) for filler, one in zip(fillers, alone, strict=True)]
        )

    def _together(self, searches: Sequence[_Search]) -> list[Corner]:
        """Go on with all searches at once, so that what they want next is timed in one go."""
        found: dict[int, Corner] = {}
        told: dict[int, Sequence[Figure] | None] = dict.fromkeys(range(len(searches)))
        while told:
            wanted: dict[int, Sequence[bytes]] = {}
            for n, figures in told.items():
                try:
                    wanted[n] = next(searches[n]) if figures is None else searches[n].send(figures)
                except StopIteration as end:
                    found[n] = end.value
            every = iter(self._laboratory.turns([one for some in wanted.values() for one in some]))
            told = {n: [next(every) for _ in some] for n, some in wanted.items()}
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
        # What is in the way of a chain now and then is no corner: go on behind it.
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
        """Return two close numbers of fillers, between which iterations begin to be long."""
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
        """Look for the corner of each filler close to one that is known of another."""
        return self._together(
            [self._near(filler, known.low, known.links, known.most) for filler in fillers]
        )

    def _near(self, filler: Filler, about: int, links: int, most: int) -> _Search:
        """Find the corner at or behind a number of fillers."""
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
        """Return how many links a chain needs to last longer than so many fillers."""
        wanted = max(_LEAST, filler.more * (n + _FIRST) * each) - self._chain.step
        return max(int(-(-wanted // self._chain.cycles)), 1)

    def _closed(self, figure: Figure, links: int) -> bool:
        return figure.cycles >= _CLOSED * self._long(links)

    def _long(self, links: int) -> float:
        return links * self._chain.cycles + self._chain.step

    def _bodies(self, filler: Filler, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._body(filler, n, links) for n, links in wanted]

    def _body(self, filler: Filler, n: int, links: int) -> bytes:
        codes = [filler.codes[k % len(filler.codes)] for k in range(n - len(filler.lead))]
        before, behind = codes[: filler.first], [*filler.lead, *codes[filler.first :]]
        nops = [self._laboratory.kit.SHORT] * (-self.places(n, links) % filler.whole)
        chain = [self._chain.start, *[self._chain.link] * links, self._chain.last]
        inside = [*nops, *behind] if before else [*behind, *nops]
        return b"".join([*before, *chain, *inside])

    def places(self, n: int, links: int = 0) -> int:
        """Return the places of an iteration, or those from the last link to the next chain."""
        return n + 1 + links + 1 + self._ends


def _corner(found: Mapping[int, Figure], step: float, long: float) -> tuple[int, int, int] | None:
    """Return the corner of cycles by fillers, the likeliest of two numbers that follow it.

    None where the last of them do not lie behind it: an iteration takes as long as a chain there.
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
    # Some windows end at once. Where an iteration was not timed, the corner may lie behind it as
    # well.
    jump = max(step, missing[at - 1])
    doubt = max(doubt, _SOFT * jump)
    low = high = at
    while low - 1 > tried[0] and missing.get(low - 1, 0.0) < jump / 2 + doubt:
        low -= 1
    while high < tried[-1] and missing.get(high, jump) > jump / 2 - doubt:
        high += 1
    return at, low, high


def chain(laboratory: Laboratory) -> Chain | None:
    """Return a chain of the slowest link of which two run beside each other; None without any."""
    kit = laboratory.kit
    one, other = _REGISTERS
    slow = kit.slow(one)
    figures = laboratory.time([[code] for code in slow])
    pairs = laboratory.time([list(pair) for pair in zip(slow, kit.slow(other), strict=True)])
    timed = [(f.cycles, code) for code, f in zip(slow, figures, strict=True) if f]
    beside = [
        (alone.cycles, code)
        for code, alone, both in zip(slow, figures, pairs, strict=True)
        if alone and both and both.cycles <= _BESIDE * alone.cycles
    ]
    if not beside:
        return None
    (cycles, link), (step, last) = max(beside), max(timed)
    return Chain(kit.set_anew("vector", one), link, cycles, last, step)


def waiting(kit: Kit) -> Mapping[str, Filler]:
    """Return instructions that wait for the chain, none for another, by what they compute in."""
    general, vector = (kit.POOLS[kind].own for kind in ("gpr", "vector"))
    lead = [kit.carry("vector", "gpr", _REGISTERS[0], general[0])]
    some = [kit.carry("gpr", "gpr", general[0], to) for to in general[1:]]
    others = [kit.carry("vector", "vector", _REGISTERS[0], to) for to in vector]
    both = [code for pair in zip(some, others, strict=False) for code in pair]
    return {
        "general registers": Filler(some, lead, waits=True, more=_LONG),
        "vectors": Filler(others, waits=True, more=_LONG),
        "both in turn": Filler(both, lead, waits=True, more=_LONG),
    }
