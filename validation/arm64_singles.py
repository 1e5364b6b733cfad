"""Single instructions measured on Neoverse N1 and TSV110, as code."""

from __future__ import annotations

import re
from collections.abc import Sequence

import derive_path  # noqa: F401
import insn_bench
from arm64_code import encodings
from arm64_measured import asmbench_readings
from inputs import measured
from singles import Figure, with_code

COPIES = 8  # of a throughput block, each with registers of its own
BASE = 20
# Instructions that read the flags which the copy before them writes.
FLAGS = ("adcs", "sbcs", "ngcs", "ccmp", "ccmn", "fccmp", "fccmpe")


def blocks(texts: Sequence[Sequence[str]]) -> list[bytes]:
    """Return the code of each list of instructions."""
    lines = [line for text in texts for line in text]
    code = iter(encodings(lines))
    return [bytes.fromhex("".join(next(code) for _ in text)) for text in texts]


def _sample(name: str, section: str, latency: bool) -> tuple[list[str], int, str]:
    """Return the instructions of a row, the number of copies in them, and the reason for none."""
    sample = insn_bench.of(section, name)
    if sample is None:
        return [], 1, "the name does not give the code"
    vector_load = "Vector load" in section
    if latency and (not sample.chains or vector_load):
        return [], 1, "the chain has another instruction, which is not given"
    if "pre" in name or "post" in name:
        return [], 1, "which registers are the bases, and whether the chain goes through them"
    if not latency and name.split(" ")[0].split(".")[0] in FLAGS:
        return [], 1, "what stands between copies that read each other's flags"
    if not latency and re.match(r"(st[1-4]\.\w \(|stp|stu?r\.q)", name):
        return [], 1, "stores to one address over and over"
    if latency:
        return [sample.code(1, 1)], 1, ""
    step = 4 if re.match(r"ld[1-4]|st[1-4]", name) else 2 if re.match(r"(ld|st)n?p", name) else 1
    count = 16 // step if step > 1 else COPIES
    return [sample.code(step * n, BASE) for n in range(count)], count, ""


def insn_bench_figures(machine: str) -> list[Figure]:
    """Return the figures of insn_bench_aarch64 on a machine with Neoverse N1."""
    out = []
    for row in measured("insn_bench_aarch64_neoverse-n1"):
        if not row["source"].endswith(machine):
            continue
        latency = row["notion"].startswith("latency")
        text, copies, why = _sample(row["asm"], row["note"], latency)
        notion = "latency" if latency else "throughput"
        kind = row["note"].split(" (")[0]
        figure = Figure(row["asm"], notion, float(row["cycles"]), copies=copies, kind=kind, why=why)
        out.append((figure, text))
    return with_code(out, blocks)


def jiegec_figures() -> list[Figure]:
    """Return jiegec's figures of TSV110.

    Of patterns with one value the first is the code; a set of values has none.
    """
    out = []
    for row in measured("tsv110_jiegec"):
        latency = row["notion"].startswith("latency")
        sets = "set of values" in row["note"]
        text = [] if sets else [row["asm"].split(" ;; ")[0]]
        notion = "latency" if latency else "throughput"
        why = "a set of values over several patterns"
        cycles = float(row["cycles"])
        out.append((Figure(row["asm"], notion, cycles, kind=row["note"], why=why), text))
    return with_code(out, blocks)


def asmbench_figures() -> list[Figure]:
    """Return the figures of TSV110 by the author of OSACA's branch for it."""
    out = []
    for reading in asmbench_readings():
        latency = reading.through is not None
        notion = "latency" if latency else "throughput"
        op, _, operands = reading.text.partition(" ")
        if not latency:
            text, copies = _copied(op, operands), COPIES
        elif _chains(op, operands):
            text, copies = [f"{op} {_chained(operands)}"], 1
        else:
            text, copies = [], 1
        why = "the result is no source: what closes the chain is not given"
        figure = Figure(reading.text, notion, reading.cycles, copies=copies, kind=op, why=why)
        out.append((figure, text))
    return with_code(out, blocks)


def _chains(op: str, operands: str) -> bool:
    """True if the result can be the first source of the next copy."""
    kinds = [o[0] for o in operands.split(", ")]
    vectors = [k in "bhsdqv" for k in kinds[:2]]
    return not op.startswith(("fcmp", "adr")) and len(set(vectors)) == 1


def _chained(operands: str) -> str:
    """Return operands whose first source is the register of the result."""
    first = re.match(r"[bhsdqvwx](\d+)", operands)
    number = first[1] if first else "1"
    return re.sub(r"(, [bhsdqvwx])2\b", rf"\g<1>{number}", operands, count=1)


def _copied(op: str, operands: str) -> list[str]:
    """Return copies with results of their own and the same sources."""
    moved = re.sub(r"([bhsdqvwx])(\d)\b", lambda m: f"{m[1]}{int(m[2]) + 20}", operands)
    if op.startswith(("cmp", "cmn", "tst", "fcmp")):
        return [f"{op} {moved}"] * COPIES
    first = re.compile(r"^([bhsdqvwx])\d+")
    return [f"{op} " + first.sub(rf"\g<1>{n}", moved) for n in range(COPIES)]
