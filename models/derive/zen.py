"""Tables of AMD's Zen cores.

uops.info has uops and ports of vector instructions from counters; of integer instructions it has
only what their copies take. Their ports follow from that: copies that run four, two or one a
cycle have four, two or one ALU. Which two is known by kind (zen_cores.py). Latencies are those of
each operand pair; what a summary of Zen 4 says, with no pairs, moves those of Zen 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import gathers
import x87
import zen_halves
import zen_wide
from corrections import corrected
from inputs import Record, Summary, summaries, uops_info
from table import Form, Row, Table, ports_text
from x86_forms import name_of
from x86_latency import Latencies, read, text
from zen_cores import CORES, Core
from zen_kinds import Kind
from zen_ports import Plain, integer_ports, vector_ports

MOST_UOPS = 400
# Uops of a fastpath double; instructions of more come from microcode.
PAIR = 2
# Results that are put into the rest of a register, and what converting an integer takes.
SCALAR = re.compile(r"(round|cvts[ids]2?|cvtsi2s|rcps|rsqrts|sqrts|movl?)(s|sd|ss|ps|pd)$")
CONVERSION = 3
# Cycles of a load for vectors, as core.toml has them (memory.load_vector_cycles).
LOADED = 7
BRANCHES = re.compile(r"^(j|call$|ret$|loop)")
MEMORY = re.compile(r"m\d+")
COUNT_IN_CL = re.compile(r"^(sh[lr]d?|sal|sar|ro[lr]|rc[lr])$")
# Single digits of a signature that are immediates.
IMMEDIATE = re.compile(r"^(i\d+|0|1|rel)$")


def title(core: str) -> str:
    """Return the first line of a core's table."""
    return f"Source: uops.info measurements of {CORES[core].called}"


def table(core: str) -> Table:
    """Return the table of one core."""
    c = CORES[core]
    records = uops_info(c.records)
    pairs = summaries(c.pairs)
    if c.halves:
        pairs = zen_halves.summaries(records, pairs)
    said = pairs if c.halves or c.pairs == core else summaries(core)
    kinds = [*_kinds(records, said, pairs), *zen_wide.kinds(said)]
    plain = _plain(kinds)
    bare = {f"{k.mnemonic} {','.join(k.operands)}": k.summary for k in kinds if not k.mask}
    rows: Table = {}
    for kind in kinds:
        row = _row(c, kind, plain.get(_key(kind)), bare)
        if row is not None:
            rows.setdefault(kind.form, row)
    # uops.info has no endbr64, which is a nop where its extension is off or unknown.
    rows[Form("endbr64", "")] = rows[Form("nop", "r32")]
    store = f"{c.address}+{c.vector_store_data}"
    rows |= x87.rows(core, rows, c.vector_load, store, LOADED)
    rows |= gathers.zen(c, {} if c.halves else said)
    return corrected(core, rows)


def _kinds(
    records: Iterable[Record], said: dict[str, Summary], pairs: dict[str, Summary]
) -> Iterable[Kind]:
    for record in records:
        found = name_of(record["string"])
        if found is None or found[0].endswith((".rep", ".repne")) or "VSIB" in record["string"]:
            continue
        names = (record["string"], _renamed(record["string"]))
        known = [next((t[n] for n in names if n in t), Summary()) for t in (said, pairs)]
        yield Kind(found[0], found[1], record, *known)


def _renamed(string: str) -> str:
    """Return how the summaries call a form that the records call otherwise."""
    if re.match(r"IMUL \(R\d+, R\d+, I(16|32)\)", string):
        return string.replace("IMUL", "IMUL_IMMZ")
    if re.match(r"(IMUL|SHLD|SHRD) \(R\d+, R\d+, (0|I8)\)", string):
        return string.replace(" ", "_IMMB ", 1)
    return re.sub(r"^(SH[LR]D) (\(R\d+, R\d+, CL\))", r"\1_CL \2", string)


def _key(kind: Kind) -> str:
    """Return the name under which forms share their ALUs."""
    return kind.mnemonic if kind.base == "lea" else kind.base


def _plain(kinds: Iterable[Kind]) -> dict[str, Plain]:
    """Return what the register forms of each mnemonic say of its uops.

    Forms with long immediates and partial registers can be slower by their front end: ports are
    those of the fastest.
    """
    out: dict[str, Plain] = {}
    for kind in kinds:
        cycles = kind.summary.cycles()
        if kind.memory or cycles is None:
            continue
        known = out.get(_key(kind))
        if known is None or kind.uops < known.uops:
            out[_key(kind)] = Plain(kind.uops, cycles)
        elif kind.uops == known.uops:
            out[_key(kind)] = Plain(kind.uops, min(known.best or cycles, cycles))
    return out


def _row(c: Core, kind: Kind, plain: Plain | None, bare: dict[str, Summary]) -> Row | None:
    uops = max(kind.uops, 1)
    if uops > MOST_UOPS:
        return None
    flags: list[str] = []
    same = ""
    if c.eliminates(kind):
        ports: dict[str, int] = {}
        flags.append("elim")
    else:
        ports, busy, hold = _ports(c, kind, uops, plain)
        if hold:
            flags.append(f"hold={hold}")
        if busy > 1:
            flags.append(f"tp={busy}")
    if kind.base in c.fuses:
        flags.append("fuse=aclopsz")
    if c.zeroes(kind):
        same = f"1:1:{c.zeroed_on(kind, ports_text(ports))}|*:0"
    latency = _latencies(c, kind, bare)
    micro = uops if uops > PAIR else 0
    front = 1 if c.whole_pairs and uops == PAIR else uops
    return Row(
        uops,
        0 if micro else front,
        micro,
        "",
        ports_text(ports),
        text(latency, kind.mnemonic),
        " ".join(flags),
        f"{PAIR}:1:{ports_text(ports)}" if c.whole_pairs and _needs_pair(c, kind, ports) else "",
        same,
        c.source,
    )


