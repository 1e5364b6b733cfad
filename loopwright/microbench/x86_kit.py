"""x86-64 kit: registers and known instructions of microbenchmarks (forms.Kit describes them).

Vector instructions are those of AVX, which zero upper halves: see Form.beside.
"""

from collections.abc import Mapping, Sequence

import iced_x86 as iced

from loopwright.code.instructions import REGISTERS, X86_NOPS, encode_x86
from loopwright.microbench import forms
from loopwright.microbench.forms import Branch, Pool, Serial

# rsp and the iteration counter are not used; implied registers are not chosen.
POOLS: Mapping[str, Pool] = {
    "gpr": Pool((10, 11, 12), (3, 5, 6, 7, 8, 9), (14, 13), back=(8, 9)),
    "vector": Pool((10, 11, 12), (1, 2, 3, 4, 5, 6, 7, 8, 9), (15, 14, 13), back=(1, 2)),
}
BYTES = 0
DISPATCHED = "loop"  # so that op caches can hold it
LOAD, STORE = "mov r64,m64", "mov m64,r64"
LOADS: Mapping[str, str] = {
    "load_cycles": LOAD,
    "load_vector_cycles": "movaps x,m128",
    "load_256_cycles": "vmovaps y,m256",
}
FORWARDS: Mapping[str, tuple[str, str]] = {
    "indexed": (STORE, LOAD),
    "8 bits": ("mov m8,r8", "movzx r32,m8"),
    "16 bits": ("mov m16,r16", "movzx r32,m16"),
    "32 bits": ("mov m32,r32", "mov r32,m32"),
    "vector": ("movaps m128,x", "movaps x,m128"),
    "a part": ("mov m64,r64", "mov r32,m32"),
    "more than was stored": ("mov m32,r32", "mov r64,m64"),
}
ADDITIONS: Sequence[str] = ("add m{0},r{0}", "add m{0},i8")
UPDATES: Mapping[str, str] = {"64 bits": "add m64,r64", "8 bits": "add m8,r8"}
ADDED = "add r64,i32"
EXTENSION = "movzx r32,r8"
SUMMING: Sequence[str] = ("addss x,x", "mulss x,x")
RENAMED: Sequence[str] = ("add r64,i8", "sub r64,i8", "inc r64", "dec r64")
PUSH, POP = "push r64", "pop r64"
STACK = 4  # rsp
_HIGH_HALF = 2  # rdx, of a dividend
_ZEROING = (
    "pxor", "xorps", "xorpd", "pandn", "andnps", "andnpd",
    *(f"psub{kind}" for kind in ("b", "w", "d", "q", "sb", "sw", "usb", "usw")),
    *(f"pcmp{what}{bits}" for what in ("eq", "gt") for bits in "bwdq"),
)  # fmt: skip
IDIOMS = frozenset({"xor", "sub", *_ZEROING, *(f"v{name}" for name in _ZEROING)})
# Branches to the next instruction, and their opposites; the kind is the condition. The first of
# each pair is not taken behind the count of a loop's iterations, which is above zero.
BRANCHES: Sequence[Branch] = tuple(
    Branch(kind, f"j{name} rel", f"j{other} rel", bytes((0x0F, code, 0, 0, 0, 0)))
    for kind, name, other, code in (
        ("z", "e", "ne", 0x84),
        ("c", "b", "ae", 0x82),
        ("o", "o", "no", 0x80),
        ("s", "s", "ns", 0x88),
        ("a", "be", "a", 0x86),
        ("l", "l", "ge", 0x8C),
        ("l", "le", "g", 0x8E),
    )
)
# rcx holds a pointer.
UNFUSED: Sequence[Branch] = (Branch("", "jrcxz rel", "", bytes.fromhex("e300")),)
JUMP = "jmp rel"
CALLED = bytes.fromhex("e802000000 eb01 c3")  # call over a jump over the return
# The same with the return 24 bytes behind the call, 48 bytes in total.
CALLED_APART = bytes.fromhex(f"e813000000 eb29 {17 * '90'} c3 {23 * '90'}")
DERIVED: Mapping[str, tuple[str, Sequence[str]]] = {
    **{f"push {constant}": (PUSH, ()) for constant in ("0", "i8", "i32")},
    "push m64": (PUSH, ("load",)),
    "pop m64": (POP, ("store",)),
    "leave": (POP, ("compute",)),
    "call r64": ("call rel", ()),
    "call m64": ("call rel", ("load",)),
    "ret i16": ("ret", ("compute",)),
    "jmp r64": (JUMP, ()),
    "jmp m64": (JUMP, ("load",)),
    "jp rel": ("je rel", ()),
    "jrcxz rel": ("je rel", ("compute",)),
    "jnp rel": ("je rel", ()),
    "endbr64": ("", ()),
    **{f"prefetch{hint} m512": ("", ("load",)) for hint in ("t0", "t1", "t2", "nta", "w")},
    **{f"lods{width}": ("", ("load", "compute")) for width in "bwdq"},
    **{f"stos{width}": ("", ("store", "compute")) for width in "bwdq"},
    **{f"scas{width}": ("", ("load", "compute", "compute")) for width in "bwdq"},
    **{f"movs{width}": ("", ("load", "store", "compute", "compute")) for width in "bwdq"},
}
FUSING: Sequence[str] = ("cmp", "test", "add", "sub", "and", "or", "xor", "inc", "dec")
FENCE = bytes.fromhex("0faee8")  # lfence
SERIAL: Mapping[str, Serial] = {
    "lfence": Serial(FENCE),
    "mfence": Serial(bytes.fromhex("0faef0")),
    "sfence": Serial(bytes.fromhex("0faef8")),
    "pause": Serial(bytes.fromhex("f390")),
    "rdtsc": Serial(bytes.fromhex("0f31")),
    "rdtscp": Serial(bytes.fromhex("0f01f9"), needs="rdtscp"),
    "rdpid": Serial(bytes.fromhex("f30fc7f8"), needs="rdpid"),  # to rax
    "xgetbv": Serial(bytes.fromhex("0f01d0"), bytes.fromhex("31c9"), "avx"),  # xor ecx, ecx
    "serialize": Serial(bytes.fromhex("0f01e8"), needs="serialize"),
    # vandps of 256 bits, and andps, each before the other: two transitions.
    "avx_sse_transition": Serial(bytes.fromhex("c5ec54d20f54e4"), needs="avx", times=2, free=True),
    "cpuid": Serial(bytes.fromhex("0fa2"), bytes.fromhex("31c0"), traps=True),  # xor eax, eax
}
PRIVILEGED: Sequence[str] = ("stac", "clac", "wrmsr", "swapgs", "invlpg")
REPEATED: Mapping[str, int] = {"movsb": 1, "movsq": 8, "stosb": 1, "stosq": 8}
SHORT = bytes.fromhex("90")  # nop
_OF_EBX = (
    "add 01f3, and 21f3, dec ffcb, inc ffc3, neg f7db, not f7d3, or 09f3, rol d1c3, "
    "ror d1cb, sar d1fb, shl d1e3, shr d1eb, sub 29f3, xor 31f3"
)
_OF_XMM1 = (
    "addpd 660f58cb, addps 0f58cb, addsd f20f58cb, addss f30f58cb, andps 0f54cb, "
    "mulpd 660f59cb, mulps 0f59cb, mulsd f20f59cb, orps 0f56cb, paddb 660ffccb, "
    "paddd 660ffecb, paddq 660fd4cb, paddw 660ffdcb, pand 660fdbcb, pandn 660fdfcb, "
    "pcmpeqb 660f74cb, pcmpeqd 660f76cb, pmaxub 660fdecb, pminub 660fdacb, "
    "pmuludq 660ff4cb, por 660febcb, pslld 660f72f104, psllq 660f73f104, "
    "psrld 660f72d104, psrlq 660f73d104, psubb 660ff8cb, psubd 660ffacb, psubq 660ffbcb, "
    "psubw 660ff9cb, pxor 660fefcb, xorps 0f57cb"
)


