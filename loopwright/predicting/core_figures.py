"""The figures of a core: forms, ports, figures in doubt, ranges of costs and of errors.

A core that was learned from timing has ranges of errors of its own, from rows not used for
learning; those of all others are in models/ranges.csv.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from loopwright import files, paths
from loopwright.code import binding
from loopwright.code.instructions import Flow
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Block

RANGES = "ranges.csv"
RANGE_COLUMNS = ("core", "kind", "memory", "least", "most", "rows", "source")
CALL = "call"
WHOLE_CALLS = ""
"""The value of `memory` for whole calls, which are one class."""


class SpanClass(NamedTuple):
    """Predictions that share an error range: by core, prediction kind and kind of memory access.

    kind is "loop", "unrolled" or "call", memory a value of memory_of.
    """

    core: str
    kind: str
    memory: str


class Span(NamedTuple):
    """The range of measurements, as multiples of the prediction."""

    least: float
    most: float

    def around(self, cheap: float, dear: float) -> tuple[float, float]:
        """Return the range of measurements for a prediction of cheap to dear cycles."""
        return round(cheap * self.least, 3), round(dear * self.most, 3)


MEMORY = ("none", "loads", "stores", "both", "forwarding")

_SHORT = 24  # instructions
_OPERAND = re.compile(r"[-\w]*\([^)]*\)|\[[^\]]*\]")  # in memory: AT&T, or AArch64


def memory_of(block: Block) -> str:
    """Return the kind of memory access of a block, one of MEMORY.

    "forwarding" is both with a store and a load of one operand, as in a read-modify-write. In
    longer code such a load hardly waits: it is "both".
    """
    loaded, stored = (
        [instruction for instruction in block.instructions if getattr(instruction, attribute)]
        for attribute in ("read_bytes", "written_bytes")
    )
    if not loaded or not stored:
        return "loads" if loaded else "stores" if stored else "none"
    operands = [
        {at for instruction in chosen for at in _OPERAND.findall(instruction.text)}
        for chosen in (loaded, stored)
    ]
    near = len(block.instructions) <= _SHORT
    return "forwarding" if near and operands[0] & operands[1] else "both"


def spans_of_blocks(core: str, blocks: Sequence[Block]) -> list[Span | None]:
    """Return the span of each block's prediction; None without recorded errors of the core."""
    spans = _spans_of_core(core)
    if not any(span_class.core == core for span_class in spans):
        return [None] * len(blocks)
    memory = {code: memory_of(block) for code, block in {b.code: b for b in blocks}.items()}
    return [spans.get(SpanClass(core, block.notion, memory[block.code])) for block in blocks]


def span_of_calls(core: str) -> Span | None:
    """Return the span of the predictions of whole calls, or None."""
    return _spans_of_core(core).get(SpanClass(core, CALL, WHOLE_CALLS))


def _spans_of_core(core: str) -> Mapping[SpanClass, Span]:
    own, all_cores = paths.models_root() / core / RANGES, paths.models_root() / RANGES
    for path in (own, all_cores):
        if path.is_file():
            spans = _read_spans(path, path.stat().st_mtime_ns)
            # The folder of a learned core may have another name than when it was learned.
            return {c._replace(core=core): s for c, s in spans.items()} if path == own else spans
    return {}


@cache
def _read_spans(path: Path, changed: int) -> Mapping[SpanClass, Span]:
    del changed  # part of the cache's key: the file may change while this process lives
    return {
        SpanClass(row["core"], row["kind"], row["memory"]): Span(
            float(row["least"]), float(row["most"])
        )
        for row in files.csv_rows(path)
    }


TABLE = "instructions.csv"


def forms(core: str) -> Mapping[str, Mapping[str, str]]:
    """Return the row of each form ("imul r64,r64") in a core's table; {} without a table.

    models/pipeline/README.md describes the columns.
    """
    path = paths.models_root() / core / TABLE
    return _by_form(path, path.stat().st_mtime_ns) if path.is_file() else {}


