"""Fixes of loops that their code offset hurts: alignments and encodings, the smallest first."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import PurePosixPath
from statistics import mean

import iced_x86 as iced

from loopwright.code.instructions import signed
from loopwright.scanning.binary_loops import SPLIT, ScannedLoop
from loopwright.scanning.costs import (
    HURT,
    INDIFFERENT,
    LINE,
    Alignments,
    CoreCosts,
    Row,
    Stretches,
    cycles_by_offset,
    finite,
    shifted_offsets,
    start_alignment,
)

_REX = range(0x40, 0x50)
_LEGACY_PREFIXES = bytes((0x66, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0))
_BRANCHES = (iced.FlowControl.CONDITIONAL_BRANCH, iced.FlowControl.UNCONDITIONAL_BRANCH)
_LEGACY = iced.EncodingKind.LEGACY
_DISP8 = range(-128, 128)
_SHORT_IMMEDIATES = {16: iced.OpKind.IMMEDIATE8TO16, 32: iced.OpKind.IMMEDIATE8TO32,
                     64: iced.OpKind.IMMEDIATE8TO64}  # fmt: skip
_LONG_IMMEDIATES = {iced.OpKind.IMMEDIATE16: 16, iced.OpKind.IMMEDIATE32: 32,
                    iced.OpKind.IMMEDIATE32TO64: 64}  # fmt: skip
_FORMS = {value: name for name, value in vars(iced.Code).items() if isinstance(value, int)}


@dataclass(frozen=True)
class Encoded:
    """A loop with one instruction in another encoding: code, path, and the increase in bytes.

    at is the offset of the instruction, how its text with the encoding, e.g. "{disp32} mov ...".
    """

    code: bytes
    path: Stretches
    longer: int
    at: int
    how: str


def encodings(code: bytes, path: Stretches) -> Iterator[Encoded]:
    """Yield a loop with each of its executed instructions in each other encoding.

    Nothing where bytes of it are no instructions, since the code after them cannot be moved.
    """
    instructions = list(iced.Decoder(64, code))
    if not instructions or any(ins.is_invalid for ins in instructions):
        return
    for ins in instructions:
        if not any(start <= ins.ip < end for start, end in path):
            continue
        old_bytes = code[ins.ip : ins.next_ip]
        for new_bytes, prefix in other_encodings(ins, old_bytes):
            moved = _moved_branches(code, instructions, ins, new_bytes)
            if moved is not None:
                longer = len(new_bytes) - len(old_bytes)
                new_path = tuple(
                    (a + longer * (a > ins.ip), b + longer * (b > ins.ip)) for a, b in path
                )
                yield Encoded(moved, new_path, longer, ins.ip, _encoding_text(prefix, ins))


def lengthened(code: bytes, more: int) -> str:
    """Return the last instruction of code with an encoding `more` bytes longer, or ""."""
    for ins in reversed(list(iced.Decoder(64, code))):
        if ins.is_invalid:
            continue
        for new_bytes, prefix in other_encodings(ins, code[ins.ip : ins.next_ip]):
            if len(new_bytes) - ins.len == more and prefix:
                return _encoding_text(prefix, ins)
    return ""


def other_encodings(ins: iced.Instruction, old: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield other encodings of an instruction, with the assembler's prefix for each."""
    if ins.flow_control != iced.FlowControl.NEXT:
        return
    seen = {old}
    for prefix, new_bytes in _possible_encodings(ins, old):
        if new_bytes not in seen and _is_same(ins, new_bytes):
            seen.add(new_bytes)
            yield new_bytes, prefix


