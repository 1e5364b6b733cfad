"""Rows of AVX-512 for Intel's cores, from loops that measure_avx512.py measured.

Ports: uops confined to a set of ports are what copies add beside instructions that fill it. What a
form with memory, or with a mask, does follows from the one of registers: a load, a blend of what a
mask keeps where nothing else computes, and the same latencies. Down-conversions store what they
compute; parts of registers are stored without a uop that extracts them. What goes past the cache,
compressed stores of bytes and words, and forms of more than four uops are left out; gathers.py has
gathers and scatters.
"""

from __future__ import annotations

import csv
import re
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import avx512_forms
from avx512_forms import FILES, Shape
from table import Form, Row, Table, ports_text

FILE = Path(__file__).parent / "measured" / "redwoodcove-avx512.csv"
SOURCE = "loopwright-redwoodcove"
COPIES, BLOCKING = 6, 12  # of a form, and of blocking instructions for each port, beside each other
SURE = 0.7  # of a uop: more is one
MOST_UOPS = 4
SLOW_STORES = ("vpcompressb", "vpcompressw")  # 7.5 and 4.3 cycles of 512 bits, two of dwords
DIVIDES = 2.5  # cycles of a copy that no ports explain
LOAD, STORE = "23A", "49+78"
LOAD_CYCLES, NARROW_CYCLES = 8, 7  # of a load, and of one of 128 bits at most
# Forms with one result for equal operands, by the mnemonic of which uops.info says it.
IDIOMS = {
    "vpxord": "vpxor", "vpxorq": "vpxor", "vpandnd": "vpandn", "vpandnq": "vpandn",
}  # fmt: skip
DIVIDERS = re.compile("v(div|sqrt)")


def rows(known: Table) -> Table:
    """Return the rows of what `known`, uops.info's, has not."""
    found = {
        form: row
        for line in _lines()
        if (form := Form(line["mnemonic"], line["operands"])) not in known
        and (row := _measured(line, known))
    }
    both = ChainMap(found, known)
    for plain in avx512_forms.shapes():
        masked = list(plain.masked()) if not plain.mask else []
        for one in (plain, *masked):
            base = _of_registers(one, plain, both)
            if base and one.form and one.form not in known and one.memory < 0:
                found.setdefault(one.form, base)
            in_memory = [one] if one.memory >= 0 else one.in_memory()
            for other in in_memory:
                row = _of_memory(other, base)
                if row and other.form and other.form not in known:
                    found.setdefault(other.form, row)
    return found


def _lines() -> list[dict[str, str]]:
    with FILE.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _figures(text: str) -> dict[str, float]:
    split = (part.split(":") for part in text.split())
    return {what: float(cycles) for what, cycles in split}


def _measured(line: Mapping[str, str], known: Table) -> Row | None:
    """Return the row of a form of registers; None where its loops gave too few figures."""
    ports, latency = _figures(line["ports"]), _latency(_figures(line["latency"]))
    if not ports or not latency:
        return None
    mnemonic, operands = line["mnemonic"], line["operands"]
    wide = any(one.partition("{")[0] == "z" for one in operands.split(","))
    # Six copies, whatever stands beside them: a unit that each keeps busy.
    cycles = [(figure + BLOCKING) / COPIES for figure in ports.values()]
    if DIVIDERS.match(mnemonic) and min(cycles) > DIVIDES:
        return _row("2*0+05" if wide else "0", latency, f"tp={min(cycles):.0f}", "")
    uops = _uops({of: figure * len(of) / COPIES for of, figure in ports.items()})
    if not uops and float(line["alone"] or 1) < 0.5:
        blend = "05" if wide else "015"
        return Row(1, 1, 0, "", "", "*:0", "elim", "", f"1:1:{blend}|*:1", SOURCE)
    if not uops or sum(uops.values()) > MOST_UOPS:
        return None
    alike = known.get(Form(IDIOMS.get(mnemonic, mnemonic), "x,x,x"))
    idiom = "{" not in operands and alike and alike.same.endswith("|*:0")
    return _row(ports_text(uops), latency, "", alike.same if alike and idiom else "")


def _uops(confined: Mapping[str, float]) -> dict[str, int]:
    """Return uops by their ports, of how many are confined to each set of ports."""
    out: dict[str, int] = {}
    for of in sorted(confined, key=len):
        inside = sum(count for ports, count in out.items() if set(ports) <= set(of))
        out[of] = max(int(confined[of] + 1 - SURE) - inside, 0)
    return {ports: count for ports, count in out.items() if count}


