"""The list of transformations, and those of code order, user-access sections and whole loops."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from loopwright.code.instructions import Flow
from loopwright.improving.accesses import FuseUpdate, PairAccesses, PointersForIndex, SplitPairs
from loopwright.improving.listing import MEMORY, Line, Listing, address, code, full, label
from loopwright.improving.rewriting import (
    BreakDependencies,
    FoldLoads,
    JoinUpdates,
    NewerForms,
    Rename,
    Rewrite,
    SplitUpdates,
    ThreeOperands,
    TwoOperands,
    UnfoldLoads,
    effects_if_valid,
    fixups_spare,
)
from loopwright.improving.transformable_loops import (
    EVERY_FLAG,
    Counted,
    CountedTransformation,
    Transformation,
    Update,
    access_label,
    aligns,
    backward_branches,
    exit_label,
    flags_live,
    half,
    next_code,
    repeatable,
    single_path_loops,
    spliced,
    steps_ahead,
    update_of,
    whole,
)
from loopwright.improving.unrolling import (
    CopyIterations,
    EntriesApart,
    PipelineLoads,
    Unroll,
    UnrollByDistance,
)


@dataclass(frozen=True)
class Align:
    """An alignment directive before a loop, for a power of two.

    Condition: none. Before a loop that control falls into, longer encodings of the same
    instructions replace nops where they suffice, so that no instruction is added.
    """

    power: int

    @property
    def name(self) -> str:
        return f"align the loop to {1 << self.power}"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        directive = Line("text", f"\t.p2align {self.power}")
        for head in sorted({head for head, _ in backward_branches(listing)}):
            start = head - len(listing.labels_of(head))
            above = listing.lines[:start]
            if above and aligns(above[-1]):
                if above[-1].text.split()[-1] == str(self.power):
                    continue
                above = above[:-1]
            aligned = listing.with_lines([*above, directive, *listing.lines[start:]], self.name)
            longer = longer_encodings(aligned, len(above))
            yield replace(
                aligned, lines=tuple(longer.get(n, x) for n, x in enumerate(aligned.lines))
            )


_ENCODINGS = ("{rex}", "{disp8}", "{disp32}", "{vex3}", "ds")


def longer_encodings(listing: Listing, at: int) -> dict[int, Line]:
    """Return longer encodings for statements before a directive, which replace its padding.

    Empty where control does not fall through the directive, or no encodings have the length of the
    padding.
    """
    lines = listing.lines
    inside = {n for head, last in backward_branches(listing) for n in range(head, last + 1)}
    by_length: dict[int, dict[int, Line]] = {0: {}}
    addresses = _addresses(listing) if listing.isa == "x86_64" else ()
    padding = addresses[at + 1] - addresses[at] if addresses else 0
    for n in reversed(range(at)):
        line, effects = lines[n], listing.effects[n]
        if padding in by_length or aligns(line) or n in inside:
            break
        if line.kind != "code" or effects.flow is Flow.BRANCH or "ALTERNATIVE" in line.text:
            continue
        if effects.flow is not Flow.NEXT:
            break
        for encoding in _ENCODINGS:
            text = f"{encoding} {line.text}"
            longer = effects_if_valid(text)
            extra = longer.size - effects.size if longer else 0
            if extra > 0 and line.mnemonic == line.text.split()[0]:
                for total, chosen in list(by_length.items()):
                    if n not in chosen:
                        new = {**chosen, n: replace(line, text=text)}
                        by_length.setdefault(total + extra, new)
    return by_length.get(padding, {})


_SHORT_BRANCH = 2  # length of a branch with an 8-bit displacement, in bytes


def _addresses(listing: Listing) -> list[int]:
    """Return the addresses of statements of x86-64, with branches as short as possible."""
    long_branches: set[int] = set()
    while True:
        at, addresses = listing.offset, []
        targets: dict[int, int | None] = {}
        for n, line in enumerate(listing.lines):
            addresses.append(at)
            effects = listing.effects[n]
            if aligns(line):
                unit = int(line.text.split()[-1])
                unit = 1 << unit if "p2" in line.text else unit
                at = -(-at // unit) * unit
                continue
            if effects.flow in (Flow.BRANCH, Flow.JUMP) and effects.size == _SHORT_BRANCH:
                targets[n] = listing.branch_target(n)
            at += effects.size
            at += (3 if line.mnemonic == "jmp" else 4) if n in long_branches else 0
        too_far = {
            n
            for n, to in targets.items()
            if to is None or not -128 <= addresses[to] - addresses[n] - _SHORT_BRANCH < 128
        }
        if too_far <= long_branches:
            return addresses
        long_branches |= too_far


class Reorder:
    """Two adjacent instructions of a loop's body in the other order.

    Condition: neither writes what the other reads or writes, apart from dead flags. Memory counts
    as one location; at most one may fault, and its fixup needs no result of the other.
    """

    name = "instruction order"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        for loop in single_path_loops(listing):
            if listing.head not in ("", loop.head):
                continue
            for first, second in pairwise(loop.inside):
                if self.holds(listing, first, second):
                    yield _swapped(listing, first, second, self.name)

    def holds(self, listing: Listing, first: int, second: int) -> bool:
        """True if two adjacent instructions can be swapped."""
        a, b = listing.effects[first], listing.effects[second]
        if {a.flow, b.flow} != {Flow.NEXT}:
            return False
        dead = EVERY_FLAG - listing.live[min(second + 1, len(listing.live) - 1)]
        if a.writes & (b.reads | b.writes - dead) or b.writes & a.reads:
            return False
        return self.fixups_hold(listing, first, second)

    def fixups_hold(self, listing: Listing, first: int, second: int) -> bool:
        """True if the fixups of two adjacent instructions are correct in either order."""
        if listing.entries_at(first) and listing.entries_at(second):
            return False
        pairs = ((first, listing.effects[second]), (second, listing.effects[first]))
        return all(fixups_spare(listing, at, effects.writes) for at, effects in pairs)


def _swapped(listing: Listing, first: int, second: int, step: str) -> Listing:
    """Return the listing with two statements swapped, their access labels with them."""
    lines = listing.lines
    own = takewhile(listing.fixups.__contains__, listing.labels_of(first))
    start = first - len([*own])
    between = lines[first + 1 : second]
    labels = [x for x in between if x.kind == "label"]
    other = [x for x in between if x.kind != "label"]
    new = [*labels, lines[second], *other, *lines[start : first + 1]]
    return listing.with_lines([*lines[:start], *new, *lines[second + 1 :]], step)


_CONSTANT = re.compile(r"movl?q? \$(-?\w+),\s*(%\w+)$")
_ZERO = re.compile(r"xorl? (%\w+),\s*\1$")
_WIDE = re.compile(r"%r(?:[a-ds][xip]|[bs]p|\d+)$")
_TEST = re.compile(r"test[lq]? (%\w+),\s*\1$")


def _gate(line: Line) -> str:
    """Return "stac" or "clac" for an ALTERNATIVE of one of them, else ""."""
    match = re.match(r'ALTERNATIVE "", "(stac|clac)", X86_FEATURE_SMAP$', line.text)
    return match[1] if match and line.kind == "code" else ""


class JoinSections:
    """One user-access section instead of two consecutive ones.

    Condition: between clac and stac there is no memory access, jump or jump target.
    """

    name = "sections of user access joined"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        removed: set[int] = set()
        last_clac = None
        for n, line in enumerate(listing.lines):
            effects, gate = listing.effects[n], _gate(line)
            if gate == "clac":
                last_clac = n
            elif gate == "stac" and last_clac is not None:
                removed |= {last_clac, n}
                last_clac = None
            elif (
                listing.is_target(n)
                or effects.flow is not Flow.NEXT
                or MEMORY in effects.reads | effects.writes
            ):
                last_clac = None
        if removed:
            yield _without(listing, removed, self.name)


class ConstantBranches:
    """Branches on constants resolved, and dead writes removed.

    Condition: the register has the constant on every path to the test, and the flags are dead after
    it.
    """

    name = "branches on constants resolved"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        result = listing
        while (changed := self._threaded(result) or self._simplified(result)) is not None:
            result = changed
        if result is not listing:
            yield listing.with_lines(result.lines, self.name)

    def _threaded(self, listing: Listing) -> Listing | None:
        """Return the listing with one jump threaded past a test whose result is known."""
        lines = listing.lines
        for n, line in enumerate(lines):
            constant = _CONSTANT.match(line.text) if line.kind == "code" else None
            if not constant or int(constant[1], 0) == 0:
                continue
            jump = next_code(listing, n)
            if jump is None or not lines[jump].text.startswith("jmp "):
                continue
            goal = self._threaded_target(listing, lines[jump].operands[0], constant[2])
            if goal and goal != lines[jump].operands[0]:
                new = Line("code", f"jmp {goal}")
                return listing.with_lines([*lines[:jump], new, *lines[jump + 1 :]], self.name)
        return None

    def _threaded_target(self, listing: Listing, target: str, register: str) -> str:
        """Return the label that control reaches from a label if a register is not zero, or ""."""
        lines = listing.lines
        if target not in listing.position:
            return ""
        test = next_code(listing, listing.position[target], labels=True)
        match = _TEST.match(lines[test].text) if test is not None else None
        branch = next_code(listing, test) if test is not None else None
        if not match or match[1] != register or branch is None:
            return ""
        goal = lines[branch].operands[-1] if lines[branch].operands else ""
        if lines[branch].mnemonic not in ("jne", "jnz") or goal not in listing.position:
            return ""
        return "" if EVERY_FLAG & listing.live[listing.position[goal]] else goal

    def _simplified(self, listing: Listing) -> Listing | None:
        """Return the listing without one test of zero and its branch, or without one dead write."""
        lines = listing.lines
        for n, line in enumerate(lines):
            match = _TEST.match(line.text) if line.kind == "code" else None
            branch = next_code(listing, n) if match else None
            if match and branch is not None and lines[branch].mnemonic in ("jne", "jnz"):
                flags = EVERY_FLAG & listing.live[branch + 1]
                if not flags and _zero_before(listing, n, match[1]):
                    return _without(listing, {n, branch}, self.name)
        return _without_dead(listing, self.name)


class PropagateCopies:
    """Copy propagation: the source instead of a copy, which is removed once it is dead.

    Condition: neither register is written between copy and use, and there is no jump target between
    them.
    """

    name = "copies propagated"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        lines = list(listing.lines)
        for n in range(len(lines)):
            current = Listing(tuple(lines), listing.contract, listing.isa)
            copy = _copy(lines[n]) if lines[n].kind == "code" else None
            if copy:
                self._propagate(current, lines, n, *copy)
        result = listing.with_lines(lines, self.name)
        while (changed := _without_dead(result, self.name)) is not None:
            result = changed
        if len(result.lines) < len(listing.lines):
            yield listing.with_lines(result.lines, self.name)

    def _propagate(
        self, listing: Listing, lines: list[Line], at: int, source: str, constant: int, copy: str
    ) -> None:
        """Replace the uses of a copy (source plus a constant) after a statement."""
        both = {whole(source), whole(copy)}
        for n in range(at + 1, len(lines)):
            effects = listing.effects[n]
            if listing.is_target(n):
                return
            if whole(copy) in effects.reads:
                lines[n] = replace(lines[n], text=_with_source(lines[n], source, constant, copy))
            if both & effects.writes or effects.flow is not Flow.NEXT:
                return


def _copy(line: Line) -> tuple[str, int, str] | None:
    """Return the source, the constant and the target of a copy: target = source + constant."""
    if line.mnemonic not in ("mov", "movq", "lea", "leaq") or len(line.operands) != 2:
        return None
    source, copy = line.operands
    if not _WIDE.match(copy) or copy == source:
        return None
    if line.mnemonic.startswith("mov"):
        return (source, 0, copy) if _WIDE.match(source) else None
    memory = address(source)
    if memory and _WIDE.match(memory.base) and not memory.indexed and memory.base != copy:
        return memory.base, memory.disp, copy
    return None


def _with_source(line: Line, source: str, constant: int, copy: str) -> str:
    """Return an instruction that reads a copy's source instead of the copy."""
    operands = list(line.operands)
    for n, operand in enumerate(operands):
        memory = address(operand)
        if memory and memory.base == copy and memory.indexed != copy:
            operands[n] = str(memory._replace(disp=memory.disp + constant, base=source))
        elif operand == copy and not constant and n == 0 and line.mnemonic in ("mov", "movq"):
            operands[n] = source
    return f"{line.mnemonic} {','.join(operands)}"


