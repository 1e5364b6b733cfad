"""Contract checks in an emulated core, which sees every access, under each set of CPU features.

Cases are sizes, alignments, positions of faults and contents by rule, then values from the code's
own constants, then a search for calls that reach the rest of the code: the operands of a comparison
tell how to change an input so that its branch goes the other way.
"""

import hashlib
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright import files, paths, toolchain
from loopwright.checking import body
from loopwright.checking.body import Body
from loopwright.code import assemble, instructions
from loopwright.code.instructions import Code, Flow
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine import watch
from loopwright.machine.emulator import PAGE
from loopwright.machine.watch import AREA, KERNEL_AREA, SIDES, Access

_SMALL = 160  # all sizes up to here are tried
_FULL_FAULTS = 72  # sizes up to here are tried with a fault at every position
_LARGE = (191, 192, 255, 256, 257, 511, 512, 513, 777, 1024, 2049, 4095, 4096, 4097)
_MOST_RECORD_BYTES = 1024
_ROUNDS = 8
_SEEDS = 48  # calls that one search starts from, at most
_MOST_CASES = 60_000  # calls of all searches, at most
_INJECTED = 40  # calls in which each access is made to fail, at most
_BATCH = 2048
_RANDOM = 2500  # random calls
# Exponents of 2: counts of which only the first page is mapped. No call of Linux is longer.
_POWERS = range(16, 35)
_CROSSED = 8  # constants that are combined as count and both alignments
_UNMAPPED = (0, 1, 8, 63, 4095)  # addresses in the first page, which no program maps
_TRIED_BY_THREE = 12  # constants that the harness tries with all three inputs
_TWISTED = ("set", "compare", "scan")  # effects whose calls need contents of their own
_BYTES = (0x5A, 0, 0xFF, 0x80, 1, 0x7F)
_SUMS = (0, 1, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF, 0x8000ABCD)
_STRAYS = {  # addresses outside of user space
    "x86_64": (
        0x7FFF_FFFF_F000, 0x7FFF_FFFF_FFF8, 1 << 47, (1 << 47) + 0x1234567, 1 << 56,
        0x4141414141414141, (1 << 63) - 1, 1 << 63, 0xFF00 << 48, 0xFFFF7FFFFFFFFFF8,
        0xFFFF_8000 << 32, 0xFFFF888000001000, 0xFFFFFFFF81000000, 0xFFFFFFFFFFFFF000,
    ),
    "arm64": (1 << 48, 1 << 55, 0xFFFF << 48, 0xFFFF_FFFF_FFFF_F000),
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call to try; the position of a side is an alignment, or a _Place at a page's end."""

    count: int
    dst: "int | _Place" = 0
    src: "int | _Place" = 0
    pattern: int = 0  # the number of the source's contents
    shift: int = 0  # bytes of the contents to skip
    alike: bool = False  # the destination already holds what it is to become
    areas: tuple[int, int] = (0, 0)
    sum: int = 0
    stray: int = 0  # an address outside of user space for dst; 0: none
    word: int = 0  # of the pattern watch.WORD
    unmapped: tuple[int, int] = (-1, -1)  # by side, an unmapped address of a user's
    inject: tuple[int, int] = (-1, 0)  # the instruction that fails, and at which execution
    value: int = 0  # the byte that is stored or searched for
    twist: int = 0  # the number of the contents in harness/effect.c
    differ: int = watch.ANYWHERE  # the first difference of two compared sides
    distance: int | None = None  # bytes from dst to an overlapping source


@dataclass(frozen=True)
class _Place:
    """A side with reach bytes before a page's end; negative: so many before a page's start."""

    reach: int


@dataclass
class Outcome:
    """The result of emulated calls: failure describes the first call that broke the contract.

    missing are the parts of the code that no call covered: (address, kind of coverage). hit are the
    addresses whose exception-table entries were used. over_report is the largest excess of a result
    in bytes. unknown names the instruction that the emulator cannot execute, or is "".
    """

    body: Body
    failure: str = ""
    cases: int = 0
    missing: list[tuple[int, str]] = field(default_factory=list)
    hit: set[int] = field(default_factory=set)
    over_report: int = 0
    unknown: str = ""


def run(code: Code, contract: Contract, access: Access) -> Outcome:
    """Check code with emulated calls against its contract."""
    reachable = body.of(code)
    if reachable.refused:
        return Outcome(reachable, reachable.refused)
    with closing(_CallSearch(code, contract, access, reachable)) as calls:
        calls.search()
        failure, unknown = calls.failure, ""
        if "invalid instruction" in failure.lower():
            failure, unknown = "", failure
        return Outcome(
            body=reachable,
            failure=failure,
            cases=calls.cases,
            missing=calls.missing(),
            hit=calls.hit(),
            over_report=calls.over_report,
            unknown=unknown,
        )


class _CallSearch:
    """A search for calls that cover a routine's code and may break its contract.

    The calls in _seeds were the first to cover some part of the code.
    """

    def __init__(self, code: Code, contract: Contract, access: Access, reachable: Body) -> None:
        self._code, self._contract, self._body = code, contract, reachable
        self._values = body.named_sizes(reachable)
        self._patterns, self._periods = body.contents(reachable, AREA + watch.SHIFTS)
        self._watch = watch.Watch(code, contract, _facts(code, reachable), self._patterns, access)
        self._seeds: list[Call] = []
        self._turn = 0
        self._units = {
            "dst": contract.dst_record or int("dst" in contract.inputs),
            "src": contract.src_record or int("src" in contract.inputs),
        }
        self.failure, self.cases = "", 0

    def close(self) -> None:
        self._watch.close()

    @property
    def over_report(self) -> int:
        return self._watch.over_report

    def hit(self) -> set[int]:
        """Return the addresses whose entries of the exception table were used."""
        pairs = zip(self._code.exceptions, self._watch.hits, strict=True)
        return {entry.insn for entry, times in pairs if times}

    def missing(self) -> list[tuple[int, str]]:
        """Return the addresses of parts that no call has covered, with the kind of coverage."""
        parts, hit = [], self.hit()
        entries = {e.insn for e in self._code.exceptions}
        for at, step in sorted(self._body.steps.items()):
            seen = int(self._watch.seen[at])
            if not seen & watch.EXECUTED:
                parts.append((at, "never executed"))
                continue
            kinds: dict[int, str] = {}
            if step.flow is Flow.BRANCH and step.target != at + step.size:
                kinds |= {watch.TAKEN: "branch never taken", watch.NOT_TAKEN: "branch never passed"}
            if step.condition is not None:
                kinds |= {watch.TRUE: "condition never true", watch.FALSE: "condition never false"}
            parts += [(at, kind) for bit, kind in kinds.items() if not seen & bit]
            if at in entries and step.accesses and at not in hit:
                parts.append((at, "entry never used"))
        return parts

    def search(self) -> None:
        """Try calls by rule, then search for calls that reach the parts not covered."""
        for calls in (
            self._by_rule(), self._by_contents(), self._by_constants(), self._at_random(),
            self._by_registers(), self._by_effect(),
        ):  # fmt: skip
            if not self._try(calls):
                return
        for _ in range(_ROUNDS):
            before = len(self.missing())
            if not before or self.cases > _MOST_CASES:
                break
            if not self._cover_missing() or not self._inject():
                return
            if len(self.missing()) == before:
                break
        self._inject()

    def _try(self, calls: Iterable[Call]) -> bool:
        """Run calls; False if one broke the contract."""
        remaining = iter(calls)
        while batch := list(itertools.islice(remaining, _BATCH)):
            twisted = map(self._twisted, batch)
            rows = [(call, row) for call in twisted if (row := self._case(call)) is not None]
            cases = np.zeros(len(rows), dtype=watch.CASE)
            for n, (_, row) in enumerate(rows):
                cases[n] = row
            self.failure = self._watch.run(cases)
            self.cases += len(rows)
            if self.failure:
                return False
            self._seeds += [rows[n][0] for n in np.flatnonzero(cases["news"])]
        return True

    def _twisted(self, call: Call) -> Call:
        """Return a call with contents that no call before it had, if its effect reads them."""
        if self._contract.effect not in _TWISTED or call.twist:
            return call
        self._turn += 1
        return replace(call, twist=self._turn, value=_BYTES[self._turn % len(_BYTES)])

    def _case(self, call: Call) -> tuple[object, ...] | None:
        """Return a call as a row of watch.CASE; None if the contract does not allow it."""
        at, limit, areas = [0, 0], [0, 0], list(call.areas)
        if call.count * max(self._units.values()) > AREA:  # other areas lie too close together
            areas = [0, 0]
        for n, side in enumerate(SIDES):
            unit, place = self._units[side], (call.dst, call.src)[n]
            if side not in self._contract.inputs:
                continue
            size, user = call.count * unit, side in self._contract.faulting
            size += self._contract.terminated
            if call.distance is not None:
                lowest = self._lowest(call, size)
                at[n] = lowest + max(0, (-1, 1)[n] * call.distance)
                limit[n] = size
                room = AREA - 2 * PAGE - abs(call.distance)
                if at[n] % self._contract.align or size > room:
                    return None
                continue
            if isinstance(place, int) and size > AREA - 2 * PAGE:
                place = _Place(PAGE + place % PAGE) if user else _Place(AREA - PAGE)
            cut = isinstance(place, _Place) and place.reach < size
            if areas[n] == KERNEL_AREA and user and watch.has_kernel_memory(self._contract, side):
                areas[n] = 0 if cut or areas[0] == KERNEL_AREA == areas[1] else areas[n]
            start = self._watch.areas[side][areas[n]]
            if isinstance(place, int):
                fits = 0 <= place <= AREA - 2 * PAGE - size
                at[n], limit[n] = start + PAGE + (place if fits else place % PAGE), size
            elif place.reach < 0:
                at[n], limit[n] = start + place.reach, 0
            elif place.reach >= size:
                at[n], limit[n] = start + AREA - size, size
            else:
                at[n], limit[n] = start + AREA - place.reach, place.reach
            if call.unmapped[n] >= 0:
                at[n], limit[n] = call.unmapped[n], 0
            if at[n] % self._contract.align:
                return None
            if limit[n] < size and not user and not self._faults_before(call, n):
                return None
        if call.stray:
            at[0], limit[0] = call.stray, 0
        if call.count < 0 or call.count * max(self._units.values()) >= 1 << 40:
            return None
        value = call.value if "value" in self._contract.inputs else 0
        pattern = call.pattern
        if pattern not in (watch.ADDRESSES, watch.WORD):
            pattern %= len(self._patterns)
        return (
            call.count, at, limit, call.sum, call.word, value, call.twist, call.differ,
            call.distance is not None, call.distance or 0, areas, pattern,
            call.shift % watch.SHIFTS, call.alike, bool(call.stray),
            call.inject[0] + 1, call.inject[1], 0, 0,
        )  # fmt: skip

    def _lowest(self, call: Call, size: int) -> int:
        """Return the address of the first byte of two sides that overlap."""
        start = int(self._watch.areas["dst"][call.areas[0]])
        if isinstance(call.dst, _Place):
            return start + AREA - size - abs(call.distance or 0)
        return start + PAGE + call.dst % PAGE

    def _faults_before(self, call: Call, n: int) -> bool:
        """True if a call faults on the other side long before this one's memory ends."""
        other, place = SIDES[1 - n], (call.src, call.dst)[n]
        user = other in self._contract.faulting and other in self._contract.inputs
        return user and isinstance(place, _Place) and place.reach <= 2 * PAGE

    def _largest_count(self) -> int:
        """Return the largest count up to which all sizes are tried."""
        if not self._contract.counted:
            return 1
        record = max(self._contract.dst_record, self._contract.src_record)
        return max(1, _MOST_RECORD_BYTES // 2 // record) if record else _SMALL

    def _counts(self) -> list[int]:
        if not self._contract.counted:
            return [1]
        large = () if self._contract.dst_record else _LARGE
        return [*range(self._largest_count() + 1), *large]

    def _by_rule(self) -> Iterator[Call]:
        """Yield calls of all sizes at alignments, at all positions in memory, and with faults."""
        align = self._contract.align
        turn = itertools.count()
        for count in self._counts():
            for a, b in ((0, 0), (1, 0), (0, 1), (8, 3), (5, 8), (15, 15), (33, 47), (60, 62)):
                n = next(turn)
                yield Call(
                    count, a * align, b * align, pattern=n, shift=n,
                    areas=(n // 3 % watch.AREAS, n // 5 % watch.AREAS), sum=_SUMS[n % len(_SUMS)],
                )  # fmt: skip
            yield Call(count, _Place(AREA), _Place(AREA), pattern=next(turn))  # both at page ends
            yield from self._faults(count, turn)
        for count in (1, 8, 16, 40, 64, 128, 200) if self._contract.counted else (1,):
            for before in (1, 3, 7, 8, 9, 16, 31, 63, 64, 100):
                # Across a multiple of 4 GiB, where more than the lower half of an address moves on.
                across = AREA // 2 - PAGE - before * align
                yield Call(count, across, next(turn) % 16, areas=(2, 0))
                yield Call(count, next(turn) % 16, across, areas=(0, 2))
        if self._contract.counted:
            # Code that reads only a part of the count is found out by a fault in a long call.
            faulting = self._contract.faulting
            dst, src = (_Place(PAGE) if side in faulting else 0 for side in SIDES)
            for power, excess in itertools.product(_POWERS, (0, 1, 8, 64, 65, 200)):
                yield Call((1 << power) + excess, dst, src)
        for side in self._contract.faulting:
            for count, at in itertools.product(range(1, 72), _UNMAPPED):
                if at % align == 0:
                    unmapped = (at, -1) if side == "dst" else (-1, at)
                    yield Call(count if self._contract.counted else 1, unmapped=unmapped)
        if self._contract.guards:
            for stray, count in itertools.product(_STRAYS[self._code.isa], (1, 2, 3)):
                yield Call(count if self._contract.counted else 1, stray=stray)

    def _faults(self, count: int, turn: "itertools.count[int]") -> Iterator[Call]:
        """Yield calls of a count whose memory ends, or begins, at a fault."""
        for side in self._contract.faulting:
            size = count * self._units[side]
            limits: Sequence[int] = range(size)
            if size > max(_FULL_FAULTS, self._units[side] * 3):
                candidates = {
                    *range(18),
                    *range(size - 18, size),
                    size // 2,
                    size // 2 + 1,
                    size // 3,
                }
                limits = sorted(limit for limit in candidates if 0 <= limit < size)
            for limit in limits:
                t = next(turn)
                here, beside, area = _Place(limit), t % 16, t // 7 % watch.AREAS
                dst, src = (here, beside) if side == "dst" else (beside, here)
                areas = (area, 0) if side == "dst" else (0, area)
                call = Call(count, dst, src, pattern=t, shift=t, areas=areas)
                yield call
                if self._contract.effect == "compare":
                    yield replace(call, differ=limit)
                    yield replace(call, differ=max(0, limit - 1))
            for front in (1, 5, 8, 40):
                if side == "dst" and front < size:
                    yield Call(count, _Place(-front), next(turn) % 16)

    def _by_contents(self) -> Iterator[Call]:
        """Yield calls with every content, also where the destination holds it already."""
        counts = [1, 2, 3, 4, 7, 8, 9, 15, 16, 24, 40, 63, 64, 65, 80, 96, 128, 200, 320]
        words = body.words(self._body)
        sums = [*_SUMS, *((v + d) % (1 << 32) for v in words for d in (-1, 0, 1))]
        turn = itertools.count()
        for count in counts if self._contract.counted else [1]:
            for pattern in (*range(len(self._patterns)), watch.ADDRESSES):
                for shift in (0, 1, 4, 8, 21):
                    yield Call(
                        count, shift, 0, pattern=pattern, shift=shift, alike=bool(shift % 3),
                        sum=sums[next(turn) % len(sums)],
                    )  # fmt: skip
        # All words of a repeating content, in calls that hold one of them and in those with many.
        for pattern, period in self._periods.items():
            for count in (8, 16, 64, 320) if self._contract.counted else [1]:
                step = 4 if self._contract.src_record else max(4, count // 8 * 8)
                for shift in range(0, min(period, watch.SHIFTS), step):
                    yield Call(count, next(turn) % 16, 0, pattern=pattern, shift=shift)

    def _by_registers(self) -> Iterator[Call]:
        """Yield calls whose words are the values of a register where they are loaded."""
        if "src" not in self._contract.inputs:
            return
        counts = (8, 40, 200) if self._contract.counted else (1,)
        for count, area in itertools.product(counts, (0, 1)):
            call = Call(count, areas=(area, area))
            values: dict[int, None] = {}
            for at, step in self._body.steps.items():
                if step.accesses:
                    registers = self._registers(call, at) or {}
                    values.update(dict.fromkeys(registers.values()))
            for value in values:
                yield replace(call, pattern=watch.WORD, word=value)

    def _registers(self, call: Call, at: int) -> dict[str, int] | None:
        """Return the registers when a call first reaches an address; None: never."""
        if (row := self._case(call)) is None:
            return None
        case = np.zeros(1, dtype=watch.CASE)
        case[0] = row
        case["probe"] = at + 1
        self._watch.run(case)
        probed = self._watch.probed()
        return probed[0] if probed else None

    def _by_effect(self) -> Iterator[Call]:
        """Yield calls with inputs of this effect only: values, overlap, differences."""
        turn = itertools.count(1)
        near = {v + d for v in self._values for d in (-1, 0, 1) if 0 < v + d <= _LARGE[-1]}
        for count in sorted({*range(_SMALL), *near, *_LARGE}):
            match self._contract.effect:
                case "set":
                    for value in _BYTES:
                        yield Call(count, next(turn) % 64, value=value, twist=next(turn))
                case "move":
                    for distance in {d for p in _positions(count) for d in (p, -p)}:
                        at_end = next(turn) % 3 == 0
                        place: int | _Place = _Place(AREA) if at_end else next(turn) % 64
                        yield Call(count, place, distance=distance, pattern=next(turn))
                case "compare":
                    for at, kind in itertools.product(_positions(count), range(3)):
                        n = next(turn)
                        dst: int | _Place = n % 16 if kind else _Place(AREA)
                        src: int | _Place = n // 16 % 16 if kind else _Place(AREA)
                        yield Call(count, dst, src, pattern=n, twist=n * 7, differ=at)
                case "scan":
                    places: tuple[int | _Place, ...] = (_Place(AREA), 0, next(turn) % 64)
                    for kind, place in itertools.product(range(3), places):
                        n = 3 * next(turn) + kind
                        value = _BYTES[n // 3 % len(_BYTES)]
                        yield Call(count, 0, place, n, n, twist=n, value=value)

    def _by_constants(self) -> Iterator[Call]:
        """Yield the code's own constants and their neighbours as sizes and alignments."""
        near = [v + d for v in self._values for d in (-1, 0, 1) if v + d >= 0]
        counts = list(dict.fromkeys(near)) if self._contract.counted else [1]
        if self._contract.dst_record:
            counts = [c for c in counts if c <= AREA // 512]
        aligned = list(dict.fromkeys(v % PAGE for v in near))[:96]
        for n, count in enumerate(counts):
            yield Call(count, n % 16, n // 2 % 16, pattern=n)
            for k in range(3 if count <= _LARGE[-1] else 0):
                yield Call(
                    count, aligned[(n + k) % len(aligned)], aligned[(3 * n + k) % len(aligned)]
                )
        crossed = counts[: 3 * _CROSSED] if self._contract.counted else counts
        places = aligned[: 3 * _CROSSED : 2]
        turn, constant = itertools.count(), tuple(self._periods)
        for count, dst, src in itertools.product(crossed, places, places):
            if count <= _LARGE[-1]:
                n = next(turn)
                yield Call(count, dst, src, pattern=constant[n % len(constant)], shift=8 * n)
        composed: Sequence[int] = ()
        if self._contract.counted and not self._contract.dst_record:
            composed = body.composed(self._values)
        for count in composed:
            if count <= AREA // 16:
                yield Call(count, next(turn) % 64, next(turn) % 64)
            for side in self._contract.faulting:  # the same number of bytes is left by a fault
                before = next(turn) % 24
                cut = _Place(before)
                sides = (cut, before) if side == "dst" else (before, cut)
                yield Call(count + before, *sides)
        for n, at in enumerate(aligned):
            for size in (1, 7, 8, 40, 64, 100):
                count = size if self._contract.counted else 1
                yield Call(count, at, n % 16)
                yield Call(count, n % 16, at)

    def _at_random(self) -> Iterator[Call]:
        """Yield random calls, to find dependence on few bits of addresses and sizes."""
        generator = random.Random(1)
        most = self._largest_count() if self._contract.dst_record else AREA // 32
        align = self._contract.align
        for _ in range(_RANDOM):
            count = 1
            if self._contract.counted:
                count = min(most, int(2 ** generator.uniform(0, most.bit_length())))
            places: list[int | _Place] = [generator.randrange(PAGE) // align * align for _ in SIDES]
            faulting = [n for n, side in enumerate(SIDES) if side in self._contract.faulting]
            if faulting and generator.random() < 0.3:
                n = generator.choice(faulting)
                places[n] = _Place(generator.randrange(count * max(1, self._units[SIDES[n]])))
            yield Call(
                count, places[0], places[1], pattern=generator.randrange(1 << 16),
                shift=generator.randrange(watch.SHIFTS),
                areas=(generator.randrange(watch.AREAS), generator.randrange(watch.AREAS)),
                sum=generator.randrange(1 << 32),
            )  # fmt: skip

    def _inject(self) -> bool:
        """Fail each access with an entry once, as if another thread unmapped its page."""
        calls = []
        sampled = self._sampled(_INJECTED)
        for entry in self._code.exceptions:
            step = self._body.steps.get(entry.insn)
            if step is None or not step.accesses or not self._contract.faulting:
                continue
            calls += [
                replace(call, inject=(entry.insn, nth)) for call in sampled for nth in (1, 2, 5)
            ]
        return self._try(calls)

    def _sampled(self, most: int) -> list[Call]:
        """Return seeds to start from: up to `most` spread over all, and the last ones."""
        plain = [call for call in self._seeds if call.inject[0] < 0]
        step = max(1, len(plain) // most)
        return [*plain[::step][:most], *plain[-most:]]

    def _cover_missing(self) -> bool:
        """Try changed calls for each part that is not covered; False if one broke the contract.

        Entries that were never used are left to `_inject`.
        """
        for at, kind in self.missing():
            if kind == "entry never used":
                continue
            for comparison in body.comparisons_before(self._body, at, kind):
                if not self._try(self._flipped(comparison)):
                    return False
        return True

    def _flipped(self, comparison: body.Comparison) -> list[Call]:
        """Return calls changed so that a comparison may have its other result."""
        calls: dict[Call, None] = {}
        for call in self._sampled(_SEEDS):
            if call.stray or (registers := self._registers(call, comparison.at)) is None:
                continue
            for delta in comparison.deltas(registers):
                calls.update(dict.fromkeys(_changed(call, delta, self._contract)))
            if len(calls) > _MOST_CASES // 20:
                break
        return list(calls)


def _positions(count: int) -> Iterable[int]:
    """Return positions in a number of bytes: all, or those at the ends and around powers."""
    if count <= _FULL_FAULTS:
        return range(count + 2)
    ends = {count // 2, count - 1, count}
    return sorted({1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65} | ends)


def _changed(call: Call, delta: int, contract: Contract) -> Iterator[Call]:
    """Yield a call with each input changed by a difference; count and sum by its shifts as well."""
    for scale in range(8):
        for magnitude in {delta << scale, delta >> scale}:
            for change in (magnitude, -magnitude):
                if contract.counted and 0 <= call.count + change < 1 << 33:
                    yield replace(call, count=call.count + change, inject=(-1, 0))
                if isinstance(call.dst, int) and scale == 0:
                    yield replace(call, dst=(call.dst + change) % PAGE, inject=(-1, 0))
                if isinstance(call.src, int) and scale == 0:
                    yield replace(call, src=(call.src + change) % PAGE, inject=(-1, 0))
                if "sum" in contract.inputs:
                    yield replace(call, sum=(call.sum + change) % (1 << 32), inject=(-1, 0))


def _facts(code: Code, reachable: Body) -> NDArray[np.void]:
    """Return what harness/tracing/watch.c has to know of each byte of the code, as watch.FACT."""
    facts = np.zeros(len(code.text) + 1, dtype=watch.FACT)
    resumed = {at + s.size for at, s in reachable.steps.items() if s.flow is Flow.CALL}
    for at, step in reachable.steps.items():
        kind = watch.REACHED | (watch.BRANCH if step.flow is Flow.BRANCH else 0)
        kind |= watch.CALL if step.flow is Flow.CALL else 0
        kind |= watch.RESUME if at in resumed else 0
        kind |= watch.NONTEMPORAL if step.unordered else 0
        kind |= watch.FENCE if step.fence else 0
        kind |= watch.CONDITION if step.condition is not None else 0
        kind |= watch.STRING if step.string else 0
        kind |= watch.RETURN if step.flow is Flow.RETURN else 0
        kind |= watch.UNPRIVILEGED if step.unprivileged else 0
        facts[at] = (kind, step.condition or 0, step.size, step.below, 0, 0)
    for n, entry in enumerate(code.exceptions, 1):
        if 0 <= entry.insn < len(code.text) and not facts[entry.insn]["entry"]:
            facts[entry.insn]["entry"], facts[entry.insn]["fixup"] = n, entry.fixup
            if entry.type in body.USER_TYPES[code.isa]:
                facts[entry.insn]["kind"] |= watch.USER
    return facts


def harness_constants(reachable: Body) -> list[int]:
    """Return the sizes named by code that the harness tries with all three of its inputs."""
    return body.named_sizes(reachable)[:_TRIED_BY_THREE]


def cache_key(*parts: str) -> str:
    """Return the cache key of a record: a hash of everything that decides it."""
    return hashlib.sha256("\n".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


def kept_if_passed(key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a record from the cache, or from make; it is stored where its "passed" is true.

    Its "cached" tells which.
    """
    path = paths.build_dir() / "check" / f"{key}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return {**stored, "cached": True}
    record = make()
    if record["passed"]:
        with suppress(InputError):  # an unwritable cache costs only another check
            files.written(path, json.dumps(record))
    return {**record, "cached": False}


PAN = "ARM64_HAS_PAN"
_MOST_IN_FULL = 4  # features up to which every set is checked
_MOST_SHOWN = 6  # places that a note names, at most


@dataclass(frozen=True)
class Configuration:
    """A routine's code under one set of CPU features, and its access to a user's memory."""

    name: str
    code: Code
    access: Access


@dataclass(frozen=True)
class Proof:
    """The result of the emulated calls of all configurations.

    summary is "100 %", or "not proven" with the places that no call reached. hit are the addresses
    of the exception-table entries that were used.
    """

    failure: str
    cases: int
    summary: str
    hit: frozenset[int]
    seconds: float
    cached: bool


def configurations(variant: Variant) -> list[Configuration]:
    """Return a variant's code, then its code under other sets of CPU features.

    Up to _MOST_IN_FULL features every set is taken; of more, each feature and each pair is toggled.
    """
    own = frozenset(variant.alternatives)
    names = assemble.features(variant)
    toggled = len(names) if len(names) <= _MOST_IN_FULL else 2
    sets = [own ^ set(c) for n in range(toggled + 1) for c in itertools.combinations(names, n)]
    codes = [assemble.variant_code(variant, with_=features) for features in sets]
    switches_pan = any(PAN in features ^ own and code.text != codes[0].text
                       for features, code in zip(sets, codes, strict=True))  # fmt: skip
    by_hash: dict[str, Configuration] = {}
    for features, code in zip(sets, codes, strict=True):
        name = f"with {', '.join(sorted(features))}" if features else "with no feature"
        by_hash.setdefault(
            code.sha256, Configuration(name, code, access(code, features, own, switches_pan))
        )
    return list(by_hash.values())


def access(code: Code, taken: frozenset[str], own: frozenset[str], switches_pan: bool) -> Access:
    """Return the kind of access that code has to use for a user's memory.

    taken are the features of the code, own those of the variant itself: code that opens the access
    itself is checked for it. switches_pan is True if the code differs where PAN is off.
    """
    if code.isa == "arm64":
        return Access(unprivileged=not switches_pan or PAN in taken)
    return Access(gated=bool(taken & own & assemble.PRIVILEGED))


def prove(checked: Sequence[Configuration], contract: Contract) -> Proof:
    """Check a routine's configurations against its contract, up to the first that fails."""
    records: list[dict[str, Any]] = []
    failure = ""
    for configuration in checked:
        records.append(record := _record(configuration, contract))
        failure = record["failure"] or over_reported(contract, record["over_report"])
        if failure:
            failure += f" {configuration.name}" if configuration is not checked[0] else ""
            break
    return Proof(
        failure=failure,
        cases=sum(r["cases"] for r in records),
        summary=_summary(checked, records),
        hit=frozenset(at for r in records for at in r["hit"]),
        seconds=sum(r["seconds"] for r in records),
        cached=all(r["cached"] for r in records),
    )


def over_reported(contract: Contract, most: int) -> str:
    """Return the excess of a result over the contract's limit of over-reporting, or ""."""
    if contract.over_report is None or most <= contract.over_report:
        return ""
    return f"{most} bytes too many said to be left, {contract.over_report} are allowed"


def argued(result: str, variant: Variant) -> str:
    """Return a proof's result with the reason of kernel.toml where it is incomplete."""
    return f"{result} ({variant.unreached})" if result != "100 %" and variant.unreached else result


def _record(configuration: Configuration, contract: Contract) -> dict[str, Any]:
    code = configuration.code
    entries = [(e.insn, e.fixup, e.type) for e in code.exceptions]
    inputs = repr((code.entry, entries)), repr(contract), repr(configuration.access)
    key = cache_key(_version(), code.isa, code.text.hex(), *inputs)

    def make() -> dict[str, Any]:
        began = time.monotonic()
        outcome = run(code, contract, configuration.access)
        return {
            "passed": not outcome.failure,
            "failure": outcome.failure,
            "cases": outcome.cases,
            "missing": outcome.missing,
            "steps": {str(at): step.text for at, step in outcome.body.steps.items()},
            "hit": sorted(outcome.hit),
            "over_report": outcome.over_report,
            "unknown": outcome.unknown,
            "seconds": time.monotonic() - began,
        }

    return kept_if_passed(key, make)


def _summary(checked: Sequence[Configuration], records: Sequence[dict[str, Any]]) -> str:
    """Return "100 %", or the places that no configuration reached.

    A place that is the same instruction in several of them is reached if one of them reached it.
    """
    unknown = next((str(r["unknown"]) for r in records if r["unknown"]), "")
    if unknown:
        return f"not proven: {unknown}"
    places = []
    for n, record in enumerate(records):
        for at, kind in record["missing"]:
            text = record["steps"][str(at)]
            others = [
                r for m, r in enumerate(records) if m != n and r["steps"].get(str(at)) == text
            ]
            if all([at, kind] in [list(x) for x in r["missing"]] for r in others):
                places.append(f"+{at:#x} {kind}")
    hit = {at for r in records for at in r["hit"]}
    reachable = {int(at) for r in records for at in r["steps"]}
    entries = dict.fromkeys(e.insn for e in checked[0].code.exceptions)
    places += [f"+{at:#x} entry never used" for at in entries if at not in hit and at in reachable]
    places += [f"+{at:#x} entry of what is never reached" for at in entries if at not in reachable]
    places = list(dict.fromkeys(places))
    if not places:
        return "100 %"
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return f"not proven: {', '.join(places[:_MOST_SHOWN])}{more}"


@cache
def _version() -> str:
    """Return a hash of the code that chooses, runs and judges emulated calls."""
    here = sorted(Path(__file__).parent.glob("*.py"))
    elsewhere = (Path(watch.__file__), Path(instructions.__file__), *watch.SOURCES, *watch.HEADERS)
    gcc = toolchain.find(toolchain.host_isa()).gcc
    texts = [path.read_text() for path in (*here, *elsewhere)]
    libraries = (version(name) for name in ("unicorn", "iced-x86", "capstone", "numpy"))
    return cache_key(*libraries, gcc, *texts)
