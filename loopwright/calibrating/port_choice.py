"""Port choice at rename: rules for cores that bind uops to ports before they can start.

Chains. Microbenchmarks: dependent instructions that share two ports, among independent cheap
instructions. They show whether rename takes whole groups only, and whether two kinds of
instructions start later: shifts of a register with a constant that rename added, and conditional
moves by flags of a logical instruction.

Loads by one pointer. Microbenchmarks: a pointer chase, and loads by the same pointer, which can
start at the same time. Where the dispatch slot of a load chooses its port, two of them may
conflict; on some cores loads alternate between ports.

Neighbours. Microbenchmarks: loops of nops and instructions, half of which share two ports. On some
cores, earlier slots of the group without a uop for these ports move a uop to the next choice, and
the counts of waiting uops may be a cycle old. On others each uop before it in the cycle for the
same ports does so, counts lack the uops of the previous cycle, and branches that are not taken
get the port with the fewest uops. The branches that close the loops show whether taken branches
have only one of the branch ports.

Late results. Microbenchmarks: loops of a form whose result takes several cycles and of three to
five chains of cheap instructions that share its port. On some cores a result that takes as many
cycles keeps those of other instructions on the port out of its cycle, so that chains wait.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product

from loopwright.calibrating import core_files, fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.cross_check import IN_TURN
from loopwright.calibrating.dispatch_rules import (
    LEFT,
    RARE,
    TAKEN,
    is_cheap,
    loop_codes,
    random_instance,
    time_loops,
)
from loopwright.calibrating.fit import Rules
from loopwright.calibrating.rename_rules import group_rules
from loopwright.microbench import form_instances, kits
from loopwright.microbench.forms import BASE, DISPLACEMENT, Form
from loopwright.microbench.laboratory import Laboratory

PICKS, SHIFTS = "rename.pick_cycles", "rename.added_shift_cycles"
LOADS, TURNS = "ports.loads_balanced", "ports.load_turns"
NEIGHBOURS, AGE = "ports.neighbours", "ports.counts_age"
IMBALANCE = "ports.imbalance"
RESULTS, PATIENCE = "ports.result_cycles", "ports.result_patience"
_SEED = 71
_CHAINS, _CHASES, _MIXTURES = 300, 120, 400  # loops
_LINKS, _FREE = (3, 8), (1, 8)  # instructions of a chain, and independent ones
_LOADS, _BETWEEN = (1, 4), (0, 7)  # loads beside the chase, and other instructions
_LENGTHS = (3, 4, 5, 6, 8, 10, 12)
_SHARED, _NOPS = 0.45, 0.15  # shares of a mixture
_WORD = 8  # bytes: loads of one word could have a bank conflict
_LATER = (0, 1, 2)  # cycles
_SLOTS, _AGES = range(4), range(3)
_IMBALANCES = (5, 6, 4)  # the first one wins ties
_LATE_FORMS, _LATE_CHAINS = 3, (3, 4, 5)  # forms of each latency, and chains beside one
_LESS = 0.8  # share of the error without late results that is left, at most
_PATIENCE = 3  # cycles in a row, as on Zen 4
_LATEST = 6  # cycles of a late result; later ones are those of dividers and microcode


def choose_port_choice(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the rules of port choice, if rename binds ports.

    The front end has to be known, as it limits some of the loops.
    """
    rule, _ = learned.assigned
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    cheap = [form for form in named.values() if is_cheap(learned, form)]
    pairs = {ports for ports in learned.core.integer_classes if len(ports) == 2}
    computing = [form for form in cheap if form.memory is None]
    shared = [form for form in computing if _single_ports(learned, form) in pairs]
    if rule.get("assign") == "at_issue" or kit.BYTES or not shared or kit.LOAD not in named:
        return learned
    late = [_without_zeros({PICKS: p, SHIFTS: s}) for p, s in product(_LATER, _LATER)]
    pairs_of_rules = product(late, group_rules(learned))
    tried = sorted(({**rules, **groups} for rules, groups in pairs_of_rules), key=len)
    added = [form for form in cheap if form.name in learned.core.renamed_additions]
    learned = _choose_rules(laboratory, learned, dict(_chains(cheap, [*shared, *added])), tried)
    if rule.get("assign") != "dispatch_slots":
        return learned
    chases = dict(_chases(named[kit.LOAD]))
    learned = _choose_rules(laboratory, learned, chases, [{}, {LOADS: True}, {TURNS: True}])
    mixtures = dict(_mixtures(cheap, shared))
    if TAKEN not in learned.rules:
        ports = sorted(frozenset().union(*learned.branches.ports.values()))
        single: list[Rules] = [{TAKEN: core_files.port_names(frozenset({port}))} for port in ports]
        learned = _choose_rules(laboratory, learned, mixtures, [{}, *single], LEFT)
    neighbours = [_without_zeros({AGE: a, NEIGHBOURS: n}) for a, n in product(_AGES, _SLOTS)]
    in_turn: list[Rules] = [{**IN_TURN, IMBALANCE: imbalance} for imbalance in _IMBALANCES]
    choices = product(group_rules(learned), [*sorted(neighbours, key=len), *in_turn])
    tried = [{**rules, **groups} for groups, rules in choices]
    return _choose_rules(laboratory, learned, mixtures, tried)


