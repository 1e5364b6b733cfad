"""Rules of rename that no single form shows: shared dispatch slots, late sums, kept moves, ports.

Nops. Microbenchmarks: straight pairs of nops of 2 to 18 bytes together. On some cores a nop shares
the dispatch slot of the instruction before it, if both together have few bytes.

Absorbed moves. Microbenchmarks: loops of three pairs of a move or load and the operation behind it
that replaces its result, and of nine nops; and loops of the same instructions with a nop within
each pair. A pair fuses where its loop takes fewer dispatch slots than the other one. Cores whose
nops share dispatch slots are not asked, as there the nops' places count as well.

Shared schedulers. Microbenchmarks: straight code of loads, stores, computing uops that nothing
waits for, and moves that need no port, in random order. The computing uops use all ports that
rename fills evenly, or those of one class alone, which tells the ports without a shared scheduler.
Uops that wait in a shared scheduler count for both of its ports. The hypotheses: no shared
schedulers, or one for each load port with one of the ports that compute, by the ports left over.

Sums. Microbenchmarks: chains of floating-point additions and products. On some cores an addition
waits longer for an operand that no addition made.

Move slots. Microbenchmarks: chains of moves and another operation, of both kinds of registers. Some
cores eliminate few moves at a time, so that the others take a cycle and a port. Both kinds share
the cycles until a slot is free. Where the scheduler's end leaves open whether rename begins with
whole groups, that is fitted with them, as it changes how many moves come in a cycle.

Kept moves. Microbenchmarks: chains of a zero extension of a byte and an addition, by the register
of the byte. Some cores eliminate such moves only from the registers that old code names.

Pairs. Microbenchmarks: loops of nops and of instructions that rename divides in two, as their
address has an index. On some cores few of them begin in a cycle, and only among its first slots.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, cycle, islice, pairwise, product

from loopwright.calibrating import core_files, fit
from loopwright.calibrating.core_model import CoreModel, fitted
from loopwright.calibrating.dispatch_rules import BALANCED, JOINT, SHARED
from loopwright.calibrating.fit import Rules
from loopwright.calibrating.ports import Core
from loopwright.microbench import form_instances, kits
from loopwright.microbench.forms import BASE, DISPLACEMENT, INDEX, Form, Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import is_free

_LESS = 0.8  # share of the error without a rule that is left, at most

NOP_BYTES = "macro_fusion.nop_bytes"
_FIRST_NOP = (1, 2, 3)  # bytes of the first nop: caches of decoded code hold many short pairs
_LONGEST = 15  # bytes of an instruction
_LEFT = 0.7  # share of the error without a limit that is left, at most
_UNPREFIXED = 9  # bytes of the longest nop without further prefixes


def _nop_pairs(kit: Kit) -> Iterator[tuple[str, list[bytes]]]:
    """Yield pairs of a short nop and one of each length."""
    for first in _FIRST_NOP:
        for second in range(1, _LONGEST + 1):
            body = kit.pad(min(second, _UNPREFIXED))[0]
            pair = [kit.pad(first)[0], b"\x66" * (second - len(body)) + body]
            yield f"nops of {first} and {second} bytes", pair


def choose_nop_bytes(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the bytes of nops that share slots, if it limits them."""
    if laboratory.kit.BYTES or learned.width.nops:
        return learned
    pairs = dict(_nop_pairs(laboratory.kit))
    kernels = list(pairs.values())
    tried: list[Rules] = [{}, *({NOP_BYTES: most} for most in range(2, _FIRST_NOP[-1] + _LONGEST))]
    return fit.with_less_error(
        laboratory,
        learned,
        [part for kernel in kernels for part in kernel],
        lambda core: core.time(kernels, "unrolled"),
        tried,
        f"pairs such as {next(iter(pairs))}",
        _LEFT,
        apart=False,
    )


_ABSORBED, _BESIDE = 3, 9  # of a loop, whose closing instructions come besides
_FUSED = 0.91  # of the cycles of separated pairs, at most: 13 slots of 16 are 0.81
_ABSORBING = {"move": "macro_fusion.move_ops", "load": "macro_fusion.load_ops"}


def _absorbing(kit: Kit) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield "move" or "load", an operation, and loop bodies with the pairs together and apart.

    Nothing is yielded for an ISA without such pairs.
    """
    nop = kit.SHORT
    for firsts, operations in kit.ABSORBING:
        for kind, first in firsts.items():
            for name, operation in operations.items():
                together = (first + operation) * _ABSORBED + nop * _BESIDE
                apart = (first + nop + operation) * _ABSORBED + nop * (_BESIDE - _ABSORBED)
                yield kind, name, together, apart


def choose_absorbed(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the operations that fuse with moves and loads."""
    if not learned.width.nops:
        return learned
    pairs = list(_absorbing(laboratory.kit))
    together = laboratory.iterations([fused for *_, fused, _ in pairs])
    apart = laboratory.iterations([fused for *_, fused in pairs])
    fusing: dict[str, list[str]] = {}
    for (kind, name, *_), fused, separated in zip(pairs, together, apart, strict=True):
        if fused and separated and fused.cycles <= _FUSED * separated.cycles:
            fusing.setdefault(_ABSORBING[kind], []).append(name)
    loops = f"{_ABSORBED} pairs and {_BESIDE} nops"
    why = f"{loops} take fewer dispatch slots than with nops within the pairs"
    rules = {rule: " ".join(sorted(names)) for rule, names in fusing.items()}
    return fit.with_rules(learned, rules, fitted(why)) if rules else learned


