"""Dispatch rules: slots of indexed memory operands, late addresses, and balanced port binding.

Slots. Microbenchmarks: loops of a form with a memory operand and of moves, which dispatch limits,
with and without an index. The simulator predicts them with one to three slots, and with one more
for base and index. All forms with the same kind of access take the slots of the most used ones.

Late addresses: chains of loads with an index, with a displacement, and with both.

Taken branches: loops whose branch meets blocking instructions of a class, as many as its ports take
in a few cycles, and one less. The branch follows the count directly, or a test of the count, which
then comes first. On some cores a fused pair that has a result uses the ports of arithmetic, and a
pair without one those of branches.

Pairs that load: loops of a fused pair whose compare reads memory, and of computing uops. On some
cores it takes two dispatch slots, as many as both apart, and one port.

One entry: loops of blocking instructions and of forms that load and compute. Where schedulers hold
both uops of such a form in one entry, it computes on the ports beside load ports alone.

Rotated binding: some cores bind uops to ports in turn at rename, before it is known when they can
start. Two uops that read one load then wait for each other if a multiple of the ports is between
them. Microbenchmarks: chains of a load, two uops that read it, and independent uops between them;
loops of computing uops and moves; the loops of taken branches.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import ceil

from loopwright.calibrating import core_files, fit, port_classes
from loopwright.calibrating.core_model import CoreModel, fitted
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.calibrating.ports import Ports
from loopwright.measuring import block
from loopwright.microbench import form_instances, kits
from loopwright.microbench.forms import BASE, DISPLACEMENT, INDEX, NO_BASE, Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import COUNTER
from loopwright.microbench.windows import SCHEDULER

ALONE = "rename.index_alone"
TAKEN, RESULTS = "ports.taken_branch", "macro_fusion.result_ports"
LOAD_SLOTS = "macro_fusion.load_slots"
BALANCED, _SECOND = "ports.balanced", "ports.second"
JOINT, _PATIENCE, SHARED = "ports.joint", "ports.joint_patience", "ports.shared"
# Cycles until rename sees that uops are bound and start, and from rename to issue; the first ones,
# Zen 4's, win ties.
_SEEN: tuple[Rules, ...] = (
    {"ports.bound_seen": 3, "ports.started_seen": 6, "scheduler.delay": 3},
    {"ports.bound_seen": 1, "ports.started_seen": 1},
)
# The state in which a loop is entered, which one whose ports are full may keep: Zen 4's, behind a
# full queue or with registers that are known late, or none.
_ENTERED: tuple[Rules, ...] = (
    {"rename.entry_slots": 1, "rename.entry_stall": 12},
    {"rename.entry_slots": 1, "scheduler.entry_delay": 6},
    {},
)
_FILLED = 2  # cycles of a full loop; a shorter one may be limited by delivery
_LEFT_BALANCED = 0.8  # share of the error without balanced binding that is left, at most
LEFT = 0.5  # share of the error with the ports of branches not taken that is left, at most
_COMPLEX = "memory.complex_address_cycles"
_SAMPLES = 3  # forms of each kind of access
_ENTRIES = 3  # instances of each port in loops of loads that compute
RARE = 1.0  # weight of forms that libraries hardly use, as instructions per million
_SLOTS = (1, 2, 3)
_LATER = range(4)  # cycles
_BETWEEN = range(9)  # uops between two that read one load
_LEAST = 3  # ports that are bound evenly, at least
_FEW = 2  # ports of a pair with a result, where a scheduler takes a second one
_PASSED = 8  # cycles in which such pairs pass the same older branch, as on Zen 4
_SEED, _LOOPS, _LENGTHS = 61, 60, (2, 3, 4, 5, 6, 8, 10, 13)
_DRAWN, _BESIDE = "a loop drawn", "a test and a branch not taken beside"
_COMPUTING = range(1, 7)
_MOVING = range(1, 5)
_PAIRS = range(1, 5)  # pairs of a test and a branch not taken
_CHEAP = 0.6  # cycles of an instance
_DISPLACEMENT = 8  # bytes from an index, where memory holds pointers
_WORDS = 8  # that instances of a form change in turn, so that none waits for its store
_REGISTERS = ("gpr", "vector")


def choose_dispatch_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the rules of memory operands; unchanged without a load."""
    kit = laboratory.kit
    load = next((form for form in forms if form.name == kit.LOAD), None)
    if load is None or not learned.has_ports(kit.LOAD):
        return learned
    learned = _choose_address_cycles(laboratory, learned, load)
    if kit.BYTES:
        return learned
    known = [form for form in forms if form.name in learned.uops]
    return _choose_memory_slots(laboratory, learned, known)


