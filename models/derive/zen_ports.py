"""Ports of Zen's uops: as counted for vectors, from what copies take for integers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zen_cores import Core
from zen_kinds import Kind

SHIFTS = re.compile(
    r"^(sh[lr]x?|sa[lr]x?|ro[lr]x?|rc[lr]|bt[crs]?|sh[lr]d|cdq|cqo|cwd|bextr|bzhi)$"
)
SELECTS = re.compile(r"^(cmov|set)")
MULTIPLIES = re.compile(r"^(i?mul|mulx|pdep|pext|crc32)$")
DIVIDES = re.compile(r"^i?div$")
# Copies of these depend on each other by the flags: what they take says nothing of ports.
CHAINED = {"adc", "sbb", "adcx", "adox", "cmc"}
# Cycles that a pipe of 256 bits takes for 512.
WIDE = 2
# Copies of one uop that take so long have a unit to wait for.
SLOW = 4
MOVES_ONLY = re.compile(
    r"^(mov|movz|movs|movbe|movnti|push|pop(?!cnt)|prefetch|lddqu|stos|ld|sfence)"
)
VECTOR_MOVES = re.compile(r"^v?(mov|lddqu|broadcast[sif]|pbroadcast[dq]|maskmov)")


@dataclass(frozen=True)
class Plain:
    """Figures of a mnemonic's register forms: uops, and the best time of copies of one uop."""

    uops: int
    best: float | None


def integer_ports(c: Core, kind: Kind, plain: Plain | None) -> tuple[dict[str, int], int]:
    """Return uops of an integer form without its loads and stores, and busy cycles."""
    cycles = kind.summary.cycles()
    uops = max(kind.uops, 1)
    if DIVIDES.match(kind.base):
        return {c.divide: 1, **({c.alu: uops - 1} if uops > 1 else {})}, round(cycles or 1)
    if kind.memory and MOVES_ONLY.match(kind.base) and uops <= 2:
        # A load of part of a register is put into the rest of it; signs are extended by an ALU.
        computes = kind.base in ("movsx", "movsxd") or (
            kind.base == "mov" and kind.operands[0] in ("r8", "r8h", "r16")
        )
        return ({c.alu: 1} if computes else {}), 0
    if kind.locked:
        return {c.alu: 1}, 0
    some = _single(c, kind, plain.best if plain else None)
    if kind.memory and plain and uops <= plain.uops + 2:
        uops = plain.uops
    elif kind.memory:
        uops = max(uops - kind.reads - kind.writes, 1)
    if uops == 1:
        slow = cycles is not None and cycles >= SLOW and kind.base not in CHAINED
        return {some: 1}, round(cycles) if slow and cycles else 0
    return spread(c.alu, c.pair if len(some) == len(c.alu) else some, uops, cycles)


def _single(c: Core, kind: Kind, best: float | None) -> str:
    """Return the ALUs of a form of one uop."""
    if MULTIPLIES.match(kind.base) and not _slow(kind):
        return c.multiply
    if SHIFTS.match(kind.base):
        return c.shift
    if SELECTS.match(kind.base):
        return c.select
    if kind.base in CHAINED:
        return c.alu
    if best is None:
        return c.alu
    if best > 0.75:
        return c.multiply
    return c.pair if best > 0.45 else c.alu


def _slow(kind: Kind) -> bool:
    return kind.base in ("pdep", "pext") and kind.uops > 2


def spread(every: str, some: str, uops: int, cycles: float | None) -> tuple[dict[str, int], int]:
    """Return ports for uops of which only the time of copies is known.

    As many of them run on fewer ports as the time asks for; where no number of uops and ports
    gives it, one of them keeps its unit for the whole time.
    """
    if cycles is None or cycles <= uops / len(every) * 1.1:
        # What is faster than its uops could be has some that rename does.
        return {every: min(uops, max(1, round((cycles or uops) * len(every))))}, 0
    choices = [
        (abs(k / n - cycles), n, k) for n in range(1, len(every)) for k in range(1, uops + 1)
    ]
    error, width, count = min(choices)
    if error <= max(0.1 * cycles, 0.07):
        names = (some + "".join(p for p in every if p not in some))[:width]
        ports = {"".join(sorted(names)): count}
        if uops > count:
            ports[every] = ports.get(every, 0) + uops - count
        return ports, 0
    return {some[:1]: 1, **({every: uops - 1} if uops > 1 else {})}, round(cycles)


def vector_ports(c: Core, kind: Kind, uops: int) -> tuple[dict[str, int], int, int]:
    """Return uops of a vector form without its loads and stores, busy cycles, and held ones."""
    ports: dict[str, int] = {}
    for part in kind.summary.ports.split("+"):
        found = re.match(r"(\d+)\*FP(\d+)$", part)
        if not found:
            continue
        if found.group(2) == "45" and kind.writes:
            continue  # the store's own
        names = "".join(dict.fromkeys(c.vector[d] for d in found.group(2)))
        ports[names] = ports.get(names, 0) + int(found.group(1))
    cycles = kind.summary.cycles()
    if kind.from_general:
        ports[c.move_in] = 1
    counted = sum(ports.values())
    if not counted and kind.memory and VECTOR_MOVES.match(kind.base):
        return {}, 0, 0
    if not counted and re.match(r"^v?(div|sqrt|rcp|rsqrt)", kind.base):
        ports[c.vector_divide] = 1
    elif not counted:
        inside = max(uops - kind.writes, 1)
        return *spread(c.vector_alu, c.vector_pair, inside, cycles), 0
    hold = _held(c, kind, ports)
    return ports, _busy(c, kind, ports, hold), hold


def _busy(c: Core, kind: Kind, ports: dict[str, int], hold: int) -> int:
    """Return how long a unit stays busy, by what copies take beyond their ports.

    It is that of the uop with the fewest ports.
    """
    cycles = kind.summary.cycles()
    if cycles is None or not ports:
        return 0
    bound = _bound(c, kind, ports) * max(hold, 1)
    if cycles < 1.25 * bound or (cycles < 1.2 and cycles < 1.9 * bound):
        return 0
    return round(cycles * min(len(names) for names in ports))


def _bound(c: Core, kind: Kind, ports: dict[str, int]) -> float:
    """Return the cycles that copies take at least by their ports."""
    bound = max(count / len(names) for names, count in ports.items())
    if kind.summary.computed:
        bound = max(bound, float(kind.summary.computed))
    if kind.reads:
        bound = max(bound, 1 / len(c.vector_load))
    return max(bound, 1.0) if kind.writes else bound


def _held(c: Core, kind: Kind, ports: dict[str, int]) -> int:
    """Return the cycles that 512 bits take on pipes of 256, 0 where it is one."""
    cycles = kind.summary.cycles()
    if not kind.wide or cycles is None or not ports:
        return 0
    return WIDE if cycles >= 1.5 * _bound(c, kind, ports) else 0
