"""Unrolling: several iterations of a loop at once, the rest by the loop itself."""

from dataclasses import dataclass, replace

from loopwright.improving.counted import Counted, least_before
from loopwright.improving.edits import (
    EVERY_FLAG,
    OfLoop,
    access_label,
    exit_label,
    flags_pass,
    may_fault,
    operation,
    restartable,
    shifted,
    spliced,
    stepped,
)
from loopwright.improving.listing import Line, Listing, code, label

_MOST_ACCESSES = 32  # of an unrolled body


@dataclass(frozen=True)
class Unroll(OfLoop):
    """A loop of several iterations at once before the loop, which is left the remainder."""

    factor: int
    apart: bool = False

    @property
    def name(self) -> str:
        """Return its name with its factor, and where the remainder stands."""
        return f"unroll by {self.factor}" + (", remainder out of the way" if self.apart else "")

    condition = (
        "the counter's step is constant, registers that are stepped serve as addresses alone, no "
        "flags pass into, through or out of the loop, and an iteration that faulted may begin again"
    )

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None where the condition does not hold."""
        listing, factor = loop.listing, self.factor
        if not 0 < len(loop.accesses) * factor <= _MOST_ACCESSES:
            return None
        if "unrolled" in loop.head or flags_pass(loop):
            return None
        if may_fault(loop) and not restartable(loop):
            return None
        if any(EVERY_FLAG & loop.touched(n) for n in loop.body):
            return None
        counter, step = loop.counter, loop.step
        before = {"borrow": (factor - 1) * step, "index": -factor * step}.get(
            loop.form, factor * step
        )
        head, fix = listing.fresh(f"unrolled{factor}"), listing.fresh(f"unrolled{factor}_rest")
        fault, behind = listing.fresh(f"unrolled{factor}_fault"), exit_label(loop, "done")
        down = loop.form != "index"
        kinds = ("sub", "add") if down else ("add", "sub")
        amount = abs(before)
        copies, entries = self._copies(loop, before, fault)
        if copies is None:
            return None
        others = [u for u in loop.updates.values() if u.register != counter.register]
        steps = [code(stepped(listing.lines[u.at], u, factor)) for u in others]
        done, more = {"borrow": ("jnc", "jc"), "limit": ("jb", "jae")}.get(loop.form, ("jz", "jnz"))
        ends = [code(operation(kinds[1], amount, counter))]
        if loop.form == "limit":
            ends.append(code(f"cmp{counter.suffix} ${step},{counter.written}"))
        ends.append(code(f"{more} {loop.head}" if self.apart else f"{done} {behind.name}"))
        entry = listing.position[loop.head]
        sure = down and 0 < amount <= least_before(listing, entry, counter.register)
        big = [
            code(
                operation(kinds[0], amount, counter),
                ""
                if sure
                else f"Less than {factor} iterations are left to the loop behind this one.",
            ),
            *([] if sure else [code(f"{'jb' if down else 'jg'} {fix}")]),
            label(head, f"{self.name.capitalize()}: {factor * step} of the counter an iteration."),
            *copies,
            *steps,
            code(operation(kinds[0], factor * step, counter)),
            code(f"{'jae' if down else 'jle'} {head}"),
            label(fix),
            *ends,
        ]
        stub = []
        if entries:
            stub = [
                label(fault, "The loop behind this one finds the fault again, and its place."),
                code(operation(kinds[1], amount, counter)),
                code(f"jmp {loop.head}"),
                *entries,
            ]
        made = spliced(loop, big, behind, stub, self.name, moved=self.apart)
        if listing.head != loop.head:
            return made
        return replace(made, head=head, turns=listing.turns * factor)

    def _copies(
        self, loop: Counted, before: int, fault: str
    ) -> tuple[list[Line] | None, list[Line]]:
        """Return the body for each iteration, and the entries of its accesses."""
        listing = loop.listing
        lines: list[Line] = []
        entries: list[Line] = []
        for copy in range(self.factor):
            for at in loop.body:
                ahead = {
                    r: copy * u.step + loop.moved(at, r) + (before if u is loop.counter else 0)
                    for r, u in loop.updates.items()
                }
                text = shifted(loop, at, ahead)
                if text is None:
                    return None, []
                for entry in listing.entries_at(at)[:1]:
                    name = access_label(listing, f"{self.factor}_{copy}_{at}")
                    lines.append(label(name))
                    entries.append(replace(entry, text=name, target=fault))
                lines.append(code(text))
        return lines, entries
