"""x87 instructions of AMD's Zen 2, 3 and 4, which uops.info's tables lack.

InstLatx64 timed chains of additions, products, quotients, roots and FCHS, and copies of quotients
and roots: latencies, and the cycles that a divider is busy. FXCH and FDECSTP take a quarter to half
of a cycle there: rename does them. Assumptions: ports are those of the scalar vector form, loads
take what loads of vectors do, conversions what CVTDQ2PD does, and rename moves the stack's top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inputs import measured
from table import Form, Row, Table

SOURCE = "instlatx64"
CORES = ("zen2", "zen3", "zen4")
PAIR = "other,other"
SIZES = ("m32", "m64")
INTEGERS = ("m16", "m32", "m64")


@dataclass(frozen=True)
class _Like:
    """Forms with the ports of a vector form, and the instruction that was timed for them."""

    vector: str
    timed: str
    names: Sequence[str]
    memory: bool = False
    """Whether they have forms that load their second operand."""
    divides: bool = False


LIKE = (
    _Like("addsd", "FADD st(i), st", ("fadd", "fsub", "fsubr"), memory=True),
    _Like("mulsd", "FMUL st(i), st", ("fmul",), memory=True),
    _Like("divsd", "FDIV80 st(i), st", ("fdiv", "fdivr"), memory=True, divides=True),
    _Like("sqrtsd", "FSQRT80 st", ("fsqrt",), divides=True),
    _Like("addsd", "FCHS", ("fchs", "fabs")),
)


def rows(core: str, table: Table, load: str, store: str, loaded: int) -> Table:
    """Return a core's x87 rows, by its vector rows, ports of loads and stores, cycles of a load."""
    if core not in CORES:
        return {}
    timed = measured(f"instlatx64_{core}_consensus")
    found = {(row["asm"], row["notion"]): float(row["cycles"]) for row in timed}
    out: Table = {}
    for like in LIKE:
        out |= _arithmetic(like, found, table, load, loaded)
    convert = table[Form("cvtdq2pd", "x,x")].ports.split("+")[0]
    for name in ("fxch", "fld", "fstp", "fincstp", "fdecstp"):
        operands = {"fxch": PAIR, "fld": "other", "fstp": "other"}.get(name, "")
        out[Form(name, operands)] = _row(
            "", "*:0" if operands else "", "elim" if name == "fxch" else ""
        )
    for size in SIZES:
        out[Form("fld", size)] = _row(load, f"a:{loaded}")
        out[Form("fst", size)] = out[Form("fstp", size)] = _row(store)
    later = loaded + _cycles(table[Form("cvtdq2pd", "x,x")])
    for size in INTEGERS:
        out[Form("fild", size)] = _row(f"{load}+{convert}", f"a:{later}")
        out[Form("fist", size)] = out[Form("fistp", size)] = _row(f"{convert}+{store}")
    return out


def _arithmetic(
    like: _Like, found: dict[tuple[str, str], float], table: Table, load: str, loaded: int
) -> Table:
    ports = table[Form(like.vector, "x,x")].ports
    cycles = round(found[like.timed, "latency"])
    flags = ""
    if like.divides:
        flags = f"tp={round(found[like.timed, 'throughput'] * len(ports))}"
    out: Table = {}
    for name in like.names:
        row = _row(ports, f"*:{cycles}", flags)
        pops = (f"{name}p",) if like.memory else ()
        for one in (name, *pops):
            out[Form(one, PAIR if like.memory else "")] = row
        for size in SIZES if like.memory else ():
            out[Form(name, size)] = _row(
                f"{load}+{ports}", f"*:{cycles} a:{loaded + cycles}", flags
            )
    return out


def _row(ports: str, latency: str = "", flags: str = "") -> Row:
    return Row(1, 1, 0, "", ports, latency, flags, "", "", SOURCE)


def _cycles(row: Row) -> int:
    """Return the latency of a row with one latency for all."""
    return int(row.latency.removeprefix("*:"))
