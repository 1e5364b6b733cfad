"""Registers that AArch64 experiments use, and instructions whose part in them is known."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.forms.kit import Branch, Pool, Serial

# x18 belongs to the platform, x28 counts trips. Sources that are elements of 16 bits are in v0 to
# v15 alone, and a table is up to four registers that follow each other: constants from v12 on.
POOLS: Mapping[str, Pool] = {
    "gpr": Pool((10, 11, 12), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (13, 14, 15), back=(8, 9)),
    "vector": Pool((9, 10, 11), (0, 2, 3, 5, 6, 7, 16, 17, 18, 19), (12, 13, 14, 15), back=(1, 8)),
}
# A fetch ends at the branch of a loop: what is fetched in whole cycles shows no quarter of one.
DISPATCHED = "unrolled"
# Memory and branches have no experiments yet.
LOAD, STORE, JUMP, PUSH, POP = "", "", "", "", ""
STACK = 31
IDIOMS = frozenset({"eor", "sub", "subs", "bic"})
ADDED = ""
RENAMED: Sequence[str] = ()
LOADS: Mapping[str, str] = {}
FORWARDS: Mapping[str, tuple[str, str]] = {}
UPDATE = ""
UPDATES: Mapping[str, str] = {}
BRANCHES: Sequence[Branch] = ()
UNFUSED: Sequence[Branch] = ()
FUSING: Sequence[str] = ()
FENCE = b""
SERIAL: Mapping[str, Serial] = {}
PRIVILEGED: Sequence[str] = ()
REPEATED: Mapping[str, int] = {}
SHORT = bytes.fromhex("1f2003d5")  # nop
COUNT = bytes.fromhex("4a0500d1")  # sub x10, x10, 1
MOVE = bytes.fromhex("e00301aa")  # mov x0, x1
_ZERO = 31
_CARRY_SET = 2  # the condition


def nop() -> bytes:
    """Return an instruction that does nothing."""
    return _word(0xD503201F)


def pad(size: int) -> list[bytes]:
    """Return as few instructions as do nothing in so many bytes."""
    return [nop()] * (size // 4)


def opposite(branch: Branch) -> bytes:
    """Return the code of a branch's opposite: the lowest bit of a condition turns it round."""
    return _word(int.from_bytes(branch.code, "little") ^ 1)


def slow(register: int) -> list[bytes]:
    """Return instructions of one uop that make a vector register wait long for itself."""
    root, product = 0x1E61C000, 0x1E600800  # fsqrt and fmul of doubles
    return [
        _word(root | _three(register, register, 0)),
        _word(product | _three(register, register, register)),
    ]


def stacked(source: int, target: int) -> tuple[bytes, bytes]:
    """Return what moves a register to the stack, and what moves one from it."""
    push, pop = 0xF81F0FE0, 0xF84107E0  # str x0, [sp, -16]! and ldr x0, [sp], 16
    return _word(push | source), _word(pop | target)


def stack_moved(by: int) -> bytes:
    """Return what adds so many bytes to the stack pointer, and moves nothing there."""
    return _word((0x910003FF if by >= 0 else 0xD10003FF) | abs(by) << 10)


def hold(register: int, on: int) -> list[bytes]:
    """Return what makes a general-purpose register wait for another, and leaves its value."""
    return [_word(0xCA000000 | _three(register, register, on))] * 2


def set_anew(kind: str, number: int) -> bytes:
    """Return what gives a register, or the flags, a value that depends on nothing written."""
    if kind == "flags":
        constant = POOLS["gpr"].constant[0]
        return _word(0xEA000000 | _three(_ZERO, constant, constant))
    if kind == "gpr":
        return _word(0xAA000000 | _three(number, _ZERO, POOLS["gpr"].constant[0]))
    constant = POOLS["vector"].constant[0]
    return _word(0x4EA01C00 | _three(number, constant, constant))


def carry(source: str, target: str, read: int, write: int) -> bytes:
    """Return an instruction that makes a value of one kind of a value of another.

    Numbers are of registers; those of flags do not count. What writes a register from flags reads
    that register, too.
    """
    constant = {kind: pool.constant[0] for kind, pool in POOLS.items()}
    if (source, target) == ("gpr", "gpr"):  # eor
        return _word(0xCA000000 | _three(write, read, constant["gpr"]))
    if (source, target) == ("vector", "vector"):  # and, of 16 bytes
        return _word(0x4E201C00 | _three(write, read, constant["vector"]))
    if (source, target) == ("gpr", "vector"):  # fmov
        return _word(0x9E670000 | _three(write, read, 0))
    if (source, target) == ("vector", "gpr"):
        return _word(0x9E660000 | _three(write, read, 0))
    if (source, target) == ("gpr", "flags"):  # tst
        return _word(0xEA000000 | _three(_ZERO, read, read))
    if (source, target) == ("flags", "gpr"):  # csel
        return _word(0x9A800000 | _CARRY_SET << 12 | _three(write, write, constant["gpr"]))
    raise ValueError(f"nothing carries {source} to {target}")


def add_with_carry(register: int) -> bytes:
    """Return an addition to a register that reads the carry and writes it."""
    return _word(0xBA000000 | _three(register, register, POOLS["gpr"].constant[0]))


def _three(to: int, one: int, other: int) -> int:
    return to | one << 5 | other << 16


def _word(word: int) -> bytes:
    return word.to_bytes(4, "little")


def gone(random: bool, branches: int) -> bytes:
    """Return nothing: branches have no experiment yet."""
    del random, branches
    return b""


def repeated(name: str, count: int, source: int, destination: int) -> bytes:
    """Return nothing: there are no such instructions."""
    del name, count, source, destination
    return b""
