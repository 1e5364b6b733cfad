"""Loops without a contract: their listing, and what is live in the code around them."""

import bisect
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import iced_x86 as iced
import numpy as np

from loopwright.code.elf import Section
from loopwright.code.instructions import (
    ARM64_BRANCHES,
    Flow,
    Instruction,
    near_target,
    signed_field,
)
from loopwright.code.loops import Piece
from loopwright.errors import InputError
from loopwright.improving.listing import (
    CARRY,
    FLAGS,
    GENERAL,
    Listing,
    Node,
    assembled_text,
    code,
    full,
    label,
    live_registers,
    x86_effects,
)

HEAD, BEHIND, START = ".Lloop", ".Lbehind", ".Lstart"
_MOST_BEFORE = 16  # instructions before an indirect jump that are searched for the table's load
_MOST_FOLLOWED = 3000  # instructions after a loop; code beyond counts as reading everything
_VECTORS = frozenset(f"zmm{n}" for n in range(32)) | {f"k{n}" for n in range(8)}
EVERYTHING = {
    "x86_64": GENERAL["x86_64"] | _VECTORS | {CARRY, FLAGS},
    "arm64": GENERAL["arm64"] | {FLAGS, *(f"v{n}" for n in range(32))},
}
# Registers that a caller may read after a routine (System V ABI for AMD64, 3.2.1 and 3.2.3).
_RETURNED = frozenset(
    ["rax", "rdx", "rsp", "rbx", "rbp", "zmm0", "zmm1", *(f"r{n}" for n in range(12, 16))]
)
_RELATIVE = re.compile(r"(-?0x[0-9a-f]+|-?\d+)?\(%rip\)")
_TARGET = re.compile(r"(#?(?:0x)?[0-9a-f]+)$")
_NOT_FOLLOWED = (Flow.CALL, Flow.RETURN, Flow.INDIRECT)
# Instructions whose successor is not known.
_UNKNOWN_SUCCESSOR = (iced.Mnemonic.SYSCALL, iced.Mnemonic.INT, iced.Mnemonic.HLT)
_LONG_JUMPS = re.compile(rb"[\xe8\xe9]\Z|\x0f[\x80-\x8f]\Z", re.DOTALL)
_SHORT_JUMPS = re.compile(rb"[\x70-\x7f\xe0-\xe3\xeb]\Z", re.DOTALL)
_ARM64_INDIRECT = 0xFEFFF000, 0xD61F0000  # br, braa, braaz, brab, brabz: mask and value


@dataclass(frozen=True)
class Outside:
    """An address outside a loop: its distance in bytes from the loop's start, or from its end."""

    distance: int
    behind: bool


@dataclass(frozen=True)
class Bare:
    """A loop, its code, and its interface to the code around it.

    offset is its code offset. entries has, by label, the byte offset of each entry other than the
    start. outside has, by label, the addresses outside: exits, and memory that the loop addresses
    relative to itself. liveness says in words how far the code after it was followed.
    """

    id: str
    listing: Listing
    code: bytes
    offset: int
    entries: Mapping[str, int]
    outside: Mapping[str, Outside]
    liveness: str

    @property
    def isa(self) -> str:
        return self.listing.isa

    def source(self, listing: Listing) -> str:
        """Return assembly text that places a listing's code at this loop's code offset.

        Its start is the label .Lstart, its end .Lbehind. Addresses outside keep their distance.
        """
        lines = list(listing.lines)
        if lines and lines[-1].text == _leaving_jump(self.isa):
            lines.pop()
        fill = ",0xcc" if self.isa == "x86_64" else ""
        sets = [
            f".set {name}, {BEHIND if address.behind else START} + {address.distance}"
            for name, address in self.outside.items()
        ]
        text = replace(listing, lines=tuple(lines)).render()
        head = [".text", ".p2align 6", f".skip {self.offset}{fill}", f"{START}:"]
        return "\n".join([*head, text.rstrip("\n"), f"{BEHIND}:", *sets, ""])

    def assembled(self, listing: Listing) -> tuple[bytes, dict[str, int]]:
        """Return the code of this text, and the offsets of its labels; InputError if invalid."""
        return assembled_text(self.isa, self.source(listing), "it", symbols=False)


