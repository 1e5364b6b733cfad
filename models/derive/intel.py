"""Tables of the Intel cores, from what uops.info measured with performance counters."""

from __future__ import annotations

import re

import avx512
import gathers
import icelake
from corrections import corrected
from inputs import Record, uops_info
from table import Form, Row, Table, ports_text
from x86_forms import name_of
from x86_latency import read, same_register, text

CORES = {
    "sandybridge": "SNB", "ivybridge": "IVB", "haswell": "HSW", "broadwell": "BDW",
    "skylake": "SKL", "icelake": "SKL",
    "redwoodcove": "MTL-P", "goldencove": "MTL-P",
}  # fmt: skip
# The records hold Redwood Cove alone. Golden Cove has the same ports and widths and gets its
# figures, but for what was measured otherwise on it (corrections/goldencove.csv). They have no
# AVX-512, which both cores of servers have.
COVES = ("redwoodcove", "goldencove")
# uops.info measured taken branches, which Haswell and Skylake run on port 6 (ports.taken_branch).
# On Redwood Cove a taken dec and jnz that do not fuse were measured at two a cycle: port 6 alone
# cannot; ports 0 and 6 are those of jiegec's notes on Golden Cove.
BRANCH_PORTS = dict.fromkeys(("haswell", "broadwell", "skylake", *COVES), "06")
CONDITIONAL = re.compile(r"^j(?!mp|rcxz)")
# Ports and latencies of constants that Redwood Cove adds at rename, and those of the same
# instructions where it cannot: they run as other additions do.
ADDED_AT_RENAME = {("", "0>0:0 0>f:1"): ("0156B", "*:1"), ("", "a:0"): ("0156B", "a:1")}
# uops.info takes the latency of flags by a set or cmov right behind their maker, which takes a
# cycle more behind logic (rename.pick_cycles): adc finds the flags of test a cycle earlier.
LOGIC = re.compile(r"^(and|or|xor|test|andn|blsr|blsi|blsmsk)$")
LATE_FLAGS = {"0>f:2": "0>f:1", "1>f:2": "1>f:1", "2>f:2": "2>f:1", "a>f:7": "a>f:6"}
LATE_TEST = {"*:2": "*:1", "a:7": "a:6"}
GENERAL, VECTORS = ("r32", "r64"), ("x", "y", "mm")
# Ports of loads and stores.
MEMORY = set("234789*")
STORE_DATA = "49"  # of cores with two such ports
# leave takes rbp from the stack and rsp from rbp; uops.info has the first without its load.
LEAVE = "rbp>rbp:0 rbp>rsp:2 a>rbp:6 a>rsp:0"
FUSES = {"Z": "z", "B": "c", "BE": "a", "L": "l", "LE": "l", "S": "s", "P": "p", "O": "o"}
SOONER_LOADS = ("broadwell", "skylake")
# What takes more than so many uops is no part of loops: the table leaves it out.
MOST_UOPS = 400


def title(core: str) -> str:
    """Return the first line of a core's table."""
    arch = "SKL, changed to ICL's" if core == "icelake" else CORES[core]
    return f"Source: uops.info measurements ({arch}), Abel and Reineke, ASPLOS 2019"


def table(core: str) -> Table:
    """Return the table of one core."""
    rows = table_of_records("skylake" if core == "icelake" else core)
    if core == "icelake":
        rows = icelake.table(rows, table_of_records("goldencove"))
    if core in COVES:
        rows |= avx512.rows(rows) | gathers.coves()
    return corrected(core, rows)


def table_of_records(core: str) -> Table:
    """Return what the records of uops.info alone say of a core."""
    rows: Table = {}
    for record in uops_info(CORES[core]):
        found = name_of(record["string"])
        if found is None or record["retire_slots"] is None:
            continue
        mnemonic, operands = found
        row = _row(record, mnemonic, operands)
        if max(row.slots, row.ms or 0) > MOST_UOPS:
            continue
        rows.setdefault(Form(mnemonic, ",".join(operands)), _mended(core, mnemonic, operands, row))
    # uops.info has no endbr64, which is a nop where its extension is off or unknown.
    rows[Form("endbr64", "")] = rows[Form("nop", "r32")]
    return rows


def _mended(core: str, mnemonic: str, operands: list[str], row: Row) -> Row:
    if core in BRANCH_PORTS and CONDITIONAL.match(mnemonic):
        row = row._replace(ports=BRANCH_PORTS[core], source="jiegec-cpu")
    if mnemonic == "leave" and row.latency == "rbp>rbp:6 rbp>rsp:2":
        row = row._replace(latency=LEAVE)
    loads_vector = bool(operands) and operands[0] in VECTORS and "gather" not in mnemonic
    if core in SOONER_LOADS and loads_vector:
        sooner = _loaded_sooner(row.latency)
        row = row if sooner == row.latency else row._replace(latency=sooner, source="llvm-19")
    if core in (*COVES, "skylake"):
        row = row._replace(latency=_between_files(operands, row.latency))
    if core in COVES:
        if LOGIC.match(mnemonic):
            late = LATE_TEST if mnemonic == "test" else LATE_FLAGS
            parts = (late.get(part, part) for part in row.latency.split())
            row = row._replace(latency=" ".join(parts))
        ports, latency = ADDED_AT_RENAME.get((row.ports, row.latency), (row.ports, row.latency))
        row = row._replace(ports=ports, latency=latency)
    return row


