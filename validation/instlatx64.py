"""Rows of InstLatx64's dumps as code, where their names give it.

The dumps' programs are not public. Names tell one register from another (`xmm1, xmm2`) or not
(`xmm, xmm`: one register twice): latencies are taken to be of the first register, copies for
throughput to go round registers.
"""

from __future__ import annotations

import re

import derive_path  # noqa: F401
from inputs import measured
from singles import Figure, with_code
from x86_assembly import blocks
from x86_operands import HIGH_BYTES, MASKS, SIZES, operand

COPIES = 8
# No core renames or retires more a cycle: what is faster was not executed at all.
LEAST_CYCLES = 0.12
# Enough that a place is written again only after it can be read.
MEMORY_COPIES = 24
# Enough for instructions of five and six cycles that run twice a cycle.
VECTOR_COPIES = 12
KINDS = [
    (re.compile(r"r(?:\d_)?(8|16|32|64)"), r"r\1"),
    (re.compile(r"r8[lh]?"), "r8"),
    (re.compile(r"xmm\d?|xm|xmm0"), "x"),
    (re.compile(r"ymm\d?|ym"), "y"),
    (re.compile(r"zmm\d?"), "z"),
    (re.compile(r"mm\d?"), "mm"),
    (re.compile(r"k\d?"), "k"),
    (re.compile(r"\[m(8|16|32|64|128|256|512)\]"), r"m\1"),
    (re.compile(r"im(?:m)?8|i8"), "i8"),
    (re.compile(r"imm(16|32|64)"), r"i\1"),
    (re.compile(r"(0|1|cl|al|ax|eax|rax|dx)"), r"\1"),
]
# Registers that the name does not have, several instructions, or no code at all.
OPEN = re.compile(
    r"[+*(]|pair|upd|\d+x|^REP|b$|LNOP|NOP|RD|XGET|CPUID|PAUSE|GATHER|MASKMOV|CMPXCHG"
)
IMPLICIT = re.compile(
    r"^(I?MUL r\d|I?MUL \[|I?DIV|MULX|CDQ|CQO|CWD|CDQE|CWDE|CBW|LAHF|SAHF|XLAT|PUSH|POP|LEAVE"
    r"|ENTER|CALL|RET|LOOP|J|STOS|MOVS[BWDQ]$|LODS|SCAS|CMPS|CLD|STD|CLC|STC|CMC|PCMP[EI]STR"
    r"|BLENDV|PBLENDV|SHA256RNDS2|EMMS|VZERO|CLFLUSH|CLWB|PREFETCH|LDMXCSR|STMXCSR|V?MASKMOV"
    r"|EXTRQ|INSERTQ|MOV (C|D)R)"
)
FLAGS = ("ADC", "SBB", "ADCX", "ADOX", "CMOV", "SET", "RCL", "RCR")


def kinds(name: str) -> tuple[str, list[str], bool] | None:
    """Return mnemonic, operand kinds, and True if registers are told apart; None if unknown."""
    mnemonic, _, operands = name.strip().partition(" ")
    tokens = [t.strip() for t in operands.split(",")] if operands.strip() else []
    operand_kinds = []
    for token in tokens:
        for pattern, kind in KINDS:
            match = pattern.fullmatch(token)
            if match:
                operand_kinds.append(match.expand(kind))
                break
        else:
            return None
    distinct = len({t for t in tokens if re.search(r"r\d_|[xyz]mm\d|^mm\d|^k\d", t)}) > 1
    return mnemonic.lower(), operand_kinds, distinct


def copies_of(ops: list[str]) -> int:
    """Return the number of registers or places of memory that copies of an instruction write."""
    if ops[0] in ("mm", "k"):
        return MASKS
    if ops[0] == "r8h":
        return HIGH_BYTES
    if ops[0].startswith("m"):
        return MEMORY_COPIES
    return VECTOR_COPIES if ops[0] in "xyz" else COPIES


def text(mnemonic: str, ops: list[str], distinct: bool, latency: bool) -> list[str] | None:
    """Return the instructions of a row, None if an operand is unknown."""
    registers = [o for o in ops if re.match(r"[rxyz]|mm|k", o)]
    copies = 1 if latency else copies_of(ops)
    lines = []
    for n in range(copies):
        parts = []
        for place, kind in enumerate(ops):
            own_register = place == 0 or (not distinct and kind in registers)
            if distinct and len(ops) >= 3 and place == 1:
                own_register = True
            if (
                latency
                and kind[0] == "m"
                and kind != "mm"
                and ops[0] in ("r8", "r16", "r32", "r64")
            ):
                # The latency of a load is that from its address.
                part: str | None = f"{SIZES[int(kind[1:])]} ptr [rax]"
            else:
                part = operand(kind, n, own_register)
            if part is None:
                return None
            parts.append(part)
        lines.append(f"{mnemonic} {', '.join(parts)}")
    return lines


def _row(name: str, latency: bool) -> tuple[list[str], str]:
    plain = re.sub(r"^\{\w+\}\s*", "", name)
    if OPEN.search(plain) or IMPLICIT.match(plain):
        return [], "registers, operands or instructions that the name does not have"
    parsed = kinds(plain)
    if parsed is None:
        return [], "operands that the name does not give"
    mnemonic, ops, distinct = parsed
    if not ops:
        return [], "registers, operands or instructions that the name does not have"
    if latency and (
        not re.match(r"[rxyz]|mm|k", ops[0]) or (len(ops) < 2 and mnemonic[:3] == "set")
    ):
        return [], "no register that a chain could go through"
    sources = ops[1:] or ops[:1]
    same_file = any(re.match(r"[rxyz]|mm|k", o) and _alike(o, ops[0]) for o in sources)
    reads_first = any(o[0] in "im01c" for o in sources) and not (ops[0] == "mm" and "m64" in ops)
    if latency and not same_file and not reads_first:
        return [], "a chain needs another instruction"
    if not latency and plain.startswith(FLAGS):
        return [], "copies that read each other's flags"
    lines = text(mnemonic, ops, distinct, latency)
    return (lines, "") if lines else ([], "operands that the name does not give")


def _alike(one: str, other: str) -> bool:
    """True if two kinds are of one register file."""
    files = ("r", "xyz", "mm", "k")
    return any(one[0] in f and other[0] in f for f in files)


def figures(core: str) -> list[Figure]:
    """Return the rows of a core's dumps."""
    rows = []
    for row in measured(f"instlatx64_{core}_consensus"):
        latency = row["notion"] == "latency"
        lines, why = _row(row["asm"], latency)
        if not latency and float(row["cycles"]) < LEAST_CYCLES:
            lines, why = [], "faster than any core can retire: an artefact of the dump"
        figure = Figure(
            row["asm"],
            row["notion"],
            float(row["cycles"]),
            copies=1 if latency else max(len(lines), 1),
            kind=row["note"].split(";")[0],
            why=why or "no instruction of that name and operands",
        )
        rows.append((figure, lines))
    return with_code(rows, blocks)
