"""Blocks to measure: the code that is run, and its job for the harness."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loopwright.code import instructions
from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError
from loopwright.measuring import block_path
from loopwright.measuring.block_path import Stretch

if TYPE_CHECKING:
    from loopwright.measuring.block_starts import PreparedLoop

_COUNTS_DOWN = {
    "x86_64": re.compile(r"(?:dec|sub)q?\s+(?:\$(?:0x)?1,\s*)?%(r\w+)"),
    "arm64": re.compile(r"subs?\s+(x\d+), \1, #(?:0x)?1"),
}
_UNTIL_ZERO = {"x86_64": re.compile("j(ne|nz)"), "arm64": re.compile(r"b\.ne|cbnz")}


@dataclass(frozen=True)
class CountedLoop:
    """One iteration of a loop, its branch included, and the register that counts the iterations."""

    code: bytes
    counter: str


def counted_loop(isa: str, code: bytes) -> CountedLoop:
    """Return a block as a loop with a counter.

    A block that ends in `dec` and `jnz` of a register (arm64: `sub` and `cbnz`, or `subs` and
    `b.ne`) back to its start is one already; such a pair is appended to any other. InputError if
    the block uses every register, or the counter itself, or ends in another branch to its start.
    """
    body = instructions.decode(isa, code)
    counter = _own_counter(isa, body)
    if counter:
        if not counts(isa, body):
            raise InputError(f"its own loop counts in {counter}, which the block uses besides")
        return CountedLoop(code, counter)
    if body[-1].flow in (Flow.BRANCH, Flow.JUMP) and body[-1].target == 0:
        raise InputError("it branches back for a number of iterations that is not known")
    used = block_path.used_registers(isa, code)
    counter = next((name for name in block_path.counter_registers(isa) if name not in used), None)
    if counter is None:
        raise InputError("it leaves no register to count the iterations of a loop in")
    return CountedLoop(code + closing(isa, counter, len(code)), counter)


def counts(isa: str, body: Sequence[Instruction]) -> bool:
    """True if a loop counts its iterations down in a register not used otherwise."""
    counter = _own_counter(isa, body)
    inside = b"".join(ins.code for ins in body[:-2])
    return counter is not None and counter not in block_path.used_registers(isa, inside)


def _own_counter(isa: str, body: Sequence[Instruction]) -> str | None:
    """Return the register that the end of a block counts down, if it ends in a counting branch."""
    if len(body) < 2 or body[-1].target != 0:
        return None
    match = _COUNTS_DOWN[isa].fullmatch(body[-2].text)
    return match[1] if match and _UNTIL_ZERO[isa].fullmatch(body[-1].mnemonic) else None


def closing(isa: str, register: str, length: int) -> bytes:
    """Return the code that counts down in a register and branches back over length bytes."""
    count = count_down(isa, register)
    return count + _back(isa, register, length + len(count))


def tested(isa: str, register: str, body: bytes) -> bytes:
    """Return a loop that decrements a register before its body and tests it after the body."""
    number = block_path.register_number(register)
    test = bytes([0x48 | number >> 3 | number >> 3 << 2, 0x85, 0xC0 | (number & 7) * 9])
    code = count_down(isa, register) + body + (b"" if isa == "arm64" else test)
    return code + _back(isa, register, len(code))


def count_down(isa: str, register: str) -> bytes:
    """Return the instruction that decrements a register."""
    number = block_path.register_number(register)
    if isa == "arm64":
        return (0xD1000400 | number << 5 | number).to_bytes(4, "little")
    return bytes([0x48 | number >> 3, 0xFF, 0xC8 | number & 7])


def _back(isa: str, register: str, length: int) -> bytes:
    """Return the branch back over length bytes while a register, or the flag of it, is not zero."""
    if isa == "arm64":
        word = 0xB5000000 | (-length // 4 & 0x7FFFF) << 5 | block_path.register_number(register)
        return word.to_bytes(4, "little")
    short = -(length + 2)
    if short >= -128:
        return b"\x75" + short.to_bytes(1, "little", signed=True)
    return b"\x0f\x85" + (short - 4).to_bytes(4, "little", signed=True)


MOST_BYTES = 1024
_COPIES_BYTES = 2048  # bytes of the shorter unrolled code; the longer is twice as long
_LEAST_COPIES = 8
_ITERATIONS = 20000  # iterations of the shorter run, at most
_TURN_FACTORS = (1, 1.5, 1.25)  # factors of both lengths by turn, as the cost of the ends varies
_X87 = re.compile(r"%(st|mm\d)\b|^f|^emms")  # instructions that use x87 registers or their state
# Instructions whose result differs from run to run, so that copies may branch differently.
_VARYING = re.compile(r"rdtscp?|rdpmc|rdpru|rdrand|rdseed")
_VARYING_REGISTER = re.compile(r"mrs .*\b(cnt[pv]ct(ss)?_el0|pmccntr_el0|rndr(rs)?)\b")
_TRAPPED = "trap"  # the harness's refusal of code that runs into a trap


@dataclass(frozen=True)
class Block:
    """One row to measure: its code as one copy or one iteration, or the reason why it is not run.

    counter is the register of a counted loop. x87: the code uses the x87 stack. wide: pointers have
    to be aligned to cache lines. prepared is a loop that ends by a condition of its own, with its
    start. samples is the number for each process; 0 is the harness's default.
    """

    id: str
    notion: str
    offset: int
    code: bytes
    counter: str = ""
    x87: bool = False
    wide: bool = False
    misaligned: bool = False
    prepared: "PreparedLoop | None" = None
    refused: str = ""
    samples: int = 0

    @property
    def repeated(self) -> bytes:
        """The code that is repeated: of a loop, with its branch."""
        if self.prepared is None:
            return self.code
        image = self.prepared.image
        return image.code[image.entry : image.entry + len(self.code)]

    @property
    def note(self) -> str:
        """The caveats of its figure."""
        return self.prepared.replaced if self.prepared else ""

    def refusal(self, refused: str, stopped: int) -> str:
        """Return the harness's refusal, or the exit at which the code stopped (a byte offset)."""
        if self.prepared is None or refused != _TRAPPED:
            return refused
        step = self.prepared.image.leaves.get(stopped - 1)
        return refused if step is None else self.prepared.exit_taken(step)