def _with_figures(
    laboratory: Laboratory, learned: CoreModel, bodies: Mapping[str, bytes]
) -> tuple[CoreModel, list[Figure]]:
    """Time loops; return the learned core with their figures, and the figures."""
    figures = laboratory.iterations(list(bodies.values()))
    timed = dict(zip(bodies, figures, strict=True))
    return replace(learned, figures={**learned.figures, **timed}), figures


def _fit_loops(
    laboratory: Laboratory,
    bodies: Mapping[str, bytes],
    hypotheses: Sequence[Hypothesis],
    figures: Sequence[Figure],
) -> fit.Fit | None:
    codes = list(bodies.values())
    return fit.fit(laboratory, codes, lambda core: core.iterations(codes), hypotheses, figures)


def _choose_address_cycles(laboratory: Laboratory, learned: CoreModel, load: Form) -> CoreModel:
    """Return the learned core with the extra latency of addresses of base, index and more."""
    register = load.kit.POOLS["gpr"].back[0]
    (result,) = (operand for operand in load.chosen if operand.written)
    given = {result.label: register, BASE: register}
    index = {INDEX: load.kit.POOLS["gpr"].constant[1]}
    addresses = {"a base": {}, "an index": index, "a displacement": {DISPLACEMENT: _DISPLACEMENT}}
    if not load.kit.BYTES:
        addresses["an index and a displacement"] = {**index, DISPLACEMENT: _DISPLACEMENT}
    bodies = {
        f"a chain of loads by {kind}": load.encode({**given, **address})
        for kind, address in addresses.items()
    }
    learned, figures = _with_figures(laboratory, learned, bodies)
    hypotheses = [Hypothesis(learned, {_COMPLEX: cycles} if cycles else {}) for cycles in _LATER]
    best_fit = _fit_loops(laboratory, bodies, hypotheses, figures)
    if best_fit is None or not best_fit.explained or not best_fit.hypothesis.rules:
        return learned
    basis = f"{len(bodies)} chains of loads by address, {best_fit.gain_note}"
    return fit.with_chosen_rules(learned, best_fit, basis)


@dataclass(frozen=True)
class _Kind:
    """A kind of memory access, by which forms are expected to have the same slots."""

    read: bool
    written: bool
    computing: int  # uops that neither load nor store
    vector: bool
    changes: bool  # a register that it also reads: micro-fusion may hold for such operands alone
    slots: int


