"""Files of a learned core: core.toml, instructions.csv, and the evidence of each figure.

A parameter that no microbenchmark tells is an assumption in core.toml, with a range if it has one.
"""

import csv
import hashlib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loopwright import files, paths
from loopwright.calibrating.core_model import (
    AFTER,
    SOURCE,
    UNKNOWN,
    CoreModel,
    Evidence,
    Parameters,
    TimedString,
    assumed,
    measured,
)
from loopwright.calibrating.ports import Core, Ports, Uops
from loopwright.microbench import kits, memory_timing
from loopwright.microbench.latency import ALL, Latency, is_free
from loopwright.microbench.oracle import Machine, Oracle
from loopwright.microbench.windows import BUFFER, BURST, RETIRED, SCHEDULER, STORES
from loopwright.predicting import core_figures, held_out
from loopwright.predicting.core_figures import TABLE

DOUBTED = "calibrated-doubtful"  # the key of figures that have a range in doubtful.csv
_NAMES = "0123456789abcdefghijklmnopqrstuvwxyz"
_UNUSED = ("L", "S")  # ports of loads and of stores where none is known
_ADDRESSES = "ABCDEFGH"  # ports of store addresses
_ELEMENT = "ld1 s,e,[x]"  # a load of a part of a register
_TWO = 8  # two-uop forms needed to tell whether dispatch counts uops
_HALF = "half of a round trip between registers is the way from vectors"
# Figures of a store and a load, of which the first that goes through the cache is the latency of
# forwarding; the least likely to be renamed comes first.
_FORWARDED = (
    "forwarded, 8 bits",
    memory_timing.forwarded_at(memory_timing.FAR),
    "forwarded",
    "forwarded, indexed",
    "forwarded, 16 bits",
)
_MOST = {"reorder_buffer": 1024, "entries": 4096, "store_queue": 1024}  # limits of the simulator

_IDEAL: Parameters = {
    "front_end.mode": ("ideal", assumed("not measured; it never binds here")),
    "front_end.fetch": ("blocks", UNKNOWN),
    "uop_cache.rule": ("none", UNKNOWN),
}

# A parameter: its name, its value, what it rests on.
_Entry = tuple[str, object, Evidence]


def port_names(ports: Ports) -> str:
    """Return the names of ports."""
    return "".join(_NAMES[port] for port in sorted(ports))


def addresses(core: Core) -> str:
    """Return the names of the ports that are taken to compute store addresses."""
    return _ADDRESSES[: len(core.class_ports(core.store) or "S")]


class Between(int):
    """A value with a range, and the reason of the range."""

    def __new__(cls, value: int, low: int, high: int, why: str) -> "Between":
        """Make a value with its range."""
        made = super().__new__(cls, value)
        made.low, made.high, made.why = low, high, why
        return made

    low: int
    high: int
    why: str


def core_toml(learned: CoreModel, machine: Oracle) -> str:
    """Return the text of core.toml; parameters that nothing told are marked as assumptions."""
    # Linux sets it for every x86-64 CPU whose lfence waits, and does not list it.
    hidden = {"lfence_rdtsc"} if "sse2" in machine.features else set()
    features = ", ".join(f'"{name}"' for name in sorted(machine.features | hidden))
    lines = [
        f'name = "calibrated on {machine.name}"',
        f'isa = "{machine.isa}"',
        'role = "validation"',
        f"features = [{features}]",
    ]
    if machine.host:
        lines += ["", "[host]", *(f"{key} = {json.dumps(v)}" for key, v in machine.host.items())]
    for table, rows in _tables(learned).items():
        lines += ["", f"[{table}]"]
        for key, value, source in rows:
            confidence = source.confidence.value
            has_range = source.assumed or isinstance(value, Between)
            text = json.dumps(value) + (_range(key, value) if has_range else "")
            lines.append(
                f'{key} = {{ value = {text}, source = "{source}", confidence = "{confidence}" }}'
            )
    return "\n".join(lines) + "\n"