def _without_dead(listing: Listing, step: str) -> Listing | None:
    """Return a listing without one instruction whose results are dead, None if there is none."""
    for n, line in enumerate(listing.lines):
        effects = listing.effects[n]
        if n + 1 == len(listing.lines):
            continue
        dead = effects.writes and not effects.writes & (listing.live[n + 1] | {MEMORY})
        removable = effects.flow is Flow.NEXT and not _gate(line) and not listing.entries_at(n)
        if dead and removable and MEMORY not in effects.reads:
            return _without(listing, {n}, step)
    return None


def _without(listing: Listing, removed: set[int], step: str) -> Listing:
    return listing.with_lines(
        [line for n, line in enumerate(listing.lines) if n not in removed], step
    )


def _zero_before(listing: Listing, at: int, register: str) -> bool:
    """True if a register was zeroed on the only path to a statement."""
    for n in range(at - 1, -1, -1):
        line, effects = listing.lines[n], listing.effects[n]
        if listing.is_target(n):
            return False
        zero = _ZERO.match(line.text) if line.kind == "code" else None
        if zero and zero[1] == register:
            return True
        if effects.flow is not Flow.NEXT or effects.writes & listing.effects[at].reads:
            return False
    return False


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
        if line.kind == "label" and (loop := _carry_loop(listing, head)):
            yield loop


