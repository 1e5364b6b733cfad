"""core.toml of what was learned: each parameter with what it rests on, or as an assumption."""

import json
from collections.abc import Iterator, Mapping

from loopwright.calibrating.delivery.front_end import AFTER, Parameters
from loopwright.calibrating.experiments import accesses as of
from loopwright.calibrating.experiments.windows import BUFFER, BURST, RETIRED, SCHEDULER, STORES
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.rule import Ports

SOURCE = "calibrated"
_NAMES = "0123456789abcdefghijklmnopqrstuvwxyz"
_UNUSED = ("L", "S")  # ports of loads and of stores where none is known
_ADDRESSES = "ABCDEFGH"  # ports of store addresses
_ELEMENT = "ld1 s,e,[x]"  # a load of a part of a register
_TWO = 8  # forms of two uops by which it is told whether dispatch counts these
_HALF = "assumption: half of a round trip between registers is the way from vectors"
_UNKNOWN = "assumption: not measured"
# Figures of a store and a load, in the order in which they are least likely done by rename.
_FORWARDED = (
    "forwarded, 8 bits", of.at(of.FAR), "forwarded", "forwarded, indexed",
    "forwarded, 16 bits",
)  # fmt: skip
_FITTED = "fitted to kernels together with others"
_SURE = {"assumption": "low", _FITTED: "medium"}  # by how a source starts; else high
_MOST = {"reorder_buffer": 1024, "entries": 4096, "store_queue": 1024}  # that the simulator takes

_IDEAL: Parameters = {
    "front_end.mode": ("ideal", "assumption: not measured; it never binds here"),
    "front_end.fetch": ("blocks", _UNKNOWN),
    "uop_cache.rule": ("none", _UNKNOWN),
}

# A parameter: its name, its value, what it rests on.
_Entry = tuple[str, object, str]


def letters(ports: Ports) -> str:
    """Return the names of ports."""
    return "".join(_NAMES[port] for port in sorted(ports))


def addresses(core: Core) -> str:
    """Return the names of the ports that are taken to compute the addresses of stores."""
    return _ADDRESSES[: len(core.of(core.store) or "S")]


def fitted(said: str) -> str:
    """Return the source of a value that was chosen with others for what kernels take."""
    return f"{_FITTED}: {said} [{SOURCE}]"


def text(learned: Learned, machine: Machine) -> str:
    """Return core.toml; what no experiment told is an assumption, and says so."""
    features = ", ".join(f'"{name}"' for name in sorted(machine.features))
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
            sure = next((s for start, s in _SURE.items() if source.startswith(start)), "high")
            spelled = json.dumps(value) + (_range(key, value) if sure == "low" else "")
            lines.append(
                f'{key} = {{ value = {spelled}, source = "{source}", confidence = "{sure}" }}'
            )
    return "\n".join(lines) + "\n"