def _needs_pair(c: Core, kind: Kind, ports: dict[str, int]) -> bool:
    """Say whether one uop becomes two where the address has a base and an index.

    Stores of general-purpose registers and constants, and loads with an ALU, do on a Zen 4 guest;
    plain loads and vector instructions do not.
    """
    one = max(kind.uops, 1) == 1 and kind.memory and not kind.vector
    computes = any(set(names) <= set(c.alu) for names in ports)
    return one and (kind.writes or (kind.reads and computes))


def _ports(c: Core, kind: Kind, uops: int, plain: Plain | None) -> tuple[dict[str, int], int, int]:
    """Return the uops of a form by their ports, and the cycles a unit is busy and pipes held."""
    if kind.base in c.no_port:
        return {}, 0, 0
    if BRANCHES.match(kind.base):
        ports = {c.branch: 1}
        if kind.base == "call":
            ports |= {c.address: 1, c.store_data: 1}
        elif kind.base == "ret" or kind.reads:
            ports[c.load] = 1
        return ports, 0, 0
    hold = 0
    memory: dict[str, int] = {}
    if kind.reads:
        memory[c.vector_load if kind.vector else c.load] = 1
    if kind.writes:
        address = c.same_address if kind.reads else c.address
        memory[address] = memory.get(address, 0) + 1
        alone = kind.vector or kind.locked
        data = c.vector_store_data if alone else c.store_data
        memory[data] = memory.get(data, 0) + 1
    if kind.vector or kind.summary.ports:
        computing, busy, hold = vector_ports(c, kind, uops)
    else:
        computing, busy = integer_ports(c, kind, plain)
    if kind.locked:
        # One at a time, by the unit that stores.
        busy = math.ceil(kind.summary.cycles() or 1)
    for names, count in computing.items():
        memory[names] = memory.get(names, 0) + count
    return memory, busy, hold


def _latencies(c: Core, kind: Kind, bare: dict[str, Summary]) -> Latencies:
    if not kind.record["latencies"] and (kind.vector or kind.base.startswith("v")):
        wide = zen_wide.latencies(kind, bare, c.to_vector, c.to_general)
        if c.eliminates(kind):
            wide.plain = dict.fromkeys(wide.plain, 0)
        return wide
    found = read(kind.record, kind.mnemonic, kind.operands)
    _moved(found, kind)
    if COUNT_IN_CL.match(kind.base) and kind.operands[-1:] == ["cl"]:
        # What is given for the flags is the length of the chain that measured them.
        result = max([n for (_, to), n in found.plain.items() if to != "f"] or [1])
        found.plain = {p: min(n, result) for p, n in found.plain.items()}
        if kind.writes and (kind.summary.cycles() or 1) < 1:
            # Copies that run twice a cycle do not wait for each other's flags.
            found.plain["f", "f"] = found.plain["f", "m"] = 0
    general, vector = _sides(kind)
    _merge(kind, found)

    def mended(source: str, target: str, cycles: int) -> int:
        """Take out what the chain that was measured has besides: all but a cycle of a move."""
        if source in general and target in vector:
            return max(cycles - (c.to_general - 1), 1)
        if source in vector and (target in general or target == "f"):
            return max(cycles - (c.to_vector - 1), 1)
        return cycles

    found.change(mended)
    if kind.base == "lea":
        return found
    if kind.vector or kind.base in c.loads_plainly:
        # The simulator adds the load's own latency.
        found.addr = {}
    found.addr = {to: n for to, n in found.addr.items() if n >= c.load_cycles}
    if kind.locked:
        found.addr = {}
    return found


def _merge(kind: Kind, found: Latencies) -> None:
    """Put in the latency of a register that a scalar result is put into, given as 0.

    vcvtsi2ss of a register into itself takes 3 cycles on a Zen 4 guest; the chains of uops.info
    read another part of it.
    """
    pair = ("1" if kind.mnemonic.startswith("v") else "0", "0")
    if not SCALAR.search(kind.base) or found.plain.get(pair) != 0:
        return
    registers = [n for n, o in enumerate(kind.operands) if o == "x"]
    others = [found.plain.get((str(n), "0"), 0) for n in registers]
    moves = "mov" in kind.base
    found.plain[pair] = max(others) or (1 if moves else CONVERSION)


def _moved(found: Latencies, kind: Kind) -> None:
    """Move the latencies of Zen 3's pairs to what is known of this core's form.

    Both summaries are the least and the largest latency of any pair; where a form accesses
    memory, the largest is that of the memory operand.
    """
    old, new = kind.pairs.bounds(), kind.summary.bounds()
    if not old or not new or not found.plain:
        return
    if any(MEMORY.fullmatch(operand) for operand in kind.operands):
        old, new = (old[0], old[0]), (new[0], new[0])
    if old == new:
        return
    for pair, cycles in found.plain.items():
        if new[0] == new[1]:
            found.plain[pair] = new[0]
        elif cycles == old[1]:
            found.plain[pair] = new[1]
        elif cycles == old[0]:
            found.plain[pair] = new[0]


def _sides(kind: Kind) -> tuple[set[str], set[str]]:
    """Return the labels of general-purpose and of vector registers."""
    general, vector = set(), set()
    for n, operand in enumerate(kind.operands):
        if operand in ("x", "y", "mm"):
            vector.add(str(n))
        elif not IMMEDIATE.match(operand) and not operand.startswith("m"):
            general.add(str(n))
    return general, vector


def forms(core: str) -> set[Form]:
    """Return the forms of a core's table."""
    return set(table(core))
