"""Measure the AVX-512 forms of this machine, from which avx512.py derives those of its core.

usage: python models/derive/measure_avx512.py [--part N/M] FILE.csv
A row a form of registers that uops.info has no figures of: `alone`, cycles of a copy; `ports`,
cycles of six copies beside blocking instructions of a set of ports, less what these take alone;
`latency`, cycles from each operand to the result, by chains that a known instruction closes where
the two are registers of two kinds. Forms that the machine lacks have no row. Where FILE has rows,
those that are complete are kept, and the others measured anew.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import avx512_forms
import intel
from avx512 import BLOCKING, COPIES
from avx512_forms import FILES, MASK, WRITTEN, Shape
from table import Form

from loopwright import toolchain
from loopwright.code import binding
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import block, measure_blocks

ALONE, STEPS = 12, 3  # copies of a form alone, and of a chain
TURNS = 2
COLUMNS = ("mnemonic", "operands", "alone", "ports", "latency", "by")
# What closes a chain: to a register of the first file from one of the second, and its latency.
CLOSING = {
    "vk": ("EVEX_VPMOVM2D_XMM_KR", 1), "kv": ("EVEX_VPMOVD2M_KR_XMM", 3),
    "rk": ("VEX_KMOVQ_R64_KR", 3), "kr": ("VEX_KMOVQ_KR_R64", 1),
    "vr": ("VEX_VMOVQ_XMM_RM64", 2), "rv": ("VEX_VMOVQ_RM64_XMM", 2),
}  # fmt: skip
# Blocking instructions by the ports that they can use, beside forms of 512 bits and others.
WIDE = {
    "0": "EVEX_VPSLLVD_ZMM_K1Z_ZMM_ZMMM512B32",
    "5": "EVEX_VPERMD_ZMM_K1Z_ZMM_ZMMM512B32",
    "05": "EVEX_VPADDD_ZMM_K1Z_ZMM_ZMMM512B32",
}
NARROW = {
    "0": "VEX_VMOVD_RM32_XMM",
    "5": "EVEX_VPERMD_YMM_K1Z_YMM_YMMM256B32",
    "01": "EVEX_VPSLLVD_YMM_K1Z_YMM_YMMM256B32",
    "15": "EVEX_VPUNPCKLDQ_XMM_K1Z_XMM_XMMM128B32",
    "015": "EVEX_VPADDD_YMM_K1Z_YMM_YMMM256B32",
}
BLOCKING_WRITTEN = {"v": range(16, 24), "r": range(12, 15)}


def chain(shape: Shape, label: str, of: str) -> tuple[bytes, int, int]:
    """Return a chain from an operand to the result: code, copies, and cycles of what closes it."""
    to = FILES[shape.operands[0]]
    first = WRITTEN[of][0]
    read = {} if label in "0k" else {int(label): first}
    step = shape.encoded(read, WRITTEN[to][0], first if label == "k" else MASK)
    if of == to:
        return step * STEPS, STEPS, 0
    name, cycles = CLOSING[of + to]
    return step + avx512_forms.shape(name).encoded({1: WRITTEN[to][0]}, first), 1, cycles


def blocking(ports: str, shape: Shape) -> bytes:
    """Return blocking instructions of some ports, to stand beside a shape."""
    one = avx512_forms.shape((WIDE if shape.wide else NARROW)[ports])
    written = BLOCKING_WRITTEN[FILES[one.operands[0]]]
    return b"".join(
        one.encoded({}, written[n % len(written)]) for n in range(BLOCKING * len(ports))
    )


def experiments(shape: Shape) -> dict[str, tuple[bytes, float, float]]:
    """Return loops by what they show: code, copies, cycles; figure = measured / copies - cycles."""
    out = {"alone": (b"".join(shape.copy(n) for n in range(ALONE)), ALONE, 0.0)}
    copies = b"".join(shape.copy(n) for n in range(COPIES))
    for ports in WIDE if shape.wide else NARROW:
        out[f"ports {ports}"] = (copies + blocking(ports, shape), 1, float(BLOCKING))
    for label, of in shape.sources():
        out[f"latency {label}"] = chain(shape, label, of)
    return out


def unknown(core: str, features: frozenset[str]) -> Iterator[Shape]:
    """Yield what a machine has and uops.info's records of its core have not.

    Of masked forms those of 512 bits, and those whose result is a mask.
    """
    known = set(intel.table_of_records(core))
    for plain in (one for one in avx512_forms.shapes() if one.memory < 0):
        merging = next(plain.masked(), None)
        of_masks = plain.wide or plain.operands[0] == "k"
        for one in [plain, *([merging] if merging and merging != plain and of_masks else [])]:
            if one.form is None or one.form in known:
                continue
            known.add(one.form)
            if binding.outline("x86_64", one.copy(0)).needs <= features:
                yield one


def measured(chosen: Sequence[Shape]) -> Iterator[dict[str, str]]:
    """Yield a row for each shape, with the figures of the loops that gave one."""
    wanted = [
        (n, what, *test) for n, one in enumerate(chosen) for what, test in experiments(one).items()
    ]
    blocks = [
        block.of_code(f"{n} {what}", code, 0, "x86_64", "loop") for n, what, code, _, _ in wanted
    ]
    found = measure_blocks.measure_in_turns(toolchain.host_isa(), blocks, TURNS)
    figures: dict[int, dict[str, str]] = {}
    for (n, what, _, copies, less), row in zip(wanted, found, strict=True):
        if row["status"] != "refused":
            figures.setdefault(n, {})[what] = f"{row['cycles'] / copies - less:.2f}"
    for n, one in enumerate(chosen):
        mine = figures.get(n, {})
        assert one.form is not None
        yield {
            **one.form._asdict(),
            "alone": mine.get("alone", ""),
            "ports": _listed(mine, "ports"),
            "latency": _listed(mine, "latency"),
            "by": "harness",
        }


def _listed(figures: dict[str, str], kind: str) -> str:
    split = ((what.split(), cycles) for what, cycles in figures.items())
    return " ".join(f"{what[1]}:{cycles}" for what, cycles in split if what[0] == kind)


def complete(row: dict[str, str], shape: Shape) -> bool:
    """Whether a row has a figure of every loop of its shape."""
    have = bool(row["alone"]) + sum(len(row[kind].split()) for kind in ("ports", "latency"))
    return have == len(experiments(shape))


def main() -> None:
    """Measure, and write the rows."""
    parser = argparse.ArgumentParser(description="Measure this machine's forms of AVX-512.")
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--part", default="0/1", metavar="N/M", help="every M-th form, from the N-th"
    )
    options = parser.parse_args()
    core = hosts.microarch() or ""
    if core not in intel.COVES:
        here = core or "of no known core"
        raise InputError(f"this machine is {here}, not one of {', '.join(intel.COVES)}")
    part, parts = (int(one) for one in options.part.split("/"))
    shapes = {one.form: one for one in list(unknown(core, hosts.features()))[part::parts]}
    rows: dict[Form | None, dict[str, str]] = {}
    if options.file.is_file():
        with options.file.open(newline="") as lines:
            rows = {Form(row["mnemonic"], row["operands"]): row for row in csv.DictReader(lines)}
    missing = [
        one for form, one in shapes.items() if form not in rows or not complete(rows[form], one)
    ]
    print(f"{len(missing)} of {len(shapes)} forms", flush=True)
    for row in measured(missing):
        rows[Form(row["mnemonic"], row["operands"])] = row
    with options.file.open("w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=lambda row: (row["mnemonic"], row["operands"])))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"models/derive/measure_avx512.py: {error}") from None