def _leaving_jump(isa: str) -> str:
    """Return the jump to the code after a loop, with which its listing ends."""
    return f"{'jmp' if isa == 'x86_64' else 'b'} {BEHIND}"


def of_piece(section: Section, piece: Piece, free: Iterable[str] = ()) -> Bare:
    """Return a loop of a section; free are registers and flags that no code after it reads.

    InputError for code that is not one contiguous loop, and for unknown entries.
    """
    if piece.error:
        raise InputError(f"{piece.id}: {piece.error}")
    body = piece.instructions
    if piece.notion != "loop" or body[-1].target != piece.address:
        raise InputError(f"{piece.id} is not a loop: its last instruction does not go to its first")
    if wrong := next((i for i in body if i.flow in _NOT_FOLLOWED or i.string), None):
        raise InputError(f"{piece.id}: {' '.join(wrong.text.split())} in it cannot be followed")
    end = body[-1].end
    around = _Surroundings(section, piece)
    entered = around.entries()
    far, outside = _outside(piece, end)
    targets = {i.target for i in body if i.target is not None} & {i.address for i in body[1:]}
    targets |= entered
    inside = {piece.address: HEAD} | {at: f".Lat_{at - piece.address:x}" for at in targets}
    labels = {**far, **inside}
    lines = []
    for ins in body:
        if ins.address in inside:
            lines.append(label(inside[ins.address]))
        lines.append(code(_with_labels(piece, ins, labels)))
    lines.append(code(_leaving_jump(piece.isa)))
    exits = {far[i.target]: i.target for i in body if i.target in far} | {BEHIND: end}
    live = around.live(set(exits.values()))
    freed = _freed(piece.isa, free)
    leaving = {name: live[target] - freed for name, target in exits.items()}
    scratch = (around.written() | freed) & (GENERAL[piece.isa] | _VECTORS) - {"rsp", "sp"}
    entries = {inside[at]: at - piece.address for at in sorted(entered)}
    listing = Listing(
        tuple(lines),
        None,
        piece.isa,
        leaving=leaving,
        scratch=scratch,
        entered=frozenset(entries),
        offset=piece.offset,
        head=HEAD,
    )
    return Bare(piece.id, listing, piece.code, piece.offset, entries, outside, around.liveness)


def _freed(isa: str, names: Iterable[str]) -> frozenset[str]:
    """Return the registers and flags that a user declares free; InputError for an unknown name."""
    registers: set[str] = set()
    for name in names:
        parts = {CARRY, FLAGS} & EVERYTHING[isa] if name == "flags" else {full(isa, name)}
        if not parts <= EVERYTHING[isa]:
            raise InputError(
                f"--free {name!r} is not a register of {isa}; give names as rax, or flags"
            )
        registers |= parts
    return frozenset(registers)


def _outside(piece: Piece, end: int) -> tuple[dict[int, str], dict[str, Outside]]:
    """Return labels of the outside addresses that a loop uses, and their distances."""
    labels: dict[int, str] = {}
    outside: dict[str, Outside] = {}

    def add(target: int, stem: str) -> None:
        if target not in labels and not piece.address <= target < end:
            if target == end and stem == "exit":
                labels[target] = BEHIND
                return
            labels[target] = f".L{stem}{len(labels) + 1}"
            behind = target >= end and stem == "exit"
            outside[labels[target]] = Outside(target - (end if behind else piece.address), behind)

    for ins in piece.instructions:
        if ins.target is not None:
            add(ins.target, "exit")
        elif (address := _rip_target(piece, ins)) is not None:
            if piece.address <= address < end:
                raise InputError(f"{piece.id}: {ins.text} reads the loop's own code")
            add(address, "memory")
    return labels, outside


def _rip_target(piece: Piece, ins: Instruction) -> int | None:
    """Return the target of an instruction's RIP-relative operand, None without one."""
    match = _RELATIVE.search(ins.text) if piece.isa == "x86_64" else None
    if piece.isa == "arm64" and ins.mnemonic in ("adr", "adrp"):
        raise InputError(f"{piece.id}: {ins.text} in it cannot be moved")
    return ins.end + int(match[1] or "0", 0) if match else None