def of_hex(
    name: str,
    text: str,
    offset: int,
    isa: str,
    notion: str | None,
    stretches: Sequence[Stretch] = (),
) -> Block:
    """Return a row's block; one that cannot be measured has the reason."""
    try:
        code = instructions.parse_hex(text)
    except InputError as error:
        return Block(name, notion or "unrolled", offset, b"", refused=str(error))
    return of_code(name, code, offset, isa, notion, stretches)


def of_code(
    name: str,
    code: bytes,
    offset: int,
    isa: str,
    notion: str | None,
    stretches: Sequence[Stretch] = (),
) -> Block:
    """Return the block of code; as a loop it executes these stretches, or all of it."""
    block = Block(name, notion or "unrolled", offset, code)
    try:
        if len(code) > MOST_BYTES:
            raise InputError(f"{len(code)} bytes are too long for a block; it has {MOST_BYTES}")
        if isa == "arm64" and offset % 4:
            raise InputError("arm64 code stands at multiples of 4")
        if len(stretches) > 1:
            return _prepared(block, isa, stretches)
        body = instructions.decode(isa, code)
        branches_back = body[-1].target == 0 and body[-1].flow is Flow.BRANCH
        block = replace(
            block,
            notion=notion or ("loop" if branches_back else "unrolled"),
            x87=any(_X87.search(ins.text) for ins in body),
            wide=block_path.wide(isa, code),
            misaligned=block_path.misaligned(isa, code),
        )
        is_loop = block.notion == "loop" and body[-1].target == 0
        inside = body[:-1] if is_loop else body
        _refuse_branches_by_time(inside if is_loop and counts(isa, body) else body)
        way_out = _way_out(inside, len(code))
        if is_loop and isa == "x86_64" and (way_out or not counts(isa, body)):
            return _prepared(block, isa, stretches)
        if way_out:
            raise InputError(way_out)
        if block.notion == "unrolled":
            return block
        loop = counted_loop(isa, code)
        return replace(block, code=loop.code, counter=loop.counter)
    except InputError as error:
        return replace(block, refused=str(error))


def _prepared(block: Block, isa: str, stretches: Sequence[Stretch]) -> Block:
    """Return the block of a loop that ends by a condition of its own, or has exits."""
    if isa != "x86_64":
        raise InputError("loops with exits, or of several stretches, run on x86-64 alone")
    from loopwright.measuring import block_starts

    path = block_path.of_loop(block.code, stretches)
    return replace(
        block,
        notion="loop",
        x87=any(_X87.search(step.text) for step in path.steps),
        wide=block_path.wants_aligned_pointers(isa, path.executed),
        misaligned=block_path.misaligned(isa, path.executed),
        prepared=block_starts.find_start(path),
    )


def _refuse_branches_by_time(body: Sequence[Instruction]) -> None:
    """Raise InputError for branches beside a clock read: they may depend on it."""
    branches = [ins for ins in body if ins.flow is Flow.BRANCH]
    for ins in body:
        if branches and (_VARYING.match(ins.mnemonic) or _VARYING_REGISTER.match(ins.line)):
            raise InputError(
                f"it has {ins.line}, whose result changes from run to run, and a branch "
                f"({branches[0].line}): measure each way by itself"
            )


def _way_out(body: Sequence[Instruction], size: int) -> str:
    """Return why code does not only go forwards, so that its copies would not all run whole."""
    starts = {ins.address for ins in body} | {size}
    for ins in body:
        if ins.flow is Flow.NEXT:
            continue
        if ins.flow not in (Flow.JUMP, Flow.BRANCH):
            return f"it leaves the block: {ins.line}"
        if ins.target not in starts or ins.target < ins.end:
            return f"it branches out of the block, or back: {ins.line}"
    return ""


def job(isa: str, name: str, block: Block, turn: int) -> str:
    """Return a block's job for the harness, which runs so many copies or iterations, and twice.

    Turns differ in that number.
    """
    factor = _TURN_FACTORS[turn % len(_TURN_FACTORS)]
    code, entry, lines = block.code, 0, []
    if block.prepared:
        times = int(block.prepared.most / 3 * factor)
        code, entry = block.prepared.image.code, block.prepared.image.entry
        lines = block.prepared.lines()
    elif block.counter:
        times, lines = round(_ITERATIONS * factor), [f"counter {block.counter}"]
    else:
        times = round(max(_LEAST_COPIES, -(-_COPIES_BYTES // len(code))) * factor)
    lines = [
        "job block",
        f"id {name}",
        f"isa {isa}",
        f"code {code.hex()}",
        f"entry {entry}",
        f"offset {block.offset}",
        f"times {times} {2 * times}",
        *lines,
        *([f"samples {block.samples}"] if block.samples else []),
        *(["x87"] if block.x87 else []),
        *(["wide"] if block.wide else []),
        "end",
    ]
    return "\n".join([*lines, ""])