def _range(key: str, value: object) -> str:
    """Return the keys of a parameter's range."""
    if isinstance(value, Between):
        return f', low = {value.low}, high = {value.high}, range = "{value.why}"'
    if isinstance(value, bool):
        return f', alternatives = [{json.dumps(not value)}], range = "the other of two"'
    if isinstance(value, int | float):
        low, high = (value / 2, value * 2) if isinstance(value, float) else (value // 2, value * 2)
        if value == 1:
            low = value
        if value > 0 and high <= _MOST.get(key, high):
            return f', low = {low}, high = {high}, range = "half of it to twice as much"'
    return ', fixed = "no experiment says what else it may be"'


def _tables(learned: CoreModel) -> Mapping[str, list[_Entry]]:
    """Return the tables of core.toml; fitted parameters replace others of their name."""
    width = learned.width
    tables = _fitted_tables(learned)
    others: Mapping[str, list[_Entry]] = {
        "rename": list(_rename(learned)),
        "scheduler": [_window_entry(learned, "entries", SCHEDULER, 97)],
        "ports": list(_ports(learned)),
        "memory": list(_memory(learned)),
        "retire": [
            _window_entry(
                learned, "width", RETIRED, width.instructions, "as many as are dispatched"
            ),
            _window_entry(learned, "reorder_buffer", BUFFER, 224),
        ],
        "macro_fusion": [
            ("pairs", "table", measured("nops beside pairs"))
            if learned.fusion
            else ("pairs", "none", measured("no pair took less than two dispatch slots")),
            ("nops", not width.nops, measured("nops between moves, and moves alone")),
        ],
        "taken_branch": list(_taken_branch(learned)),
        "mispredict": [("cycles", 16, UNKNOWN), ("history", 64, UNKNOWN)],
    }
    chosen = {name: {key for key, *_ in rows} for name, rows in tables.items()}
    return tables | {
        name: [row for row in rows if row[0] not in chosen.get(name, ())] + tables.get(name, [])
        for name, rows in others.items()
    }


def _fitted_tables(learned: CoreModel) -> dict[str, list[_Entry]]:
    """Return the tables of fitted parameters, with an ideal front end where none was fitted."""
    tables: dict[str, list[_Entry]] = {}
    front_end = learned.front_end.parameters or _IDEAL
    for name, (value, why) in {**front_end, **learned.rules}.items():
        table, _, key = name.partition(".")
        if table != AFTER:
            tables.setdefault(table, []).append((key, value, why))
    if microcode := learned.microcode:
        cached = learned.front_end.parameters["uop_cache.rule"][0] != "none"
        table, key = ("uop_cache", "microcode_stall") if cached else ("decode", "microcode_cycles")
        why = assumed(f"no kernel shows it by itself; {microcode.why} [{SOURCE}]")
        tables.setdefault(table, []).append((key, microcode.stall, why))
    return tables


def _window_entry(
    learned: CoreModel, name: str, label: str, otherwise: int, why: str = "not measured"
) -> _Entry:
    """Return the entry of a window; one whose end was not seen is no smaller than the buffer."""
    window, buffer = (learned.windows.by_name.get(one) for one in (label, BUFFER))
    if window is None:
        return name, otherwise, assumed(why)
    if window.least:
        value = max(window.value, buffer.value) if buffer else window.value
        return name, min(value, _MOST[name]), assumed(f"{window.note} [{SOURCE}]")
    return name, window.value, measured(window.note)


def _rename(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the dispatch width, and the limits of rename, as far as they are known."""
    yield from _width(learned)
    yield "queue", 64, UNKNOWN
    yield "move_slots_gpr", "unlimited", UNKNOWN
    yield "move_slots_vec", "unlimited", UNKNOWN
    if learned.windows.whole_groups is not None:
        why = measured("slots before a chain that shift the scheduler's end")
        yield "whole_groups", learned.windows.whole_groups, why
    if learned.constants.limit:
        yield "immediate_add_limit", learned.constants.limit, measured(learned.constants.evidence)


def _width(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the dispatch width, in instructions where most forms of two uops take one slot.

    The core may have a limit of uops besides; no microbenchmark exceeds that of instructions.
    Without a fence, nothing tells whether dispatch limits the copies, or fetch or retirement.
    """
    width, burst = learned.width, learned.windows.by_name.get(BURST)
    counted = "nops" if width.nops else "moves"
    note = measured(f"{width.measured:.3f} +- {width.uncertainty:.3f} {counted} a cycle")
    most = width.instructions
    if burst is None:
        note = assumed(f"neither what delivers code nor retirement binds; {note}")
    elif burst.value > most:
        most, note = burst.value, Evidence(f"{burst.note}; {note}", note.confidence)
    core = learned.core
    memory = {core.class_ports(name) for name in (core.load, core.store)}
    two_uops = [uops for uops in learned.uops.values() if uops.ports and len(uops.ports) == 2]
    slots = [uops.slots for uops in two_uops if memory.isdisjoint(uops.ports or ())]
    if len(slots) >= _TWO and 2 * slots.count(1) > len(slots):
        yield "instructions", most, note
        note = assumed(f"as many uops as instructions, of which forms of two are one; {note}")
    elif burst and (len(slots) < _TWO or most > width.instructions):
        note = assumed(f"uops count, not instructions, of which copies show nothing; {note}")
    yield "width", most, note


def _ports(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the names of ports, the binding of uops to them, and those of accesses and ALUs."""
    core = learned.core
    every = port_names(learned.every_port)
    explained = measured("as many as explain what mixtures take")
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    unused = "".join(n for n, p in zip(_UNUSED, (load, store), strict=True) if not p)
    yield "names", every + unused + addresses(core), explained
    rule, why = learned.assigned
    yield from ((name, value, why) for name, value in rule.items())
    note = measured(f"the class of {core.load}") if load else assumed("no load is known")
    yield "load", port_names(load) if load else _UNUSED[0], note
    note = measured(f"the class of {core.store}") if store else assumed("no store is known")
    ports = port_names(store) if store else _UNUSED[1]
    if core.store_data:
        note = Evidence(f"{note}, and of what changes memory", note.confidence)
        yield "store_address", ports + addresses(core), note
        reason = "as many as stores have; blockers of loads show no store of what changes memory"
        if core.shared_store_data:
            reason = f"what {core.store} shares with arithmetic; {reason}"
        data = core.store_data | (core.shared_store_data or frozenset())
        yield "store_data", port_names(data), measured(reason)
    else:
        yield "store_data", ports, note
        note = assumed("as many as stores have, as timing tells no two uops of a store apart")
        yield "store_address", addresses(core), note
    if core.integer_ports:
        note = measured("the classes that compute in general registers")
        yield "alu", port_names(core.integer_ports), note
    else:
        yield "alu", port_names(core.all_arithmetic), UNKNOWN


def _memory(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the latencies of loads and of forwarding, bank conflicts, and memory renaming."""
    accesses = learned.accesses
    for name, cycles in accesses.loads.items():
        note = measured("from the address of a load alone")
        yield name, cycles, note if name == "load_cycles" else assumed(f"{_HALF}; with it, {note}")
    load, chase = accesses.loads.get("load_cycles"), accesses.known("pointer chase")
    if load and chase is not None and chase <= load:
        yield "pointer_chase_gain", load - chase, measured("a chain of loads")
    for latency in learned.latencies.get(_ELEMENT, ()):
        if latency.plain and latency.source == latency.target:
            yield "element_cycles", max(latency.cycles, 1), measured(f"what {_ELEMENT} keeps")
    through = ((name, accesses.through(name)) for name in _FORWARDED)
    name, forward = next(((n, cycles) for n, cycles in through if cycles is not None), ("", None))
    if forward is not None:
        yield "forward_cycles", forward, measured(name)
    update = accesses.known("updated, 8 bits")
    if forward is not None and update is not None and update - 1 not in (forward, 0):
        yield "forward_update_cycles", update - 1, measured("updated, 8 bits, less an addition")
    vector = accesses.known("forwarded, vector")
    if vector is not None and vector > 1:
        why = "a chain of a vector store and its load takes no more"
        yield "forward_vector_cycles", Between(vector, 1, vector, why), assumed(why)
    if "memory.commit_bytes" in learned.rules and STORES in learned.windows.by_name:
        yield _window_entry(learned, "store_queue", STORES, 64)
    if accesses.banks:
        yield "bank_loads", accesses.banks.loads, measured(accesses.banks.evidence)
        if accesses.banks.bytes:
            note = measured("bytes so far apart are loaded as if in two lines")
            yield "bank_bytes", accesses.banks.bytes, note
    if accesses.renamed("forwarded"):
        yield from _renamed(learned)


def _renamed(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the parameters of memory renaming."""
    accesses = learned.accesses
    if accesses.by:
        note = measured("forwarded by the stack pointer, not by another base")
        yield "renames", "stack", note
    else:
        kind = "any" if accesses.renamed("forwarded, indexed") else "base"
        yield "renames", kind, measured("forwarded, with and without index")
    if accesses.predicted:
        few, many = accesses.predicted
        note = measured(f"pairs of a loop by any base, not {many}")
        yield "renamed_in_loops", few, note if many - few == 1 else assumed(note)
    if accesses.reach:
        seen, unseen = accesses.reach
        note = measured(f"forwarded {seen} bytes on, not {unseen}")
        near = unseen - seen <= memory_timing.STEPS[-1]
        yield "renamed_reach", seen, note if near else assumed(note)
    steps = memory_timing.STEPS
    renamed = (step for step in steps if accesses.renamed(memory_timing.forwarded_at(step)))
    step = next(renamed, steps[-1])
    note = measured(f"{memory_timing.forwarded_at(step)} bytes, and not at fewer")
    yield "renamed_step", step, note
    sizes = (bits for bits in (8, 16, 32) if accesses.renamed(f"forwarded, {bits} bits"))
    yield "renamed_bytes", next(sizes, 64) // 8, measured("forwarded, 8 to 64 bits")
    part = "forwarded, a part"
    if accesses.renamed(part):
        yield "renamed_parts", True, measured(part)
    if accesses.renamed("updated, 64 bits") is False:
        why = measured("updated, 64 bits; of additions of a constant it is assumed")
        yield "renamed_updates", "constant", why


def taken_cycles(learned: CoreModel) -> int:
    """Return the cycles of a loop of one branch; 1 if unknown."""
    figure = learned.branches.taken
    return max(round(figure.cycles), 1) if figure else 1


def _taken_branch(learned: CoreModel) -> Iterator[_Entry]:
    """Yield the cycles of a taken branch, if they are known."""
    figure = learned.branches.taken
    if figure:
        note = measured(f"{figure.cycles:.3f} +- {figure.uncertainty:.3f}, a loop of one branch")
        if taken_cycles(learned) > 1:
            note = assumed(f"it is not fetch that loses some; {note}")
        yield "cycles", taken_cycles(learned), note


MEASURED = "measured.csv"
LEFT_OUT = "left-out.csv"
STRINGS = "strings.csv"
PROVENANCE = "provenance.toml"
SCHEMA = 1  # of a folder with a learned core; it counts changes of the format
CHECKED = (
    "core.toml",
    TABLE,
    core_figures.DOUBTFUL_TABLE,
    *core_figures.FRONT_END_FILES.values(),
    held_out.FILE,
    core_figures.RANGES,
)  # files whose sums provenance.toml has
_NOPS = {"x86_64": ("", "m16", "m32"), "arm64": ("",)}  # nops whose width is measured
_WAITS = 1.04  # share of the cycles that an instance waits for its own register
_LABEL = re.compile(r"[0-7afmx*]|r[abcd]x|r[sb]p|r[sd]i")
_ONE = ("1", "1", "0", "")  # slots, mite, ms and decoder of a form of one uop
_STRING_HEAD = "instruction,bytes,source_offset,destination_offset,cycles,uncertainty,note"
_HEAD = "mnemonic,operands,slots,mite,ms,decoder,ports,latency,flags,indexed,same,source"


def core_texts(learned: CoreModel, machine: Oracle) -> tuple[str, str]:
    """Return the texts of core.toml and instructions.csv."""
    return core_toml(learned, machine), instruction_table(learned, machine)


def write_core(
    learned: CoreModel,
    machine: Oracle,
    folder: Path,
    checked: Mapping[str, str] | None = None,
    *,
    quick: bool = False,
) -> None:
    """Write a core into a folder that stands by itself; checked are texts of the self-check."""
    with files.staged(folder) as scratch:
        for name, text in {**_texts(learned, machine), **(checked or {})}.items():
            (scratch / name).write_text(text)
        (scratch / PROVENANCE).write_text(provenance(scratch, machine, quick=quick))
    title = f"loopwright calibrate on {machine.fingerprint}"
    files.written(folder.parent / "sources.toml", sources(title, folder.name))


def sources(title: str, folder: str) -> str:
    """Return the text of sources.toml of a folder of learned cores."""
    return (
        f'[{SOURCE}]\ntitle = "{title}"\naddress = "{folder}/{MEASURED}"\ndate = ""\n'
        f'[{DOUBTED}]\ntitle = "{title}: kernels do not agree"\n'
        f'address = "{folder}/{core_figures.DOUBTFUL_TABLE}"\ndate = ""\n'
    )


def provenance(folder: Path, machine: Machine, *, quick: bool) -> str:
    """Return the text of provenance.toml: the origin of a core, and checksums of its files."""
    facts = {
        "schema": SCHEMA,
        "loopwright": paths.VERSION,
        "machine": machine.name,
        "fingerprint": machine.fingerprint,
        "isa": machine.isa,
        "quick": quick,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in facts.items()]
    lines += ["", "[sha256]"]
    for name in CHECKED:
        if (file := folder / name).is_file():
            lines.append(f'"{name}" = "{hashlib.sha256(file.read_bytes()).hexdigest()}"')
    return "\n".join(lines) + "\n"


def _texts(learned: CoreModel, machine: Oracle) -> dict[str, str]:
    """Return the texts of a core's files by name, without its self-check and provenance."""
    texts = dict(zip(("core.toml", TABLE), core_texts(learned, machine), strict=True))
    if doubtful := doubtful_table(learned):
        texts[core_figures.DOUBTFUL_TABLE] = doubtful
    for end, text in front_end_ends(learned, machine).items():
        texts[core_figures.FRONT_END_FILES[end]] = text
    texts[MEASURED] = _csv("form,figure,value,cycles,uncertainty,note", _measured(learned))
    texts[LEFT_OUT] = _csv("form,per_million,why", _left_out_rows(learned))
    if learned.special and learned.special.strings:
        texts[STRINGS] = _csv(_STRING_HEAD, map(_string_row, learned.special.strings))
    return texts


def _csv(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Return the text of a table."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([head.split(","), *rows])
    return file.getvalue()


def _left_out_rows(learned: CoreModel) -> Iterator[Sequence[object]]:
    """Yield the rows of left-out.csv, the most used forms first."""
    usage = kits.per_million()
    for name, why in sorted(left_out(learned), key=lambda one: -usage.get(one[0], 0.0)):
        yield name, usage.get(name, ""), why


def _string_row(timed: TimedString) -> Sequence[object]:
    """Return a row of strings.csv; a case that was not timed has its refusal."""
    case, figure = timed.case, timed.figure
    cycles = (f"{figure.cycles:.3f}", f"{figure.uncertainty:.3f}") if figure else ("", "")
    return f"rep {case.name}", case.size, case.source, case.destination, *cycles, figure.refused


def instruction_table(learned: CoreModel, machine: Oracle) -> str:
    """Return the text of instructions.csv."""
    source = f"# Source: measured on {machine.name}; layout: models/pipeline/README.md\n"
    return source + _csv(_HEAD, _table(learned, machine.isa))


def doubtful_table(learned: CoreModel) -> str:
    """Return the text of doubtful.csv: both ends of doubtful figures; empty without any."""
    if not learned.doubts:
        return ""
    rows = []
    for name, doubt in sorted(learned.doubts.items()):
        mnemonic, _, operands = name.partition(" ")
        ends = (
            (core_figures.LEAST, doubt.least, 0),
            (core_figures.MOST, doubt.most, doubt.extra_latency),
        )
        for end, uops, later in ends:
            figures = _figures(learned, doubt.like or name, uops, later)
            rows.append([end, mnemonic, operands, *figures, DOUBTED])
    return _csv(f"end,{_HEAD}", rows)


def front_end_ends(learned: CoreModel, machine: Oracle) -> dict[str, str]:
    """Return core.toml with the least and the most limiting front end; empty without a range."""
    ends = learned.front_end.ends
    if ends is None:
        return {}
    cores = [replace(learned, front_end=replace(learned.front_end, parameters=one)) for one in ends]
    texts = (core_toml(one, machine) for one in cores)
    return dict(zip((core_figures.LEAST, core_figures.MOST), texts, strict=True))


def left_out(learned: CoreModel) -> list[tuple[str, str]]:
    """Return the forms and parts of the front end without figures, and the reasons."""
    refused = [
        (n, rate.refused)
        for n, rate in learned.throughputs.items()
        if rate.refused and not learned.has_ports(n)
    ]
    refused += [(n, one.why) for n, one in learned.uops.items() if one.ports is None]
    refused += learned.special.left.items() if learned.special else ()
    branches = [(n, why) for n, why in learned.branches.left.items() if not learned.has_ports(n)]
    return [*refused, *branches, *learned.front_end.left.items()]


def _table(learned: CoreModel, isa: str) -> Iterable[list[str]]:
    """Yield the rows of instructions.csv; forms of a mnemonic with the same figures share one."""
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, uops in learned.uops.items():
        if uops.ports is None:
            continue
        mnemonic, _, operands = name.partition(" ")
        source = DOUBTED if name in learned.doubts else SOURCE
        rows[mnemonic, *_figures(learned, name, uops), source].append(operands)
    for name, doubt in learned.doubts.items():
        if doubt.like:
            mnemonic, _, operands = name.partition(" ")
            rows[mnemonic, *_figures(learned, doubt.like, doubt.least), DOUBTED].append(operands)
    for operands in _NOPS[isa] if learned.front_end.long_nops else ("",):
        if f"nop {operands}".rstrip() not in learned.uops:
            rows["nop", *_ONE, "", "", "", "", "", SOURCE].append(operands)
    for name, own_ports in learned.branches.ports.items():
        mnemonic, _, operands = name.partition(" ")
        rows[mnemonic, *_ONE, shown([own_ports]), "", "", "", "", SOURCE].append(operands)
    for (mnemonic, *figures), names in sorted(rows.items()):
        yield [mnemonic, ";".join(names), *figures]


def _figures(learned: CoreModel, name: str, uops: Uops, later: int = 0) -> tuple[str, ...]:
    """Return the figures of a form with these uops, in the columns of instructions.csv.

    later is by how many cycles its results are later.
    """
    ports = uops.ports or ()
    latencies = [
        replace(one, cycles=one.cycles + later) if later and one.cycles else one
        for one in learned.latencies[name]
    ]
    flags = [f"tp={uops.busy}"] if uops.busy else []
    if name in learned.fusion:
        flags.append(f"fuse={learned.fusion[name]}")
    if not ports and any(one.cycles == 0 and not one.bound for one in latencies):
        flags.append("elim")
    elif len(ports) == 1 and is_free(latencies):
        # Rename performs it, and what follows still waits for its source.
        flags.append("elim")
        ports = ()
    else:
        # In the table 0 means no dependency. Latencies of one chain share its cycles, so that 0 may
        # be a share; that of an operand to itself is the whole chain.
        latencies = [
            one for one in latencies if one.cycles or not one.plain or one.source == one.target
        ]
    slots = max(uops.slots, 1)
    sent = learned.microcode.sent(name, slots) if learned.microcode else 0
    issued = (str(slots), str(slots - sent), str(sent), _decoder(learned, name, slots))
    named = _stored(learned.core, ports) if name in learned.stores else shown(ports)
    idiom = learned.idioms.get(name)
    same = "" if idiom is None else f"1:1:{named if idiom.port else ''}|*:0"
    if idiom is not None and idiom.waits:
        same = f"1:1:{shown([learned.core.all_arithmetic])}|*:1"
    indexed = f"{slots + 1}:{slots - sent}:{named}" if name in learned.indexed else ""
    if name not in learned.stores:
        named = shown(_with_load(learned, slots, ports))
    return (*issued, named, _latency(latencies), " ".join(flags), indexed, same)


def _with_load(learned: CoreModel, slots: int, ports: Sequence[Ports]) -> Sequence[Ports]:
    """Return the ports of uops, without those that do not compute with a load in one entry."""
    computing = learned.core.computing(ports)
    narrower = learned.beside_loads
    if slots > 1 or len(computing) != 1 or len(ports) < 2:
        return ports
    if not frozenset() < narrower < computing[0]:
        return ports
    return [narrower if one == computing[0] else one for one in ports]


def _decoder(learned: CoreModel, name: str, slots: int) -> str:
    """Return the simple decoders left behind an instruction, if they are known."""
    usual, _ = learned.front_end.parameters.get(f"{AFTER}.{slots}", ("any", ""))
    left = learned.decoders.get(name, usual)
    return "" if left == "any" else f"c{left}"


def _stored(core: Core, ports: Sequence[Ports]) -> str:
    """Return uops in the notation of the table, with the address or data uop of each store."""
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    writing = (core.shared_store_data, core.store_data) if core.store_data else (store,)
    stored = sum(one in writing for one in ports)
    addressed = sum(one <= store for one in ports) if store and core.shared_store_data else 0
    more = _more(max(0, stored - addressed), addresses(core))
    if not store or not core.store_data:
        return shown(ports) + more
    if core.shared_store_data:
        return shown([*ports, *[core.store_data] * (addressed - stored)]) + more
    # Store data has as many ports as the class of stores.
    data = dict(zip(sorted(store), sorted(core.store_data), strict=True))
    written = [frozenset(data[port] for port in one) for one in ports if one <= store]
    # Stores that use fewer ports than loads are limited by their data: addresses use all of them.
    address = load if load and store < load else store
    addressed_ports = [address if one <= store else one for one in ports]
    return shown([*addressed_ports, *written]) + more


def _more(times: int, ports: str) -> str:
    """Return further uops in the notation of the table, such as +2*01."""
    return f"+{times}*{ports}" if times > 1 else f"+{ports}" * times


def shown(ports: Sequence[Ports]) -> str:
    """Return uops in the notation of the table, such as 2*01+5."""
    count = Counter(port_names(one) for one in ports)
    return "+".join(f"{n}*{one}" if n > 1 else one for one, n in sorted(count.items()))


def _latency(latencies: Sequence[Latency]) -> str:
    """Return latencies in the notation of the table, such as 0>1:3; those to all have no target."""
    known = [one for one in latencies if not one.refused]
    known = [o for o in known if _LABEL.fullmatch(o.source) and _LABEL.fullmatch(o.target)]
    return " ".join(
        f"{one.source}{'' if one.target == ALL else '>' + one.target}:{one.cycles}" for one in known
    )


def _measured(learned: CoreModel) -> Iterable[Sequence[object]]:
    """Yield the rows of measured.csv."""
    width = learned.width
    note = f"{'nops' if width.nops else 'moves'} a cycle"
    yield "", "width", width.instructions, width.measured, width.uncertainty, note
    for label, window in learned.windows.by_name.items():
        yield "", label, f"{'>= ' * window.least}{window.value}", "", "", window.note
    for name, rate in learned.throughputs.items():
        note = rate.refused or ("" if rate.clean else "with what makes instances independent")
        if rate.cycles <= _WAITS * learned.waits.get(name, 0.0):
            note = "at most: it waits for what it wrote"
        yield name, "throughput", rate.cycles, rate.cycles, rate.uncertainty, note
        for one in learned.latencies.get(name, ()):
            figure = f"latency {one.source}>{one.target}"
            yield name, figure, one.cycles, one.measured, one.uncertainty, one.note
        uops = learned.uops.get(name)
        if uops:
            yield name, "ports", shown(uops.ports or ()), "", "", uops.why
    for name, ports in learned.branches.ports.items():
        longer = learned.branches.longer.get(name)
        note = "of branches that are not taken" + (f"; {longer}" if longer else "")
        yield name, "ports", shown([ports]), "", "", note
    for name, idiom in learned.idioms.items():
        note = "all operands one register"
        yield name, "idiom", "", idiom.figure.cycles, idiom.figure.uncertainty, note
    for name, label, timed, note in learned.special.rows() if learned.special else ():
        yield name, label, "", timed.cycles, timed.uncertainty, note
    for label, timed in learned.figures.items():
        yield "", label, "", timed.cycles, timed.uncertainty, timed.refused
    for probe, cycles, uncertainty in learned.front_end.rows():
        note = "kept aside" if probe.aside else ""
        yield "", f"{probe.part}: {probe.name}", "", cycles, uncertainty, note
    for label, access in learned.accesses.figures.items():
        value = round(access.cycles) if access else ""
        yield "", label, value, access.cycles, access.uncertainty, access.refused
