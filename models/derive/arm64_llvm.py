"""Figures of LLVM's scheduling models for AArch64 instructions, the last resort of a table."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from itertools import combinations_with_replacement

from arm64_code import FEATURES


@dataclass(frozen=True)
class Units:
    """LLVM's units of a core as our ports, and the groups of ports that a uop may run on."""

    prefix: str
    ports: dict[str, str]
    groups: tuple[str, ...]


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
            *("llvm-mca-19", "-mtriple=aarch64", f"-mcpu={core}", f"-mattr={FEATURES}"),
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
        _said(UNITS[core], info["NumMicroOpcodes"], info["Latency"], used)
        for info, used in zip(known, pressure, strict=True)
    ]


def _said(units: Units, uops: int, latency: int, used: dict[str, float]) -> Said | None:
    named = {units.ports[unit.removeprefix(units.prefix)]: use for unit, use in used.items()}
    total = sum(named.values())
    if uops == 1 and total > 1.01:
        # One uop that keeps its unit: dividers, 64-bit multiplication, shift and flags.
        return Said(latency, ("".join(named),), round(total))
    ports = _explained(named, units.groups) if named else ()
    return None if ports is None else Said(latency, ports)


def _explained(used: dict[str, float], groups: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return uops whose groups of ports add up to the use of each port."""
    possible = [g for g in groups if set(g) <= set(used)]
    for choice in combinations_with_replacement(possible, round(sum(used.values()))):
        load = dict.fromkeys(used, 0.0)
        for group in choice:
            for port in group:
                load[port] += 1 / len(group)
        if all(abs(load[p] - used[p]) < 0.01 for p in load):
            return choice
    return None
