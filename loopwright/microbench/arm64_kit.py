"""AArch64 kit: registers and known instructions of microbenchmarks (forms.Kit describes them)."""

from collections.abc import Mapping, Sequence

from loopwright.microbench import forms
from loopwright.microbench.forms import Branch, Pool, Serial

# x18 belongs to the platform, x28 counts iterations. Sources that are elements of 16 bits are in v0
# to v15 alone. A table, or what is loaded or stored at once, is up to four registers that follow
# each other: constants from v12 on, those under test four apart.
POOLS: Mapping[str, Pool] = {
    "gpr": Pool(
        (10, 11, 12),
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
        (13, 14, 15),
        back=(8, 9),
        moved=((16, 17, 19, 20, 21, 22), (23, 24, 25, 26, 27)),
    ),
    "vector": Pool((20, 24, 28), (0, 2, 3, 5, 6, 7, 16, 17, 18, 19), (12, 13, 14, 15), back=(1, 8)),
}
BYTES = 4
# A fetch ends at the branch of a loop: what is fetched in whole cycles shows no quarter of one.
DISPATCHED = "unrolled"
LOAD, STORE = "ldr x,[x,i]", "str x,[x,i]"
PUSH, POP = "", ""  # a base that is written, as others are
STACK = 31
IDIOMS = frozenset({"eor", "sub", "subs", "bic"})
EXTENSION = ""
SUMMING: Sequence[str] = ()
ADDED = ""
RENAMED: Sequence[str] = ()
LOADS: Mapping[str, str] = {"load_cycles": LOAD, "load_vector_cycles": "ldr q,[x,i]"}
FORWARDS: Mapping[str, tuple[str, str]] = {
    "indexed": ("str x,[x,x]", "ldr x,[x,x]"),
    "8 bits": ("strb w,[x,i]", "ldrb w,[x,i]"),
    "16 bits": ("strh w,[x,i]", "ldrh w,[x,i]"),
    "32 bits": ("str w,[x,i]", "ldr w,[x,i]"),
    "vector": ("str q,[x,i]", "ldr q,[x,i]"),
    "a part": ("str x,[x,i]", "ldr w,[x,i]"),
    "more than was stored": ("str w,[x,i]", "ldr x,[x,i]"),
}
ADDITIONS: Sequence[str] = ()
UPDATES: Mapping[str, str] = {}
# To what follows them. Flags are clear at first, and the count of iterations leaves them; cbz is of
# what counts, and bits of pointers to lines are clear.
BRANCHES: Sequence[Branch] = (
    Branch("a", "b.cond", "b.cond", bytes.fromhex("20000054")),  # b.eq
    Branch("z", "cbz", "cbnz", bytes.fromhex("2a0000b4")),  # of x10
)
UNFUSED: Sequence[Branch] = (Branch("", "tbnz", "tbz", bytes.fromhex("2d000037")),)  # x13, bit 0
JUMP = "b"
CALLED = b""
CALLED_APART = b""
DERIVED: Mapping[str, tuple[str, Sequence[str]]] = {}
ABSORBING: Sequence[tuple[Mapping[str, bytes], Mapping[str, bytes]]] = ()
FUSING: Sequence[str] = (
    "adds", "subs", "ands", "bics", "adcs", "sbcs", "ccmp", "ccmn", "fcmp", "fcmpe", "fccmp",
    "fccmpe", "sub",
)  # fmt: skip
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
    return SHORT


