"""String instructions instead of loops over words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from loopwright.improving.counted import Counted
from loopwright.improving.edits import (
    CountedTransformation,
    access_label,
    exit_label,
    flags_pass,
    repeatable,
    spliced,
)
from loopwright.improving.listing import Listing, address, code, label


@dataclass(frozen=True)
class StringInstruction(CountedTransformation):
    """rep stosq or rep movsq from a size on, instead of a loop over words.

    Condition: the body stores rax to, or copies, each word of a contiguous range at rdi (from rsi),
    rcx counts its bytes, and the loop can be restarted after a fault.
    """

    least: int

    @property
    def name(self) -> str:
        """The name with the least size in bytes."""
        return f"string instruction from {self.least} bytes on"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each loop that can get a string instruction before it."""
        if any("string instruction" in step for step in listing.steps):
            return
        yield from super().apply(listing)

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
        listing = loop.listing
        copies = _words(loop)
        ours = loop.form in ("borrow", "limit") and loop.counter.register == "rcx"
        if copies is None or not ours or flags_pass(loop):
            return None
        if not repeatable(loop) or "unrolled" in loop.head:
            return None
        bias = loop.step if loop.form == "borrow" else 0
        behind = exit_label(loop, "done")
        fault = listing.fresh("string_fault")
        first, rep = (access_label(listing, f"string_{n}") for n in (0, 1))
        pointers = ["%rdi", "%rsi"] if copies else ["%rdi"]
        entry = next((e for n in loop.accesses for e in listing.entries_at(n)), None)
        load = [code("movq (%rsi),%rax")] if copies else []
        second = access_label(listing, "string_2")
        lines = [
            code(f"cmpq ${self.least - bias},%rcx"),
            code(f"jb {loop.head}"),
            *([label(second)] if copies and entry else []),
            *(
                replace(line, note="The first word as it lies; whole words follow it.")
                for line in load
            ),
            *([label(first)] if entry else []),
            code(
                "movq %rax,(%rdi)",
                "" if copies else "The first word as it lies, before whole words.",
            ),
            *([code(f"addq ${bias},%rcx")] if bias else []),
            *(code(f"addq %rcx,{p}") for p in pointers),
            code("andq $-8,%rcx"),
            *(code(f"subq %rcx,{p}") for p in pointers),
            code("shrq $3,%rcx"),
            *([label(rep)] if entry else []),
            code("rep movsq" if copies else "rep stosq", f"{self.name.capitalize()}."),
            *([code(f"subq ${bias},%rcx")] if bias else []),
            code(f"jmp {behind.name}"),
        ]
        stub = []
        if entry:
            test = "testq %rcx,%rcx" if bias else f"cmpq ${loop.step},%rcx"
            stub = [
                label(fault, "Words that are left, as the loop counts them."),
                code(f"leaq {-bias or ''}(,%rcx,8),%rcx"),
                code(test),
                code(f"{'js' if bias else 'jb'} {behind.name}"),
                code(f"jmp {loop.head}"),
                *([replace(entry, text=second, target=loop.head)] if copies else []),
                replace(entry, text=first, target=loop.head),
                replace(entry, text=rep, target=fault),
            ]
        return spliced(loop, lines, behind, stub, self.name)


def _words(loop: Counted) -> bool | None:
    """Return True for a loop that copies contiguous words, False for one that clears them."""
    listing = loop.listing
    stored, loaded, held = [], [], ""
    for at in loop.body:
        line = listing.lines[at]
        if not re.fullmatch(r"movq?", line.mnemonic) or len(line.operands) != 2:
            return None
        ahead = {r: loop.added_before(at, r) for r in loop.updates}
        source, target = (address(o) for o in line.operands)
        if source and not source.indexed and source.base == "%rsi":
            held = line.operands[1]
            if held != "%rax":
                return None
            loaded.append(source.disp + ahead.get("rsi", 0))
        elif target and not target.indexed and target.base == "%rdi" and line.operands[0] == "%rax":
            stored.append(target.disp + ahead.get("rdi", 0))
            if loaded and loaded[-1] != stored[-1]:
                return None
        else:
            return None
    whole = list(range(0, loop.step, 8))
    pointers = {"rdi", *(["rsi"] if loaded else [])}
    steps = {r: u.step for r, u in loop.updates.items() if r != "rcx"}
    if stored != whole or steps != dict.fromkeys(pointers, loop.step):
        return None
    if not loaded:
        return False if "rax" not in loop.written() else None
    return True if loaded == stored else None