def _coded(text: str) -> dict[str, bytes]:
    """Return code by mnemonic, from a list such as "add 01f3, and 21f3"."""
    pairs = (one.split() for one in text.split(", "))
    return {name: bytes.fromhex(code) for name, code in pairs}


# mov ebx from esi and from [r14], movdqa xmm1 from xmm2 and movdqu from [r14].
ABSORBING: Sequence[tuple[Mapping[str, bytes], Mapping[str, bytes]]] = (
    (_coded("move 89f3, load 418b1e"), _coded(_OF_EBX)),
    (_coded("move 660f6fca, load f3410f6f0e"), _coded(_OF_XMM1)),
)
MOVE = bytes.fromhex("89f3")  # mov ebx, esi
COUNT = bytes.fromhex("49ffca")  # dec r10, the instruction that counts iterations
_REPEATS = {"movsb": "f3a4", "movsq": "f348a5", "stosb": "f3aa", "stosq": "f348ab"}
_R = iced.Register


def _code(code: "iced.Code_", *registers: "iced.Register_") -> bytes:
    """Return an instruction of one to three registers."""
    create = iced.Instruction
    creates = (create.create_reg, create.create_reg_reg, create.create_reg_reg_reg)
    return encode_x86(creates[len(registers) - 1](code, *registers))


def _gpr(number: int) -> "iced.Register_":
    return getattr(_R, REGISTERS["x86_64"][number].upper())  # type: ignore[no-any-return]


def _vector(number: int) -> "iced.Register_":
    return getattr(_R, f"XMM{number}")  # type: ignore[no-any-return]


def nop() -> bytes:
    return bytes.fromhex("0f1f440000")  # long enough for op caches


def pad(size: int) -> list[bytes]:
    out = []
    while size:
        out.append(X86_NOPS[min(size, len(X86_NOPS)) - 1])
        size -= len(out[-1])
    return out


def jump_over(over: int) -> bytes:
    return bytes((0xEB, over)) + b"".join(pad(over))


def opposite(branch: Branch) -> bytes:
    return bytes((branch.code[0], branch.code[1] ^ 1, *branch.code[2:]))