def _possible_encodings(ins: iced.Instruction, old: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield encodings, each behind its prefix; some may be b"", invalid or the present one."""
    plain = min(filter(None, (_encode(ins), _short_immediate(ins))), key=len)
    if len(plain) < len(old):
        yield "", plain
    if _has_displacement(ins):
        small = signed(ins.memory_displacement) in _DISP8
        if small and (least := _encode(ins, displacement=1)):
            yield "{disp8}", least
        if small and ins.encoding != iced.EncodingKind.EVEX:
            yield "{disp32}", _encode(ins, displacement=8)
    if ins.encoding == iced.EncodingKind.VEX:
        yield "{vex3}", _encode(ins, vex3=True)
    if ins.encoding == _LEGACY and (at := _rex_position(old)) is not None:
        yield "{rex}", old[:at] + b"\x40" + old[at:]


def _has_displacement(ins: iced.Instruction) -> bool:
    """True if an operand is memory with a base, whose displacement has two lengths."""
    base = ins.memory_base
    memory = any(ins.op_kind(n) == iced.OpKind.MEMORY for n in range(ins.op_count))
    return memory and base not in (iced.Register.NONE, iced.Register.RIP, iced.Register.EIP)


def _encode(ins: iced.Instruction, displacement: int | None = None, vex3: bool = False) -> bytes:
    """Return an instruction's bytes, b"" if it has no such encoding.

    displacement is its least number of bytes, None for as few as possible.
    """
    encoder = iced.Encoder(64)
    encoder.prevent_vex2 = vex3
    copy = ins.copy()
    if _has_displacement(copy):
        distance = signed(copy.memory_displacement)
        least = (1 if distance else 0) if distance in _DISP8 else 8
        copy.memory_displ_size = least if displacement is None else displacement
    try:
        encoder.encode(copy, ins.ip)
    except ValueError:
        return b""
    return bytes(encoder.take_buffer())


def _short_immediate(ins: iced.Instruction) -> bytes:
    """Return an instruction with a one-byte immediate, b"" if it has none."""
    last = ins.op_count - 1
    width = _LONG_IMMEDIATES.get(ins.op_kind(last)) if last > 0 else None
    if width is None:
        return b""
    form = _FORMS[ins.code].replace(f"_IMM{min(width, 32)}", "_IMM8")
    for name in ("_AX_", "_EAX_", "_RAX_"):
        form = form.replace(name, f"_RM{width}_")
    code = getattr(iced.Code, form, None)
    value = ins.immediate(last)
    if code is None or (value + 128) % (1 << width) >= 256:
        return b""
    copy = ins.copy()
    copy.code = code
    copy.set_op_kind(last, _SHORT_IMMEDIATES[width])
    copy.set_immediate_i32(last, (value + 128) % (1 << width) - 128)
    return _encode(copy)


def _rex_position(old: bytes) -> int | None:
    """Return the offset at which a REX prefix goes, None if there is one."""
    at = len(old) - len(old.lstrip(_LEGACY_PREFIXES))
    return None if at == len(old) or old[at] in _REX else at


def _is_same(ins: iced.Instruction, new: bytes) -> bool:
    """True if bytes are one instruction with the same text as another."""
    if not new or len(new) > 15:
        return False
    decoded = iced.Decoder(64, new, ip=ins.ip).decode()
    return decoded.len == len(new) and _text(decoded) == _text(ins)


def _text(ins: iced.Instruction) -> str:
    formatter = iced.Formatter(iced.FormatterSyntax.GAS)
    return formatter.format(ins)


def _encoding_text(prefix: str, ins: iced.Instruction) -> str:
    return f"{prefix} {_text(ins)}" if prefix else f"{_text(ins)} as an assembler has it"


def _moved_branches(
    code: bytes, instructions: list[iced.Instruction], changed: iced.Instruction, new: bytes
) -> bytes | None:
    """Return the code with an instruction replaced; None if a branch cannot reach."""
    at, longer = changed.ip, len(new) - changed.len
    out = bytearray()
    for ins in instructions:
        instruction = code[ins.ip : ins.next_ip]
        if ins.ip == at:
            instruction = new
        elif ins.flow_control in _BRANCHES and ins.op0_kind == iced.OpKind.NEAR_BRANCH64:
            branch = _adjusted_branch(instruction, ins, at, longer)
            if branch is None:
                return None
            instruction = branch
        out += instruction
    return bytes(out)


def _adjusted_branch(branch: bytes, ins: iced.Instruction, at: int, longer: int) -> bytes | None:
    """Return a branch with its distance adjusted for the code moved after `at`."""
    target = signed(ins.near_branch_target)
    moved = longer * ((target > at) - (ins.ip > at))
    if not moved:
        return branch
    size = 4 if ins.is_jcc_near or ins.is_jmp_near else 1
    distance = int.from_bytes(branch[-size:], "little", signed=True) + moved
    if not -(1 << 8 * size - 1) <= distance < 1 << 8 * size - 1:
        return None
    return branch[:-size] + distance.to_bytes(size, "little", signed=True)


# Kinds of fixes; of two with the same cost in bytes the first is chosen.
KINDS = ("shorter", "align", "routine", "longer", "pad", "align, pad")
ALIGNMENTS = (16, 32, 64)
_PADS = range(1, 32)  # bytes of padding: at most those of an alignment to 32


@dataclass(frozen=True)
class Candidate:
    """A change of a loop: its possible code offsets afterwards, and the bytes added.

    expected is the mean of the bytes added, most the maximum; words describe the change. kind is
    "shorter" or "longer" (another encoding of an instruction), "align" (of the loop's first byte),
    "routine" (of the routine's start), "pad" (bytes before the loop) or "align, pad". A routine's
    padding is outside of it and never executed.
    """

    kind: str
    offsets: tuple[int, ...]
    expected: float
    most: int
    words: str
    alignment: int = 0
    pad: int = 0
    encoded: Encoded | None = None


def realignments(loop: ScannedLoop, aligned: int) -> Iterator[Candidate]:
    """Yield the fixes that move a loop unchanged; aligned is its routine's alignment.

    For a compiled loop they are those that options of the compiler can request.
    """
    now = shifted_offsets(loop.into, aligned)
    step = 4 if loop.isa == "arm64" else 1

    def adding(
        paddings: Collection[int],
        kind: str,
        offsets: Iterable[int],
        words: str,
        alignment: int,
        pad: int = 0,
    ) -> Candidate:
        """Return a change that adds one of several paddings in bytes, all equally likely."""
        expected, most = mean(paddings), max(paddings)
        at_most = "" if expected == most else " at most"
        text = f"{words}, +{most} B{at_most}"
        return Candidate(kind, tuple(offsets), expected, most, text, alignment, pad)

    for alignment in (larger for larger in ALIGNMENTS if larger > step):
        offsets = range(0, LINE, alignment)
        added = [-offset % alignment for offset in now]
        yield adding(added, "align", offsets, f"align {alignment}", alignment)
        if loop.function and step < aligned < alignment:
            after = shifted_offsets(loop.into, alignment)
            added = list(range(0, alignment, aligned))
            yield adding(added, "routine", after, f"align routine {alignment}", alignment)
    if not by_hand(loop):
        return
    if aligned >= ALIGNMENTS[0]:
        for pad in _PADS[step - 1 :: step]:
            after = sorted((offset + pad) % LINE for offset in now)
            yield Candidate("pad", tuple(after), pad, pad, f"pad {pad} B", pad=pad)
    for pad in range(step, LINE, step):
        added = [-offset % LINE + pad for offset in now]
        yield adding(added, "align, pad", (pad,), f"align 64, pad {pad}", LINE, pad)


def reencoded(loop: ScannedLoop, aligned: int, encoded: Encoded) -> Candidate:
    """Return another encoding as a change of a loop that is not moved."""
    kind = "longer" if encoded.longer > 0 else "shorter"
    words = f"{kind} encoding, {encoded.longer:+d} B"
    offsets = tuple(shifted_offsets(loop.into, aligned))
    return Candidate(kind, offsets, encoded.longer, encoded.longer, words, encoded=encoded)


def by_hand(loop: ScannedLoop) -> bool:
    """True if the loop's instructions may be changed: it is not from a compiler."""
    file, _, _ = loop.line.rpartition(":")
    return not file or file.endswith((".S", ".s"))


MOST_LOSS = 1.01  # largest ratio of cycles after a fix to those before, on any core
_GAIN = 1.1  # least speed-up on each hurt core by a fix that does not reach the best offset
_ROUNDING = 1e-9  # rounding error of cycles

NOT_NEEDED, NONE = "not needed", "none"


@dataclass(frozen=True)
class Effect:
    """The effect of a fix on a core: cycles an iteration now, at the best offset, and after it.

    after is at the worst of the offsets that are then possible.
    """

    now: float
    best: float
    after: float

    @property
    def hurt(self) -> bool:
        """True if its offset hurts the loop on this core."""
        return self.now >= HURT * self.best - _ROUNDING

    @property
    def harmless(self) -> bool:
        """True if the loop is not slower on this core after the fix."""
        return not costs_more(self.after, self.now)

    @property
    def near_best(self) -> bool:
        """True if every possible offset is as good as the best."""
        return self.after <= INDIFFERENT * self.best + _ROUNDING

    @property
    def good(self) -> bool:
        """True if it is harmless, and where the loop is hurt now, every offset near the best."""
        return self.harmless and (not self.hurt or self.near_best)


@dataclass(frozen=True)
class Fix:
    """A fix of a loop, its cost and its gain.

    candidate is None if a fix is "not needed", if none helps ("none"), or no core has a
    figure (""). effects are by core; note names the remaining loss, or the core that prevents a
    fix. aligned is the known alignment of the routine.
    """

    words: str
    candidate: Candidate | None = None
    effects: Mapping[str, Effect] = field(default_factory=dict)
    note: str = ""
    aligned: int = 1


def costs_more(after: float, before: float) -> bool:
    """True if cycles after a change exceed the allowed loss."""
    return after > MOST_LOSS * before + _ROUNDING


_SPLIT = f"{SPLIT}, and a linker positions each on its own"

# The cycles of a loop at each offset, by core.
_Rows = Mapping[str, Row]


def find_fixes(
    loops: Sequence[ScannedLoop],
    costs: Sequence[CoreCosts],
    starts: Alignments,
    line: Callable[[ScannedLoop], str] | None = None,
    kinds: Collection[str] = KINDS,
    only: Collection[int] | None = None,
    least: int = 0,
) -> list[Fix]:
    """Return for each loop the fix that adds fewest bytes and suits all cores of its costs.

    A fix serves if at every offset that it leaves possible the loop is as good as at its best on
    each core that is hurt now, and no core gets slower by more than 1 %. Where there is none, it is
    the one that brings the hurt ones nearest to that. Every fix is predicted: moved code at its new
    offsets, another encoding by its new code. starts has the alignment of routines, line returns a
    loop's source line: a compiled loop is fixed only by options of the compiler. kinds are the
    allowed kinds of candidates, and least their least alignment; only has the numbers of the loops
    to fix.
    """
    hurt = {n for on_core in costs for n, is_hurt in enumerate(on_core.hurt) if is_hurt}
    answered = {
        n for on_core in costs for n, cycles in enumerate(on_core.cycles) if not isnan(cycles)
    }
    numbers = sorted(hurt if only is None else hurt & set(only))
    hurt_loops = [replace(loops[n], line=line(loops[n])) if line else loops[n] for n in numbers]
    all_fixes = [Fix(NOT_NEEDED if n in answered else "") for n in range(len(loops))]
    all_reencodings: list[list[tuple[Candidate, _Rows]]] = [[] for _ in hurt_loops]
    if {"shorter", "longer"} & set(kinds):
        all_reencodings = _reencodings(hurt_loops, costs, starts)
    for n, loop, reencodings in zip(numbers, hurt_loops, all_reencodings, strict=True):
        if loop.split:
            all_fixes[n] = Fix(NONE, note=_SPLIT)
            continue
        now = {c.core.id: c.table[n] for c in costs if not isnan(c.cycles[n])}
        aligned = start_alignment(loop, starts)
        moves = [(candidate, now) for candidate in realignments(loop, aligned)]
        tried = [
            (candidate, after)
            for candidate, after in [*moves, *reencodings]
            if candidate.kind in kinds and candidate.alignment >= least
        ]
        all_fixes[n] = _best_fix(loop, now, aligned, tried)
    return all_fixes


def _reencodings(
    loops: Sequence[ScannedLoop], costs: Sequence[CoreCosts], starts: Alignments
) -> list[list[tuple[Candidate, _Rows]]]:
    """Return for each loop its other encodings, and their cycles at each offset."""
    numbered = [
        (n, reencoded(loop, start_alignment(loop, starts), encoding))
        for n, loop in enumerate(loops)
        if by_hand(loop) and loop.isa == "x86_64" and not loop.split
        for encoding in encodings(loop.code, loop.path)
    ]
    blocks = [(c.encoded.code, c.encoded.path) for _, c in numbered if c.encoded]
    cores = [on_core.core for on_core in costs] if blocks else []
    tables = {core.id: cycles_by_offset(blocks, core)[0] for core in cores}
    out: list[list[tuple[Candidate, _Rows]]] = [[] for _ in loops]
    for row, (n, candidate) in enumerate(numbered):
        out[n].append((candidate, {core: table[row] for core, table in tables.items()}))
    return out


def _best_fix(
    loop: ScannedLoop, now: _Rows, aligned: int, candidates: Sequence[tuple[Candidate, _Rows]]
) -> Fix:
    """Return the smallest candidate that is good on all cores, else the nearest harmless one."""
    tried = [(candidate, _effects(loop, now, candidate, after)) for candidate, after in candidates]
    tried.sort(key=lambda pair: (pair[0].expected, KINDS.index(pair[0].kind)))
    for candidate, effects in tried:
        if all(effect.good for effect in effects.values()):
            return Fix(candidate.words, candidate, effects, aligned=aligned)
    harmless = [pair for pair in tried if all(e.harmless for e in pair[1].values())]
    nearest = min(harmless, key=lambda pair: _largest_ratio(pair[1]), default=None)
    if nearest and all(e.now >= _GAIN * e.after for e in _hurt_effects(nearest[1])):
        ratio = _largest_ratio(nearest[1])
        note = f"nearest to its best offset that all cores allow: {ratio:.2f} times"
        return Fix(nearest[0].words, *nearest, note, aligned)
    return Fix(NONE, None, {}, _why_none(tried), aligned)


def _effects(
    loop: ScannedLoop, now: _Rows, candidate: Candidate, after: _Rows
) -> dict[str, Effect]:
    return {
        core: Effect(
            row[loop.offset], min(finite(row)), max(after[core][at] for at in candidate.offsets)
        )
        for core, row in now.items()
    }


def _hurt_effects(effects: Mapping[str, Effect]) -> Iterator[Effect]:
    return (effect for effect in effects.values() if effect.hurt)


def _largest_ratio(effects: Mapping[str, Effect]) -> float:
    """Return the largest ratio of cycles after a fix to the fewest, on the hurt cores."""
    return max(effect.after / effect.best for effect in _hurt_effects(effects))


def _why_none(tried: Sequence[tuple[Candidate, Mapping[str, Effect]]]) -> str:
    """Return the smallest fix for the hurt cores, with the cores that it slows down."""
    for candidate, effects in tried:
        if all(effect.near_best for effect in _hurt_effects(effects)):
            worse = {c: e.after / e.now for c, e in effects.items() if not e.harmless}
            slower = ", ".join(
                f"{core} {100 * (ratio - 1):+.0f} %" for core, ratio in worse.items()
            )
            return f"{candidate.words} would do, but for {slower}"
    return "no code offset that it can be moved to is good"


_COMPILED_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".rs")
_RUST = ".rs"
_HEADER_SUFFIXES = (".h", ".hpp")  # flags are those of the file that includes it


def fix_text(fix: Fix, loop: ScannedLoop, loop_count: int, preceding: bytes = b"") -> str:
    """Describe the fix of a loop that needs one, its bytes and its gain.

    loop_count is the number of loops in its routine, which a compiler aligns together; preceding is
    the code of the routine up to the loop, whose instructions may be lengthened in place of
    padding.
    """
    if fix.candidate is None:
        return f"no fix: {fix.note}"
    parts = [_how_fixed(fix.candidate, loop, loop_count, preceding), _gain_text(fix)]
    if fix.note:
        parts.append(fix.note)
    return "; ".join(parts)


def _how_fixed(candidate: Candidate, loop: ScannedLoop, loop_count: int, preceding: bytes) -> str:
    file, _, line = loop.line.rpartition(":")
    if file.endswith(_COMPILED_SUFFIXES):
        return _compiler_option(candidate, loop, loop_count, file)
    place = f"the label of {file}:{line}" if file else f"the label at {loop.where}"
    text = f"in assembly: {_assembly_text(candidate, loop, place, preceding)}"
    if not file and candidate.kind in ("align", "routine"):
        text += f"; of a compiler: {_compiler_option(candidate, loop, loop_count, '')}"
    return text


def _assembly_text(candidate: Candidate, loop: ScannedLoop, place: str, preceding: bytes) -> str:
    power = candidate.alignment.bit_length() - 1
    if candidate.kind == "routine":
        return f"`.p2align {power}` before {loop.function}, {_bytes_text(candidate)} outside of it"
    if candidate.encoded:
        at = loop.address + candidate.encoded.at
        return f"`{candidate.encoded.how}` at {at:#x}, {candidate.encoded.longer:+d} B"
    entered = "executed where control falls into the loop"
    if candidate.kind == "align":
        return f"`.p2align {power}` before {place}, {_bytes_text(candidate)} of nops, {entered}"
    count = candidate.pad // 4  # nops of AArch64
    if loop.isa == "x86_64":
        nops = f".nops {candidate.pad}"
    else:
        nops = "nop" if count == 1 else f".rept {count}; nop; .endr"
    if candidate.kind == "align, pad":
        directives = f"`.p2align {power}` and `{nops}`"
        return f"{directives} before {place}, {_bytes_text(candidate)}, {entered}"
    longer = lengthened(preceding, candidate.pad) if loop.isa == "x86_64" else ""
    instead = f", or instead `{longer}` before it in {loop.function}" if longer else ""
    return f"`{nops}` before {place}, {entered}{instead}"


def _compiler_option(candidate: Candidate, loop: ScannedLoop, loop_count: int, file: str) -> str:
    if file.endswith(_RUST):
        return _rustc_option(candidate)
    unit = "the flags of its file"
    if file.endswith(_HEADER_SUFFIXES):
        unit = f"the flags of the file that includes {file}"
    elif file:
        unit = f"CFLAGS_{PurePosixPath(file).stem}.o"
    if candidate.kind == "routine":
        return (
            f"`__attribute__((aligned({candidate.alignment})))` on {loop.written}(), "
            f"{_bytes_text(candidate)}; or `-falign-functions={candidate.alignment}` in {unit}, "
            "which pads every function there"
        )
    function = f"{loop.written}()" if loop.function else "its function"
    return (
        f'`__attribute__((optimize("align-loops={candidate.alignment}")))` on {function}, '
        f"{_bytes_text(candidate)}{_cost_of_all(candidate, loop, loop_count)}; or "
        f"`-falign-loops={candidate.alignment}` in {unit}, which pads every loop there"
    )


def _rustc_option(candidate: Candidate) -> str:
    """Return the option of rustc, which aligns all of a crate."""
    if candidate.kind == "routine":
        flag = f"-Zmin-function-alignment={candidate.alignment}"
        every = "which pads every function there"
        return f"`{flag}` (rustc nightly) for its crate, {_bytes_text(candidate)}, {every}"
    flag = f"-Cllvm-args=--align-loops={candidate.alignment}"
    cost = f"{_bytes_text(candidate)} for this loop"
    return f"`{flag}` for its crate, {cost}, which pads every loop there"


def _cost_of_all(candidate: Candidate, loop: ScannedLoop, loop_count: int) -> str:
    """Return the cost of aligning the function's other loops as well."""
    most = candidate.alignment - 1
    if not loop.function:
        return f" for this loop, and up to {most} B for each other one of that function"
    if loop_count == 1:
        return ""
    return f" for this loop, +{loop_count * most} B at most for all {loop_count} of the function"


def _bytes_text(candidate: Candidate) -> str:
    if candidate.expected == candidate.most:
        return f"+{candidate.most} B"
    return f"+{candidate.expected:.0f} B expected, +{candidate.most} B at most"


def _gain_text(fix: Fix) -> str:
    texts = [
        f"{core} {effect.now:.2f} -> {effect.after:.2f}"
        for core, effect in fix.effects.items()
        if abs(effect.after - effect.now) > 0.01 * effect.now
    ]
    others = len(fix.effects) - len(texts)
    rest = f", {others} other{'s' * (others > 1)} within 1 %" if others else ""
    return f"predicted cycles an iteration: {', '.join(texts)}{rest}"
