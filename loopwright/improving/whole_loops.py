"""Loops replaced as a whole: sums by carry chains, words by string instructions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from loopwright.improving.edits import (
    EVERY_FLAG,
    CountedTransformation,
    access_label,
    exit_label,
    flags_pass,
    half,
    next_code,
    repeatable,
    spliced,
    whole,
)
from loopwright.improving.listing import Line, Listing, address, code, full, label
from loopwright.improving.transformable_loops import Counted, Update, update_of

_SCRATCH = ("%r8", "%r9", "%r10", "%r11", "%rax", "%rcx", "%rdx", "%rsi", "%rdi")


@dataclass(frozen=True)
class CarryLoop:
    """A loop of adc with one carry from word to word, which counts up to zero by lea and jrcxz.

    clear is the position of the clc before it, head that of its label. base and index address the
    words, with the first at disp; total is the register of the sum.
    """

    listing: Listing
    clear: int
    head: int
    base: str
    disp: int
    total: str
    words: int
    update: Update


def carry_loops(listing: Listing) -> Iterator[CarryLoop]:
    """Yield the carry-chain loops of a listing."""
    contract = listing.contract
    if listing.isa != "x86_64" or contract is None or contract.effect != "checksum":
        return
    for head, line in enumerate(listing.lines):
        if line.kind == "label" and (loop := _loop(listing, head)):
            yield loop


def _loop(listing: Listing, head: int) -> CarryLoop | None:
    lines = listing.lines
    at = next_code(listing, head)
    if at is None or lines[at].mnemonic != "jrcxz":
        return None
    words: list[tuple[int, str, str]] = []
    update = None
    while (at := next_code(listing, at)) is not None:
        line = lines[at]
        candidate = update_of(line, at)
        if line.mnemonic in ("adcq", "adc") and (memory := address(line.operands[0])):
            if update or memory.indexed != "%rcx" or memory.scale != 1:
                return None
            words.append((memory.disp, memory.base, line.operands[1]))
        elif candidate and candidate.register == "rcx" and line.mnemonic.startswith("lea"):
            update = candidate
        elif line.text == f"jmp {lines[head].text}":
            break
        else:
            return None
    clear = head - 1
    while clear > 0 and lines[clear].kind == "text":
        clear -= 1
    if not update or not words or lines[clear].text != "clc" or _jumps(listing, head) != [at]:
        return None
    first = words[0]
    expected = [(first[0] + 8 * n, first[1], first[2]) for n in range(len(words))]
    if words != expected or update.step != 8 * len(words) or whole(first[1]) == "rcx":
        return None
    return CarryLoop(listing, clear, head, first[1], first[0], first[2], len(words), update)


def _jumps(listing: Listing, head: int) -> list[int]:
    """Return the positions of the instructions that name a label."""
    name = listing.lines[head].text
    return [
        n
        for n, line in enumerate(listing.lines)
        if line.kind == "code" and name in re.findall(r"[.\w$]+", line.text)
    ]


@dataclass(frozen=True)
class CarryChains:
    """A loop of several words an iteration before the original, with the carry added each time.

    Condition: the contract compares sums folded to 16 bits, the loop is one chain of adc that
    begins with clc, its counter is a multiple of its step, and registers are free for a pointer and
    the further sums.
    """

    words: int
    chains: int

    @property
    def name(self) -> str:
        """The name with the words and the chains."""
        count = f"{self.chains} chains of " if self.chains > 1 else ""
        return f"carry folded each iteration, {count}{self.words // self.chains} words"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each carry-chain loop that can be changed."""
        for loop in carry_loops(listing):
            if changed := self._changed(loop):
                yield changed

    def _changed(self, loop: CarryLoop) -> Listing | None:
        listing = loop.listing
        if self.words % loop.words or self.name in listing.steps:
            return None
        free = self._free(loop)
        if len(free) < self.chains:
            return None
        pointer, *sums = free[: self.chains]
        bytes_ = 8 * self.words
        head, rest = listing.fresh(f"sum{self.words}"), listing.fresh(f"sum{self.words}_rest")
        totals = [loop.total, *sums]
        words_per_chain = self.words // self.chains
        body = []
        for n, total in enumerate(totals):
            for word in range(words_per_chain):
                disp = loop.disp + 8 * (n * words_per_chain + word)
                kind = "adcq" if word else "addq"
                body.append(code(f"{kind} {disp or ''}({pointer}),{total}"))
            body.append(code(f"adcq $0,{total}"))
        lines = [
            *(code(f"xorl {half(whole(total))},{half(whole(total))}") for total in sums),
            code(f"leaq ({loop.base},%rcx),{pointer}"),
            code(
                f"addq ${bytes_},%rcx",
                f"Less than {self.words} words are left to the chain behind this one.",
            ),
            code(f"jg {rest}"),
            Line("text", "\t.p2align 4"),
            label(head, f"{self.name[0].upper()}{self.name[1:]}."),
            *body,
            code(f"leaq {bytes_}({pointer}),{pointer}"),
            code(f"addq ${bytes_},%rcx"),
            code(f"jle {head}"),
            *(line for total in sums for line in _folded(total, loop.total)),
            label(rest),
            code(f"subq ${bytes_},%rcx"),
        ]
        changed = [*listing.lines[: loop.clear], *lines, *listing.lines[loop.clear :]]
        return listing.with_lines(changed, self.name)

    def _free(self, loop: CarryLoop) -> list[str]:
        """Return registers that the contract lets change and that are dead before the loop."""
        listing = loop.listing
        contract = listing.contract
        if contract is None:
            return []
        allowed = {
            full("x86_64", name) for name in (*contract.may_change, *contract.returns.values())
        }
        live = listing.live[loop.clear]
        if EVERY_FLAG & live:
            return []
        return [r for r in _SCRATCH if whole(r) in allowed and whole(r) not in live]


def _folded(part: str, total: str) -> list[Line]:
    return [code(f"addq {part},{total}"), code(f"adcq $0,{total}")]


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
