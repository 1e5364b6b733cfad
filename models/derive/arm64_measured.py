"""Measurements of single AArch64 instructions, by the simulator's forms."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import insn_bench
from inputs import measured

NOT_BY_COPIES = re.compile(r"tst|fml[as]|frecps|frsqrts|\w+v\.[bhs]")
GRAVITON3 = Path(__file__).parent / "measured" / "neoverse-v1.csv"


@dataclass
class Measured:
    """Latencies by the operand that they go through, cycles of one of many independent copies."""

    latency: dict[int, float] = field(default_factory=dict)
    cycles: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Reading:
    """One figure: the code, the operand that the latency goes through, None for copies."""

    text: str
    through: int | None
    cycles: float
    source: str


RESULT, THROUGH = 1, 20


def operand_of(code: str) -> int:
    """Return the label of the operand that a latency goes through: 0 is the result's own."""
    operands = re.findall(r"(?<![\w.])[bhsdqvwx](\d+)", re.sub(r"^\w+ ", "", code))
    if "{" in code:
        return 2 if code.startswith("tb") else 1
    return next((n for n, register in enumerate(operands) if register == str(THROUGH)), 0)


def graviton2_readings() -> Iterable[Reading]:
    """Return what insn_bench_aarch64 measured on a Graviton2."""
    for row in measured("insn_bench_aarch64_neoverse-n1"):
        if row["source"].endswith("aws_graviton2"):
            latency = row["notion"].startswith("latency")
            yield from _benched(row["note"], row["asm"], float(row["cycles"]), latency=latency)


def graviton3_readings() -> Iterable[Reading]:
    """Return what insn_bench_aarch64 measured on a Graviton3, of the rows that Graviton2 has.

    Without divisions and roots, whose time depends on values. Copies do not count of tst, between
    which something stands; of what adds to its result, which wait for sums that pass between pipes
    at different times; and of what goes across a vector, which take up to a third longer than the
    uops that LLVM has of it.
    """
    with GRAVITON3.open(newline="") as lines:
        rules = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    rows = dict.fromkeys((r["note"], r["asm"]) for r in measured("insn_bench_aarch64_neoverse-n1"))
    for section, name in rows:
        for rule in rules:
            if section.split(" (might")[0] == rule["section"] and re.fullmatch(rule["rows"], name):
                if rule["latency"]:
                    yield from _benched(section, name, float(rule["latency"]), latency=True)
                if rule["per_cycle"] and not NOT_BY_COPIES.match(name):
                    cycles = 1 / float(rule["per_cycle"])
                    yield from _benched(section, name, cycles, latency=False)
                break


def _benched(section: str, name: str, cycles: float, *, latency: bool) -> Iterable[Reading]:
    """Return the reading of a row of insn_bench_aarch64, nothing where its code is not known."""
    sample = insn_bench.of(section, name)
    if sample is None:
        return
    forwards = "acc. fwd." in name
    code = sample.code(RESULT, THROUGH)
    if not latency:
        yield Reading(code, None, cycles, "insn-bench")
    elif sample.chains:
        through = 0 if forwards and not code.startswith("f") else operand_of(code)
        through = 0 if forwards and code.startswith(("fmla", "fmls")) else through
        yield Reading(code, through, cycles, "insn-bench")


KINDS = {"v.s": ["4s", "2s"], "v.d": ["2d"], "v.h": ["8h", "4h"], "v.b": ["16b", "8b"]}
EVERY = ["16b", "8b", "8h", "4h", "4s", "2s", "2d"]
# Elements of destination and source where they differ, by how the mnemonic ends.
WIDER = [("8h", "8b"), ("4s", "4h"), ("2d", "2s")]
WIDER_2 = [("8h", "16b"), ("4s", "8h"), ("2d", "4s")]
# The rows of fsub on single registers are exchanged: those on vectors, and fadd, say so.
EXCHANGED = {"fsub d, d, d": "fsub s, s, s", "fsub s, s, s": "fsub d, d, d"}
# negs is subs from zero, which two sources measured at 1 cycle.
REFUSED = {"negs x, x"}


