"""Figures of LLVM's scheduling models for AArch64 instructions, the last resort of a table."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from arm64_code import features


@dataclass(frozen=True)
class Units:
    """LLVM's units of a core as our ports, and the groups of ports that a uop may run on."""

    prefix: str
    ports: dict[str, str]
    groups: tuple[str, ...]
    counted: tuple[str, str] = ("", "")  # a group, and what runs its uops as they are dispatched
    moves: str = ""  # ports of moves of which LLVM says that rename performs them


# Two of a kind, and the multi-cycle and load pipes, of Neoverse V1 and later.
PAIRS = {
    "B.\0": "B", "B.\1": "C", "D.\0": "D", "D.\1": "E", "L01.\0": "L", "L01.\1": "K", "L2": "J",
    "M0": "M", "M1": "N",
}  # fmt: skip
VECTORS = {"V0": "V", "V1": "W", "V2": "X", "V3": "Y"}
UNITS = {
    "neoverse-n1": Units(
        "N1Unit",
        {
            "B": "B", "D.\0": "D", "D.\1": "E", "L.\0": "L", "L.\1": "K", "M": "M",
            "S.\0": "S", "S.\1": "T", "V0": "V", "V1": "W",
        },
        ("B", "STM", "ST", "M", "LK", "DE", "VW", "V", "W"),
    ),
    "tsv110": Units(
        "TSV110Unit",
        {
            "AB.\0": "B", "AB.\1": "C", "ALU": "A", "FSU1": "F", "FSU2": "G", "Ld0St": "S",
            "Ld1": "L", "MDU": "M",
        },
        ("ABC", "BC", "A", "M", "FG", "F", "G", "LS", "S", "L"),
    ),
    "neoverse-v1": Units(
        "V1Unit",
        {**PAIRS, **VECTORS, "S.\0": "S", "S.\1": "T"},
        (
            "BC", "STMN", "STM", "ST", "MN", "M", "LKJ", "LK", "DE", "VWXY", "VX", "WY", "VW", "V",
            "W",
        ),
    ),
    "neoverse-v2": Units(
        "V2Unit",
        {**PAIRS, **VECTORS, "S0": "S", "S1": "T", "S2": "U", "S3": "R"},
        (
            "BC", "STURMN", "STUR", "ST", "STMN", "MN", "M", "LKJ", "LK", "DE", "VWXY", "VX", "WY",
            "VW", "XY", "V", "W",
        ),
        counted=("STURMN", "STUR"),
        moves="STUR",
    ),
    "neoverse-n2": Units(
        "N2Unit",
        {**PAIRS, "V0": "V", "V1": "W", "S.\0": "S", "S.\1": "T"},
        ("BC", "STMN", "ST", "MN", "M", "LKJ", "LK", "DE", "VW", "V", "W"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """Uops of an instruction, their groups of ports in no order, latency, busy cycles."""

    latency: int
    ports: tuple[str, ...]
    busy: int = 0


def said(core: str, lines: list[str]) -> list[Said | None]:
    """Return what LLVM says of each line; None where no set of ports gives its figures."""
    done = subprocess.run(
        [
            *("llvm-mca-19", "-mtriple=aarch64", f"-mcpu={core}", f"-mattr={features(core)}"),
            *("-instruction-tables", "-json"),
        ],
        input="\n".join(lines),
        text=True,
        capture_output=True,
        check=True,
    )
    report = json.loads(done.stdout)
    names = report["TargetInfo"]["Resources"]
    region = report["CodeRegions"][0]
    known = region["InstructionInfoView"]["InstructionList"]
    pressure: list[dict[str, float]] = [{} for _ in known]
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] < len(known):
            pressure[use["InstructionIndex"]][names[use["ResourceIndex"]]] = use["ResourceUsage"]
    return [
        Said(1, (UNITS[core].moves,))
        if UNITS[core].moves and not used and line.startswith("mov")
        else _said(UNITS[core], info["NumMicroOpcodes"], info["Latency"], used)
        for line, info, used in zip(lines, known, pressure, strict=True)
    ]


def _said(units: Units, uops: int, latency: int, used: dict[str, float]) -> Said | None:
    named = {units.ports[unit.removeprefix(units.prefix)]: use for unit, use in used.items()}
    total = sum(named.values())
    if uops == 1 and total > 1.01:
        # One uop that keeps its unit: dividers, 64-bit multiplication, shift and flags.
        return Said(latency, ("".join(named),), round(total))
    ports = _explained(named, units.groups) if named else ()
    one, other = units.counted
    return None if ports is None else Said(latency, tuple(other if p == one else p for p in ports))


def _explained(used: dict[str, float], groups: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return uops whose groups of ports add up to the use of each port, the first groups first."""
    for n, group in enumerate(groups):
        share = 1 / len(group)
        if all(used.get(port, 0.0) > share - 0.01 for port in group):
            left = {p: use - share if p in group else use for p, use in used.items()}
            if all(use < 0.01 for use in left.values()):
                return (group,)
            if more := _explained(left, groups[n:]):
                return (group, *more)
    return None