def _loaded_sooner(latency: str) -> str:
    """Return latencies of a vector instruction with a cycle less from a load.

    uops.info closes its chains with a move to a general register, which may take that cycle. LLVM's
    model of Broadwell has 5 and 6 cycles for loads of 128 and 256 bits (of Haswell 6 and 7).
    """
    parts = (part.rpartition(":") for part in latency.split())
    later = {"a", "a>0"}
    return " ".join(f"{pair}:{int(n) - (pair in later)}" for pair, _, n in parts)


def _between_files(operands: list[str], latency: str) -> str:
    """Return latencies without a cycle that uops.info has between general and vector registers.

    It takes three cycles of the movd or movq that closes its chains; the pair of them takes 4.0, as
    measured on Golden Cove and Ice Lake. Skylake is taken to do as Ice Lake.
    """
    files = ["r" if o in GENERAL else "x" if o in VECTORS else "" for o in operands]
    if not files or not files[0]:
        return latency
    parts = []
    for part in latency.split():
        pair, _, cycles = part.rpartition(":")
        source, _, to = pair.partition(">")
        others = files[1:] if pair == "*" else [files[int(source)]] if source.isdigit() else []
        crosses = to in ("", "0") and {*others} - {"", files[0]}
        parts.append(f"{pair}:{max(int(cycles) - 1, 1)}" if crosses else part)
    return " ".join(parts)


def _row(record: Record, mnemonic: str, operands: list[str]) -> Row:
    slots, mite = record["retire_slots"], record["uops_MITE"]
    ports = ports_text(record["ports"] or {})
    flags = ["elim"] if record["may_be_eliminated"] else []
    if record["TP"]:
        flags.append(f"tp={record['TP']:g}")
        ports = _pinned(ports, STORE_DATA if record["locked"] else None)
    elif record["div_cycles"]:
        flags.append(f"tp={record['div_cycles']}")
    fuse = _fuse(record)
    if fuse:
        flags.append(f"fuse={fuse}")
    return Row(
        slots,
        mite,
        record["uops_MS"],
        _decoder(record),
        ports,
        text(read(record, mnemonic, operands), mnemonic),
        " ".join(flags),
        _indexed(record, (slots, mite, ports)),
        _same(record, mnemonic, operands, (slots, mite, ports)),
        "uops-info",
    )


def _pinned(ports: str, busy: str | None) -> str:
    """Return ports with one uop on its first port alone: `busy`, or the narrowest that computes.

    What keeps a unit busy for long has one such unit.
    """
    uops = ports.split("+")
    some = [uop for uop in uops if (uop == busy if busy else not set(uop) <= MEMORY)]
    if not some:
        return ports
    narrow = min(some, key=lambda uop: len(uop.split("*")[-1]))
    count, _, names = narrow.rpartition("*")
    if len(names) == 1:
        return ports
    at, left = uops.index(narrow), int(count or 1) - 1
    rest = [f"{left}*{names}" if left > 1 else names] if left else []
    return "+".join([*uops[:at], names[0], *rest, *uops[at + 1 :]])


Figures = tuple[int, int, str]


def _variant(record: Record, name: str) -> Figures | None:
    found = record["variants"].get(name)
    if not found:
        return None
    ports, plain = found.get("ports") or {}, record["ports"] or {}
    # Ports of fewer uops than there are: of Redwood Cove the load's alone, with an index register.
    if sum(ports.values()) < found["uops"] == record["uops"] == sum(plain.values()):
        ports = plain
    return found["retire_slots"], found["uops_MITE"], ports_text(ports)


def _indexed(record: Record, plain: Figures) -> str:
    """Return the uops with an index register, empty if they are as without."""
    found = _variant(record, "indexed")
    return "{}:{}:{}".format(*found) if found and found != plain else ""


def _same(record: Record, mnemonic: str, operands: list[str], plain: Figures) -> str:
    """Return the uops and latencies with the same register twice."""
    found = _variant(record, "same_reg")
    latency = same_register(record, mnemonic, operands)
    if not found and not latency:
        return ""
    uops = "{}:{}:{}".format(*(found or plain))
    return f"{uops}|{latency}" if latency else uops


def _decoder(record: Record) -> str:
    """Return what the instruction needs of the decoders, empty for nothing special."""
    if not record.get("complex_decoder"):
        return ""
    simple = record.get("available_simple_decoders")
    return f"c{simple if simple is not None else 0}"


def _fuse(record: Record) -> str:
    """Return the letters of the branches that the instruction fuses with."""
    letters = set()
    for partner in record["macro_fusible_with"]:
        name = partner.split()[0][1:]
        letters.add(FUSES[name.lstrip("N") if name.startswith("N") else name])
    return "".join(sorted(letters))
