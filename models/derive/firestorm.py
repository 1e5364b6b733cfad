"""Table of Apple's Firestorm: what insn_bench_aarch64 measured on an M1, on Johnson's units.

LLVM has no model of it. A form without a row has the figures of the one on wider registers, where
there is one; all others are left out, and code with them is refused by name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import arm64_samples
import insn_bench
from arm64_code import every_form, forms
from arm64_measured import RESULT, THROUGH
from inputs import measured
from table import Form, Row, Table

FILE = Path(__file__).parent / "measured" / "firestorm.csv"
SOURCE = "insn-bench+applecpu"
ALU, BRANCHES = "123456", "12"
# Assumptions: a plain select, accesses without privileges, and stores past the cache are as these.
KINDRED = {"csel": "csinc", "ldtr": "ldur", "sttr": "stur", "stnp": "stp"}
# Branches and what else has no row of its own: by the units that Johnson names.
BRANCH = re.compile(r"b(\..*)?|bl|br|blr|ret|cbn?z|tbn?z")


def rows(wider: Callable[[Form], list[Form]]) -> Table:
    """Return the rows of Firestorm; `wider` gives forms on wider registers."""
    out = _measured()
    out[Form("nop", "")] = _row("", "")
    lines = [*arm64_samples.samples(), *every_form("neoverse-v1")]
    for form in dict.fromkeys(forms(lines)):
        if form in out:
            continue
        alike = [*_alike(form), *wider(form), *(w for f in _alike(form) for w in wider(f))]
        known = next((other for other in alike if other in out), None)
        if BRANCH.fullmatch(form.mnemonic):
            out[form] = _row(BRANCHES, "")
        elif known is not None:
            out[form] = out[known]
        elif base := _without_update(form, out):
            row = out[base]
            slots = row.slots + 1  # an ALU moves the base on
            out[form] = row._replace(slots=slots, mite=slots, ports=f"{row.ports}+{ALU}")
    return out


def _without_update(form: Form, known: Table) -> Form | None:
    """Return the form of a load or store whose base does not move on, None where it has no row."""
    operands = re.sub(r"\[x(,i\]!|\],i)$", "[x,i]", form.operands)
    tried = [Form(form.mnemonic, text) for text in (operands, operands.replace("w,", "x,"))]
    return next((one for one in tried if operands != form.operands and one in known), None)


def _alike(form: Form) -> list[Form]:
    """Return forms that Johnson's tables have the same figures of, or whose kind is the same."""
    operands = re.sub(r",(shift|ext)$", ",lsl4", form.operands)
    return [
        Form(form.mnemonic, operands),
        Form(form.mnemonic, re.sub(r"^[bhsd],\[", "q,[", form.operands)),
        Form(KINDRED.get(form.mnemonic, form.mnemonic), form.operands),
    ]


def _measured() -> Table:
    with FILE.open(newline="") as lines:
        rules = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    known: list[tuple[str, dict[str, str]]] = []
    for section, name in dict.fromkeys(
        (r["note"].split(" (might")[0], r["asm"])
        for r in measured("insn_bench_aarch64_neoverse-n1")
    ):
        sample = insn_bench.of(section, name)
        rule = next(
            (r for r in rules if r["section"] == section and re.fullmatch(r["rows"], name)), None
        )
        if sample is not None and rule is not None:
            known.append((sample.code(RESULT, THROUGH), rule))
    out: Table = {}
    for (_, rule), form in zip(known, forms([code for code, _ in known]), strict=True):
        out.setdefault(form, _of(form, rule))
    return out


def _of(form: Form, rule: dict[str, str]) -> Row:
    if rule["tp"] == "elim":
        units = "BCDE" if form.operands.startswith("16b") else ALU
        latency = 2 if units == "BCDE" else 1
        return Row(1, 1, 0, "", "", f"*:{latency}", "elim", "", f"1:1:{units}|", SOURCE)
    latency = ""
    if rule["latency"] and rule["ports"]:
        memory = "[" in form.operands or "literal" in form.operands
        latency = f"{'a' if memory else '*'}:{rule['latency']}"
    return _row(rule["ports"], latency, f"tp={rule['tp']}" if rule["tp"] else "")


def _row(ports: str, latency: str, flags: str = "") -> Row:
    counts = [int(count or 1) for count in re.findall(r"(?:(\d)\*)?\w+(?:\+|$)", ports)]
    # An operand that is shifted or extended takes a second uop of a unit, but no second place.
    shifted = re.fullmatch(r"2\*123(456)?", ports)
    slots = 1 if shifted else max(sum(counts), 1)
    return Row(slots, slots, 0, "", ports, latency, flags, "", "", SOURCE)
