"""Carry chains: sums of several words an iteration, in independent chains."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.improving.counted import Update, update_of
from loopwright.improving.edits import EVERY_FLAG, half, next_code, whole
from loopwright.improving.listing import Line, Listing, address, code, full, label

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
        if line.mnemonic in ("adcq", "adc") and (place := address(line.operands[0])):
            if update or place.indexed != "%rcx" or place.scale != 1:
                return None
            words.append((place.disp, place.base, line.operands[1]))
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
