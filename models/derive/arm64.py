"""Tables of the AArch64 cores: what was measured of each form, and LLVM's figures for the rest."""

from __future__ import annotations

import re

import arm64_samples
import insn_bench
from arm64_code import every_form, forms
from arm64_llvm import Said, said
from arm64_measured import (
    Measured,
    Reading,
    asmbench_readings,
    insn_bench_readings,
    jiegec_readings,
)
from arm64_ports import bound, fitted
from corrections import corrected
from inputs import measured
from table import Form, Row, Table

CORES = ("neoverse-n1", "tsv110")
LLVM = "llvm-19"
# They read the flags that the copy before them writes.
CHAINED = {"adcs", "sbcs", "ccmp", "ccmn", "fccmp", "fccmpe"}
TITLES = {
    "neoverse-n1": "Source: insn_bench on a Graviton2; where it has none, LLVM 19 (llvm-19)",
    "tsv110": "Source: jiegec, asmbench; where they have none, LLVM 19 (llvm-19)",
}


def title(core: str) -> str:
    """Return the first line of a core's table."""
    return TITLES[core]


def readings(core: str) -> list[Reading]:
    """Return what a core's table is made from, the better source last."""
    if core == "neoverse-n1":
        return list(insn_bench_readings("aws_graviton2"))
    return [*asmbench_readings(), *jiegec_readings()]


def collected(core: str) -> dict[Form, Measured]:
    """Return what was measured of each form; a later reading takes the place of an earlier one."""
    known = readings(core)
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


def samples() -> list[str]:
    """Return the lines of which a table has the forms."""
    rows = measured("insn_bench_aarch64_neoverse-n1")
    benched = [insn_bench.of(r["note"], r["asm"]) for r in rows]
    more = [s.code(1, 20) for s in benched if s is not None]
    lines = [*arm64_samples.samples(), *more, *(r.text for r in asmbench_readings()), *every_form()]
    return list(dict.fromkeys(lines))


def table(core: str) -> Table:
    """Return the table of one core."""
    lines = samples()
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
UPDATE = {"neoverse-n1": "STM", "tsv110": "ABC"}


def _moving(core: str, rows: Table) -> Table:
    """Give what moves its base on the figures of the form that does not, and a uop for the base."""
    out = dict(rows)
    for form in rows:
        moves = MOVING.fullmatch(form.operands)
        known = moves and rows.get(Form(form.mnemonic, moves[1]))
        if known and re.fullmatch(r"(ld|st)[1-4]r?", form.mnemonic):
            ports = [UPDATE[core], *_each(known.ports)]
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
    """Return macro-operations: on Neoverse N1 one stands for up to two uops (an assumption)."""
    count = max(1, len(ports) if core == "tsv110" else -(-len(ports) // 2))
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
