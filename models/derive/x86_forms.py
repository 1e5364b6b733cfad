"""uops.info's names of x86 instructions and operands as the simulator names them."""

from __future__ import annotations

import re

from inputs import Record
from table import Form

CONDITIONS = {"NB": "ae", "NBE": "a", "NL": "ge", "NLE": "g", "NZ": "ne", "Z": "e"}
SUPPRESSED = {
    "mul": ["rax", "rdx"], "imul": ["rax", "rdx"], "div": ["rax", "rdx"], "idiv": ["rax", "rdx"],
    "cdq": ["rdx", "rax"], "cqo": ["rdx", "rax"], "cwd": ["rdx", "rax"],
    "cdqe": ["rax", "rax"], "cwde": ["rax", "rax"], "cbw": ["rax", "rax"],
    "push": ["rsp"], "pop": ["rsp"], "leave": ["rbp", "rsp"], "cmpxchg": ["rax"],
    "lahf": ["rax"], "sahf": ["rax"], "mulx": ["rdx"], "xlatb": ["rax"],
}  # fmt: skip
STRING = {f"{s}{w}" for s in ("movs", "stos", "lods", "scas", "cmps") for w in "bwdq"}
# x87, system state: the simulator has no use for them.
SKIPPED = re.compile(r"^(F[A-Z0-9]+$|FX|BND|MOV_CR|MOV_DR|XSAVE|XRSTOR)")
OPERANDS = {
    "R8l": "r8", "R8h": "r8h", "XMM": "x", "YMM": "y", "ZMM": "z", "K": "k",
    "MM": "mm", "FS": "seg", "GS": "seg",
}  # fmt: skip


def name_of(string: str) -> tuple[str, list[str]] | None:
    """Return our mnemonic and operands of a record's string, or None if it is left out."""
    match = re.match(r"^(\S+?)(?: \((.*)\))?$", string)
    if match is None:
        return None
    name, operands = match.group(1), match.group(2) or ""
    if (name.startswith("F") and name != "FS") or SKIPPED.match(name):
        return None
    if name.endswith(("_W", "_REX64", "_EXCLUSIVE", "_CR", "_DR")):
        return None
    suffix = ""
    for tail, ours in (("_LOCK", ".lock"), ("_REPE", ".rep"), ("_REPNE", ".repne")):
        if name.endswith(tail):
            name, suffix = name[: -len(tail)], ours
    if name.startswith("LEA_"):
        parts = {"B": "b", "I": "i", "IS": "is", "D8": "d", "D32": "d", "R": "r"}
        suffix = "." + "".join(parts[p] for p in name[4:].split("_"))
        name = "LEA"
    name = re.sub(r"_(R[04]|NEAR|XMM|SSE4)$", "", name)
    name = re.sub(r"_(0F)?[0-9A-F]{2}$", "", name)
    name = re.sub(r"_(R[04]|NEAR|XMM|SSE4)$", "", name)
    for stem in ("J", "CMOV", "SET"):
        if name.startswith(stem) and name[len(stem) :] in CONDITIONS:
            name = stem + CONDITIONS[name[len(stem) :]]
    mnemonic = {"XLAT": "xlatb", "INT3": "int3"}.get(name, name.lower())
    kinds = [_operand(op) for op in operands.split(", ")] if operands else []
    # The operand of a gather has its element and the register of indices: m32y.
    kinds = [
        f"m{64 if mnemonic.endswith(('pd', 'q')) else 32}{kind[5]}" if "vsib" in kind else kind
        for kind in kinds
    ]
    return mnemonic + suffix, kinds


def _operand(op: str) -> str:
    ours = re.sub(r"^Rel(8|32)$", "rel", OPERANDS.get(op, op)).lower()
    return re.sub(r"^moffs", "m", ours)


def form_of(string: str) -> Form | None:
    """Return our form of a record's string, or None if it is left out."""
    found = name_of(string)
    return Form(found[0], ",".join(found[1])) if found else None


def labels(record: Record, mnemonic: str, operands: list[str]) -> dict[str, str]:
    """Map the record's operand names to ours: explicit position, f, m, or a register."""
    named: dict[str, str] = {}
    explicit, extra = 0, 0
    for op in record["operands"]:
        kind = op["kind"]
        while explicit < len(operands) and re.match(r"^(i\d+|0|1|rel)$", operands[explicit]):
            if kind == "imm":
                break
            explicit += 1
        if kind == "flags":
            named[op["name"]] = "f"
        elif kind in ("mem", "agen"):
            named[op["name"]] = "m"
            if explicit < len(operands) and operands[explicit].startswith(("m", "v")):
                explicit += 1
        elif kind in ("imm", "relbr"):
            explicit += explicit < len(operands)
        elif explicit < len(operands):
            named[op["name"]] = str(explicit)
            explicit += 1
        else:
            known = _suppressed(mnemonic.split(".")[0], operands)
            named[op["name"]] = known[extra] if extra < len(known) else f"s{extra}"
            extra += 1
    return named


def _suppressed(base: str, operands: list[str]) -> list[str]:
    if base == "imul" and len(operands) > 1:
        return []
    if base in ("mul", "imul") and operands and operands[0] in ("r8", "r8h", "m8"):
        return ["rax", "rax"]
    return SUPPRESSED.get(base, [])