def _latency(figures: Mapping[str, float]) -> str:
    if not figures:
        return ""
    cycles = {label: max(round(value), 1) for label, value in figures.items()}
    if len(set(cycles.values())) == 1:
        return f"*:{next(iter(cycles.values()))}"
    return " ".join(f"{label}>0:{value}" for label, value in cycles.items())


def _count(ports: str) -> int:
    parts = (uop.split("*") for uop in ports.split("+") if uop)
    return sum(int(part[0]) if len(part) > 1 else 1 for part in parts)


def _row(ports: str, latency: str, flags: str, same: str) -> Row:
    slots = _count(ports)
    decoder = f"c{6 - slots}" if slots > 1 else ""
    return Row(slots, slots, 0, decoder, ports, latency, flags, "", same, SOURCE)


def _of_registers(one: Shape, plain: Shape, known: Mapping[Form, Row]) -> Row | None:
    """Return the row of a form of registers; of a masked one by that of the plain one."""
    if one.form is None or plain.form is None:
        return None
    if one.form in known or one == plain:
        return known.get(one.form)
    base = known.get(plain.form)
    if base is None:
        return None
    merging = known.get(Form(one.form.mnemonic, one.form.operands.replace("{kz}", "{k}")))
    latency = base.latency
    if merging and one.wide:
        base = merging
        kept = [part for part in merging.latency.split() if not part.startswith("0>")]
        return base._replace(latency=" ".join(kept) or merging.latency)
    if not base.ports:
        return _row("05" if one.wide else "015", "*:1", "", "")
    if not latency.startswith("*"):
        cycles = min((int(part.rpartition(":")[2]) for part in latency.split()), default=1)
        own = f"k>0:{cycles}" + (f" 0>0:{cycles}" if one.mask == "k" else "")
        latency = " ".join([*(part for part in latency.split() if not part.startswith("0>")), own])
    return base._replace(latency=latency, same="", source=SOURCE)


def _of_memory(one: Shape, base: Row | None) -> Row | None:
    """Return the row of a form with memory, where that of registers is `base`."""
    if one.form is None or one.form.mnemonic.startswith("vmovnt"):
        return None
    if one.memory == 0 and one.form.mnemonic in SLOW_STORES:
        return None
    mnemonic, operands = one.form
    moves = mnemonic.startswith(("vmov", "kmov", "vbroadcast", "vpbroadcast"))
    if one.memory == 0:
        if moves or mnemonic.startswith("vextract"):
            return Row(1, 1, 0, "", STORE, "", "", "", "", SOURCE)
        if base is None:
            return None
        slots = base.slots + 1
        return base._replace(
            slots=slots, mite=slots, decoder=f"c{6 - slots}", ports=f"{base.ports}+{STORE}",
            source=SOURCE,
        )  # fmt: skip
    bits = int("".join(filter(str.isdigit, operands.split(",")[one.memory].strip("b"))) or 0)
    narrow = bits <= 128 and not one.broadcast and not {"y", "z"} & set(one.operands)
    load = NARROW_CYCLES if narrow else LOAD_CYCLES
    if mnemonic.startswith("kmov"):
        return Row(1, 1, 0, "", f"5+{LOAD}", f"a:{LOAD_CYCLES}", "", "", "", SOURCE)
    if moves and not one.mask:
        return Row(1, 1, 0, "", LOAD, f"a:{load}", "", "", "", SOURCE)
    if moves:
        blend = "05" if one.wide else "015"
        kept = "0>0:1 " if one.mask == "k" else ""
        return Row(1, 1, 0, "", f"{blend}+{LOAD}", f"{kept}k>0:1 a:{load + 1}", "", "", "", SOURCE)
    if base is None or not base.ports:
        return None
    latency = base.latency.split()
    own = [part for part in latency if part.startswith((f"{one.memory}>0:", "*:"))]
    if not own:
        return None
    ports = f"{base.ports}+{LOAD}"
    kept = [part for part in latency if not part.startswith(f"{one.memory}>")]
    text = " ".join([*kept, f"a:{load + int(own[0].rpartition(':')[2])}"])
    if base.slots > 1:  # the load is a slot of its own then, as in uops.info's records
        slots = base.slots + 1
        base = base._replace(slots=slots, mite=slots, decoder=f"c{6 - slots}")
    two = sum(FILES.get(kind) == "v" for kind in one.operands[1:]) > 1
    indexed = f"2:1:{ports}" if two and base.slots == 1 else ""
    return base._replace(ports=ports, latency=text, indexed=indexed, same="", source=SOURCE)
