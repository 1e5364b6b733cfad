"""Throughputs that uops.info measured on AMD cores, as code."""

from __future__ import annotations

import re

import derive_path  # noqa: F401
from inputs import summaries
from instlatx64 import FLAGS, IMPLICIT, text
from singles import Figure, with_code
from x86_assembly import blocks
from x86_forms import name_of

ADDRESSES = {"b": "r12", "i": "r13", "is": "r13*4", "d": "0x40"}
VARIABLE = re.compile(r"^(DIV|IDIV|V?SQRT|V?DIV|RDRAND|RDSEED)")


def _lea(mnemonic: str, ops: list[str]) -> list[str] | None:
    match = re.fullmatch(r"lea\.(b?)(is|i)?(d?)", mnemonic)
    if not match:
        return None
    parts = [ADDRESSES[p] for p in match.groups() if p]
    lines = text("lea", [ops[0]], True, False)
    return [f"{line}, [{' + '.join(parts)}]" for line in lines or []]


def _row(string: str) -> tuple[list[str], str]:
    parsed = name_of(string)
    if parsed is None:
        return [], "x87, system state, or prefixes that code seldom has"
    mnemonic, ops = parsed
    plain = f"{mnemonic.upper()} {', '.join(ops)}"
    if "." in mnemonic and not mnemonic.startswith("lea"):
        return [], "repeated or locked"
    if not ops or IMPLICIT.match(plain) or any(o in ("al", "ax", "eax", "rax", "dx") for o in ops):
        return [], "registers that the operands do not name"
    if plain.startswith(FLAGS) or VARIABLE.match(plain):
        return [], "what stands between copies, or the values, are not given"
    lines = _lea(mnemonic, ops) if mnemonic.startswith("lea") else text(mnemonic, ops, True, False)
    return (lines, "") if lines else ([], "operands without code here")


def figures(core: str) -> list[Figure]:
    """Return the measured throughputs of a core."""
    rows = []
    for string, summary in summaries(core).items():
        if (cycles := summary.cycles()) is not None:
            lines, why = _row(string)
            kind = string.split(" ")[0].split("_")[0]
            why = why or "no instruction of that name and operands"
            copies = max(len(lines), 1)
            figure = Figure(string, "throughput", cycles, copies=copies, kind=kind, why=why)
            rows.append((figure, lines))
    return with_code(rows, blocks)