def _carry_loop(listing: Listing, head: int) -> CarryLoop | None:
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
    jumps = [n for n, x in enumerate(lines) if x.kind == "code" and lines[head].text in x.words]
    if not update or not words or lines[clear].text != "clc" or jumps != [at]:
        return None
    first = words[0]
    expected = [(first[0] + 8 * n, first[1], first[2]) for n in range(len(words))]
    if words != expected or update.step != 8 * len(words) or whole(first[1]) == "rcx":
        return None
    return CarryLoop(listing, clear, head, first[1], first[0], first[2], len(words), update)


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
        count = f"{self.chains} chains of " if self.chains > 1 else ""
        return f"carry folded each iteration, {count}{self.words // self.chains} words"

    def apply(self, listing: Listing) -> Iterator[Listing]:
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
        step = 8 * self.words
        head, rest_label = listing.fresh(f"sum{self.words}"), listing.fresh(f"sum{self.words}_rest")
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
                f"addq ${step},%rcx",
                f"Less than {self.words} words are left to the chain behind this one.",
            ),
            code(f"jg {rest_label}"),
            Line("text", "\t.p2align 4"),
            label(head, f"{self.name[0].upper()}{self.name[1:]}."),
            *body,
            code(f"leaq {step}({pointer}),{pointer}"),
            code(f"addq ${step},%rcx"),
            code(f"jle {head}"),
            *(code(f"{kind},{loop.total}") for x in sums for kind in (f"addq {x}", "adcq $0")),
            label(rest_label),
            code(f"subq ${step},%rcx"),
        ]
        changed = [*listing.lines[: loop.clear], *lines, *listing.lines[loop.clear :]]
        return listing.with_lines(changed, self.name)

    def _free(self, loop: CarryLoop) -> list[str]:
        """Return registers that the contract lets change and that are dead before the loop."""
        listing = loop.listing
        contract, live = listing.contract, listing.live[loop.clear]
        if contract is None or EVERY_FLAG & live:
            return []
        allowed = {
            full("x86_64", name) for name in (*contract.may_change, *contract.returns.values())
        }
        return [r for r in _SCRATCH if whole(r) in allowed and whole(r) not in live]


