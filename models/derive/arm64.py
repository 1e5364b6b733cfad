"""Tables of the AArch64 cores: what was measured of each form, and LLVM's figures for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

import arm64_samples
import firestorm
import insn_bench
from arm64_code import every_form, forms
from arm64_llvm import Said, said
from arm64_measured import (
    Measured,
    Reading,
    asmbench_readings,
    graviton2_readings,
    graviton3_readings,
    jiegec_readings,
)
from arm64_ports import bound, fitted
from corrections import corrected
from inputs import measured
from table import Form, Row, Table

LLVM = "llvm-19"
# They read the flags that the copy before them writes.
CHAINED = {"adcs", "sbcs", "ccmp", "ccmn", "fccmp", "fccmpe"}


class Core(NamedTuple):
    """What a core's table is made by.

    `made`: the sources of its readings. `update`: ports that move a base on. `pairs`: whether a
    macro-operation stands for up to two uops.
    """

    made: str
    readings: tuple[Callable[[], Iterable[Reading]], ...]  # the better source last
    update: str
    pairs: bool = True


CORES = {
    "neoverse-n1": Core("insn_bench on a Graviton2", (graviton2_readings,), "STM"),
    "tsv110": Core("jiegec, asmbench", (asmbench_readings, jiegec_readings), "ABC", pairs=False),
    "neoverse-v1": Core("insn_bench on a Graviton3", (graviton3_readings,), "STMN"),
    "neoverse-v2": Core("", (), "STUR"),
    "neoverse-n2": Core("", (), "STMN"),
    "firestorm": Core("insn_bench on an Apple M1, units by Johnson", (), firestorm.ALU),
}


def title(core: str) -> str:
    """Return the first line of a core's table."""
    made = CORES[core].made
    if core == "firestorm":
        return f"Source: {made}"
    if not made:
        return "Source: LLVM 19 (llvm-19)"
    have = "they have" if "," in made else "it has"
    return f"Source: {made}; where {have} none, LLVM 19 (llvm-19)"


def collected(core: str) -> dict[Form, Measured]:
    """Return what was measured of each form; a later reading takes the place of an earlier one."""
    known = list(chain.from_iterable(read() for read in CORES[core].readings))
    out: dict[Form, Measured] = {}
    for reading, form in zip(known, forms([r.text for r in known]), strict=True):
        entry = out.setdefault(form, Measured())
        if reading.through is None:
            entry.cycles = reading.cycles
        else:
            if entry.source != reading.source:
                entry.latency = {}
            entry.latency[reading.through] = reading.cycles
        entry.source = reading.source
    return out


def samples(core: str) -> list[str]:
    """Return the lines of which a core's table has the forms."""
    rows = measured("insn_bench_aarch64_neoverse-n1")
    benched = [insn_bench.of(r["note"], r["asm"]) for r in rows]
    more = [s.code(1, 20) for s in benched if s is not None]
    lines = [
        *arm64_samples.samples(),
        *more,
        *(r.text for r in asmbench_readings()),
        *every_form(core),
    ]
    return list(dict.fromkeys(lines))


def table(core: str) -> Table:
    """Return the table of one core."""
    if core == "firestorm":
        return _moving(core, corrected(core, firestorm.rows(_wider)))
    lines = samples(core)
    real = collected(core)
    llvm: dict[Form, Said | None] = {}
    for form, figures in zip(forms(lines), said(core, lines), strict=True):
        llvm.setdefault(form, figures)
    rows: Table = {}
    for form, figures in llvm.items():
        known = real.get(form)
        for wide in _wider(form):
            # Where LLVM tells no difference of width, what was measured of the wider stands.
            if known is None and figures is not None and llvm.get(wide) == figures:
                known = real.get(wide)
        row = _row(core, form, figures, known)
        if row is not None:
            rows[form] = row
    return _moving(core, corrected(core, rows))


# A load or store of structures that moves its base on by a constant or a register.
MOVING = re.compile(r"(.*\[x\]),[ix]")


def _moving(core: str, rows: Table) -> Table:
    """Give what moves its base on the figures of the form that does not, and a uop for the base."""
    out = dict(rows)
    for form in rows:
        moves = MOVING.fullmatch(form.operands)
        known = moves and rows.get(Form(form.mnemonic, moves[1]))
        if known and re.fullmatch(r"(ld|st)[1-4]r?", form.mnemonic):
            ports = [CORES[core].update, *_each(known.ports)]
            slots = max(_slots(core, ports)[0], known.slots)
            source = known.source if LLVM in known.source.split("+") else f"{known.source}+{LLVM}"
            changed = {"slots": slots, "mite": slots, "ports": "+".join(ports), "source": source}
            out[form] = known._replace(**changed)
    return out


def _each(ports: str) -> list[str]:
    """Return the ports of each uop of a table's text."""
    out = []
    for uops in ports.split("+"):
        count, _, names = uops.rpartition("*")
        out += [names] * int(count or 1)
    return out


HALVES = {"2s": "4s", "4h": "8h", "8b": "16b", "1d": "1q", "2d,": "2q,", "d,i": "q,i"}


def _wider(form: Form) -> list[Form]:
    """Return forms on wider registers that may be alike."""
    out = [Form(form.mnemonic, form.operands.replace("w", "x"))]
    for half, full in HALVES.items():
        if form.operands.startswith(half):
            out.append(Form(form.mnemonic, full + form.operands.removeprefix(half)))
    return out


def _plain(form: Form) -> bool:
    """Say whether copies of a form show its ports: they meet neither in memory nor in flags."""
    return "[" not in form.operands and form.mnemonic not in CHAINED


def _row(core: str, form: Form, llvm: Said | None, real: Measured | None) -> Row | None:
    ports = list(llvm.ports) if llvm else []
    busy = llvm.busy if llvm else 0
    latency = {-1: llvm.latency if llvm else 1}
    source = LLVM
    if form.mnemonic == "nop":
        ports = []
    elif real is not None:
        if real.latency:
            latency = {n: _whole(c, latency[-1]) for n, c in real.latency.items()}
        cycles = real.cycles if _plain(form) else None
        if cycles is not None and abs(bound(ports, busy) - cycles) > 0.12 * cycles:
            ports, busy = fitted(core, ports, cycles)
        source = real.source
    elif not ports:
        return None
    return Row(
        *_slots(core, ports),
        0,
        "",
        "+".join(ports),
        _latency(form, ports, latency),
        f"tp={busy}" if busy > 1 else "",
        "",
        "",
        source,
    )


def _whole(cycles: float, llvm: int) -> int:
    """Return whole cycles; halfway between two, those that LLVM says."""
    return llvm if abs(cycles - llvm) <= 0.51 else max(round(cycles), 1)


def _slots(core: str, ports: list[str]) -> tuple[int, int]:
    """Return macro-operations; that one of Arm's always holds two uops is an assumption."""
    count = max(1, -(-len(ports) // 2) if CORES[core].pairs else len(ports))
    return count, count


def _latency(form: Form, ports: list[str], latency: dict[int, int]) -> str:
    memory = "[" in form.operands or "literal" in form.operands
    if memory:
        loads = form.mnemonic.startswith("ld")
        return f"a:{max(latency.values())}" if loads else ""
    if not ports:
        return ""
    most = max(latency.values())
    special = [f"{n}>0:{c}" for n, c in sorted(latency.items()) if c != most]
    return " ".join([f"*:{most}", *special])
