"""Loads and stores of insn_bench_aarch64 as code: see insn_bench.py.

{d} is what is loaded or stored, {a} the base; a latency goes from the base to what is loaded.
"""

from __future__ import annotations

import re

SIZES = {"b": "16b", "h": "8h", "s": "4s", "d": "2d"}
WIDE = {"ldrsw", "ldursw", "ldpsw"}


def _address(what: str) -> str | None:
    offset = re.search(r"ofs = (\d+)", what)
    number = int(offset[1]) if offset else 0
    if "reg" in what:
        return "[x{a}, x28, lsl #3]" if "<<3" in what else "[x{a}, x28]"
    if "literal" in what:
        return None
    if "pre" in what:
        return f"[x{{a}}, #{number}]!"
    if "post" in what:
        return f"[x{{a}}], #{number}"
    return f"[x{{a}}, #{number}]" if number else "[x{a}]"


def _structure(op: str, size: str, what: str) -> str | None:
    full = SIZES[size]
    count = int(op[2])
    single = re.search(r"single; \[(\d+)\]", what)
    regs = re.search(r"multi; (\d) reg", what)
    if op.endswith("r"):
        kind, lane, number = full, "", count
    elif single:
        kind, lane, number = size, f"[{single[1]}]", count
    elif "multi" in what:
        kind, lane, number = full, "", int(regs[1]) if regs else count
    else:
        return None
    names = ", ".join(f"v{{d{n}}}.{kind}" for n in range(number))
    return f"{op} {{{{{names}}}}}{lane}, [x{{a}}]"


def text(name: str) -> str | None:
    """Return the instruction of a row, or None where its name does not give it."""
    if any(word in name for word in ("unaligned", "cross", "->", "fwd.", "literal")):
        return None
    found = re.fullmatch(r"(\w+)(?:\.([bhsdq]))?(?: \((.*)\))?", name)
    if not found:
        return None
    op, size, what = found[1], found[2] or "", found[3] or ""
    if re.fullmatch(r"(ld|st)[1-4]r?", op):
        return _structure(op, size, what)
    address = _address(what)
    if address is None:
        return None
    if re.fullmatch(r"(ld|st)n?p(sw)?", op):
        letter = size or ("w" if what.startswith("w") else "x")
        return f"{op} {letter}{{d}}, {letter}{{d1}}, {address}"
    if not re.fullmatch(r"(ldu?r|stu?r)(s?[bhw])?", op):
        return None
    letter = size or ("x" if op in WIDE or op[-1] not in "bh" else "w")
    return f"{op} {letter}{{d}}, {address}"
