"""Unrolling and software pipelining of counted loops; the original loop does the remainder."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from loopwright.improving.counted import Counted, least_before
from loopwright.improving.edits import (
    EVERY_FLAG,
    CountedTransformation,
    access_label,
    exit_label,
    flags_pass,
    may_fault,
    operation,
    repeatable,
    shifted,
    spliced,
    stepped,
)
from loopwright.improving.listing import MEMORY, Line, Listing, code, label

_MOST_ACCESSES = 32  # in an unrolled body
AHEAD = "unrolled"  # part of the labels of loops that transformations put before others


class Copies(NamedTuple):
    """The statements of the copies of a loop, each as the number of a copy and its position.

    first is executed once before the loop, inside in each iteration.
    """

    first: Sequence[tuple[int, int]]
    inside: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class AheadOfLoop(CountedTransformation):
    """A loop before the original loop, for as long as `factor` iterations are left.

    The original does the remainder. stride is the number of original iterations in one iteration of
    the new loop. With apart the original moves out of line.
    """

    factor: int
    apart: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in tables and comments."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The beginning of its labels."""

    @property
    def stride(self) -> int:
        """The number of original iterations in one of its own."""
        return self.factor

    @abstractmethod
    def copies(self, loop: Counted) -> Copies | None:
        """Return the statements of the new loop, None if the condition does not hold."""

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
        listing, factor = loop.listing, self.factor
        if not 0 < len(loop.accesses) * factor <= _MOST_ACCESSES:
            return None
        if AHEAD in loop.head or flags_pass(loop):
            return None
        if may_fault(loop) and not repeatable(loop):
            return None
        if any(EVERY_FLAG & loop.touched(n) for n in loop.body):
            return None
        copies = self.copies(loop)
        if copies is None:
            return None
        counter, step = loop.counter, loop.step
        before = {"borrow": (factor - 1) * step, "index": -factor * step}.get(
            loop.form, factor * step
        )
        head, fix = listing.fresh(self.stem), listing.fresh(f"{self.stem}_rest")
        fault, behind = listing.fresh(f"{self.stem}_fault"), exit_label(loop, "done")
        down = loop.form != "index"
        operations = ("sub", "add") if down else ("add", "sub")
        amount = abs(before)
        shifted_parts = [
            self._shifted(loop, which, before, fault) for which in (copies.first, copies.inside)
        ]
        if None in shifted_parts:
            return None
        first, inside = (part for part in shifted_parts if part is not None)
        others = [u for u in loop.updates.values() if u.register != counter.register]
        steps = [code(stepped(listing.lines[u.at], u, self.stride)) for u in others]
        done, continues = {"borrow": ("jnc", "jc"), "limit": ("jb", "jae")}.get(
            loop.form, ("jz", "jnz")
        )
        ends = [code(operation(operations[1], amount, counter))]
        if loop.form == "limit":
            ends.append(code(f"cmp{counter.suffix} ${step},{counter.written}"))
        ends.append(code(f"{continues} {loop.head}" if self.apart else f"{done} {behind.name}"))
        entry = listing.position[loop.head]
        least = least_before(listing, entry, counter.register, negated=not down)
        enough = 0 < amount <= least
        unrolled = [
            code(
                operation(operations[0], amount, counter),
                ""
                if enough
                else f"Less than {factor} iterations are left to the loop behind this one.",
            ),
            *([] if enough else [code(f"{'jb' if down else 'jg'} {fix}")]),
            *first.lines,
            label(
                head,
                f"{self.name.capitalize()}: {self.stride * step} of the counter an iteration.",
            ),
            *inside.lines,
            *steps,
            code(operation(operations[0], self.stride * step, counter)),
            code(f"{'jae' if down else 'jle'} {head}"),
            label(fix),
            *ends,
        ]
        stub = []
        if entries := [*first.entries, *inside.entries]:
            stub = [
                label(fault, "The loop behind this one finds the fault again, and its place."),
                code(operation(operations[1], amount, counter)),
                code(f"jmp {loop.head}"),
                *entries,
            ]
        changed = spliced(loop, unrolled, behind, stub, self.name, moved=self.apart)
        if listing.head != loop.head:
            return changed
        return replace(changed, head=head, iterations=listing.iterations * self.stride)

    def _shifted(
        self, loop: Counted, statements: Sequence[tuple[int, int]], before: int, fault: str
    ) -> "_CopiedCode | None":
        """Return copies of statements with adjusted addresses, and exception-table entries."""
        listing = loop.listing
        lines: list[Line] = []
        entries: list[Line] = []
        for number, (copy, at) in enumerate(statements):
            ahead = {
                r: copy * u.step + loop.added_before(at, r) + (before if u is loop.counter else 0)
                for r, u in loop.updates.items()
            }
            text = shifted(loop, at, ahead)
            if text is None:
                return None
            for entry in listing.entries_at(at)[:1]:
                name = access_label(listing, f"{self.stem}_{copy}_{at}_{number}")
                lines.append(label(name))
                entries.append(replace(entry, text=name, target=fault))
            lines.append(code(text))
        return _CopiedCode(lines, entries)


class _CopiedCode(NamedTuple):
    """The statements of copies, and the exception-table entries of their accesses."""

    lines: Sequence[Line]
    entries: Sequence[Line]


@dataclass(frozen=True)
class Unroll(AheadOfLoop):
    """An unrolled loop before the original loop, which does the remainder.

    Condition: the counter's step is constant, stepped registers are used in addresses only, no
    flags are live at the entry, within or at the exit of the loop, and an iteration can be repeated
    after a fault.
    """

    @property
    def name(self) -> str:
        """The name with the factor and the place of the remainder."""
        return f"unroll by {self.factor}" + (", remainder out of the way" if self.apart else "")

    @property
    def stem(self) -> str:
        """The beginning of its labels."""
        return f"{AHEAD}{self.factor}"

    def copies(self, loop: Counted) -> Copies:
        """Return the copies of the body, one after another."""
        return Copies((), [(copy, at) for copy in range(self.factor) for at in loop.body])


@dataclass(frozen=True)
class PipelineLoads(AheadOfLoop):
    """A loop whose loads belong to the next iteration; the original does the last iteration.

    Condition: the body begins with loads, and the conditions of unrolling hold.
    """

    factor: int = 2

    @property
    def name(self) -> str:
        """The name."""
        return "loads one iteration ahead"

    @property
    def stem(self) -> str:
        """The beginning of its labels."""
        return f"{AHEAD}_ahead"

    @property
    def stride(self) -> int:
        """The number of original iterations in one of its own."""
        return 1

    def copies(self, loop: Counted) -> Copies | None:
        """Return the first loads, and an iteration that ends with the loads of the next one."""
        loads = first_loads(loop)
        rest = [at for at in loop.body if at not in loads]
        if not loads or not rest:
            return None
        next_ones = [(1, at) for at in loads]
        return Copies([(0, at) for at in loads], [*((0, at) for at in rest), *next_ones])


def first_loads(loop: Counted) -> list[int]:
    """Return the positions of the loads at the beginning of a body."""
    loads: list[int] = []
    for at in loop.body:
        effects = loop.listing.effects[at]
        if effects is None or MEMORY not in effects.reads or MEMORY in effects.writes:
            break
        loads.append(at)
    return loads
