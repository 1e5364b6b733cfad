"""Write jobs for the harness: code and contract as its text format has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from loopwright.code.instructions import Code
from loopwright.kernels import Contract


@dataclass(frozen=True)
class Point:
    """One measurement: count in bytes or records, alignments in bytes from a page start.

    skew is (dst - src) mod 4096; it places the source, and says the same as the alignments mod 64.
    cold: the buffers are in no cache.
    """

    count: int
    dst_align: int
    src_align: int
    skew: int
    cold: bool = False

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Return the point that an answer of the harness is about."""
        cold = answer.get("cache") == "cold"
        return cls(answer["count"], answer["dst_align"], answer["src_align"], answer["skew"], cold)


def check(
    job_id: str,
    code: Code,
    contract: Contract,
    *,
    values: Sequence[int] = (),
    gated: bool = False,
) -> str:
    """Return the job that holds code to its contract.

    values are tried as sizes and as both alignments, each with each and with their neighbours.
    gated code contains stac and clac: they are emulated, slowly, so that only small calls are made.
    """
    lines = ["job check", *_lines(job_id, code, contract)]
    lines += [f"value {value}" for value in values]
    if gated:
        lines += ["gated", f"max_size {4 if contract.effect == 'store_fields' else 64}"]
    return "\n".join([*lines, "end", ""])


def measure(
    job_id: str, code: Code, contract: Contract, points: Sequence[Point], offset: int
) -> str:
    """Return the job that measures calls; offset is that of the code from a 64-byte boundary."""
    lines = ["job measure", *_lines(job_id, code, contract), f"offset {offset}"]
    lines += [
        f"point {p.count} {p.dst_align} {p.src_align} {p.skew} {'cold' if p.cold else 'hot'}"
        for p in points
    ]
    return "\n".join([*lines, "end", ""])


def clock(job_id: str) -> str:
    """Return the job that describes the clock, with the self-test that measuring rests on."""
    return f"job clock\nid {job_id}\nend\n"


def facts(job_id: str, files: Sequence[str]) -> str:
    """Return the job that asks what the machine says of itself."""
    return "\n".join(["job facts", f"id {job_id}", *(f"file {f}" for f in files), "end", ""])


def self_test(job_id: str) -> str:
    """Return the job that measures every loop whose cost is known."""
    return f"job self_test\nid {job_id}\nend\n"


def _lines(job_id: str, code: Code, contract: Contract) -> list[str]:
    """Return the lines on code and contract."""
    lines = [
        f"id {job_id}",
        f"object {code.sha256}",
        f"isa {code.isa}",
        f"code {code.text.hex()}",
        f"entry {code.entry}",
    ]
    lines += [f"exception {e.insn} {e.fixup}" for e in code.exceptions]
    lines += [f"effect {contract.effect}"]
    lines += [f"in {role} {register}" for role, register in contract.inputs.items()]
    lines += [f"out {role} {register}" for role, register in contract.returns.items()]
    lines += [f"zeroed {register}" for register in contract.zeroed]
    lines += [f"may_change {register}" for register in contract.may_change]
    lines += [f"faulting {side}" for side in contract.faulting]
    lines += [f"overread {contract.overread}"]
    lines += [f"uncopied {contract.uncopied}"]
    lines += ["guards"] if contract.guards else []
    if contract.align > 1:
        lines += [f"align {contract.align}"]
    if contract.dst_record:
        lines += [f"record {contract.dst_record} {contract.src_record}"]
    lines += [f"field {f.dst} {f.size} {'-' if f.src is None else f.src}" for f in contract.fields]
    return lines
