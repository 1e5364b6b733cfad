"""Gathers and scatters: forms, and rows of those that no records hold.

Of AVX2 on Intel's cores the records have them. Those of AVX-512 on Golden Cove and Redwood Cove
have LLVM's uops, which loops on an Emerald Rapids guest confirm, with what those loops take. AMD's
have counted uops and what copies take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from inputs import Summary
from table import Form, Row, Table, ports_text
from zen_cores import Core

SOURCE = "llvm-19+loopwright-goldencove"
BITS = {"x": 128, "y": 256, "z": 512}
NAME = re.compile(r"vp?(gather|scatter)([dq])(ps|pd|d|q)")
# Cycles from the indices of the last element, and from the mask, by elements and the wider of both
# registers; all measured but the mask of four elements in 256 bits.
CYCLES = {
    (2, "x"): (19, 19), (4, "x"): (26, 21), (4, "y"): (27, 22), (8, "y"): (27, 23),
    (8, "z"): (27, 23), (16, "z"): (27, 26),
}  # fmt: skip


class Access(NamedTuple):
    """What a form of data and indices accesses: elements, and bits of one."""

    count: int
    bits: int


def access(mnemonic: str, data: str, index: str) -> Access | None:
    """Return what a form accesses, None where it is no gather or scatter."""
    found = NAME.fullmatch(mnemonic)
    if not found:
        return None
    bits = 64 if found[3] in ("pd", "q") else 32
    of_index = 64 if found[2] == "q" else 32
    return Access(min(BITS[data] // bits, BITS[index] // of_index), bits)


def memory(mnemonic: str, index: str) -> str:
    """Return the operand of a gather or scatter, as the simulator names it."""
    found = access(mnemonic, index, index)
    return f"m{found.bits}{index}" if found else ""


def masked() -> Iterator[tuple[Form, str, str]]:
    """Yield the forms of AVX-512, with the registers of data and of indices."""
    for what in ("gather", "scatter"):
        for kind in ("ps", "pd", "d", "q"):
            for of_index in "dq":
                mnemonic = f"v{'p' if kind in 'dq' else ''}{what}{of_index}{kind}"
                for data, index in _registers(64 if kind in ("pd", "q") else 32, of_index):
                    place = memory(mnemonic, index)
                    both = (data, place) if what == "gather" else (place, data)
                    yield Form(mnemonic, "{}{{k}},{}".format(*both)), data, index


def _registers(bits: int, of_index: str) -> list[tuple[str, str]]:
    if (bits == 64) == (of_index == "q"):
        return [("x", "x"), ("y", "y"), ("z", "z")]
    wider = [("x", "x"), ("y", "x"), ("z", "y")]
    return wider if bits == 64 else [(index, data) for data, index in wider]


def coves() -> Table:
    """Return the rows of AVX-512 on Golden Cove and Redwood Cove."""
    rows: Table = {}
    for form, data, index in masked():
        found = access(form.mnemonic, data, index)
        assert found is not None
        wide = max(data, index)
        if "gather" in form.mnemonic:
            rows[form] = _gather(found.count, wide)
        else:
            rows[form] = _scatter(found.count, wide)
    return rows


def _gather(count: int, wide: str) -> Row:
    shuffles = "15" if count == 2 else "2*5" if wide == "z" else "2*15"
    cycles, mask = CYCLES[count, wide]
    latency = f"0>0:1 0>k:0 k>0:{mask} k>k:1 a>0:{cycles} a>k:0"
    return Row(5, 5, 0, "c1", f"0+{shuffles}+{count}*23A", latency, "tp=2", "", "", SOURCE)


def _scatter(count: int, wide: str) -> Row:
    computes = "2*0+0156B" if wide == "z" else "0+01+0156B"
    slots = 2 * count + 3
    ports = f"{computes}+{count}*49+{count}*78"
    # What comes from microcode is set by what copies take: 4 cycles and half of one an element.
    return Row(slots, 4, slots - 4, "c0", ports, "1>k:0 k>k:1", "", "", "", SOURCE)


def zen(core: Core, said: dict[str, Summary]) -> Table:
    """Return the rows of a Zen core, by its summaries of uops.info."""
    rows: Table = {}
    for string, summary in said.items():
        form, data, index = _named(string)
        found = access(form.mnemonic, data, index) if index else None
        cycles = summary.cycles()
        if found is None or cycles is None:
            continue
        loads = "gather" in form.mnemonic
        ports: dict[str, int] = {}
        for count, digits in re.findall(r"(\d+)\*FP(\d+)", summary.ports):
            if digits == "45" and not loads:
                continue  # the stores' own
            # The table has one pipe for these two, which move indices out.
            uops = -(-int(count) // 2) if digits == "45" else int(count)
            names = "".join(dict.fromkeys(core.vector[d] for d in digits))
            ports[names] = ports.get(names, 0) + uops
        if not ports:
            ports[core.vector_alu] = max(int(float(summary.uops)) - found.count, 1)
        least = min(map(len, ports))
        more = [core.vector_load] if loads else [core.address, core.vector_store_data]
        for names in more:
            ports[names] = ports.get(names, 0) + found.count
        uops = int(float(summary.uops))
        most = max(summary.bounds() or (1, 1))
        mask = "k" if "{" in form.operands else "2"
        latency = (
            f"0>0:1 0>{mask}:0 {mask}>0:{most} {mask}>{mask}:1 a>0:{most} a>{mask}:0"
            if loads
            else "1>k:0 k>k:1"
        )
        busy = f"tp={round(cycles * least)}"
        # As many of them from microcode, four a cycle, as what copies take has room for.
        micro = min(uops, int(4 * cycles))
        rows[form] = Row(
            uops, uops - micro, micro, "", ports_text(ports), latency, busy, "", "", core.source
        )
    return rows


def _named(string: str) -> tuple[Form, str, str]:
    """Return the form of a summary with its registers of data and indices, empty if it is none."""
    found = re.fullmatch(r"(VP?(?:GATHER|SCATTER)\w+) \((.*)\)", string)
    if not found:
        return Form("", ""), "", ""
    mnemonic, operands = found[1].lower(), found[2].split(", ")
    index = next(o for o in operands if o.startswith("VSIB"))[5].lower()
    data = next(o for o in operands if o.endswith("MM") and not o.startswith("VSIB"))[0].lower()
    place = memory(mnemonic, index)
    if "K" not in operands:
        return Form(mnemonic, f"{data},{place},{data}"), data, index
    loads = operands[0].endswith("MM") and not operands[0].startswith("VSIB")
    return Form(mnemonic, f"{data}{{k}},{place}" if loads else f"{place}{{k}},{data}"), data, index
