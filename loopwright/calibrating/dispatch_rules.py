"""Dispatch rules: slots of indexed memory operands, late addresses, and rotated port binding.

Slots. Microbenchmarks: loops of a form with a memory operand and of moves, which dispatch limits,
with and without an index. The simulator predicts them with one to three slots, and with one more
for base and index. All forms with the same kind of access take the slots of the most used ones.

Late addresses: chains of loads with an index, with a displacement, and with both.

Taken branches: loops whose branch meets blocking instructions of a class, as many as its ports take
in a few cycles, and one less. The branch follows the count directly, or a test of the count, which
then comes first. On some cores a fused pair that has a result uses the ports of arithmetic, and a
pair without one those of branches.

Rotated binding: some cores bind uops to ports in turn at rename, before it is known when they can
start. Two uops that read one load then wait for each other if a multiple of the ports is between
them. Microbenchmarks: chains of a load, two uops that read it, and independent uops between them;
loops of computing uops and moves; the loops of taken branches.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating import core_files, fit
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.core_model import CoreModel, fitted
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.calibrating.ports import Ports
from loopwright.measuring import block
from loopwright.microbench import form_instances, kits
from loopwright.microbench.forms import BASE, DISPLACEMENT, INDEX, NO_BASE, Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import COUNTER
from loopwright.microbench.windows import SCHEDULER

ALONE = "rename.index_alone"
TAKEN, RESULTS = "ports.taken_branch", "macro_fusion.result_ports"
_LEAD, _LEADS = "ports.rotated_lead", (3, 2, 4, 5, 6)  # the first one wins ties
_EACH, _FEW = "ports.rotated_uops", (1, 2)  # that each port in rotation takes in a cycle
_FILLED = 2  # cycles of a full loop; a shorter one may be limited by delivery
_LESS = 0.8  # share of the error without rotated binding that is left, at most
LEFT = 0.5  # share of the error with the ports of branches not taken that is left, at most
_COMPLEX = "memory.complex_address_cycles"
_SAMPLES = 3  # forms of each kind of access
RARE = 1.0  # weight of forms that libraries hardly use, as instructions per million
_SLOTS = (1, 2, 3)
_LATER = range(4)  # cycles
_BETWEEN = range(9)  # uops between two that read one load
_LEAST = 3  # ports in the rotation, at least
_SEED, _LOOPS, _LENGTHS = 61, 60, (2, 3, 4, 5, 6, 8, 10, 13)
_DRAWN, _BESIDE = "a loop drawn", "a test and a branch not taken beside"
_COMPUTING = range(1, 7)
_MOVING = range(1, 5)
_PAIRS = range(1, 5)  # pairs of a test and a branch not taken
_CHEAP = 0.6  # cycles of an instance
_STEP = 8  # bytes
"""A displacement with an index, where memory holds pointers."""
_WORDS = 8  # that instances of a form change in turn, so that none waits for its store
_REGISTERS = ("gpr", "vector")


def choose_dispatch_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the rules of memory operands; unchanged without a load."""
    named = {form.name: form for form in forms if form.name in learned.uops}
    every = list(named.values())
    named = {name: form for name, form in named.items() if learned.has_ports(name)}
    if laboratory.kit.LOAD not in named:
        return learned
    learned = _addresses(laboratory, learned, named[laboratory.kit.LOAD])
    if not laboratory.kit.BYTES:
        learned = _slots(laboratory, learned, every)
    return learned


def _timed(
    laboratory: Laboratory, learned: CoreModel, bodies: Mapping[str, bytes]
) -> tuple[CoreModel, list[Figure]]:
    """Return the learned core with the cycles of loops, and these cycles."""
    figures = laboratory.iterations(list(bodies.values()))
    named = dict(zip(bodies, figures, strict=True))
    return replace(learned, figures={**learned.figures, **named}), figures