def _choose_memory_slots(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the dispatch slots of forms with memory operands."""
    kinds: dict[_Kind, list[Form]] = {}
    for form in forms:
        if kind := _kind_of(learned, form):
            kinds.setdefault(kind, []).append(form)
    uops, indexed = dict(learned.uops), set(learned.indexed)
    for kind, members in kinds.items():
        informative = [form for form in members if _is_informative(learned, form)]
        ranked = _most_used(informative)
        if not ranked:
            continue
        bodies = dict(_beside_moves(learned, ranked))
        learned, figures = _with_figures(laboratory, learned, bodies)
        hypotheses = [
            Hypothesis(_with_slots(learned, ranked, slots, indexed=extra))
            for slots, extra in product(_SLOTS, (False, True))
        ]
        # The learned number of slots comes first, as it wins ties.
        hypotheses.sort(key=lambda one: one.learned.uops[ranked[0].name].slots != kind.slots)
        best_fit = _fit_loops(laboratory, bodies, hypotheses, figures)
        if best_fit is None or not best_fit.explained:
            continue
        best = best_fit.hypothesis.learned
        slots = best.uops[ranked[0].name].slots
        for form in members:
            uops[form.name] = replace(uops[form.name], slots=slots)
            if ranked[0].name in best.indexed:
                indexed.add(form.name)
    learned = replace(learned, uops=uops, indexed=frozenset(indexed))
    return _index_alone(laboratory, learned, forms) if indexed else learned


def _most_used(forms: Sequence[Form]) -> list[Form]:
    """Return the few forms that libraries use most."""
    usage = kits.per_million()
    return sorted(forms, key=lambda form: -usage.get(form.name, 0.0))[:_SAMPLES]


def _kind_of(learned: CoreModel, form: Form) -> _Kind | None:
    """Return the kind of a form's memory access, None if dispatch cannot limit a loop of it."""
    uops, rate, memory = learned.uops[form.name], learned.throughputs[form.name], form.memory
    if memory is None or uops.busy or not rate.clean or rate.cycles > 1 or uops.slots > 2:
        return None
    if memory.reach is not None or memory.moves:
        return None
    vector = any(operand.kind == "vector" for operand in form.operands)
    computing = len(learned.core.computing(uops.ports or ()))
    changes = any(one.read and one.written and one.kind in _REGISTERS for one in form.operands)
    least = int(memory.read and memory.written)
    return _Kind(memory.read, memory.written, max(computing, least), vector, changes, uops.slots)


def _is_informative(learned: CoreModel, form: Form) -> bool:
    """True if the ports of a form are known and its instances hardly wait for each other."""
    return learned.has_ports(form.name) and learned.waits.get(form.name, 0.0) <= 1


def _with_slots(
    learned: CoreModel, forms: Sequence[Form], slots: int, *, indexed: bool
) -> CoreModel:
    """Return the learned core with the slots of forms; indexed says if an index takes one more."""
    names = {form.name for form in forms}
    uops = {name: replace(learned.uops[name], slots=slots) for name in names}
    indexed_forms = learned.indexed | names if indexed else learned.indexed - names
    return replace(learned, uops={**learned.uops, **uops}, indexed=indexed_forms)


def _beside_moves(learned: CoreModel, forms: Sequence[Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of a form with as many moves as one slot, or two, leave in a cycle."""
    for form in forms:
        index = {INDEX: form.kit.POOLS["gpr"].constant[1]}
        for suffix, address in (("", {}), (" with an index", index)):
            for slots in (1, 2):
                moves = learned.width.instructions - slots
                body = _among_moves(form, address, moves)
                yield f"{form.name}{suffix} beside {moves - 1} moves", body


def _among_moves(form: Form, address: Mapping[str, int], moves: int) -> bytes:
    """Return instances of a form, each with so many moves behind it, less one for the branch.

    A form that changes memory has several, as each waits for the one before it at its address.
    """
    changed = form.memory is not None and form.memory.read and form.memory.written
    given = {**form_instances.registers_for(form, {}), **address}
    instances = [
        form.encode({**given, **({DISPLACEMENT: _DISPLACEMENT * word} if changed else {})})
        for word in range(_WORDS if changed else 1)
    ]
    return (form.kit.MOVE * moves).join(instances) + form.kit.MOVE * (moves - 1)


def _index_alone(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the rule whether an index without a base counts as one."""
    most_used = _most_used([form for form in forms if form.name in learned.indexed])
    bodies = {}
    for form in most_used:
        index = {INDEX: form.kit.POOLS["gpr"].constant[0], BASE: NO_BASE}
        moves = learned.width.instructions - learned.uops[form.name].slots
        body = _among_moves(form, index, moves)
        bodies[f"{form.name} with an index alone beside {moves - 1} moves"] = body
    learned, figures = _with_figures(laboratory, learned, bodies)
    hypotheses = [Hypothesis(learned, {ALONE: alone}) for alone in (True, False)]
    best_fit = _fit_loops(laboratory, bodies, hypotheses, figures)
    if best_fit is None or not best_fit.explained:
        return learned
    kind = "loops of memory operands with an index alone"
    basis = f"{len(bodies)} {kind}, {best_fit.error_note}"
    return fit.with_chosen_rules(learned, best_fit, basis)


def choose_balanced(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with ports that rename binds evenly, where it does.

    The front end has to be known, as it limits some of the loops.
    """
    rule, _ = learned.assigned
    forms = [form for form in forms if learned.has_ports(form.name)]
    load = next((form for form in forms if form.name == laboratory.kit.LOAD), None)
    if rule.get("assign") != "at_issue" or load is None:
        return learned
    bodies = {**dict(_chains(load)), **dict(_computing(learned, load))}
    bodies |= dict(_moving(load)) | dict(_drawn(learned, forms)) | dict(_pairs(load))
    learned, figures = _with_figures(laboratory, learned, bodies)
    tested = [body for name, body in bodies.items() if name.startswith((_DRAWN, _BESIDE))]
    branches = list(_branch_loops(learned))
    counted, tested = [*bodies.values(), *branches], [*tested, *branches]

    def time(core: Laboratory) -> list[Figure]:
        return time_loops(core, counted, tested)

    figures = [*figures, *laboratory.iterations(branches), *laboratory.tested_iterations(tested)]
    codes = loop_codes(laboratory, counted, tested)
    hypotheses = [Hypothesis(learned), *_balanced_hypotheses(_without_taken_ports(learned))]
    best_fit = fit.fit(laboratory, codes, time, hypotheses, figures)
    if best_fit is None or not best_fit.explained:
        return learned
    if best_fit.error > _LEFT_BALANCED * best_fit.error_of(0):
        return learned
    best = best_fit.hypothesis
    states = ({**ages, **entered} for ages, entered in product(_SEEN, _ENTERED))
    hypotheses = [Hypothesis(learned)]
    hypotheses += [replace(best, rules={**best.rules, **state}) for state in states]
    best_fit = fit.fit(laboratory, codes, time, hypotheses, figures) or best_fit
    kind = "loops of uops that wait for one load, of moves and of branches"
    basis = f"{len(figures)} {kind}, {best_fit.gain_note}"
    return fit.with_chosen_rules(best_fit.hypothesis.learned, best_fit, basis)


def _chains(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield chains of a load, two uops that read it, and independent uops between them."""
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    register, (one, other, *_) = pool.back[0], pool.own
    (result,) = (operand for operand in load.chosen if operand.written)
    first = load.encode({result.label: register, BASE: register})
    behind = b"".join([*kit.make_dependent(one, other)[:1], *kit.make_dependent(register, one)])
    for number in _BETWEEN:
        free = b"".join(_independent(load.kit, number))
        reads = [kit.transfer("gpr", "gpr", register, to) for to in (one, other)]
        body = first + reads[0] + free + reads[1] + behind
        yield f"two uops that read a load, {number} between them", body


def _independent(kit: Kit, number: int) -> list[bytes]:
    """Return uops whose operands nothing writes."""
    pool = kit.POOLS["gpr"]
    free = [one for one in pool.others if one not in pool.back]
    return [
        kit.transfer("gpr", "gpr", pool.constant[0], free[n % len(free)]) for n in range(number)
    ]


def _computing(learned: CoreModel, load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield loops of computing uops, and moves behind them."""
    width = learned.width.instructions
    for number in range(width - 1, 2 * width - 2):
        moves = 2 * width - number
        body = b"".join(_independent(load.kit, number)) + load.kit.MOVE * moves
        yield f"{number} uops that compute and {moves} moves", body


def _moving(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield loops of registers with a loop-carried dependency, as pointers have, and loads."""
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    (result,) = (operand for operand in load.chosen if operand.written)
    loaded = load.encode({result.label: pool.own[0], BASE: pool.constant[0]})
    for number in _MOVING:
        links = b"".join(kit.transfer("gpr", "gpr", one, one) for one in pool.others[:number])
        for label, code in (("", b""), (", and a load", loaded)):
            yield f"{number} registers that wait for themselves{label}", code + links
            add = kit.add_with_carry(pool.others[number])
            yield f"{number} registers that wait for themselves, a carry{label}", code + add + links


def _drawn(learned: CoreModel, forms: Sequence[Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of cheap forms on general registers, drawn by their use in libraries.

    Registers are random, so that many instances depend on each other.
    """
    cheap = [form for form in forms if is_cheap(learned, form)]
    weights = kits.usage_weights(cheap, RARE)
    draw = random.Random(_SEED)
    for number in range(_LOOPS if cheap else 0):
        drawn = draw.choices(cheap, weights, k=draw.choice(_LENGTHS))
        body = b"".join(random_instance(form, draw) for form in drawn)
        yield f"{_DRAWN} {number} of {len(drawn)} cheap instructions", body


def is_cheap(learned: CoreModel, form: Form) -> bool:
    """True if a form of free general registers has a high throughput and stores nothing."""
    rate = learned.throughputs[form.name]
    gpr = all(one.kind in ("gpr", "flags", "") and one.fixed is None for one in form.operands)
    memory = form.memory is None or (not form.memory.written and not form.memory.moves)
    return memory and gpr and rate.clean and rate.cycles <= _CHEAP


def random_instance(
    form: Form,
    draw: random.Random,
    written: Sequence[int] = (),
    read: Sequence[int] = (),
) -> bytes:
    """Return an instance on random general registers, by default from the whole pools."""
    pool = form.kit.POOLS["gpr"]
    written, read = written or pool.others, read or (*pool.others, *pool.constant)
    given = {one.label: draw.choice(written if one.written else read) for one in form.chosen}
    if form.memory:
        given[BASE] = pool.constant[0]
        given |= {INDEX: pool.constant[1]} if INDEX in given else {}
    return form.encode(given)


def _pairs(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield loops of tests, each fused with a branch that is not taken."""
    kit = load.kit
    pair = flags_pair(kit)
    if not pair or kit.BYTES:
        return
    for number in _PAIRS:
        yield f"{number} tests and branches not taken", pair * number
    for number in _COMPUTING:
        free = b"".join(_independent(load.kit, number))
        yield f"{_BESIDE} {number} uops that compute", pair + free
        pool = kit.POOLS["gpr"].others[:number]
        links = b"".join(kit.transfer("gpr", "gpr", one, one) for one in pool)
        yield f"{_BESIDE} {number} registers that wait for themselves", pair + links


def flags_pair(kit: Kit) -> bytes:
    """Return a test and a branch by it that is not taken; empty where no branch goes by carry."""
    branch = next((one for one in kit.BRANCHES if one.kind == "c"), None)
    return kit.break_dependency("flags", 0) + branch.code if branch else b""


def _balanced_hypotheses(learned: CoreModel) -> Iterator[Hypothesis]:
    """Yield hypotheses of balanced binding, with the ports of branches and their limits."""
    integer = list(dict.fromkeys(learned.core.integer_classes))
    classes = {ports for ports in integer if len(ports) >= _LEAST}
    for ports in sorted(classes, key=lambda one: (-len(one), sorted(one))):
        rules: dict[str, object] = dict(_SEEN[0])
        if window := learned.windows.by_name.get(SCHEDULER):
            parts = [n for n in window.kinds.values() if n < window.value] or [window.value]
            rules["ports.balanced_entries"] = ceil(max(parts) / len(ports))
        tried = set()
        for order in _orders(ports, integer):
            for core, branch in _branch_rules(learned, order, integer):
                yield Hypothesis(core, {BALANCED: order, **rules, **branch})
            for core, branch in _joint_rules(learned, integer):
                last = str(branch[_SECOND])
                ordered = order.replace(last, "") + last
                if (ordered, branch[RESULTS]) not in tried:
                    tried.add((ordered, branch[RESULTS]))
                    yield Hypothesis(core, {BALANCED: ordered, **rules, **branch})


def _orders(ports: Ports, integer: Sequence[Ports]) -> Iterator[str]:
    """Yield the names of ports in each order that tells the classes of which they are apart."""
    told: set[tuple[tuple[bool, ...], ...]] = set()
    for order in permutations(sorted(ports)):
        kinds = tuple(tuple(port in one for one in integer) for port in order)
        if kinds not in told:
            told.add(kinds)
            yield "".join(core_files.port_names(frozenset({port})) for port in order)


def _without_taken_ports(learned: CoreModel) -> CoreModel:
    """Return the learned core without the ports of taken branches.

    They were found on a core without such binding, which prolongs the same loops.
    """
    rules = {n: value for n, value in learned.rules.items() if n not in (TAKEN, RESULTS)}
    return replace(learned, rules=rules)


def _ports_of_branches(balanced: str, integer: Sequence[Ports]) -> Iterator[Rules]:
    """Yield ports of taken branches or of pairs with a result, and schedulers of second uops."""
    yield {TAKEN: balanced}
    yield {}
    for names in map(core_files.port_names, integer):
        yield {RESULTS: names}
        if len(names) == _FEW:
            yield from ({RESULTS: names, _SECOND: port} for port in names)


def _branch_rules(
    learned: CoreModel, balanced: str, integer: Sequence[Ports]
) -> Iterator[tuple[CoreModel, Rules]]:
    """Yield the possible ports of branches, and how many are dispatched in a cycle.

    The plainest: taken branches are bound like all other uops. A fused pair that has a result may
    need the ports of a class, and branches may have these besides their own; the number that runs
    in a cycle alone is then the dispatch limit. The scheduler of one of two such ports may take a
    second uop of a cycle.
    """
    limits: list[Rules] = [{}, *({"rename.branches": n} for n in (1, 2))]
    for port_rule, limit in product(_ports_of_branches(balanced, integer), limits):
        yield learned, {**port_rule, **limit}
    own = learned.branches.ports
    most = {"rename.branches": max(map(len, own.values()), default=1)}
    for ports in integer:
        wider = {name: own_ports | ports for name, own_ports in own.items()}
        yield _with_branch_ports(learned, wider), {RESULTS: core_files.port_names(ports), **most}


def _joint_rules(learned: CoreModel, integer: Sequence[Ports]) -> Iterator[tuple[CoreModel, Rules]]:
    """Yield a branch unit beside one of two ports that run fused pairs with a result.

    The unit executes the branch of such a pair on that port, before older branches; the scheduler
    of both takes a second uop of a cycle. Branches without a result have all three ports.
    """
    own = learned.branches.ports
    units = frozenset().union(*own.values()).difference(*integer)
    if len(units) != 1:
        return
    unit = core_files.port_names(units)
    for ports in (ports for ports in integer if len(ports) == _FEW):
        core = _with_branch_ports(learned, dict.fromkeys(own, units | ports))
        results = core_files.port_names(ports)
        for port in results:
            joint: Rules = {JOINT: port + unit, _PATIENCE: _PASSED, SHARED: port + unit}
            yield core, {RESULTS: results, _SECOND: port, **joint}


def _with_branch_ports(learned: CoreModel, ports: dict[str, Ports]) -> CoreModel:
    """Return the learned core with other ports of branches, by name."""
    return replace(learned, branches=replace(learned.branches, ports=ports))


def choose_loading_pairs(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the pairs of a branch and a form that reads memory."""
    kit = laboratory.kit
    fused = {f.mnemonic: learned.fusion[f.name] for f in forms if f.name in learned.fusion}
    reading = [
        form
        for form in forms
        if form.memory and form.memory.read and not form.memory.written
        if form.mnemonic in fused and form.name not in learned.fusion
        if learned.has_ports(form.name)
    ]
    branch = next((one for one in kit.BRANCHES if one.kind == "o"), None)
    comparing = [form for form in reading if not any(one.written for one in form.chosen)]
    if not comparing or branch is None:
        return learned
    width = learned.width.instructions
    bodies = {}
    for form in _most_used(comparing):
        pair = form.encode(form_instances.registers_for(form, {})) + branch.code
        for number in _COMPUTING:
            name = f"{form.name} and a branch not taken beside {number} uops that compute"
            bodies[name] = pair + b"".join(_independent(kit, number))
        for number in (width - 2, 2 * width - 2):
            name = f"{form.name} and a branch not taken beside {number} moves"
            bodies[name] = pair + kit.MOVE * number
    learned, figures = _with_figures(laboratory, learned, bodies)
    fusion = {**learned.fusion, **{form.name: fused[form.mnemonic] for form in reading}}
    pairs = replace(learned, fusion=fusion)
    hypotheses = [Hypothesis(learned), Hypothesis(pairs), Hypothesis(pairs, {LOAD_SLOTS: 2})]
    best_fit = _fit_loops(laboratory, bodies, hypotheses, figures)
    if best_fit is None or not best_fit.explained or best_fit.hypothesis.learned is learned:
        return learned
    basis = f"{len(bodies)} loops of a branch and what reads memory, {best_fit.gain_note}"
    return fit.with_chosen_rules(best_fit.hypothesis.learned, best_fit, basis)


def choose_load_entries(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the ports that compute with a load in one scheduler entry."""
    core, loads = learned.core, learned.core.class_ports(laboratory.kit.LOAD)
    if SHARED not in learned.rules or loads is None:
        return learned
    every = max(core.integer_classes, key=len)
    schedulers = str(learned.rules[SHARED][0]).split()
    beside = [word for word in schedulers if set(word) & set(core_files.port_names(loads))]
    names = {port: core_files.port_names(frozenset({port})) for port in every}
    left = frozenset(port for port in every if any(names[port] in word for word in beside))
    bodies = dict(_beside_loads(learned, forms, every, left))
    if not bodies or left == every:
        return learned
    learned, figures = _with_figures(laboratory, learned, bodies)
    hypotheses = [Hypothesis(learned), Hypothesis(replace(learned, beside_loads=left))]
    best_fit = _fit_loops(laboratory, bodies, hypotheses, figures)
    if best_fit is None or not best_fit.explained or best_fit.error > LEFT * best_fit.error_of(0):
        return learned
    return best_fit.hypothesis.learned


def _beside_loads(
    learned: CoreModel, forms: Sequence[Form], every: Ports, left: Ports
) -> Iterator[tuple[str, bytes]]:
    """Yield loops of blocking instructions and of forms that load and compute, on too few ports."""
    loading = [
        form
        for form in forms
        if form.memory and form.memory.read and not form.memory.written
        if learned.has_ports(form.name) and learned.uops[form.name].slots == 1
        if len(ports := learned.uops[form.name].ports or ()) > 1
        if learned.core.computing(ports) == [every]
    ]
    narrow = [ports for ports in dict.fromkeys(learned.core.integer_classes) if ports < left]
    for form, blocked in product(_most_used(loading), narrow):
        if blocker := learned.core.blocker_of(blocked):
            more = len(left) + 1 - len(blocked)
            parts = [(blocker, len(blocked) * _ENTRIES), (form, more * _ENTRIES)]
            body = b"".join(port_classes.mixture(parts))
            yield f"{len(blocked)} of {blocker.name} and {more} of {form.name}", body


def choose_taken_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the ports of taken branches."""
    if not learned.branches.ports:
        return learned
    bodies = list(_branch_loops(learned))
    codes = loop_codes(laboratory, bodies, bodies)
    hypotheses = [Hypothesis(learned, rules) for rules in _taken_port_rules(learned)]
    best_fit = fit.fit(laboratory, codes, lambda core: time_loops(core, bodies, bodies), hypotheses)
    if best_fit is None or not best_fit.explained or not best_fit.hypothesis.rules:
        return learned
    plain = best_fit.error_of(0)
    if best_fit.error > LEFT * plain:
        return learned
    basis = f"{2 * len(bodies)} loops of what keeps a class of ports busy, {best_fit.error_note}"
    basis += f", {100 * plain:.1f} % on the ports of branches not taken"
    return fit.with_rules(learned, best_fit.hypothesis.rules, fitted(basis))


def _branch_loops(learned: CoreModel) -> Iterator[bytes]:
    """Yield bodies of loops whose branch meets blocking instructions of a class."""
    for one in learned.core.classes:
        if one.blocker.memory or not learned.has_ports(one.blocker.name):
            continue
        for number in (_FILLED * one.size - 1, _FILLED * one.size):
            instances = form_instances.Instances()
            yield b"".join(instances.of(one.blocker) for _ in range(number))


def _taken_port_rules(learned: CoreModel) -> Iterator[Rules]:
    """Yield the possible ports of taken branches, those of all branches first."""
    yield {}
    core = learned.core
    computing = [
        ports for one, ports in zip(core.classes, core.ports, strict=True) if not one.blocker.memory
    ]
    own = frozenset().union(*learned.branches.ports.values())
    for ports in dict.fromkeys([*computing, *(frozenset({port}) for port in sorted(own))]):
        yield {TAKEN: core_files.port_names(ports)}
    for ports in dict.fromkeys(core.integer_classes):
        yield {RESULTS: core_files.port_names(ports)}


def time_loops(
    laboratory: Laboratory, counted: Sequence[bytes], tested: Sequence[bytes]
) -> list[Figure]:
    """Time loops, some of which count first and test the count last."""
    return [*laboratory.iterations(counted), *laboratory.tested_iterations(tested)]


def loop_codes(
    laboratory: Laboratory, counted: Sequence[bytes], tested: Sequence[bytes]
) -> list[bytes]:
    """Return the code of loops, some of which count first and test the count last."""
    counter = COUNTER[laboratory.isa]
    return [*counted, *(block.tested(laboratory.isa, counter, body) for body in tested)]