def pad(size: int) -> list[bytes]:
    return [nop()] * (size // 4)


def jump_over(over: int) -> bytes:
    return code_of(0x14000001 + over // BYTES) + b"".join(pad(over))


def opposite(branch: Branch) -> bytes:
    # This bit inverts the condition, or cbz.
    turned = 1 if branch.name == "b.cond" else 1 << 24
    return code_of(int.from_bytes(branch.code, "little") ^ turned)


def slow_links(register: int) -> list[bytes]:
    root, product = 0x1E61C000, 0x1E600800  # fsqrt and fmul of doubles
    return [
        code_of(root | _fields(register, register, 0)),
        code_of(product | _fields(register, register, register)),
    ]


def push_and_pop(source: int, target: int) -> tuple[bytes, bytes]:
    push, pop = 0xF81F0FE0, 0xF84107E0  # str x0, [sp, -16]! and ldr x0, [sp], 16
    return code_of(push | source), code_of(pop | target)


def counting_loop(iterations: int) -> bytes:
    movz, cbnz = 0xD280000A | iterations << 5, 0xB5FFFFEA  # cbnz to COUNT
    return code_of(movz) + COUNT + code_of(cbnz)


def adjust_stack(by: int) -> bytes:
    return code_of((0x910003FF if by >= 0 else 0xD10003FF) | abs(by) << 10)


def make_dependent(register: int, on: int) -> list[bytes]:
    return [code_of(0xCA000000 | _fields(register, register, on))] * 2


def break_dependency(kind: str, number: int) -> bytes:
    if kind == "flags":
        constant = POOLS["gpr"].constant[0]
        return code_of(0xEA000000 | _fields(_ZERO, constant, constant))
    if kind == "gpr":
        return code_of(0xAA000000 | _fields(number, _ZERO, POOLS["gpr"].constant[0]))
    constant = POOLS["vector"].constant[0]
    return code_of(0x4EA01C00 | _fields(number, constant, constant))


def transfer(source: str, target: str, read: int, write: int) -> bytes:
    constant = {kind: pool.constant[0] for kind, pool in POOLS.items()}
    if (source, target) == ("gpr", "gpr"):  # eor
        return code_of(0xCA000000 | _fields(write, read, constant["gpr"]))
    if (source, target) == ("vector", "vector"):  # and, of 16 bytes
        return code_of(0x4E201C00 | _fields(write, read, constant["vector"]))
    if (source, target) == ("gpr", "vector"):  # fmov
        return code_of(0x9E670000 | _fields(write, read, 0))
    if (source, target) == ("vector", "gpr"):
        return code_of(0x9E660000 | _fields(write, read, 0))
    if (source, target) == ("gpr", "flags"):  # tst
        return code_of(0xEA000000 | _fields(_ZERO, read, read))
    if (source, target) == ("flags", "gpr"):  # csel
        return code_of(0x9A800000 | _CARRY_SET << 12 | _fields(write, write, constant["gpr"]))
    raise ValueError(f"nothing carries {source} to {target}")


def add_with_carry(register: int) -> bytes:
    return code_of(0xBA000000 | _fields(register, register, POOLS["gpr"].constant[0]))


def _fields(target: int, first: int, second: int) -> int:
    """Return the fields of a result and two operands in an instruction word."""
    return target | first << 5 | second << 16


def code_of(word: int) -> bytes:
    """Return the code of an instruction word."""
    return word.to_bytes(4, "little")


def branches_by_bits(random: bool, branches: int) -> bytes:
    previous, state, factor, addend = 1, 2, 3, 4
    constant = POOLS["gpr"].constant[0]
    place = forms.GENERATOR_PLACE // 8 << 10 | constant << 5 | state
    out = [0xAA0003E0 | state << 16 | previous, 0xF9400000 | place]  # mov, ldr
    for register, value in ((factor, forms.MULTIPLIER), (addend, forms.INCREMENT)):
        out += [0xD2800000 | (value & 0xFFFF) << 5 | register]  # movz
        out += [0xF2A00000 | (value >> 16) << 5 | register]  # movk
    out += [0x9B000000 | _fields(state, state, factor) | addend << 10]  # madd
    out += [0xF9000000 | place]  # str
    tested = previous if random else constant
    for bit in forms.branch_bits(random, branches):
        out += [0x37000040 | bit >> 5 << 31 | (bit & 31) << 19 | tested]  # tbnz, over what follows
        out += [int.from_bytes(nop(), "little")]
    return b"".join(map(code_of, out))


def string_instruction(name: str, count: int, source: int, destination: int) -> bytes:
    del name, count, source, destination
    return b""  # the ISA has none