def _without_zeros(rules: Mapping[str, int]) -> Rules:
    """Return rules without those that are 0."""
    return {name: value for name, value in rules.items() if value}


def _single_ports(learned: CoreModel, form: Form) -> frozenset[int]:
    """Return the ports of a form of one uop; none for other forms."""
    ports = learned.uops[form.name].ports or ()
    return ports[0] if len(ports) == 1 else frozenset()


def _choose_rules(
    laboratory: Laboratory,
    learned: CoreModel,
    bodies: Mapping[str, bytes],
    tried: Sequence[Rules],
    share: float = 1.0,
) -> CoreModel:
    """Return the learned core with the rules that explain loops, which count first or test last.

    share is the share of the error without rules that they may leave.
    """
    loops = list(bodies.values())
    return fit.with_less_error(
        laboratory,
        learned,
        loop_codes(laboratory, loops, loops),
        lambda core: time_loops(core, loops, loops),
        tried,
        f"loops such as {next(iter(bodies), '')}",
        share,
    )


def _chains(cheap: Sequence[Form], linked: Sequence[Form]) -> Iterator[tuple[str, bytes]]:
    """Yield chains of linked forms among independent cheap instructions."""
    draw = random.Random(_SEED)
    links = [form for form in linked if any(o.read and o.written for o in form.chosen)]
    pool = cheap[0].kit.POOLS["gpr"]
    linking, *others = pool.others
    weights = kits.usage_weights(cheap, RARE)
    for number in range(_CHAINS if links else 0):
        drawn = draw.choices(links, k=draw.randint(*_LINKS))
        parts = [random_instance(form, draw, [linking], pool.constant) for form in drawn]
        independent = draw.choices(cheap, weights, k=draw.randint(*_FREE))
        for form in independent:
            instance = random_instance(form, draw, others, [*others, *pool.constant])
            parts.insert(draw.randint(0, len(parts)), instance)
        name = f"chain {number} of {len(drawn)} links beside {len(independent)} others"
        yield name, b"".join(parts)


def _chases(load: Form) -> Iterator[tuple[str, bytes]]:
    """Yield pointer chases with loads, and other instructions, by the same pointer."""
    draw = random.Random(_SEED + 1)
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    (result,) = (operand for operand in load.chosen if operand.written)
    pointer = pool.back[0]
    free = [register for register in pool.others if register != pointer]
    for number in range(_CHASES):
        parts = [load.encode({result.label: pointer, BASE: pointer})]
        loads, others = draw.randint(*_LOADS), draw.randint(*_BETWEEN)
        for word in range(1, loads + 1):
            given = {result.label: draw.choice(free), BASE: pointer, DISPLACEMENT: _WORD * word}
            parts.insert(draw.randint(0, len(parts)), load.encode(given))
        for _ in range(others):
            copy = kit.transfer("gpr", "gpr", pointer, draw.choice(free))
            part = draw.choice([kit.SHORT, copy])
            parts.insert(draw.randint(0, len(parts)), part)
        yield f"pointer {number}, {loads} loads and {others} others by it", b"".join(parts)