@cache
def _by_form(path: Path, changed: int) -> Mapping[str, Mapping[str, str]]:
    del changed  # part of the cache's key: the file may change while this process lives
    return {
        f"{row['mnemonic']} {operands}".strip(): row
        for row in files.csv_rows(path)
        for operands in row["operands"].split(";")
    }


# Kinds of uops: the parameter with their ports, or by ISA a form that is one such uop.
_KINDS: dict[str, str | dict[str, str]] = {
    "integer": "ports.alu",
    "shift": {"x86_64": "shl r64,i8", "arm64": "ubfm x,x,i,i"},
    "multiply": {"x86_64": "imul r64,r64", "arm64": "madd x,x,x,x"},
    "branch": {"x86_64": "jne rel", "arm64": "b.cond"},
    "load": "ports.load",
    "store address": "ports.store_address",
    "store data": "ports.store_data",
    "vector integer": {"x86_64": "paddd x,x", "arm64": "add 4s"},
    "shuffle": {"x86_64": "pshufd x,x,i8", "arm64": "zip1 4s"},
    "float add": {"x86_64": "addps x,x", "arm64": "fadd 4s"},
    "float multiply": {"x86_64": "mulps x,x", "arm64": "fmul 4s"},
    "float divide": {"x86_64": "divps x,x", "arm64": "fdiv 4s"},
}


@dataclass(frozen=True)
class Use:
    """A kind of uop and its ports, each by its one-letter name, in order."""

    kind: str
    ports: str


def port_names(core: Microarch) -> str:
    """Return the letters that name a core's ports; "" without figures."""
    return str(core.value("ports.names") or "")


def port_uses(core: Microarch) -> list[Use]:
    """Return the ports of each kind of uop; a kind without figures is left out."""
    rows_of_forms = forms(core.id)
    uses = []
    for kind, source in _KINDS.items():
        figure = (
            core.value(source) if isinstance(source, str) else rows_of_forms.get(source[core.isa])
        )
        text = figure["ports"] if isinstance(figure, Mapping) else str(figure or "")
        letters = text.rpartition("*")[2]
        ports = "".join(name for name in port_names(core) if name in letters)
        if ports:
            uses.append(Use(kind, ports))
    return uses


def vendor_port_names(core: Microarch) -> dict[str, str]:
    """Return the vendor's name of each port by its letter; p and the letter if unnamed."""
    names = core.parameters.get("port_names", {})
    return {letter: str(names.get(letter, f"p{letter}")) for letter in port_names(core)}


DOUBTFUL_TABLE = "doubtful.csv"
# Names, among the values of parameters, of the end to use for figures in doubt.
INSTRUCTIONS_DOUBT = "instructions.doubt"
FRONT_END_DOUBT = "front_end.doubt"
LEAST, MOST = "least", "most"
FRONT_END_FILES = {LEAST: "front-end-least.toml", MOST: "front-end-most.toml"}


def front_end_in_doubt(core: Microarch) -> bool:
    """True if the front end of a core is a range."""
    folder = paths.models_root() / core.id
    return all((folder / name).is_file() for name in FRONT_END_FILES.values())


def doubtful_forms(core: Microarch) -> frozenset[str]:
    """Return the names of the forms of a core whose figures are in doubt."""
    path = paths.models_root() / core.id / DOUBTFUL_TABLE
    return frozenset(
        f"{row['mnemonic']} {operands}".rstrip()
        for row in (files.csv_rows(path) if path.is_file() else ())
        for operands in row["operands"].split(";")
    )


def has_doubtful_forms(core: Microarch, code: bytes) -> bool:
    """True if code contains a form whose figures are in doubt on a core."""
    doubtful = doubtful_forms(core)
    if not doubtful:
        return False
    (forms_of_code,) = binding.forms(core.isa, [code])
    return any(name in doubtful for name in forms_of_code or ())


