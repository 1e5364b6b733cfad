"""Operands of x86 forms, as uops.info and InstLatx64 name them, as registers and addresses."""

from __future__ import annotations

import re

RESULTS = ("ax", "cx", "dx", "bx", "8", "9", "10", "11")
# What sources read, and the base of addresses.
SOURCE, BASE = "12", "14"
VECTORS, VECTOR_SOURCE = 12, 14
HIGH_BYTES, MASKS = 4, 6
SIZES = {8: "byte", 16: "word", 32: "dword", 64: "qword", 80: "tbyte", 128: "xmmword",
         256: "ymmword", 512: "zmmword"}  # fmt: skip
LOW = {"ax": "al", "cx": "cl", "dx": "dl", "bx": "bl"}
HIGH = ("ah", "ch", "dh", "bh")


def general(number: str, bits: int) -> str:
    """Return a general-purpose register by its number or name."""
    if number.isdigit():
        return f"r{number}" + {8: "b", 16: "w", 32: "d", 64: ""}[bits]
    return {8: LOW[number], 16: number, 32: f"e{number}", 64: f"r{number}"}[bits]


def operand(kind: str, number: int, result: bool) -> str | None:
    """Return an operand of a kind: the one with that number where it is the result.

    Kinds: r8 r8h r16 r32 r64, x y z mm k, m and bits, i and bits, 0 1 cl al ax eax rax dx.
    """
    match = re.fullmatch(r"r(8|16|32|64)", kind)
    if match:
        name = RESULTS[number % len(RESULTS)] if result else SOURCE
        return general(name, int(match[1]))
    if kind == "r8h":
        return HIGH[number % HIGH_BYTES] if result else "bh"
    if kind in ("x", "y", "z"):
        return f"{kind}mm{number % VECTORS if result else VECTOR_SOURCE}"
    if kind == "mm":
        return f"mm{number % MASKS if result else 7}"
    if kind == "k":
        return f"k{1 + number % MASKS if result else 7}"
    match = re.fullmatch(r"m(\d+)", kind)
    if match and int(match[1]) in SIZES:
        bits = int(match[1])
        place = bits // 8 * number if result else 0
        return f"{SIZES[bits]} ptr [r{BASE} + {place}]"
    if re.fullmatch(r"i(8|16|32)", kind):
        return {"i8": "5", "i16": "0x1234", "i32": "0x12345678"}[kind]
    if kind == "i64":
        return "0x123456789abcdef0"
    return kind if kind in ("0", "1", "cl", "al", "ax", "eax", "rax", "dx") else None
