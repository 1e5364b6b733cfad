"""Code that the rows of insn_bench_aarch64 measure.

A row names a form (`smlal2.h (elem; v.h[7])`). Its code here is one instruction with places for
registers: {d} the result, {a} the operand that the latency goes through, others fixed. Rows whose
code the name does not give (branches, atomics by class) have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import insn_bench_memory as memory
import insn_bench_vector as vector


@dataclass(frozen=True)
class Sample:
    """Code of a row: `text` with {d} and {a}; `chains`: its latency is that from {a} to {d}."""

    text: str
    chains: bool = True

    def code(self, result: int, through: int) -> str:
        """Return the instruction with registers put in; several results follow each other."""
        more = {f"d{n}": (result + n) % 32 for n in range(4)}
        return self.text.format(d=result, a=through, **more)


CONDITIONS = {"eq": "eq", "lt": "lt", "le": "le"}
SHIFTED = {
    "reg<<2": ", lsl #2", "reg<<17": ", lsl #17", "reg>>17": ", lsr #17",
    "reg>>17; signed": ", asr #17", "reg>>17; rotate": ", ror #17", "reg": "",
}  # fmt: skip
ALONE = {
    "nop": "nop", "mov (x -> x)": "mov x{d}, x{a}", "mov (v.b -> v.b)": "mov v{d}.16b, v{a}.16b",
    "mov / movz (imm; 0x00)": "mov x{d}, #0", "mov / movz (imm; 0x1ffc)": "mov x{d}, #0x1ffc",
    "mov / movz (imm; 0x1ffc<<16)": "movz x{d}, #0x1ffc, lsl #16",
    "mov (mask imm; 0x1ffffffffffc)": "mov x{d}, #0x1ffffffffffc",
    "mov / movn (imm; 0x1ffc)": "movn x{d}, #0x1ffc",
    "mov / movn (imm; 0x1ffc<<16)": "movn x{d}, #0x1ffc, lsl #16",
    "movk (0x00)": "movk x{d}, #0", "movk (0x1ffc)": "movk x{d}, #0x1ffc",
    "movk (0x1ffc<<16)": "movk x{d}, #0x1ffc, lsl #16",
    "eor (reg; clearing idiom)": "eor x{d}, x{a}, x{a}",
    "sub (reg; clearing idiom)": "sub x{d}, x{a}, x{a}",
    "eor.b (clearing idiom)": "eor v{d}.16b, v{a}.16b, v{a}.16b",
    "sub.b (clearing idiom)": "sub v{d}.16b, v{a}.16b, v{a}.16b",
    "sub": "sub x{d}, x28, x29", "adr": "adr x{d}, .", "adrp": "adrp x{d}, .",
    "lsl (reg) / lslv": "lsl x{d}, x{a}, x28", "lsr (reg) / lsrv": "lsr x{d}, x{a}, x28",
    "asr (reg) / asrv": "asr x{d}, x{a}, x28", "ror (reg) / rorv": "ror x{d}, x{a}, x28",
    "lsl (imm)": "lsl x{d}, x{a}, #3", "lsr (imm)": "lsr x{d}, x{a}, #3",
    "asr (imm)": "asr x{d}, x{a}, #3", "ror (imm)": "ror x{d}, x{a}, #3",
    "extr (imm; >>1)": "extr x{d}, x{a}, x{a}, #1",
    "extr (imm; >>17)": "extr x{d}, x{a}, x{a}, #17",
    "bfc": "bfc x{d}, #3, #4", "bfm": "bfm x{d}, x{a}, #3, #4",
    "sbfm": "sbfm x{d}, x{a}, #3, #9", "ubfm": "ubfm x{d}, x{a}, #3, #9",
    "rev (rev16)": "rev16 x{d}, x{a}", "rev (rev32)": "rev32 x{d}, x{a}",
    "rev (rev64)": "rev x{d}, x{a}", "ngc": "ngc x{d}, x{a}", "ngcs": "ngcs x{d}, x{a}",
    "fccmp": "", "crc32x": "crc32x w{d}, w{a}, x28", "crc32cx": "crc32cx w{d}, w{a}, x28",
    "sha1h": "sha1h s{d}, s{a}", "sha1su0": "sha1su0 v{d}.4s, v{a}.4s, v28.4s",
    "sha1su1": "sha1su1 v{d}.4s, v{a}.4s", "sha256h": "sha256h q{d}, q{a}, v28.4s",
    "sha256h2": "sha256h2 q{d}, q{a}, v28.4s", "sha256su0": "sha256su0 v{d}.4s, v{a}.4s",
    "sha256su1": "sha256su1 v{d}.4s, v{a}.4s, v28.4s",
}  # fmt: skip
THREE = {
    "add", "adds", "sub", "subs", "and", "ands", "orr", "orn", "eor", "eon", "bic", "bics", "adc",
    "adcs", "sbc", "sbcs", "mul", "mneg", "smulh", "umulh", "sdiv", "udiv",
}  # fmt: skip
LONG = ["smull", "smnegl", "umull", "umnegl"]
ACCUMULATE = {"madd": "x", "msub": "x", "smaddl": "w", "smsubl": "w", "umaddl": "w", "umsubl": "w"}
ONE = ["rbit", "clz", "cls"]
FIELDS = ["bfi", "bfxil", "sbfx", "sbfiz", "ubfx", "ubfiz"]
SELECTS = ["csinc", "csinv", "csneg"]


def _extend(name: str) -> str | None:
    if name in ("sxtb", "sxth", "sxtw"):
        return f"{name} x{{d}}, w{{a}}"
    return f"{name} w{{d}}, w{{a}}" if name in ("uxtb", "uxth") else None


def _conditional(op: str, what: str) -> Sample | None:
    kind, _, condition = what.rpartition("; ")
    if op in ("ccmp", "ccmn"):
        other = "x28" if kind == "reg" else "#3"
        return Sample(f"{op} x{{a}}, {other}, #0, {condition}", chains=False)
    if op in SELECTS:
        return Sample(f"{op} x{{d}}, x{{a}}, x28, {what}")
    if op in ("cinc", "cinv", "cneg"):
        return Sample(f"{op} x{{d}}, x{{a}}, {what}")
    return Sample(f"{op} x{{d}}, {what}") if op in ("cset", "csetm") else None


def scalar(name: str) -> Sample | None:
    """Return the code of a row on general-purpose registers."""
    if name in ALONE:
        return Sample(ALONE[name]) if ALONE[name] else None
    if name in ONE:
        return Sample(f"{name} x{{d}}, x{{a}}")
    if name in FIELDS:
        return Sample(f"{name} x{{d}}, x{{a}}, #3, #4")
    if name in LONG:
        return Sample(f"{name} x{{d}}, w{{a}}, w28")
    if name in ACCUMULATE:
        r = ACCUMULATE[name]
        return Sample(f"{name} x{{d}}, {r}{{a}}, {r}28, x29")
    if _extend(name):
        return Sample(str(_extend(name)))
    found = re.fullmatch(r"(\w+)(?: \((.*)\))?", name)
    op, what = (found[1], found[2] or "reg") if found else ("", "")
    if what.split("; ")[-1] in CONDITIONS:
        return _conditional(op, what)
    if op in THREE and what in SHIFTED:
        return Sample(f"{op} x{{d}}, x{{a}}, x28{SHIFTED[what]}")
    if op in THREE and what in ("imm", "mask imm"):
        return Sample(f"{op} x{{d}}, x{{a}}, #{'0xff' if what == 'mask imm' else 4}")
    if op in THREE and what == "imm<<12":
        return Sample(f"{op} x{{d}}, x{{a}}, #4, lsl #12")
    if op in ("neg", "negs", "mvn") and what in SHIFTED:
        return Sample(f"{op} x{{d}}, x{{a}}{SHIFTED[what]}")
    if op == "tst":
        other = "#0xff" if what == "imm" else f"x28{SHIFTED.get(what, '')}"
        return Sample(f"tst x{{a}}, {other}", chains=False)
    return None


def of(section: str, name: str) -> Sample | None:
    """Return the code of a row, or None where its name does not give it."""
    if section.startswith(("Branch", "Atomic")) or "store-to-load" in section:
        return None
    if "load" in section or "store" in section:
        access = memory.text(name)
        return Sample(access, "load" in section) if access else None
    plain = scalar(name)
    if plain is not None:
        return plain
    text = vector.text(name)
    return Sample(text[0], text[1]) if text else None