def asmbench_readings() -> Iterable[Reading]:
    """Return what the author of OSACA's branch for TSV110 measured with asmbench and ibench."""
    for row in measured("tsv110_osaca_asmbench"):
        name = row["asm"].replace("uzip", "uzp")
        if name in REFUSED:
            continue
        through = 1 if row["notion"] == "latency" else None
        for code in _expanded(EXCHANGED.get(name, name)):
            yield Reading(code, through, float(row["cycles"]), "osaca-tsv110")


def _expanded(name: str) -> Iterable[str]:
    """Return code for a form of the source, one for each kind of elements that it stands for."""
    op, _, rest = name.partition(" ")
    operands = rest.split(", ")
    kinds = [k for o in operands for k in KINDS.get(o, [])] or [""]
    if "v.*" in operands:
        kinds = _kinds(op)
    if (operands[0] == "v.2s" and operands[-1] == "v.s") or op in ("sbifz", "sha1su0"):
        return
    if op[:5] in ("sshll", "ushll"):
        yield from (f"{op} v1.{a}, v2.{b}, #3" for a, b in (WIDER_2 if op[-1] == "2" else WIDER))
        return
    if op[:3] == "xtn":
        yield from (f"{op} v1.{b}, v2.{a}" for a, b in (WIDER_2 if op[-1] == "2" else WIDER))
        return
    if "*" in operands:
        yield from _named(op, operands)
        return
    for kind in dict.fromkeys(kinds):
        out = []
        for n, operand in enumerate(operands):
            if operand.startswith("v."):
                own = operand[2:] if re.fullmatch(r"v\.\d+[bhsd]", operand) else kind
                out.append(f"v{n + 1}.{own}")
            elif operand == "#imm":
                out.append("#0.0" if op.startswith("fcmp") else "#3")
            else:
                out.append(f"{operand}{n + 1}")
        yield f"{op} {', '.join(out)}"


def _kinds(op: str) -> list[str]:
    """Return the elements that an instruction can have."""
    if op.startswith("sha"):
        return ["4s"]
    if op in ("scvtf", "ucvtf"):
        return ["2s", "4s", "2d"]
    return EVERY[:-1] if op[1:] in ("max", "min") else EVERY


def _named(op: str, operands: list[str]) -> Iterable[str]:
    """Return code for forms with operands left open."""
    if re.fullmatch(r"[su](max|min)v", op):
        yield from (f"{op} {r}1, v2.{k}" for k, r in (("16b", "b"), ("8h", "h"), ("4s", "s")))
    elif op == "fcvt":
        yield from ("fcvt s1, d2", "fcvt d1, s2")
    elif op.startswith("fcvt"):
        yield from (f"{op} {g}1, {r}2" for g in "wx" for r in "sd")
    elif op in ("adr", "adrp"):
        yield f"{op} x1, ."
    elif op == "dup":
        yield from ["dup v1.4s, w2"] if operands[0] != "*" else ["mov s1, v2.s[1]"]
    elif op.startswith(("sxt", "uxt")):
        yield f"{op} x1, w2" if op != "uxtw" and op[0] == "s" else "ubfx x1, x2, #0, #8"
    elif op in ("ubfiz", "ubfx", "ubfm"):
        yield from (f"{op} {r}1, {r}2, #3, #4" for r in "wx")


def jiegec_readings() -> Iterable[Reading]:
    """Return what jiegec's micro-benchmarks measured, where a row is one block of code."""
    for row in measured("tsv110_jiegec"):
        patterns = row["asm"].split(" ;; ")
        cycles = float(row["cycles"])
        if "set of values" in row["note"]:
            continue
        code = patterns[0]
        if not row["notion"].startswith("latency"):
            yield Reading(code, None, cycles, "jiegec-micro")
            continue
        registers = re.findall(r"[vdsxw](\d+)", code)
        through = next(n for n, r in enumerate(registers) if n and r == registers[0])
        yield Reading(code, through, cycles, "jiegec-micro")