@dataclass(frozen=True)
class StringInstruction(CountedTransformation):
    """rep stosq or rep movsq from a size on, instead of a loop over words.

    Condition: the body stores rax to, or copies, each word of a contiguous range at rdi (from rsi),
    rcx counts its bytes, and the loop can be restarted after a fault.
    """

    least: int

    @property
    def name(self) -> str:
        return f"string instruction from {self.least} bytes on"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        if any("string instruction" in step for step in listing.steps):
            return
        yield from super().apply(listing)

    def changed(self, loop: Counted) -> Listing | None:
        listing = loop.listing
        copies = _copies_words(loop)
        supported = loop.form in ("borrow", "limit") and loop.counter.register == "rcx"
        if copies is None or not supported or flags_live(loop):
            return None
        if not repeatable(loop) or "unrolled" in loop.head:
            return None
        bias = loop.step if loop.form == "borrow" else 0
        behind = exit_label(loop, "done")
        fault = listing.fresh("string_fault")
        store_label, rep_label = (access_label(listing, f"string_{n}") for n in (0, 1))
        pointers = ["%rdi", "%rsi"] if copies else ["%rdi"]
        entry = next((e for n in loop.accesses for e in listing.entries_at(n)), None)
        load = [code("movq (%rsi),%rax")] if copies else []
        load_label = access_label(listing, "string_2")
        lines = [
            code(f"cmpq ${self.least - bias},%rcx"),
            code(f"jb {loop.head}"),
            *([label(load_label)] if copies and entry else []),
            *(
                replace(line, note="The first word as it lies; whole words follow it.")
                for line in load
            ),
            *([label(store_label)] if entry else []),
            code(
                "movq %rax,(%rdi)",
                "" if copies else "The first word as it lies, before whole words.",
            ),
            *([code(f"addq ${bias},%rcx")] if bias else []),
            *(code(f"addq %rcx,{p}") for p in pointers),
            code("andq $-8,%rcx"),
            *(code(f"subq %rcx,{p}") for p in pointers),
            code("shrq $3,%rcx"),
            *([label(rep_label)] if entry else []),
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
                *([replace(entry, text=load_label, target=loop.head)] if copies else []),
                replace(entry, text=store_label, target=loop.head),
                replace(entry, text=rep_label, target=fault),
            ]
        return spliced(loop, lines, behind, stub, self.name)