def break_dependency(kind: str, number: int) -> bytes:
    if kind == "flags":
        source = _gpr(POOLS["gpr"].constant[0])
        return _code(iced.Code.TEST_RM64_R64, source, source)
    if kind == "gpr" and number == _HIGH_HALF:
        # zero, so that the quotient of a division fits its register
        return encode_x86(iced.Instruction.create_reg_u32(iced.Code.MOV_R32_IMM32, _R.EDX, 0))
    if kind == "gpr":
        return _code(iced.Code.MOV_R64_RM64, _gpr(number), _gpr(POOLS["gpr"].constant[0]))
    source = _vector(POOLS["vector"].constant[0])
    return _code(iced.Code.VEX_VMOVAPS_XMM_XMMM128, _vector(number), source)


def transfer(source: str, target: str, read: int, write: int) -> bytes:
    code = iced.Code
    constant = _gpr(POOLS["gpr"].constant[1])
    if (source, target) == ("gpr", "gpr"):
        half = iced.RegisterExt.full_register32(_gpr(read))
        return _code(code.MOVSXD_R64_RM32, _gpr(write), half)
    if (source, target) == ("gpr", "vector"):
        return _code(code.VEX_VMOVQ_XMM_RM64, _vector(write), _gpr(read))
    if (source, target) == ("vector", "gpr"):
        return _code(code.VEX_VMOVQ_RM64_XMM, _gpr(write), _vector(read))
    if (source, target) == ("vector", "vector"):
        ones = _vector(POOLS["vector"].constant[0])
        return _code(code.VEX_VPAND_XMM_XMM_XMMM128, _vector(write), _vector(read), ones)
    if (source, target) == ("gpr", "flags"):
        # Redwood and Golden Cove take 1 to 3 cycles from test to readers of flags, and 1 from cmp.
        return _code(code.CMP_RM64_R64, _gpr(read), constant)
    if (source, target) == ("flags", "gpr"):
        return _code(code.CMOVB_R64_RM64, _gpr(write), constant)
    raise ValueError(f"nothing carries {source} to {target}")


def slow_links(register: int) -> list[bytes]:
    code, one = iced.Code, _vector(register)
    others = (code.VEX_VDIVPD_XMM_XMM_XMMM128, code.VEX_VMULPD_XMM_XMM_XMMM128)
    return [
        _code(code.VEX_VSQRTPD_XMM_XMMM128, one, one),
        *(_code(other, one, one, one) for other in others),
    ]


def add_with_carry(register: int) -> bytes:
    return _code(iced.Code.ADC_R64_RM64, _gpr(register), _gpr(POOLS["gpr"].constant[0]))


def push_and_pop(source: int, target: int) -> tuple[bytes, bytes]:
    return _code(iced.Code.PUSH_R64, _gpr(source)), _code(iced.Code.POP_R64, _gpr(target))


def counting_loop(iterations: int) -> bytes:
    return bytes.fromhex("41ba") + iterations.to_bytes(4, "little") + COUNT + bytes.fromhex("75fb")


def adjust_stack(by: int) -> bytes:
    create = iced.Instruction.create_reg_i32
    return encode_x86(create(iced.Code.ADD_RM64_IMM8, iced.Register.RSP, by))


def make_dependent(register: int, on: int) -> list[bytes]:
    return [_code(iced.Code.XOR_R64_RM64, _gpr(register), _gpr(on))] * 2


def branches_by_bits(random: bool, branches: int) -> bytes:
    code, create = iced.Code, iced.Instruction
    previous, state, constant = _R.RBX, _R.RDX, _gpr(POOLS["gpr"].constant[0])
    place = iced.MemoryOperand(constant, displ=forms.GENERATOR_PLACE, displ_size=1)
    out = [
        create.create_reg_reg(code.MOV_R64_RM64, previous, state),
        create.create_reg_mem(code.MOV_R64_RM64, state, place),
        create.create_reg_reg_i32(code.IMUL_R64_RM64_IMM32, state, state, forms.MULTIPLIER),
        create.create_reg_i32(code.ADD_RM64_IMM32, state, forms.INCREMENT),
        create.create_mem_reg(code.MOV_RM64_R64, place, state),
    ]
    made = b"".join(map(encode_x86, out))
    over = bytes((0x72, len(nop()))) + nop()  # jb
    tested = previous if random else constant
    for bit in forms.branch_bits(random, branches):
        made += encode_x86(create.create_reg_u32(code.BT_RM64_IMM8, tested, bit)) + over
    return made


def string_instruction(name: str, count: int, source: int, destination: int) -> bytes:
    create = iced.Instruction
    out = [create.create_reg_u32(iced.Code.MOV_R32_IMM32, _R.ECX, count)]
    places = ((_R.RSI, source), (_R.RDI, destination))
    for (register, place), base in zip(places, POOLS["gpr"].constant, strict=True):
        memory = iced.MemoryOperand(_gpr(base), displ=place, displ_size=8)
        out.append(create.create_reg_mem(iced.Code.LEA_R64_M, register, memory))
    return b"".join(map(encode_x86, out)) + bytes.fromhex(_REPEATS[name])