_SHARED_SEED, _DRAWN, _NARROW_DRAWN = 67, 60, 24
_GROUPS = (1, 1, 2)  # cycles of dispatch that a copy takes, at least
_LOAD, _STORE, _COMPUTING, _MOVE = "load", "store", "add", "move"
_KINDS = {_LOAD: 0.6, _COMPUTING: 0.3, _STORE: 0.05, _MOVE: 0.05}  # shares of the uops
_WORD = 8  # bytes: loads of one word could have a bank conflict


def choose_shared(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with schedulers that ALUs and AGUs share, if rename fills them."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    loads = learned.core.class_ports(kit.LOAD)
    if BALANCED not in learned.rules or loads is None or not {kit.LOAD, kit.STORE} <= set(named):
        return learned
    load, store, width = named[kit.LOAD], named[kit.STORE], learned.width.instructions
    bodies: dict[str, Sequence[bytes]] = {}
    for blocker in (None, *_narrow_blockers(learned.core)):
        bodies |= _accesses(load, store, width, blocker)
    balanced = str(learned.rules[BALANCED][0])
    joint = str(learned.rules[JOINT][0]) if JOINT in learned.rules else ""
    return fit.with_less_error(
        laboratory,
        learned,
        [b"".join(kernel) for kernel in bodies.values()],
        lambda core: core.time(list(bodies.values()), "unrolled"),
        list(_shared_rules(balanced, loads, joint)),
        f"loops such as {next(iter(bodies))}",
        _LESS,
    )


def _shared_rules(balanced: str, loads: frozenset[int], joint: str) -> Iterator[Rules]:
    """Yield no shared schedulers, then one for each load port with a port that computes.

    A port that does both has no scheduler to share. joint names a port and the branch unit beside
    it, which have a scheduler of their own; empty: none.
    """
    yield {SHARED: joint} if joint else {}
    loading = [core_files.port_names(frozenset({port})) for port in sorted(loads)]
    names = [port for port in loading if port not in balanced]
    computing = [port for port in balanced if port not in loading and port not in joint]
    for chosen in combinations(computing, min(len(names), len(computing))):
        pairs = [f"{alu}{agu}" for alu, agu in zip(chosen, names, strict=False)]
        if pairs:
            yield {SHARED: " ".join([*pairs, joint] if joint else pairs)}


def _narrow_blockers(core: Core) -> Iterator[Form]:
    """Yield blocking instructions that compute in general registers on some of their ports."""
    classes = dict.fromkeys(core.integer_classes)
    for ports in classes:
        blocker = core.blocker_of(ports)
        if blocker and any(ports < others for others in classes):
            yield blocker


def _accesses(
    load: Form, store: Form, width: int, blocker: Form | None = None
) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Yield accesses of one line, computing uops and moves in random order.

    Dispatch takes whole copies, so that a scheduler which is full once is full in each. A blocking
    instruction replaces the additions.
    """
    draw = random.Random(_SHARED_SEED)
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    computing = form_instances.Instances()
    for _ in range(_NARROW_DRAWN if blocker else _DRAWN):
        length = width * draw.choice(_GROUPS)
        kinds = draw.choices(list(_KINDS), list(_KINDS.values()), k=length)
        kernel = []
        for word, kind in enumerate(kinds):
            register = draw.choice(pool.others)
            if kind == _LOAD:
                kernel.append(_access(load, word, register))
            elif kind == _STORE:
                kernel.append(_access(store, word, pool.constant[1]))
            elif kind == _COMPUTING:
                added = kit.transfer("gpr", "gpr", pool.constant[0], register)
                kernel.append(computing.of(blocker) if blocker else added)
            else:
                kernel.append(kit.MOVE)
        name = blocker.name if blocker else _COMPUTING
        yield " ".join(name if kind == _COMPUTING else kind for kind in kinds), kernel


def _access(form: Form, word: int, register: int) -> bytes:
    """Return a load or a store of a word by a base that stays."""
    registers = {operand.label: register for operand in form.chosen}
    address = {BASE: form.kit.POOLS["gpr"].constant[0], DISPLACEMENT: _WORD * word}
    return form.encode({**registers, **address})


SUMS, KEPT = "scheduler.sum_cycles", "rename.odd_bytes_kept"
SLOTS = {"gpr": "rename.move_slots_gpr", "vector": "rename.move_slots_vec"}
FREED = "rename.move_slot_cycles"
GROUPS = "rename.whole_groups"
PLACES, PAIRS = "rename.apart_places", "rename.apart"
_SEED, _CHAINS, _LINKS = 73, 16, (2, 5)
_NOPS, _PAIRED = range(2, 20), (1, 2, 3)
_LATER = (1, 2)  # cycles
_SLOTS = (16, 8, 4, 2, 1)  # moves; the weakest limit first, as some chains tell none
_FREED = range(4)  # cycles until a move's slot is free
_MOVES = (1, 2, 3, 5, 8)  # of a chain before another operation


def choose_rename_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the rules of sums, moves, extensions and divided forms."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    sums: list[Rules] = [{SUMS: cycles} for cycles in _LATER]
    learned = _choose_rules(laboratory, learned, dict(_sum_chains(kit, named)), sums)
    moves = {kind: dict(_move_chains(learned, named, kind)) for kind in SLOTS}
    limits = list(_move_limits(learned, [SLOTS[kind] for kind, chains in moves.items() if chains]))
    chains = {name: code for chains in moves.values() for name, code in chains.items()}
    learned = _choose_rules(laboratory, learned, chains, limits)
    extensions = dict(_extension_chains(kit, named))
    learned = _choose_rules(laboratory, learned, extensions, [{KEPT: True}])
    places = range(1, learned.width.instructions + 1)
    pairs: list[Rules] = [{PLACES: n, PAIRS: most} for n, most in product(places, _PAIRED)]
    return _choose_rules(laboratory, learned, dict(_indexed_loops(learned, named)), pairs)


def group_rules(learned: CoreModel) -> Sequence[Rules]:
    """Return what to try of rename by whole groups: nothing where it is known."""
    known = learned.windows.whole_groups is not None or GROUPS in learned.rules
    return [{}] if known else [{}, {GROUPS: True}]


def _move_limits(learned: CoreModel, names: Sequence[str]) -> Iterator[Rules]:
    """Yield limits of eliminated moves, then the same with whole groups, if these are open."""
    for whole in group_rules(learned):
        for cycles, *slots in product(_FREED, *[_SLOTS] * len(names)):
            yield {**dict(zip(names, slots, strict=True)), FREED: cycles, **whole}


def _choose_rules(
    laboratory: Laboratory, learned: CoreModel, bodies: dict[str, bytes], rules: Sequence[Rules]
) -> CoreModel:
    """Return the learned core with the rules that explain loops, if they do so clearly."""
    loops = list(bodies.values())
    kind = f"loops such as {next(iter(bodies), '')}"
    tried = [{}, *rules]
    return fit.with_less_error(
        laboratory, learned, loops, lambda core: core.iterations(loops), tried, kind, _LESS
    )


def _sum_chains(kit: Kit, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield chains of additions and products in random order."""
    draw = random.Random(_SEED)
    links = [named[name] for name in kit.SUMMING if name in named]
    register = kit.POOLS["vector"].others[0] if links else 0
    for _ in range(_CHAINS if len(links) > 1 else 0):
        forms = draw.choices(links, k=draw.randint(*_LINKS))
        chained = [(form, {form.chosen[0].label: register}) for form in forms]
        parts = [form.encode(form_instances.registers_for(form, given)) for form, given in chained]
        yield " ".join(form.mnemonic for form in forms), b"".join(parts)


def _move_chains(
    learned: CoreModel, named: dict[str, Form], kind: str
) -> Iterator[tuple[str, bytes]]:
    """Yield chains of moves and an operation, where rename eliminates some of the moves alone."""
    usage = kits.per_million()
    partly = [
        form
        for name, form in named.items()
        if is_free(learned.latencies[name]) and any(o.bound for o in learned.latencies[name])
        if [operand.kind for operand in form.chosen] == [kind, kind]
    ]
    if not partly:
        return
    form = max(partly, key=lambda form: usage.get(form.name, 0.0))
    written, read = (operand.label for operand in form.chosen)
    first, *others = form.kit.POOLS[kind].others
    for moves in _MOVES:
        turns = [first, *islice(cycle(others), moves - 1), first]
        links = [form.encode({written: b, read: a}) for a, b in pairwise(turns)]
        chain = b"".join(links) + form.kit.transfer(kind, kind, first, first)
        yield f"{moves} of {form.name} and another operation", chain


def _extension_chains(kit: Kit, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield chains of a zero extension and an addition."""
    form, pool = named.get(kit.EXTENSION), kit.POOLS["gpr"]
    if not form:
        return
    wide, narrow = (one.label for one in form.chosen)
    for byte in pool.others:
        extended = form.encode({wide: pool.own[1], narrow: byte})
        link = kit.transfer("gpr", "gpr", pool.own[1], byte)
        yield f"{form.name} from register {byte}", extended + link


def _indexed_loops(learned: CoreModel, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of nops behind instructions whose address has a base and an index."""
    usage = kits.per_million()
    indexed = [
        form
        for name, form in named.items()
        if name in learned.indexed and form.memory and not form.memory.written
    ]
    if not indexed or not learned.width.nops:
        return
    form = max(indexed, key=lambda form: usage.get(form.name, 0.0))
    index = {INDEX: form.kit.POOLS["gpr"].constant[1]}
    pair = form.encode({**form_instances.registers_for(form, {}), **index})
    for number, nops in product(_PAIRED, _NOPS):
        yield f"{number} of {form.name} and {nops} nops", pair * number + form.kit.SHORT * nops