def _copies_words(loop: Counted) -> bool | None:
    """Return True for a loop that copies contiguous words, False for one that stores rax to them.

    None for another loop.
    """
    listing = loop.listing
    stored, loaded, target_register = [], [], ""
    for at in loop.body:
        line = listing.lines[at]
        if not re.fullmatch(r"movq?", line.mnemonic) or len(line.operands) != 2:
            return None
        ahead = steps_ahead(loop.updates, 0, at)
        source, target = (address(o) for o in line.operands)
        if source and not source.indexed and source.base == "%rsi":
            target_register = line.operands[1]
            if target_register != "%rax":
                return None
            loaded.append(source.disp + ahead.get("rsi", 0))
        elif target and not target.indexed and target.base == "%rdi" and line.operands[0] == "%rax":
            stored.append(target.disp + ahead.get("rdi", 0))
            if loaded and loaded[-1] != stored[-1]:
                return None
        else:
            return None
    expected = list(range(0, loop.step, 8))
    pointers = {"rdi", *(["rsi"] if loaded else [])}
    steps = {r: u.step for r, u in loop.updates.items() if r != "rcx"}
    if stored != expected or steps != dict.fromkeys(pointers, loop.step):
        return None
    if not loaded:
        return False if "rax" not in loop.written() else None
    return True if loaded == stored else None


REWRITES: tuple[Rewrite, ...] = (
    BreakDependencies(),
    Rename(),
    FoldLoads(),
    UnfoldLoads(),
    JoinUpdates(),
    SplitUpdates(),
    ThreeOperands(),
    TwoOperands(),
    NewerForms(),
)

TRANSFORMATIONS: tuple[Transformation, ...] = (
    ConstantBranches(),
    JoinSections(),
    PropagateCopies(),
    PointersForIndex(),
    FuseUpdate(),
    *(Unroll(n, apart) for n in (2, 4, 8) for apart in (False, True)),
    PipelineLoads(),
    *(CopyIterations(n) for n in (2, 4)),
    PairAccesses(),
    SplitPairs(),
    *REWRITES,
    *(Align(n) for n in (4, 5, 6)),
    *(StringInstruction(n) for n in (256, 512, 1024, 2048)),
    *(
        CarryChains(words, chains)
        for words, chains in ((4, 1), (8, 1), (8, 2), (10, 2), (16, 2), (16, 4), (24, 3), (32, 4))
    ),
    Reorder(),
)

LOOP_TRANSFORMATIONS: tuple[Transformation, ...] = (
    EntriesApart(),
    PointersForIndex(),
    FuseUpdate(),
    *(UnrollByDistance(n) for n in (2, 4, 8)),
    *(Unroll(n) for n in (2, 4, 8)),
    PipelineLoads(),
    *(CopyIterations(n) for n in (2, 4)),
    *REWRITES,
    PairAccesses(),
    SplitPairs(),
    *(Align(n) for n in (4, 5, 6)),
    Reorder(),
)
"""The transformations of a loop without a contract."""