def _with_labels(piece: Piece, ins: Instruction, labels: Mapping[int, str]) -> str:
    """Return an instruction's text with labels instead of addresses."""
    text = " ".join(ins.text.split())
    if (target := ins.target) is not None:
        return _TARGET.sub(lambda _: labels[target], text)
    address = _rip_target(piece, ins)
    return text if address is None else _RELATIVE.sub(f"{labels[address]}(%rip)", text)


class _Surroundings:
    """The code around a loop, as far as it can be followed.

    _routine is the range of its routine's addresses, up to the next known starts where no symbol
    has it. liveness says in words how far the code after the loop was followed.
    """

    def __init__(self, section: Section, piece: Piece) -> None:
        self._section, self._piece = section, piece
        symbol = section.routine(piece.address)
        extent = section.extent(symbol) if symbol else range(0)
        inside = symbol is not None and piece.address in extent
        edges = sorted({*section.starts, *(s.address for s in section.routines), section.end})
        at = bisect.bisect_right(edges, piece.address)
        start = max(section.address, edges[at - 1] if at else section.address)
        self._routine = extent if inside else range(start, edges[at])
        self._follows_abi = inside and symbol is not None and not symbol.local
        self.liveness = (
            f"what is live behind it was read from the code of {symbol.name}"
            if self._follows_abi and symbol
            else "what is live behind it was read up to the next return"
        )

    def entries(self) -> set[int]:
        """Return the addresses, except its start, at which outside code enters the loop.

        InputError if they cannot be known, or where one is within an instruction.
        """
        piece = self._piece
        inside = range(piece.address + 1, piece.instructions[-1].end)
        loop = range(piece.address, piece.instructions[-1].end)
        entries: set[int] = set()
        has_tables = False
        if piece.isa != "x86_64":
            return _arm64_jumps(piece, self._section, loop, self._routine)
        routine = list(self._decoded(self._routine.start, self._routine.stop))
        for n, ins in enumerate(routine):
            jumps = ins.flow_control == iced.FlowControl.INDIRECT_BRANCH
            if jumps and not ins.is_ip_rel_memory_operand:
                before = routine[max(0, n - _MOST_BEFORE) : n]
                if not any(  # a load of an entry of a jump table
                    i.mnemonic == iced.Mnemonic.MOVSXD and i.memory_index_scale == 4 for i in before
                ):
                    text = iced.Formatter(iced.FormatterSyntax.GAS).format(ins)
                    operand = " ".join(text.split()[1:])
                    raise InputError(
                        f"{piece.id}: its routine jumps by {operand}, which may lead into the loop"
                    )
                has_tables = True
            if ins.ip in loop:
                continue
            if (target := near_target(ins)) is not None and target in inside:
                entries.add(target)
        # Of the possible jumps, those into the middle of an instruction are no jumps.
        candidates = _possible_jumps(self._section, inside, self._routine)
        candidates |= self._table_targets(routine) & set(inside) if has_tables else set()
        starts = {i.address for i in piece.instructions}
        entries |= candidates & starts
        if misplaced := entries - starts:
            raise InputError(f"{piece.id}: it is entered at {min(misplaced):#x}, in an instruction")
        return entries

    def _table_targets(self, routine: Sequence[iced.Instruction]) -> set[int]:
        """Return a superset of the targets of the jump tables that a routine uses.

        An entry is a 4-byte distance from the table, or from code whose address the routine takes.
        A table ends at the latest at an entry that leads out of the section.
        """
        section = self._section
        addresses = {
            int(i.memory_displacement) for i in routine if i.mnemonic == iced.Mnemonic.LEA
            and i.is_ip_rel_memory_operand
        }  # fmt: skip
        labels = {at for at in addresses if section.address <= at < section.end}
        targets: set[int] = set()
        for at in addresses - labels:
            for start, content in section.constants:
                if not start <= at < start + len(content):
                    continue
                entries = content[at - start :]
                for (distance,) in struct.iter_unpack("<i", entries[: len(entries) // 4 * 4]):
                    possible = {base + distance for base in (at, *labels)}
                    possible = {to for to in possible if section.address <= to < section.end}
                    if not possible:
                        break
                    targets |= possible
        return targets

    def _decoded(self, start: int, stop: int) -> Iterable[iced.Instruction]:
        text = self._section.bytes_of(start, stop)
        return (ins for ins in iced.Decoder(64, text, ip=start) if not ins.is_invalid)

    def written(self) -> frozenset[str]:
        """Return the registers that the routine writes and a caller therefore cannot rely on.

        A compiler may know the registers that its own routines preserve.
        """
        if self._piece.isa != "x86_64":
            return frozenset()
        registers: frozenset[str] = frozenset()
        for ins in self._decoded(self._routine.start, self._routine.stop):
            at = int(ins.ip) - self._section.address
            registers |= x86_effects(self._section.code[at : at + ins.len]).writes
        return registers

    def live(self, targets: set[int]) -> dict[int, frozenset[str]]:
        """Return the registers and flags that are live at some addresses after the loop."""
        if self._piece.isa != "x86_64":
            return dict.fromkeys(targets, EVERYTHING[self._piece.isa])
        everything = EVERYTHING["x86_64"]
        live = live_registers(self._flow_graph(targets), everything)
        return {at: live.get(at, everything) for at in targets}

    def _flow_graph(self, targets: set[int]) -> dict[int, Node]:
        """Return the reachable instructions by address.

        An address that is missing counts as reading everything.
        """
        section = self._section
        nodes: dict[int, Node] = {}
        pending = sorted(targets)
        everything = EVERYTHING["x86_64"]
        while pending and len(nodes) < _MOST_FOLLOWED:
            at = pending.pop()
            if at in nodes or not section.address <= at < section.end:
                continue
            text = section.bytes_of(at, min(at + 15, section.end))
            ins = next(iter(iced.Decoder(64, text, ip=at)))
            if ins.is_invalid:
                continue
            effects = x86_effects(section.bytes_of(at, at + ins.len))
            target, end = near_target(ins), int(ins.next_ip)
            if effects.flow is Flow.NEXT and ins.mnemonic not in _UNKNOWN_SUCCESSOR:
                nodes[at] = effects, (end,), frozenset()
            elif effects.flow is Flow.BRANCH and target is not None:
                nodes[at] = effects, (end, target), frozenset()
            elif effects.flow is Flow.JUMP and target is not None:
                nodes[at] = effects, (target,), frozenset()
            elif effects.flow is Flow.RETURN and self._follows_abi and at in self._routine:
                nodes[at] = effects, (), _RETURNED
            else:
                nodes[at] = effects, (), everything
                continue
            pending += nodes[at][1]
        return nodes


def _possible_jumps(section: Section, inside: range, routine: range) -> set[int]:
    """Return the targets in a range of all bytes outside a routine that may be jumps or calls.

    Each opcode byte before a matching distance counts, whether it begins an instruction or not.
    """
    entries: set[int] = set()
    content = np.frombuffer(section.code, np.uint8)
    for width, opcodes in ((4, _LONG_JUMPS), (1, _SHORT_JUMPS)):
        for first in range(width):
            count = (len(content) - first) // width
            distances = np.frombuffer(section.code, f"<i{width}", count, first)
            behind = section.address + first + width * np.arange(1, count + 1)
            targets = behind + distances
            hits = np.flatnonzero((targets >= inside.start) & (targets < inside.stop))
            for at, target in zip(behind[hits].tolist(), targets[hits].tolist(), strict=True):
                before = section.bytes_of(max(section.address, at - width - 2), at - width)
                if at - width - 1 not in routine and opcodes.search(before):
                    entries.add(target)
    return entries


def _arm64_jumps(piece: Piece, section: Section, loop: range, routine: range) -> set[int]:
    """Return the addresses after its start at which outside AArch64 code enters a loop.

    InputError if its routine has an indirect jump.
    """
    words = np.frombuffer(section.code, "<u4", len(section.code) // 4).astype(np.int64)
    at = section.address + 4 * np.arange(len(words))
    mask, value = _ARM64_INDIRECT
    if np.any(((words & mask) == value) & (at >= routine.start) & (at < routine.stop)):
        raise InputError(
            f"{piece.id}: its routine jumps by a register, which may lead into the loop"
        )
    entries: set[int] = set()
    for mask, value, low, width in ARM64_BRANCHES:
        target = at + 4 * signed_field(words, low, width)
        enters = ((words & mask) == value) & (target > loop.start) & (target < loop.stop)
        outside = (at < loop.start) | (at >= loop.stop)
        entries |= set(target[enters & outside].tolist())
    return entries