def _fitted(
    laboratory: Laboratory,
    bodies: Mapping[str, bytes],
    hypotheses: Sequence[Hypothesis],
    figures: Sequence[Figure],
) -> fit.Fit | None:
    codes = list(bodies.values())
    return fit.fit(laboratory, codes, lambda core: core.iterations(codes), hypotheses, figures)


def _addresses(laboratory: Laboratory, learned: CoreModel, load: Form) -> CoreModel:
    """Return the learned core with the extra latency of addresses of base, index and more."""
    register = load.kit.POOLS["gpr"].back[0]
    (result,) = (operand for operand in load.chosen if operand.written)
    given = {result.label: register, BASE: register}
    index = {INDEX: load.kit.POOLS["gpr"].constant[1]}
    operands = {"a base": {}, "an index": index, "a displacement": {DISPLACEMENT: _STEP}}
    if not load.kit.BYTES:
        operands["an index and a displacement"] = {**index, DISPLACEMENT: _STEP}
    bodies = {
        f"a chain of loads by {kind}": load.encode({**given, **operand_numbers})
        for kind, operand_numbers in operands.items()
    }
    learned, figures = _timed(laboratory, learned, bodies)
    tried = [Hypothesis(learned, {_COMPLEX: later} if later else {}) for later in _LATER]
    found = _fitted(laboratory, bodies, tried, figures)
    if found is None or not found.explained or not found.hypothesis.rules:
        return learned
    kind = f"{len(bodies)} chains of loads by address, mean error {100 * found.error:.1f} %, "
    return fit.with_chosen_rules(learned, found, f"{kind}{100 * found.error_of(0):.1f} % without")


@dataclass(frozen=True)
class _Kind:
    """A kind of memory access."""

    read: bool
    written: bool
    computing: int  # uops that neither load nor store
    vector: bool
    changes: bool  # a register that it also reads: micro-fusion may hold for such operands alone
    slots: int


