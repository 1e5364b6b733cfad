"""Calls in an emulated core with every instruction and access checked against a contract, in C.

harness/tracing/watch.c has the checks; the structures here are those of its header.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import arm64_const, x86_const

from loopwright import paths
from loopwright.code.instructions import REGISTERS, Code, register_number
from loopwright.kernels.contracts import EFFECTS, Contract
from loopwright.machine import emulator
from loopwright.machine.emulator import PAGE, register_of

AREA = 1 << 18  # bytes of each accessible area, and the largest size of a call
AREAS = 5  # of each side
KERNEL_AREA = 4  # the area in the kernel's own memory, for sides that may be there
SIDES = ("dst", "src")
MOST_STEPS = 1 << 22
# The end of user space, with four-level page tables and 48 bits.
USER_END = {"x86_64": 0x7FFF_FFFF_F000, "arm64": 1 << 48}
BOUNDARY = 5 << 32  # the third area of each side crosses a multiple of 4 GiB, from here on
# The addresses of Linux's own code, stacks and memory, in the upper half.
_CODE = {"x86_64": 0xFFFF_FFFF_8100_0040, "arm64": 0xFFFF_8000_0801_0040}
_STACK = {"x86_64": 0xFFFF_C900_0004_0000, "arm64": 0xFFFF_8000_0A04_0000}
_KERNEL = {"x86_64": 0xFFFF_8881_2340_0000, "arm64": 0xFFFF_0000_8000_0000}
_TO_RETURN = 1 << 20  # from the code to the page that it returns to
_STACK_BYTES = 16 * PAGE
# Address tags, in the top byte, which AArch64 ignores in a user's address; each bit is set in one.
_TAGS = {"x86_64": (0, 0), "arm64": (0x2A << 56, 0xD5 << 56)}
_WINDOW = 1 << 30  # bytes that one page of the largest size maps
_MOST_WINDOWS = 32
_ROLES = (
    "dst", "src", "count", "sum", "value", "uncopied", "stored", "order", "length", "found",
    "faulted",
)  # fmt: skip
ANYWHERE = (1 << 64) - 1  # the twist decides where two compared sides differ
_MOST_GPRS, _MOST_FIXED = 32, 96
_X86_FIXED = (
    "cs", "ds", "es", "fs", "gs", "ss", "fs_base", "gs_base", "mxcsr", "fpcw", "fpsw", "fptag",
    *(f"st{n}" for n in range(8)), *(f"xmm{n}" for n in range(16)),
)  # fmt: skip
_ARM64_FIXED = ("fpcr", "fpsr", "tpidr_el0", "tpidr_el1", *(f"v{n}" for n in range(32)))
_ARITHMETIC = {"x86_64": 0x8D5, "arm64": 0xF000_0000}
# x86's flags except RF, which single steps change; AArch64's flags in NZCV.
_COMPARED = {"x86_64": 0x37_FFFF & ~0x1_0000 & ~2, "arm64": 0xF000_0000}
_AC = 0x4_0000
_FREE_FLAGS = {"x86_64": 0x20_0200, "arm64": 0}  # the interrupt flag and ID

BRANCH, CONDITION, STRING, RETURN, USER, UNPRIVILEGED = 1, 2, 4, 8, 16, 32
CALL, RESUME, NONTEMPORAL, FENCE, REACHED = 64, 128, 256, 512, 1024
# Patterns: words from a call's registers, and one repeated word.
ADDRESSES, WORD = (1 << 32) - 1, (1 << 32) - 2
EXECUTED, TAKEN, NOT_TAKEN, TRUE, FALSE = 1, 2, 4, 8, 16

FACT = np.dtype(
    [(name, "<u4") for name in ("kind", "condition", "size", "below", "entry", "fixup")]
)
CASE = np.dtype(
    [
        ("count", "<u8"), ("at", "<u8", 2), ("limit", "<u8", 2), ("sum", "<u8"), ("word", "<u8"),
        ("value", "<u8"), ("twist", "<u8"), ("differ", "<u8"), ("overlapped", "<u8"),
        ("distance", "<i8"),
        ("area", "<u4", 2), ("pattern", "<u4"), ("shift", "<u4"), ("alike", "<u4"),
        ("stray", "<u4"), ("inject", "<u4"), ("nth", "<u4"), ("probe", "<u4"), ("news", "<u4"),
    ]
)  # fmt: skip
SHIFTS = 1 << 14  # a pattern may be shifted by fewer bytes than this
SOURCES = tuple(
    paths.HARNESS / name for name in ("tracing/watch.c", "effect.c", "common/checksum.c")
)
HEADERS = tuple(
    paths.HARNESS / name
    for name in (
        "tracing/watch.h", "job.h", "verdict.h", "effect.h", "mix.h", "common/checksum.h",
        "common/integers.h",
    )
)  # fmt: skip


class _Area(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64), ("host", ctypes.c_void_p), ("size", ctypes.c_uint64),
    )  # fmt: skip


class _Operand(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("bits", ctypes.c_int))


class _Field(ctypes.Structure):
    _fields_ = (
        ("dst", ctypes.c_size_t), ("src", ctypes.c_size_t), ("size", ctypes.c_size_t),
        ("zero", ctypes.c_bool),
    )  # fmt: skip


class _Setup(ctypes.Structure):
    """struct watch_setup."""

    _fields_ = (
        ("core", ctypes.c_void_p),
        ("base", ctypes.c_uint64), ("text", ctypes.c_uint64), ("entry", ctypes.c_uint64),
        ("facts", ctypes.c_void_p),
        ("returns_to", ctypes.c_uint64),
        ("stack", ctypes.c_uint64), ("stack_size", ctypes.c_uint64),
        ("stack_host", ctypes.c_void_p),
        ("area", _Area * AREAS * 2),
        ("patterns", ctypes.c_void_p), ("pattern_size", ctypes.c_uint64),
        ("user_end", ctypes.c_uint64),
        ("gprs", ctypes.c_uint32), ("stack_pointer", ctypes.c_uint32), ("link", ctypes.c_uint32),
        ("gpr", ctypes.c_int32 * _MOST_GPRS), ("gpr_name", ctypes.c_char_p * _MOST_GPRS),
        ("flags", ctypes.c_int32), ("counter", ctypes.c_int32),
        ("window", ctypes.c_uint64 * _MOST_WINDOWS), ("windows", ctypes.c_uint32),
        ("arithmetic", ctypes.c_uint64), ("compared", ctypes.c_uint64),
        ("free_flags", ctypes.c_uint64),
        ("access_flag", ctypes.c_uint64), ("access_at_entry", ctypes.c_uint32),
        ("unprivileged", ctypes.c_uint32),
        ("fixed", ctypes.c_uint32), ("fixed_id", ctypes.c_int32 * _MOST_FIXED),
        ("fixed_name", ctypes.c_char_p * _MOST_FIXED),
        ("effect", ctypes.c_uint32), ("exact", ctypes.c_uint32),
        ("flags_may_change", ctypes.c_uint32),
        ("faulting", ctypes.c_uint32 * 2),
        ("zeroed", ctypes.c_uint64), ("may_change", ctypes.c_uint64),
        ("overread", ctypes.c_uint64),
        ("record", ctypes.c_uint64 * 2),
        ("into", _Operand * len(_ROLES)), ("out", _Operand * len(_ROLES)),
        ("fields", ctypes.c_void_p), ("nfields", ctypes.c_uint64),
        ("most_steps", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True)
class Access:
    """The rule for accesses to user memory.

    gated: the code opens and closes them itself, by stac and clac; else its caller has (x86-64).
    unprivileged: the code has to use loads and stores with a user's permissions (arm64).
    """

    gated: bool = False
    unprivileged: bool = False


class Watch:
    """An emulated core that runs calls of code and checks each against the contract."""

    def __init__(
        self,
        code: Code,
        contract: Contract,
        facts: NDArray[np.void],
        patterns: NDArray[np.uint8],
        access: Access,
    ) -> None:
        """Map code and memory.

        facts (FACT) has a row for each byte of the code, patterns the contents of sources, a row
        each. InputError if the hooks do not compile or the contract names an unknown register.
        """
        self._isa = code.isa
        base, places = _CODE[code.isa], _places(code.isa, contract)
        first, size = emulator.pages(base, base + len(code.text) + 1)
        ends = [a + n * AREA for side in places.values() for a in side for n in (0, 1)]
        beside = [a + d for a in ends for d in (-1, 0)]
        self._space = _Space(code.isa, [first, base + _TO_RETURN, _STACK[code.isa], *beside])
        self._core = self._space.core
        self._kept: list[object] = [facts, patterns]  # what the library points at
        self._library = _library()
        physical = self._space.physical(first)
        self._core.mem_map(physical, size)
        self._core.mem_write(physical, (b"\xcc" if code.isa == "x86_64" else b"\0") * size)
        self._core.mem_write(self._space.physical(base), code.text)
        self._core.mem_map(self._space.physical(first + _TO_RETURN), PAGE)
        self._places = places
        setup = self._setup(code, contract, facts, patterns, access)
        self.areas = {
            side: tuple(setup.area[n][a].address for a in range(AREAS))
            for n, side in enumerate(SIDES)
        }
        for n in range(32 if code.isa == "arm64" else 16):
            name = f"q{n}" if code.isa == "arm64" else f"xmm{n}"
            self._core.reg_write(register_of(code.isa, name), (n + 1) * 0x0123_4567_89AB_CDEF_1357)
        self._kept.append(setup)  # it holds the names in failure messages
        self._watch = self._library.watch_open(ctypes.byref(setup))
        self._text, self._entries = len(code.text), len(code.exceptions)

    def close(self) -> None:
        self._library.watch_close(self._watch)
        del self._core, self._space

    def run(self, cases: NDArray[np.void]) -> str:
        """Run calls (CASE); return the failure of the first that fails, "" if none does."""
        done = self._library.watch_run(self._watch, cases.ctypes.data, len(cases))
        if done == len(cases):
            return ""
        return str(self._library.watch_failure(self._watch).decode())

    @property
    def seen(self) -> NDArray[np.uint8]:
        """The flags of each offset of the code: EXECUTED, TAKEN and so on."""
        pointer = self._library.watch_seen(self._watch)
        return np.ctypeslib.as_array(pointer, (self._text,))

    @property
    def hits(self) -> list[int]:
        """The number of uses of each entry of the exception table."""
        pointer = self._library.watch_hits(self._watch)
        return [pointer[n] for n in range(self._entries)]

    @property
    def over_report(self) -> int:
        """The largest number of bytes that a result wrongly reported as not done."""
        return int(self._library.watch_over_report(self._watch))

    def probed(self) -> tuple[dict[str, int], int] | None:
        """Return registers and flags at the last case's probe, None if that was not reached."""
        gprs, flags = (ctypes.c_uint64 * _MOST_GPRS)(), ctypes.c_uint64()
        if not self._library.watch_probed(self._watch, gprs, ctypes.byref(flags)):
            return None
        return dict(zip(REGISTERS[self._isa], gprs, strict=False)), flags.value

    def _map(self, address: int, size: int) -> int:
        """Make memory accessible; return its address in this process."""
        memory = np.zeros(size + PAGE, dtype=np.uint8)
        self._kept.append(memory)
        host = -(-memory.ctypes.data // PAGE) * PAGE
        physical = self._space.physical(address)
        self._core.mem_map_ptr(physical, size, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE, host)
        return host

    def _setup(
        self,
        code: Code,
        contract: Contract,
        facts: NDArray[np.void],
        patterns: NDArray[np.uint8],
        access: Access,
    ) -> _Setup:
        x86 = code.isa == "x86_64"
        names = REGISTERS[code.isa]
        fixed = _X86_FIXED if x86 else _ARM64_FIXED
        setup = _Setup()
        assert self._core._uch is not None
        setup.core = self._core._uch.value
        base, stack = _CODE[code.isa], _STACK[code.isa]
        setup.base, setup.text, setup.entry = base, len(code.text), code.entry
        setup.facts, setup.returns_to = facts.ctypes.data, base + _TO_RETURN
        setup.stack, setup.stack_size = stack, _STACK_BYTES
        setup.stack_host = self._map(stack, _STACK_BYTES)
        setup.windows = len(self._space.windows)
        for n, start in enumerate(self._space.windows):
            setup.window[n] = start
        for n, side in enumerate(SIDES):
            for a, address in enumerate(self._places[side]):
                setup.area[n][a] = _Area(address, self._map(address, AREA), AREA)
        setup.patterns, setup.pattern_size = patterns.ctypes.data, patterns.shape[1]
        setup.user_end = USER_END[code.isa]
        setup.gprs, setup.stack_pointer = len(names), names.index("rsp" if x86 else "sp")
        setup.link = len(names) if x86 else names.index("x30")
        for n, name in enumerate(names):
            setup.gpr[n], setup.gpr_name[n] = register_of(code.isa, name), name.encode()
        setup.flags = x86_const.UC_X86_REG_EFLAGS if x86 else arm64_const.UC_ARM64_REG_NZCV
        setup.counter = x86_const.UC_X86_REG_RIP if x86 else arm64_const.UC_ARM64_REG_PC
        setup.arithmetic, setup.compared = _ARITHMETIC[code.isa], _COMPARED[code.isa]
        setup.free_flags = _FREE_FLAGS[code.isa]
        setup.access_flag = _AC if x86 else 0
        setup.access_at_entry = not access.gated
        setup.unprivileged = access.unprivileged
        setup.fixed = len(fixed)
        for n, name in enumerate(fixed):
            setup.fixed_id[n], setup.fixed_name[n] = register_of(code.isa, name), name.encode()
        _set_contract(setup, contract, code.isa)
        fields = _fields(contract)
        self._kept.append(fields)
        setup.fields, setup.nfields = ctypes.addressof(fields), len(contract.fields)
        setup.most_steps = MOST_STEPS
        return setup


def _set_contract(setup: _Setup, contract: Contract, isa: str) -> None:
    number = partial(register_number, isa)
    may_change = 0
    setup.effect = [*EFFECTS].index(contract.effect)
    setup.exact = contract.uncopied == "exact"
    setup.flags_may_change = "flags" in contract.may_change
    setup.faulting[:] = [side in contract.faulting for side in SIDES]
    setup.zeroed = sum(1 << number(name) for name in set(contract.zeroed))
    setup.overread = contract.overread
    setup.record[:] = [contract.dst_record, contract.src_record]
    for roles, operands in ((contract.inputs, setup.into), (contract.returns, setup.out)):
        for role, name in roles.items():
            bits = 32 if name[0] in "ew" or name.endswith("d") else 64
            operands[_ROLES.index(role)] = _Operand(number(name), bits)
            may_change |= 1 << number(name)
    for name in contract.may_change:
        may_change |= 1 << number(name) if name != "flags" else 0
    if isa == "arm64":
        may_change |= 1 << number("x30")
    setup.may_change = may_change


def _fields(contract: Contract) -> ctypes.Array[_Field]:
    return (_Field * max(1, len(contract.fields)))(
        *(_Field(f.dst, f.src or 0, f.size, f.src is None) for f in contract.fields)
    )


def _places(isa: str, contract: Contract) -> dict[str, tuple[int, ...]]:
    """Return the addresses of each side's memory to try.

    Each side is tried at usual addresses, low ones, across 4 GiB, and at the top of user space;
    also in the kernel's own memory if the contract allows it, else with an address tag (arm64) or
    at a program's address.
    """
    out: dict[str, tuple[int, ...]] = {}
    for n, side in enumerate(SIDES):
        user = side in contract.faulting
        top = USER_END[isa] - AREA - 4 * n * AREA
        if isa == "arm64" and not user:
            top = (0xFFFF_8000 if n else 0xFFFF_0000) << 32
        other = _KERNEL[isa] + 8 * n * AREA
        if not has_kernel_memory(contract, side):
            other = _TAGS[isa][0] + 0x5555_5540_0000 + 8 * n * AREA
        out[side] = (
            0x7F20_2000_0000 if n else 0x7F10_1000_0000,
            (0x80_0000 if n else 0x20_0000) + (_TAGS[isa][1] if user else 0),
            BOUNDARY + (n << 34) - AREA // 2,
            top,
            other,
        )
    return out


def has_kernel_memory(contract: Contract, side: str) -> bool:
    """True if a side is the kernel's own memory, always or where the other one is a user's."""
    return side not in contract.faulting or len(contract.faulting) == len(SIDES)


class _Space:
    """A core and its virtual memory: windows of 1 GiB, each with its own physical memory.

    addresses are those that have to be mapped. Without windows (arm64) virtual and physical
    addresses are equal. With them, an address outside of all windows is unmapped.
    """

    def __init__(self, isa: str, addresses: Iterable[int]) -> None:
        self.windows: list[int] = []  # virtual, by physical number; 0 where none is
        self.core = emulator.core_of(isa)
        if isa == "x86_64":
            self.windows = [0, 0, *sorted({a // _WINDOW * _WINDOW for a in addresses})]
            self._page()

    def physical(self, address: int) -> int:
        """Return the physical address of a virtual one."""
        if not self.windows:
            return address
        n = self.windows.index(address // _WINDOW * _WINDOW, 2)
        return n * _WINDOW + address % _WINDOW

    def _page(self) -> None:
        """Switch paging on, by tables in window 1, with all other addresses in window 0."""
        present, large = 0x3, 0x83
        pages = [w >> 30 & (1 << 18) - 1 for w in self.windows]
        slots = sorted({n >> 9 for n in pages[2:]})
        tables = np.full((2 + len(slots), 512), large, dtype=np.uint64)
        tables[0] = _WINDOW + PAGE | present
        for index, slot in enumerate(slots, 2):
            tables[0, slot] = _WINDOW + index * PAGE | present
        for n, number in list(enumerate(pages))[2:]:
            tables[2 + slots.index(number >> 9), number & 511] = n * _WINDOW | large
        self.core.mem_map(_WINDOW, tables.nbytes)
        self.core.mem_write(_WINDOW, tables.tobytes())
        self.core.reg_write(x86_const.UC_X86_REG_CR3, _WINDOW)
        cr4 = int(self.core.reg_read(x86_const.UC_X86_REG_CR4))
        self.core.reg_write(x86_const.UC_X86_REG_CR4, cr4 | 1 << 5)  # PAE
        self.core.reg_write(x86_const.UC_X86_REG_MSR, (0xC000_0080, 0x501))  # EFER: SCE, LME, LMA
        self.core.reg_write(x86_const.UC_X86_REG_CR0, 0x8000_0011)


@cache
def _library() -> ctypes.CDLL:
    library = emulator.library(SOURCES, HEADERS)
    library.watch_open.argtypes = (ctypes.c_void_p,)
    library.watch_open.restype = ctypes.c_void_p
    library.watch_close.argtypes = (ctypes.c_void_p,)
    library.watch_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
    library.watch_run.restype = ctypes.c_uint64
    library.watch_failure.argtypes = (ctypes.c_void_p,)
    library.watch_failure.restype = ctypes.c_char_p
    library.watch_seen.argtypes = (ctypes.c_void_p,)
    library.watch_seen.restype = ctypes.POINTER(ctypes.c_uint8)
    library.watch_hits.argtypes = (ctypes.c_void_p,)
    library.watch_hits.restype = ctypes.POINTER(ctypes.c_uint32)
    library.watch_over_report.argtypes = (ctypes.c_void_p,)
    library.watch_over_report.restype = ctypes.c_uint64
    library.watch_probed.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return library