def table_at_end(core: Microarch, table: str, end: str) -> str:
    """Return the text of instructions.csv with the figures of one end of all ranges."""
    path = paths.models_root() / core.id / DOUBTFUL_TABLE
    return with_doubtful_rows(table, path.read_text() if path.is_file() else "", end)


def with_doubtful_rows(table: str, doubtful: str, end: str) -> str:
    """Return a table of instructions with the rows of doubtful.csv for one end."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerows(row[1:] for row in list(csv.reader(io.StringIO(doubtful)))[1:] if row[0] == end)
    lines = table.splitlines(keepends=True)
    head = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    # The simulator uses the first row of a form.
    return "".join([*lines[: head + 1], out.getvalue(), *lines[head + 1 :]])


Ends = tuple[str, str]
_RETURN_BUBBLE = "taken_branch.return_bubble"
_TRANSITION = "serial.avx_sse_transition"

# By the name of a cost: the machine code of its instructions.
_CODE = {
    "stac_clac": (b"\x0f\x01\xcb", b"\x0f\x01\xca"),
    "lfence": (b"\x0f\xae\xe8",),
    "mfence": (b"\x0f\xae\xf0",),
}


def cost_ranges(core: Microarch, overrides: Mapping[str, str]) -> dict[str, Ends]:
    """Return the ranges of a core's costs by dotted name: the cheap end and the dear one.

    An overridden parameter has no range. A rate is cheap where it is high, others where they are
    low.
    """
    ranges = parameter_ends(core, overrides)
    if doubtful_forms(core) and INSTRUCTIONS_DOUBT not in overrides:
        ranges[INSTRUCTIONS_DOUBT] = LEAST, MOST
    if front_end_in_doubt(core) and FRONT_END_DOUBT not in overrides:
        ranges[FRONT_END_DOUBT] = LEAST, MOST
    return ranges


def parameter_ends(core: Microarch, overrides: Mapping[str, str]) -> dict[str, Ends]:
    """Return the ranges of the costs in core.toml: the cheap end and the dear one."""
    costs = (r for r in core.ranges if r.numeric and r.name not in overrides and _cost(r.name))
    return {r.name: (r.values[0], r.values[1]) for r in costs}


def _cost(name: str) -> bool:
    alone = ("memory.stream_line_cycles", _RETURN_BUBBLE)
    return name.partition(".")[0] in ("string", "serial") or name in alone


def at_range_ends(
    core: Microarch, overrides: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return values with every range at its cheap end, and with every one at its dear end."""
    ranges = cost_ranges(core, overrides)
    cheap, dear = ({name: ends[end] for name, ends in ranges.items()} for end in (0, 1))
    return {**cheap, **overrides}, {**dear, **overrides}


def depends_on(core: Microarch, block: Block, name: str, *, straight: bool) -> bool:
    """True if the prediction of a block can depend on a parameter.

    straight is True if no string instruction repeats in it.
    """
    if name == INSTRUCTIONS_DOUBT:
        return has_doubtful_forms(core, block.code)
    table, _, key = name.partition(".")
    if table == "string":
        return not straight
    if name == _TRANSITION:
        return _mixes_avx_and_sse(block)
    if table == "serial":
        return any(code in block.code for code in _CODE[key])
    if name == _RETURN_BUBBLE:
        return any(i.flow is Flow.RETURN for i in block.instructions)
    if table == "memory":
        return any(i.written_bytes for i in block.instructions)
    return True


def _mixes_avx_and_sse(block: Block) -> bool:
    """True if a block has instructions of 256 bits or more, and legacy SSE instructions."""
    lines = [instruction.line for instruction in block.instructions]
    wide = any("%ymm" in line or "%zmm" in line for line in lines)
    return wide and any("%xmm" in line and not line.startswith("v") for line in lines)