def _slots(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the dispatch slots of forms with memory operands."""
    usage = kits.per_million()
    kinds: dict[_Kind, list[Form]] = {}
    for form in forms:
        if kind := _kind(learned, form):
            kinds.setdefault(kind, []).append(form)
    known, indexed = dict(learned.uops), set(learned.indexed)
    for kind, members in kinds.items():
        informative = [form for form in members if _tells(learned, form)]
        ranked = sorted(informative, key=lambda form: -usage.get(form.name, 0.0))[:_SAMPLES]
        if not ranked:
            continue
        bodies = dict(_beside_moves(learned, ranked))
        learned, figures = _timed(laboratory, learned, bodies)
        tried = [
            Hypothesis(_with_slots(learned, ranked, slots, more=more))
            for slots, more in product(_SLOTS, (False, True))
        ]
        # The learned number of slots comes first, as it wins ties.
        tried.sort(key=lambda one: one.learned.uops[ranked[0].name].slots != kind.slots)
        found = _fitted(laboratory, bodies, tried, figures)
        if found is None or not found.explained:
            continue
        best = found.hypothesis.learned
        slots = best.uops[ranked[0].name].slots
        for form in members:
            known[form.name] = replace(known[form.name], slots=slots)
            if ranked[0].name in best.indexed:
                indexed.add(form.name)
    learned = replace(learned, uops=known, indexed=frozenset(indexed))
    return _index_alone(laboratory, learned, forms) if indexed else learned


def _kind(learned: CoreModel, form: Form) -> _Kind | None:
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


def _tells(learned: CoreModel, form: Form) -> bool:
    """True if the ports of a form are known and its instances hardly wait for each other."""
    return learned.has_ports(form.name) and learned.waits.get(form.name, 0.0) <= 1


def _with_slots(learned: CoreModel, forms: Sequence[Form], slots: int, *, more: bool) -> CoreModel:
    names = {form.name for form in forms}
    uops = {name: replace(learned.uops[name], slots=slots) for name in names}
    indexed = learned.indexed | names if more else learned.indexed - names
    return replace(learned, uops={**learned.uops, **uops}, indexed=indexed)


def _beside_moves(learned: CoreModel, forms: Sequence[Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of a form with as many moves as one slot, or two, leave in a cycle."""
    for form in forms:
        index = {INDEX: form.kit.POOLS["gpr"].constant[1]}
        for suffix, index_operand in (("", {}), (" with an index", index)):
            for slots in (1, 2):
                moves = learned.width.instructions - slots
                body = _among_moves(form, index_operand, moves)
                yield f"{form.name}{suffix} beside {moves - 1} moves", body


def _among_moves(form: Form, more: Mapping[str, int], moves: int) -> bytes:
    """Return instances of a form, each with so many moves behind it, less one for the branch.

    A form that changes memory has several, as each waits for the one before it at its address.
    """
    changed = form.memory is not None and form.memory.read and form.memory.written
    registers = form_instances.registers_for(form, {})
    instances = [
        form.encode({**registers, **more, **({DISPLACEMENT: _STEP * word} if changed else {})})
        for word in range(_WORDS if changed else 1)
    ]
    return (form.kit.MOVE * moves).join(instances) + form.kit.MOVE * (moves - 1)


def _index_alone(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the rule whether an index without a base counts as one."""
    usage = kits.per_million()
    most_used = [form for form in forms if form.name in learned.indexed]
    most_used = sorted(most_used, key=lambda form: -usage.get(form.name, 0.0))[:_SAMPLES]
    bodies = {}
    for form in most_used:
        more = {INDEX: form.kit.POOLS["gpr"].constant[0], BASE: NO_BASE}
        moves = learned.width.instructions - learned.uops[form.name].slots
        body = _among_moves(form, more, moves)
        bodies[f"{form.name} with an index alone beside {moves - 1} moves"] = body
    learned, figures = _timed(laboratory, learned, bodies)
    tried = [Hypothesis(learned, {ALONE: alone}) for alone in (True, False)]
    found = _fitted(laboratory, bodies, tried, figures)
    if found is None or not found.explained:
        return learned
    note = f"{len(bodies)} loops of memory operands with an index alone, mean error "
    return fit.with_chosen_rules(learned, found, f"{note}{100 * found.error:.1f} %")


def choose_turns(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with rotated port binding, where rename does it.

    The front end has to be known, as it limits some of the loops.
    """
    rule, _ = learned.assigned
    forms = [form for form in forms if learned.has_ports(form.name)]
    load = next((form for form in forms if form.name == laboratory.kit.LOAD), None)
    if rule.get("assign") != "at_issue" or load is None:
        return learned
    bodies = {**dict(_chains(load)), **dict(_computing(learned, load))}
    bodies |= dict(_moving(load)) | dict(_drawn(learned, forms)) | dict(_pairs(load))
    learned, figures = _timed(laboratory, learned, bodies)
    tested = [body for name, body in bodies.items() if name.startswith((_DRAWN, _BESIDE))]
    branches = list(_branch_loops(learned))
    counted, tested = [*bodies.values(), *branches], [*tested, *branches]

    def time(core: Laboratory) -> list[Figure]:
        return [*core.iterations(counted), *core.tested_iterations(tested)]

    figures = [*figures, *laboratory.iterations(branches), *laboratory.tested_iterations(tested)]
    codes = loop_codes(laboratory, counted, tested)
    tried = [Hypothesis(learned), *_in_turn(_without_taken_ports(learned))]
    found = fit.fit(laboratory, codes, time, tried, figures)
    if found is None or not found.explained or found.error > _LESS * found.error_of(0):
        return learned
    best = found.hypothesis
    tried = [Hypothesis(learned), *(replace(best, rules={**best.rules, _LEAD: n}) for n in _LEADS)]
    found = fit.fit(laboratory, codes, time, tried, figures) or found
    note = f"{len(figures)} loops of uops that wait for one load, of moves and of branches, mean "
    note += f"error {100 * found.error:.1f} %, {100 * found.error_of(0):.1f} % without"
    learned = fit.with_chosen_rules(found.hypothesis.learned, found, note)
    rules: list[Rules] = [{}, *({_EACH: n} for n in _FEW)]
    return fit.with_less_error(
        laboratory, learned, codes, time, rules, "loops of these", _LESS, figures
    )


def _chains(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield chains of a load, two uops that read it, and independent uops between them."""
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    register, (one, other, *_) = pool.back[0], pool.own
    (result,) = (operand for operand in load.chosen if operand.written)
    first = load.encode({result.label: register, BASE: register})
    behind = b"".join([*kit.make_dependent(one, other)[:1], *kit.make_dependent(register, one)])
    for number in _BETWEEN:
        free = b"".join(_independent(load, number))
        reads = [kit.transfer("gpr", "gpr", register, to) for to in (one, other)]
        body = first + reads[0] + free + reads[1] + behind
        yield f"two uops that read a load, {number} between them", body


def _independent(load: Form, number: int) -> list[bytes]:
    """Return uops whose operands nothing writes."""
    pool = load.kit.POOLS["gpr"]
    free = [one for one in pool.others if one not in pool.back]
    return [
        load.kit.transfer("gpr", "gpr", pool.constant[0], free[n % len(free)])
        for n in range(number)
    ]


def _computing(learned: CoreModel, load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield loops of computing uops, and moves behind them."""
    width = learned.width.instructions
    for number in range(width - 1, 2 * width - 2):
        moves = 2 * width - number
        body = b"".join(_independent(load, number)) + load.kit.MOVE * moves
        yield f"{number} uops that compute and {moves} moves", body


def _moving(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield loops of registers with a loop-carried dependency, as pointers have, and loads."""
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    (result,) = (operand for operand in load.chosen if operand.written)
    loaded = load.encode({result.label: pool.own[0], BASE: pool.constant[0]})
    for number in _MOVING:
        links = b"".join(kit.transfer("gpr", "gpr", one, one) for one in pool.others[:number])
        for label, more in (("", b""), (", and a load", loaded)):
            yield f"{number} registers that wait for themselves{label}", more + links
            add = kit.add_with_carry(pool.others[number])
            yield f"{number} registers that wait for themselves, a carry{label}", more + add + links


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
    """True if a form has freely chosen general registers and a high throughput."""
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
    branch = next((one for one in kit.BRANCHES if one.kind == "c"), None)
    if branch is None or kit.BYTES:
        return
    pair = kit.break_dependency("flags", 0) + branch.code
    for number in _PAIRS:
        yield f"{number} tests and branches not taken", pair * number
    for number in _COMPUTING:
        free = b"".join(_independent(load, number))
        yield f"{_BESIDE} {number} uops that compute", pair + free
        pool = kit.POOLS["gpr"].others[:number]
        links = b"".join(kit.transfer("gpr", "gpr", one, one) for one in pool)
        yield f"{_BESIDE} {number} registers that wait for themselves", pair + links


def _in_turn(learned: CoreModel) -> Iterator[Hypothesis]:
    """Yield hypotheses of rotated binding, with their limits of dispatch and branches."""
    integer = list(dict.fromkeys(learned.core.integer_classes))
    classes = {ports for ports in integer if len(ports) >= _LEAST}
    for ports in sorted(classes, key=lambda one: (-len(one), sorted(one))):
        own: dict[str, object] = {"ports.rotated": core_files.letters(ports), _LEAD: _LEADS[0]}
        if window := learned.windows.by_name.get(SCHEDULER):
            parts = [n for n in window.kinds.values() if n < window.value] or [window.value]
            own["ports.rotated_entries"] = max(parts) // len(ports)
        limit = Between(len(ports), len(ports), learned.width.instructions, "up to no limit")
        for fewer in ({}, {"rename.alu_uops": limit}):
            for core, branch in _branching(learned, own["ports.rotated"], integer):
                yield Hypothesis(core, {**own, **fewer, **branch})


def _without_taken_ports(learned: CoreModel) -> CoreModel:
    """Return the learned core without the ports of taken branches.

    They were found on a core without rotation, which prolongs the same loops.
    """
    kept = {name: one for name, one in learned.rules.items() if name not in (TAKEN, RESULTS)}
    return replace(learned, rules=kept)


def _branching(
    learned: CoreModel, rotated: object, integer: Sequence[Ports]
) -> Iterator[tuple[CoreModel, Rules]]:
    """Yield the possible ports of branches, and how many are dispatched in a cycle.

    The plainest: taken branches are rotated like all other uops. A fused pair that has a result may
    need the ports of a class, and branches may have these besides their own. The number that runs
    in a cycle alone is then the dispatch limit.
    """
    branch: list[Rules] = [{TAKEN: rotated}, {}]
    branch += [{RESULTS: core_files.letters(ports)} for ports in integer]
    few: list[Rules] = [{}, *({"rename.branches": n} for n in (1, 2))]
    for one, most in product(branch, few):
        yield learned, {**one, **most}
    known = learned.branches.ports
    for ports in integer:
        wider = replace(learned.branches, ports={name: own | ports for name, own in known.items()})
        alone = {"rename.branches": max(map(len, known.values()), default=1)}
        yield replace(learned, branches=wider), {RESULTS: core_files.letters(ports), **alone}


def choose_taken_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the ports of taken branches."""
    if not learned.branches.ports:
        return learned
    bodies = list(_branch_loops(learned))

    def time(core: Laboratory) -> list[Figure]:
        return [*core.iterations(bodies), *core.tested_iterations(bodies)]

    tried = [Hypothesis(learned, one) for one in _choices(learned)]
    found = fit.fit(laboratory, loop_codes(laboratory, bodies, bodies), time, tried)
    if found is None or not found.explained or not found.hypothesis.rules:
        return learned
    plain = found.error_of(0)
    if found.error > LEFT * plain:
        return learned
    note = f"{2 * len(bodies)} loops of what keeps a class of ports busy, mean error "
    note += f"{100 * found.error:.1f} %, {100 * plain:.1f} % on the ports of branches not taken"
    return fit.with_rules(learned, found.hypothesis.rules, fitted(note))


def _branch_loops(learned: CoreModel) -> Iterator[bytes]:
    """Yield bodies of loops whose branch meets blocking instructions of a class."""
    for one in learned.core.classes:
        if one.blocker.memory or not learned.has_ports(one.blocker.name):
            continue
        for number in (_FILLED * one.size - 1, _FILLED * one.size):
            instances = form_instances.Instances()
            yield b"".join(instances.of(one.blocker) for _ in range(number))


def _choices(learned: CoreModel) -> Iterator[Rules]:
    """Yield the possible ports of taken branches, those of all branches first."""
    yield {}
    core = learned.core
    computing = [
        ports for one, ports in zip(core.classes, core.ports, strict=True) if not one.blocker.memory
    ]
    own = frozenset().union(*learned.branches.ports.values())
    for ports in dict.fromkeys([*computing, *(frozenset({port}) for port in sorted(own))]):
        yield {TAKEN: core_files.letters(ports)}
    for ports in dict.fromkeys(core.integer_classes):
        yield {RESULTS: core_files.letters(ports)}


def loop_codes(
    laboratory: Laboratory, counted: Sequence[bytes], tested: Sequence[bytes]
) -> list[bytes]:
    """Return the code of loops, some of which count first and test the count last."""
    counter = COUNTER[laboratory.isa]
    return [*counted, *(block.tested(laboratory.isa, counter, body) for body in tested)]