def _mixtures(cheap: Sequence[Form], shared: Sequence[Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of nops and random instructions, half of which share two ports."""
    draw = random.Random(_SEED + 2)
    of_shared, of_all = ((forms, kits.usage_weights(forms, RARE)) for forms in (shared, cheap))
    for number in range(_MIXTURES):
        parts = []
        for _ in range(draw.choice(_LENGTHS)):
            share = draw.random()
            if share < _NOPS:
                parts.append(cheap[0].kit.SHORT)
                continue
            (form,) = draw.choices(*(of_shared if share < _NOPS + _SHARED else of_all))
            parts.append(random_instance(form, draw))
        yield f"mixture {number} of {len(parts)} instructions", b"".join(parts)


def choose_late_results(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the latency of results that keep others out, if any do.

    The front end and the rules of port choice have to be known, as they limit the loops, too.
    """
    known = [form for form in forms if learned.has_ports(form.name)]
    late = _late_forms(learned, known)
    bodies = dict(_beside_chains(learned, known, late))
    tried: list[Rules] = [{}]
    for cycles in sorted(late):
        tried += [{RESULTS: cycles}, {RESULTS: cycles, PATIENCE: _PATIENCE}]
    return _choose_rules(laboratory, learned, bodies, tried, _LESS)


def _late_forms(learned: CoreModel, forms: Sequence[Form]) -> dict[int, list[Form]]:
    """Return the most used forms of each latency of several cycles, a mnemonic each.

    Those whose instances wait for each other are left out.
    """
    usage = kits.per_million()
    late: dict[int, dict[str, Form]] = {}
    for form in sorted(forms, key=lambda form: -usage.get(form.name, 0.0)):
        latencies, ports = learned.latencies[form.name], learned.uops[form.name].ports
        carried = {one.source for one in latencies} & {one.target for one in latencies}
        cycles = _result_cycles(learned, form)
        if form.memory is None and not carried and ports and len(ports) < cycles <= _LATEST:
            late.setdefault(cycles, {}).setdefault(form.mnemonic, form)
    return {cycles: list(named.values())[:_LATE_FORMS] for cycles, named in late.items()}


def _result_cycles(learned: CoreModel, form: Form) -> int:
    """Return the cycles to the last result of a form of general registers, 0 for other forms."""
    if not all(one.kind in ("gpr", "flags", "") for one in form.operands):
        return 0
    return max((one.cycles for one in learned.latencies[form.name] if one.plain), default=0)


def _beside_chains(
    learned: CoreModel, forms: Sequence[Form], late: Mapping[int, Sequence[Form]]
) -> Iterator[tuple[str, bytes]]:
    """Yield loops of a late form beside chains that share its ports."""
    links = [form for form in forms if form.memory is None and _is_link(learned, form)]
    usage = kits.per_million()
    for form in chain.from_iterable(late.values()):
        ports = frozenset().union(*learned.uops[form.name].ports or ())
        sharing = [link for link in links if ports & _single_ports(learned, link)]
        if not sharing:
            continue
        link = max(sharing, key=lambda f: (len(_single_ports(learned, f)), usage.get(f.name, 0.0)))
        (changed,) = (operand.label for operand in link.chosen if operand.read and operand.written)
        instance = form.encode(form_instances.registers_for(form, {}))
        for chains in _LATE_CHAINS:
            registers = form.kit.POOLS["gpr"].others[:chains]
            given = (form_instances.registers_for(link, {changed: number}) for number in registers)
            body = instance + b"".join(map(link.encode, given))
            yield f"{form.name} beside {chains} chains of {link.name}", body


def _is_link(learned: CoreModel, form: Form) -> bool:
    """True if instances of a form depend on each other, with a result after a cycle."""
    changed = [operand for operand in form.chosen if operand.read and operand.written]
    alone = len(changed) == 1 and form.name not in learned.core.renamed_additions
    return alone and _result_cycles(learned, form) == 1 and bool(_single_ports(learned, form))