def _range(key: str, value: object) -> str:
    """Return the keys of the range of a value that no experiment told."""
    if isinstance(value, bool):
        return f', alternatives = [{json.dumps(not value)}], range = "the other of two"'
    if isinstance(value, int | float):
        low, high = (value / 2, value * 2) if isinstance(value, float) else (value // 2, value * 2)
        if value == 1:
            low = value
        if value > 0 and high <= _MOST.get(key, high):
            return f', low = {low}, high = {high}, range = "half of it to twice as much"'
    return ', fixed = "no experiment says what else it may be"'


def _tables(learned: Learned) -> Mapping[str, list[_Entry]]:
    width = learned.width
    tables = _chosen(learned)
    known: Mapping[str, list[_Entry]] = {
        "rename": [
            *_width(learned),
            ("queue", 64, _UNKNOWN),
            ("move_slots_gpr", "unlimited", _UNKNOWN),
            ("move_slots_vec", "unlimited", _UNKNOWN),
            *_groups(learned),
            *_constants(learned),
        ],
        "scheduler": [_held(learned, "entries", SCHEDULER, 97)],
        "ports": list(_ports(learned)),
        "memory": list(_memory(learned)),
        "retire": [
            _held(learned, "width", RETIRED, width.instructions, "as many as are dispatched"),
            _held(learned, "reorder_buffer", BUFFER, 224),
        ],
        "macro_fusion": [
            ("pairs", "table", f"nops beside pairs [{SOURCE}]")
            if learned.fusion
            else ("pairs", "none", "no pair took less than two places at dispatch"),
            ("nops", not width.nops, f"nops between moves, and moves alone [{SOURCE}]"),
        ],
        "taken_branch": list(_taken(learned)),
        "mispredict": [("cycles", 16, _UNKNOWN), ("history", 64, _UNKNOWN)],
    }
    chosen = {name: {key for key, *_ in rows} for name, rows in tables.items()}
    return tables | {
        name: [row for row in rows if row[0] not in chosen.get(name, ())] + tables.get(name, [])
        for name, rows in known.items()
    }


def _chosen(learned: Learned) -> dict[str, list[_Entry]]:
    """Return the tables of rules that explain kernels, of a front end an ideal one without any."""
    tables: dict[str, list[_Entry]] = {}
    chosen = learned.front_end.parameters or _IDEAL
    for name, (value, source) in {**chosen, **learned.rules}.items():
        table, _, key = name.partition(".")
        if table != AFTER:
            tables.setdefault(table, []).append((key, value, source))
    if one := learned.microcode:
        cached = learned.front_end.parameters["uop_cache.rule"][0] != "none"
        table, key = ("uop_cache", "microcode_stall") if cached else ("decode", "microcode_cycles")
        why = f"assumption: no kernel shows it by itself; {one.why} [{SOURCE}]"
        tables.setdefault(table, []).append((key, one.stall, why))
    return tables


def _held(
    learned: Learned, name: str, window: str, otherwise: int, why: str = "not measured"
) -> _Entry:
    """Return the entry of a window; one whose end was not seen never binds before the buffer."""
    one, buffer = (learned.windows.found.get(of) for of in (window, BUFFER))
    if one is None:
        return name, otherwise, f"assumption: {why}"
    if one.least:
        value = max(one.value, buffer.value) if buffer else one.value
        return name, min(value, _MOST[name]), f"assumption: {one.note} [{SOURCE}]"
    return name, one.value, f"{one.note} [{SOURCE}]"


def _width(learned: Learned) -> Iterator[_Entry]:
    """Yield the width: of instructions, where forms of two uops take no more places than others.

    A core may count uops besides; no experiment keeps more of them busy than that. Without a fence
    nothing tells whether dispatch bound the copies of what was counted, or what feeds or drains it.
    """
    width, burst = learned.width, learned.windows.found.get(BURST)
    counted = "nops" if width.nops else "moves"
    said = f"{width.measured:.3f} +- {width.uncertainty:.3f} {counted} a cycle [{SOURCE}]"
    most = width.instructions
    if burst is None:
        said = f"assumption: neither what delivers code nor retirement binds; {said}"
    elif burst.value > most:
        most, said = burst.value, f"{burst.note}; {said}"
    core = learned.core
    memory = {core.of(name) for name in (core.load, core.store)}
    two = [u for u in learned.uops.values() if u.ports and len(u.ports) == 2]
    places = [u.places for u in two if memory.isdisjoint(u.ports or ())]
    if len(places) >= _TWO and 2 * places.count(1) > len(places):
        yield "instructions", most, said
        said = f"assumption: as many uops as instructions, of which forms of two are one; {said}"
    elif burst and (len(places) < _TWO or most > width.instructions):
        said = f"assumption: uops count, not instructions, of which copies show nothing; {said}"
    yield "width", most, said


def _groups(learned: Learned) -> Iterator[_Entry]:
    """Yield whether rename waits for room for a whole group, where that is known."""
    whole = learned.windows.whole_groups
    if whole is not None:
        yield (
            "whole_groups",
            whole,
            f"places before a chain that shift the scheduler's end [{SOURCE}]",
        )


def _constants(learned: Learned) -> Iterator[_Entry]:
    """Yield up to which constant rename adds them itself, where it does."""
    if learned.constants.limit:
        yield "immediate_add_limit", learned.constants.limit, f"{learned.constants.said} [{SOURCE}]"


def _ports(learned: Learned) -> Iterator[_Entry]:
    core = learned.core
    known = (*core.ports, *learned.branches.ports.values(), core.written or frozenset())
    every = letters(frozenset().union(*known, core.data or (), core.wide))
    explained = f"as many as explain what mixtures take [{SOURCE}]"
    load, store = core.of(core.load), core.of(core.store)
    unused = "".join(n for n, p in zip(_UNUSED, (load, store), strict=True) if not p)
    yield "names", every + unused + addresses(core), explained
    rule, why = learned.assigned
    yield from ((name, value, why) for name, value in rule.items())
    said = f"the class of {core.load} [{SOURCE}]" if load else "assumption: no load is known"
    yield "load", letters(load) if load else _UNUSED[0], said
    said = f"the class of {core.store} [{SOURCE}]" if store else "assumption: no store is known"
    ports = letters(store) if store else _UNUSED[1]
    if core.data:
        yield "store_address", ports + addresses(core), f"{said}, and of what changes memory"
        said = "as many as stores have; blockers of loads show no store of what changes memory"
        if core.written:
            said = f"what {core.store} shares with arithmetic; {said}"
        yield "store_data", letters(core.data | (core.written or frozenset())), f"{said} [{SOURCE}]"
    else:
        yield "store_data", ports, said
        said = "assumption: as many as stores have, as timing tells no two uops of a store apart"
        yield "store_address", addresses(core), said
    yield "alu", letters(core.wide), _UNKNOWN


def _memory(learned: Learned) -> Iterator[_Entry]:
    accesses = learned.accesses
    for name, cycles in accesses.loads.items():
        said = f"from the address of a load alone [{SOURCE}]"
        yield name, cycles, said if name == "load_cycles" else f"{_HALF}; with it, {said}"
    load, chase = accesses.loads.get("load_cycles"), accesses.known("pointer chase")
    if load and chase is not None and chase <= load:
        yield "pointer_chase_gain", load - chase, f"a chain of loads [{SOURCE}]"
    for one in learned.latencies.get(_ELEMENT, ()):
        if one.plain and one.source == one.target:
            yield "element_cycles", max(one.cycles, 1), f"what {_ELEMENT} keeps [{SOURCE}]"
    forward = _first(learned, *_FORWARDED)
    if forward:
        name, cycles = forward
        yield "forward_cycles", cycles, f"{name} [{SOURCE}]"
    update = accesses.known("updated, 8 bits")
    if forward and update is not None and update - 1 not in (forward[1], 0):
        yield "forward_update_cycles", update - 1, f"updated, 8 bits, less an addition [{SOURCE}]"
    vector = accesses.known("forwarded, vector")
    if vector is not None and vector > 1:
        said = "assumption: a chain of both takes no more than that; forwarded, vector"
        yield "forward_vector_cycles", vector, f"{said} [{SOURCE}]"
    if "memory.commit_bytes" in learned.rules and STORES in learned.windows.found:
        yield _held(learned, "store_queue", STORES, 64)
    if accesses.banks:
        yield "bank_loads", accesses.banks.loads, f"{accesses.banks.said} [{SOURCE}]"
        if accesses.banks.bytes:
            said = f"bytes so far apart are loaded as if in two lines [{SOURCE}]"
            yield "bank_bytes", accesses.banks.bytes, said
    if accesses.renamed("forwarded"):
        yield from _renamed(learned)


def _first(learned: Learned, *names: str) -> tuple[str, int] | None:
    """Return the first figure of forwarding that goes through the cache."""
    for name in names:
        cycles = learned.accesses.through(name)
        if cycles is not None:
            return name, cycles
    return None


def _renamed(learned: Learned) -> Iterator[_Entry]:
    """Yield what loads are known at rename to read what a store stores."""
    accesses = learned.accesses
    if accesses.by:
        said = f"forwarded by the stack pointer, not by another base [{SOURCE}]"
        yield "renames", "stack", said
    else:
        known = "any" if accesses.renamed("forwarded, indexed") else "base"
        yield "renames", known, f"forwarded, with and without index [{SOURCE}]"
    if accesses.predicted:
        few, many = accesses.predicted
        said = f"pairs of a loop by any base, not {many} [{SOURCE}]"
        yield "renamed_in_loops", few, said if many - few == 1 else f"assumption: {said}"
    if accesses.reach:
        sees, unseen = accesses.reach
        said = f"forwarded {sees} bytes on, not {unseen} [{SOURCE}]"
        near = unseen - sees <= of.STEPS[-1]
        yield "renamed_reach", sees, said if near else f"assumption: {said}"
    step = next((disp for disp in of.STEPS if accesses.renamed(of.at(disp))), of.STEPS[-1])
    yield "renamed_step", step, f"{of.at(step)} bytes, and not at fewer [{SOURCE}]"
    for bits in (8, 16, 32):
        if accesses.renamed(f"forwarded, {bits} bits"):
            break
    else:
        bits = 64
    yield "renamed_bytes", bits // 8, f"forwarded, 8 to 64 bits [{SOURCE}]"
    part = "forwarded, a part"
    if accesses.renamed(part):
        yield "renamed_parts", True, f"{part} [{SOURCE}]"
    if accesses.renamed("updated, 64 bits") is False:
        said = "updated, 64 bits; of additions of a constant it is assumed"
        yield "renamed_updates", "constant", f"{said} [{SOURCE}]"


def taken(learned: Learned) -> int:
    """Return the cycles of a loop of one branch; 1 where they are not known."""
    figure = learned.branches.taken
    return max(round(figure.cycles), 1) if figure else 1


def _taken(learned: Learned) -> Iterator[_Entry]:
    figure = learned.branches.taken
    if figure:
        shown = f"{figure.cycles:.3f} +- {figure.uncertainty:.3f}, a loop of one branch"
        if taken(learned) > 1:
            shown = f"assumption: it is not fetch that loses some; {shown}"
        yield "cycles", taken(learned), f"{shown} [{SOURCE}]"
