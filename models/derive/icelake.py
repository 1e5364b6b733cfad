"""Ice Lake's table: Skylake's records with the ports that Ice Lake has more of.

The records hold no Ice Lake. uops.info's table of it, as text, was compared with Skylake's: what
differs by a rule is here, single rows are in corrections/icelake.csv. High bytes are Golden Cove's.
"""

from __future__ import annotations

import re
from collections import Counter

from table import Form, Row, Table, ports_text

SOURCE = "uops-info-icelake"
MEASURED = "loopwright-icelake"
HIGH_BYTE = "r8h"
# Simple decoders beside the complex one: Golden Cove has five of them, Ice Lake three.
FEWER_DECODERS = {"c5": "c3", "c4": "c3", "c3": "c2", "c2": "c1"}
# Shuffles within lanes of 128 bits, which run on port 1 as well, of registers and of memory.
IN_LANE = re.compile(
    r"v?(movs[hl]dup|pblendw|pmov[sz]x(b[dqw]|dq|w[dq])|pshuf(b|d|hw|lw)|ps[lr]ldq|punpck[hl](bw|dq|qdq|wd)"
    r"|shufp[ds]|pextr[bdqw]|pinsr[bdqw]|ph(add|sub)(d|w|sw))"
)
# Those that cross lanes, and MMX registers, run on port 5 alone.
CROSSES = re.compile(r"y,(x|m\d+)|.*mm.*")


def table(skylake: Table, golden_cove: Table) -> Table:
    """Return the rows of Ice Lake, made of those of the two cores.

    High bytes are no registers of their own, as on Golden Cove: `mov ah,bl` and `add rax,rdx` take
    4.0 cycles an iteration, 3.0 of them in ah. Reads of them take a cycle less than there
    (`movzx eax,ah` 2.0), and ports 1 and 5 (two of them a cycle).
    """
    rows = {form: _row(form, row) for form, row in skylake.items()}
    for form, row in golden_cove.items():
        if form in rows and HIGH_BYTE in form.operands.split(",") and ".lock" not in form.mnemonic:
            rows[form] = _high_byte(form, row)
    return rows


def _high_byte(form: Form, row: Row) -> Row:
    """Return Golden Cove's row of an instruction of a high byte with the ports of Ice Lake."""
    ports = {name: _high_byte_ports(getattr(row, name)) for name in ("ports", "indexed", "same")}
    latency = row.latency
    if form.operands.split(",")[0] != HIGH_BYTE:
        latency = re.sub(r":(\d+)", lambda found: f":{max(int(found[1]) - 1, 0)}", latency)
    decoder = FEWER_DECODERS.get(row.decoder, row.decoder)
    source = f"{row.source}+{MEASURED}"
    return row._replace(**ports, latency=latency, decoder=decoder, source=source)


def _high_byte_ports(text: str) -> str:
    """Return Golden Cove's ports, or slots:mite:ports|latency, without its further ports."""
    uops, bar, latency = text.partition("|")
    *counts, ports = uops.split(":")
    ports = re.sub(r"(^|[+*])1(?=\+|$)", r"\g<1>15", re.sub("[AB]", "", ports))
    return ":".join([*counts, ports]) + bar + latency


def _row(form: Form, row: Row) -> Row:
    plain = _ports(form, row.ports)
    if "tp=" in row.flags:  # what keeps a unit busy has one such unit
        plain = re.sub(r"(?<![\d*])49", "4", plain)
    slots, mite = str(row.slots), str(row.mite)
    indexed = _ports_in(form, row.indexed)
    if indexed == f"{slots}:{mite}:{plain}":
        indexed = ""  # the address ports of stores take an index register
    same = _ports_in(form, row.same)
    changed = (plain, indexed, same) != (row.ports, row.indexed, row.same)
    source = f"{row.source}+{SOURCE}" if changed else row.source
    return row._replace(ports=plain, indexed=indexed, same=same, source=source)


def _ports_in(form: Form, text: str) -> str:
    """Return slots:mite:ports|latency with other ports."""
    uops, bar, latency = text.partition("|")
    if not uops:
        return text
    *counts, ports = uops.split(":")
    return ":".join([*counts, _ports(form, ports)]) + bar + latency


def _ports(form: Form, ports: str) -> str:
    uops: Counter[str] = Counter()
    for uop in ports.split("+") if ports else []:
        count, _, names = uop.rpartition("*")
        uops[names] += int(count or 1)
    # Stores: data on ports 4 and 9, addresses on 7 and 8, which loads do not use.
    data, addresses = uops.pop("4", 0), uops.pop("237", 0)
    from_loads = min(max(data - addresses, 0), uops["23"])
    uops["23"] -= from_loads
    uops["78"] += addresses + from_loads
    uops["49"] += data
    if IN_LANE.fullmatch(form.mnemonic) and not CROSSES.fullmatch(form.operands):
        # The move of an insert from a general register stays on port 5.
        moved = 1 if "pinsr" in form.mnemonic and uops["5"] == 2 else 0
        uops["15"] += uops["5"] - moved
        uops["5"] = moved
    return ports_text(uops)
