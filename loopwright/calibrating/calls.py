"""Calls, returns and jumps: dispatch slots, ports, bubbles, and reads behind taken branches.

Reads. Microbenchmarks: loops of jumps within a line, and of jumps from line to line, with nops
before each. Where loops of one branch left it open after which branches a cycle's read goes on, the
rule is taken with which the learned core predicts these loops best, if it explains them.

Ports of jumps. Microbenchmark: a jump behind instructions that keep the ports of branches busy. The
learned core predicts it with a port for the jump and without one; the better one is taken.

Calls. Microbenchmarks: loops that call a function of only a return once or twice, at 8 or 48 bytes
a call, alone and beside nops, a chain, independent moves, and blocking instructions of the branch
ports; and loops of one to four nops without a call, which show how many taken branches a cycle are
found. The slots of call and return, whether a call needs a branch port, and the bubble are those
with which the learned core predicts the kernels best; where it predicts them badly, they have a
range. The other ports are those of a store and of a load. Forms that the kit derives from a timed
form take its figures, as an assumption.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice, product

from loopwright.calibrating import fit
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.core_model import CoreModel, Evidence, assumed, fitted, measured
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.calibrating.ports import Doubt, Ports, Uops
from loopwright.measuring import block
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Kit
from loopwright.microbench.front_end import LOOPS
from loopwright.microbench.laboratory import Figure, Laboratory, closed
from loopwright.microbench.oracle import COUNTER, Run, Trial

JOINS = "uop_cache.joins"
JOINED = ("none", "pairs", "others", "apart", "all")  # the one that delivers least comes first
_LINE, _NEAR = 64, 6  # bytes
# from line to line; a single one within a line, as some cores find no more in it
_JUMPS = (1, 2, 3)
_BEFORE = (0, 1, 2, 3, 5, 8)  # before each jump, and before the closing instructions
_BUSY_JUMPING = (4, 6, 8)  # instructions on the ports of branches

CALL, RETURN = "call rel", "ret"
CROWDED = "branches close together"
_BUBBLE = "taken_branch.return_bubble"
_PAIRS, _NEXT_LINE = "taken_branch.jump_pairs", "taken_branch.next_line"
_LEAD, _AHEAD = "taken_branch.return_lead", 4  # cycles
_DENSE = ", 8 bytes each"
_CROWDED = 1.5  # factor over calls apart that exceeds any rule of the simulator
_LEAST = 4  # loops that need a figure
_TOLD = 0.02  # relative errors of a loop that differ by less do not tell bubbles apart
_OFFSETS = (0, 16, 32)  # code offsets of loops with calls: branches conflict at some of them
_SLOTS = range(1, 5)
_BUBBLES = range(1, 4)  # cycles
_NOPS, _CHAIN, _ADDITIONS = (8, 24), 12, 8
_BUSY = (6, 10, 14)  # instructions on the ports of branches
_SHORT = (1, 2, 4)  # nops of loops that may take less than a cycle
_STACK = 0x20F00F00
STACKED = Run(load=_STACK, store=_STACK)  # addresses of the return stack, for simulated machines


def kernels(kit: Kit) -> dict[str, bytes]:
    """Return loop bodies by description; none if the ISA has no calls to measure."""
    if not kit.CALLED:
        return {}
    bodies = dict(_with_calls(kit, kit.CALLED_APART, ""))
    bodies |= _with_calls(kit, kit.CALLED, _DENSE)
    return bodies | {f"a loop of {n} nops that is tested apart": kit.SHORT * n for n in _SHORT}


def _with_calls(kit: Kit, called: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    """Yield loops with calls of one layout."""
    pool = kit.POOLS["gpr"]
    link = kit.transfer("gpr", "gpr", pool.own[0], pool.own[0])
    targets = islice(cycle(pool.others), _ADDITIONS)
    moves = [kit.transfer("gpr", "gpr", pool.constant[0], target) for target in targets]
    yield f"a call and a return{where}", called
    yield f"two calls and returns{where}", called * 2
    for n in _NOPS:
        yield f"a call beside {n} nops{where}", called + kit.nop() * n
    yield f"a call and jumps{where}", called + kit.jump_over(0) * 2
    yield f"a call beside a chain{where}", called + link * _CHAIN
    yield f"a call beside moves{where}", called + b"".join(moves)


def _cost_of_crowding(figures: Mapping[str, Figure]) -> str:
    """Describe the cost of branches close together, where it exceeds any rule of the simulator."""
    for name, figure in figures.items():
        sparse = figures.get(name.removesuffix(_DENSE))
        if name.endswith(_DENSE) and sparse and figure.cycles > _CROWDED * sparse.cycles:
            return f"{name} take{'s' * name.startswith('a ')} {figure.cycles:.1f} cycles, and " + (
                f"{sparse.cycles:.1f} where they stand further apart; the simulator has no rule"
            )
    return ""


def _branch_ports(kit: Kit, learned: CoreModel) -> Ports | None:
    """Return the ports of branches that are not taken."""
    return learned.branches.ports.get(kit.BRANCHES[0].name)


def _beside_branches(kit: Kit, learned: CoreModel, branch: Ports | None) -> dict[str, bytes]:
    """Return loops of a call beside blocking instructions of the branch ports, by description."""
    blocker = learned.core.blocker_of(branch)
    bodies: dict[str, bytes] = {}
    if blocker is None or not kit.CALLED:
        return bodies
    for number in _BUSY:
        instances = form_instances.Instances()
        busy = b"".join(instances.of(blocker) for _ in range(number))
        bodies[f"a call beside {number} of {blocker.name}"] = kit.CALLED_APART + busy
    return bodies


def choose_calls(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with calls, returns, and the forms derived from others."""
    for choose in (_choose_joins, _choose_jump_ports, _choose_call_uops):
        learned = choose(laboratory, learned)
    return _derived(laboratory.kit, learned)


def _choose_call_uops(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with slots and ports of calls and returns, and the bubble."""
    branch = _branch_ports(laboratory.kit, learned)
    bodies = {**_beside_branches(laboratory.kit, learned, branch), **kernels(laboratory.kit)}
    load, store = learned.core.class_ports(learned.core.load), learned.core.store_uops
    if not bodies or branch is None or load is None or not store:
        return learned
    timed = dict(zip(bodies, _time_loops(laboratory, bodies), strict=True))
    learned = replace(learned, figures={**learned.figures, **timed})
    figures = {name: figure for name, figure in timed.items() if figure}
    if len(figures) < _LEAST:
        refused = next(figure.refused for figure in timed.values() if not figure)
        return _leaving_out(learned, CALL, f"calls were not timed: {refused}")
    if cost := _cost_of_crowding(figures):
        figures = {name: one for name, one in figures.items() if not name.endswith(_DENSE)}
        learned = _leaving_out(learned, CROWDED, cost)
    bodies = {name: bodies[name] for name in figures}
    codes = [*bodies.values(), block.tested(laboratory.isa, COUNTER[laboratory.isa], b"")]
    # A jump need not execute on a port, so a call may not either.
    ports = [((*jump_ports, *store), (branch, load)) for jump_ports in ((branch,), ())]
    next_line = _finds_lines(laboratory, learned)
    cores = [
        _with(learned, call_ports, return_ports, call_slots, return_slots)
        for (call_ports, return_ports), call_slots, return_slots in product(ports, _SLOTS, _SLOTS)
    ]
    hypotheses = [
        Hypothesis(core, {**bubble, **joins})
        for joins in _read_rules(learned)
        for core in cores
        for bubble in _return_bubbles(next_line=next_line)
    ]
    kept = list(figures.values())
    best_fit = fit.fit(laboratory, codes, lambda core: _time_loops(core, bodies), hypotheses, kept)
    if best_fit is None:
        return learned
    if not best_fit.explained:
        best_fit = best_fit.bounding()
    best = _with_read_rule(best_fit.hypothesis.learned, best_fit)
    basis = f"{len(bodies)} loops, most with calls, {best_fit.error_note}"
    doubted = assumed(f"no rule explains {basis}")
    why = fitted(basis) if best_fit.explained else doubted
    bubble = _bubble(best_fit)
    if isinstance(bubble, Between):
        why = assumed(f"kernels ask for other bubbles; {basis}")
    rules = best_fit.hypothesis.rules
    branch_rules = {name: rules[name] for name in (_PAIRS, _NEXT_LINE) if name in rules}
    best = fit.with_rules(best, {_BUBBLE: bubble, **branch_rules}, why)
    if _LEAD in rules:
        best = fit.with_rules(best, {_LEAD: _AHEAD}, assumed("as fitted to calls of Zen 4"))
    if best_fit.explained:
        return best
    doubts = {
        name: Doubt(replace(uops, slots=1), replace(uops, slots=_SLOTS[-1] + 1), doubted)
        for name in (CALL, RETURN)
        for uops in [best.uops[name]]
    }
    return replace(best, doubts={**best.doubts, **doubts})


def _leaving_out(learned: CoreModel, name: str, reason: str) -> CoreModel:
    """Return the learned core with a kind of branch left out for a reason."""
    branches = replace(learned.branches, left={**learned.branches.left, name: reason})
    return replace(learned, branches=branches)


def _bubble(best_fit: fit.Fit) -> int:
    """Return the bubble of a fit; its range has those that single loops suggest."""
    best = best_fit.hypothesis
    joins = best.rules.get(JOINS)
    errors = {
        int(str(one.rules[_BUBBLE])): best_fit.errors[n]
        for n, one in enumerate(best_fit.hypotheses)
        if one.learned is best.learned
        and one.rules.get(JOINS) == joins
        and one.rules.get(_PAIRS) in (None, best.rules.get(_PAIRS, True))
    }
    value = int(str(best.rules[_BUBBLE]))
    suggested = {value}
    for number, error in enumerate(errors[value]):
        nearest = min(errors, key=lambda one: errors[one][number])
        if errors[nearest][number] < error - _TOLD:
            suggested.add(nearest)
    if len(suggested) == 1:
        return value
    return Between(value, min(suggested), max(suggested), "what each of the loops asks for")


def _finds_lines(laboratory: Laboratory, learned: CoreModel) -> bool:
    """True if the next line may take a cycle to find like a target, by loops of no call."""
    loops = list(learned.front_end.of(LOOPS))
    trials = [probe.trial for probe, _, _ in loops]
    figures = [Figure(cycles, error) for _, cycles, error in loops]

    def error_with(rules: Rules) -> float:
        codes = (trial.code for trial in trials)
        simulated = fit.candidate_laboratory(learned, laboratory.machine, codes, rules)
        return fit.mean_error(simulated.figures(trials), figures)

    next_line = {_BUBBLE: _BUBBLES[0], _LEAD: _AHEAD, _NEXT_LINE: True}
    return not loops or error_with(next_line) <= error_with({}) + fit.TIE


def _return_bubbles(*, next_line: bool) -> list[Rules]:
    """Return the possible bubbles of a return, with jumps found in pairs or alone."""
    with_bubble = [
        {_BUBBLE: bubble, _LEAD: _AHEAD, _PAIRS: pairs, _NEXT_LINE: next_line}
        for bubble in _BUBBLES
        for pairs in (True, False)
    ]
    return [{_BUBBLE: 0}, *with_bubble]


def _read_rules(learned: CoreModel) -> list[Rules]:
    """Return the rules of op-cache reads behind taken branches that are still open."""
    _, why = learned.front_end.parameters.get(JOINS, ("", measured("")))
    if not why.assumed:
        return [{}]
    return [{JOINS: joins} for joins in JOINED]


def _with_read_rule(best: CoreModel, best_fit: fit.Fit) -> CoreModel:
    """Return the best core with its rule of reads, and the evidence."""
    joins = best_fit.hypothesis.rules.get(JOINS)
    if joins is None:
        return best
    basis = f"explains best loops with calls, {best_fit.error_note}"
    why = assumed(f"no loop of jumps tells it; {basis}")
    return with_joins(best, str(joins), why)


def _time_loops(laboratory: Laboratory, bodies: Mapping[str, bytes]) -> list[Figure]:
    """Time loops: those with calls first, then those without."""
    calls = laboratory.kit.CALLED, laboratory.kit.CALLED_APART
    calling = [code for code in bodies.values() if any(one in code for one in calls)]
    others = [code for code in bodies.values() if code not in calling]
    codes = [closed(laboratory.isa, code) for code in calling]
    trials = [Trial(code, "loop", offset, STACKED) for code in codes for offset in _OFFSETS]
    at_offsets = laboratory.figures(trials)
    count = len(_OFFSETS)
    figures = [_median(at_offsets[n : n + count]) for n in range(0, len(at_offsets), count)]
    return figures + laboratory.tested_iterations(others)


def _median(figures: Sequence[Figure]) -> Figure:
    """Return the median of figures by cycles; a refusal where at least half are refused."""
    answered = sorted(filter(None, figures), key=lambda one: one.cycles)
    if 2 * len(answered) <= len(figures):
        return next(one for one in figures if not one)
    return answered[(len(answered) - 1) // 2]


def _with(
    learned: CoreModel,
    call_ports: tuple[Ports, ...],
    return_ports: tuple[Ports, ...],
    slots: int,
    return_slots: int,
) -> CoreModel:
    """Return the learned core with slots and ports of a call and a return."""
    uops = {
        CALL: Uops(slots, call_ports, why="by calls"),
        RETURN: Uops(return_slots, return_ports, why="by calls"),
    }
    return replace(
        learned,
        uops={**learned.uops, **uops},
        latencies={**learned.latencies, CALL: (), RETURN: ()},
        stores=learned.stores | {CALL},
    )


def _derived(kit: Kit, learned: CoreModel) -> CoreModel:
    """Return the learned core with forms that no microbenchmark times, derived from timed ones.

    They may take a dispatch slot more than that form, and one for each further uop.
    """
    core = learned.core
    ports_of: dict[str, tuple[Ports, ...]] = {
        "load": tuple(filter(None, [core.class_ports(core.load)])),
        "store": core.store_uops,
        "compute": (core.all_arithmetic,),
    }
    uops, latencies, doubts = dict(learned.uops), dict(learned.latencies), dict(learned.doubts)
    stores = set(learned.stores)
    for name, (base_name, extra_uops) in kit.DERIVED.items():
        base, branch = uops.get(base_name), learned.branches.ports.get(base_name)
        if base_name == kit.JUMP:
            branch = _branch_ports(kit, learned)  # an indirect jump uses the ports of branches
        if base is None and branch is not None:
            base = Uops(1, (branch,))
        if not base_name:
            base = Uops(1, ())
        timed = name in uops or name in learned.branches.ports
        if base is None or base.ports is None or timed:
            continue
        ports = (*base.ports, *(ports for kind in extra_uops for ports in ports_of[kind]))
        why = assumed("as " + " and a ".join([*([base_name] if base_name else []), *extra_uops]))
        slots = base.slots if base_name else max(len(extra_uops), 1)
        uops[name] = replace(base, slots=slots, ports=ports, why=why)
        latencies[name] = latencies.get(base_name, ()) if not extra_uops else ()
        most = replace(uops[name], slots=slots + 1 + len(extra_uops))
        doubts[name] = Doubt(uops[name], most, why)
        if base_name in stores or "store" in extra_uops:
            stores.add(name)
    return replace(learned, uops=uops, latencies=latencies, doubts=doubts, stores=frozenset(stores))


def _choose_joins(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the rule of reads; unchanged if known, or if no loop tells."""
    _, why = learned.front_end.parameters.get(JOINS, ("", None))
    if why is None or not why.assumed or not laboratory.kit.CALLED:
        return learned
    trials = list(jump_loops(laboratory.isa, laboratory.kit).values())
    codes = [trial.code for trial in trials]
    hypotheses = [Hypothesis(learned, {JOINS: joins}) for joins in JOINED]
    best_fit = fit.fit(laboratory, codes, lambda core: core.figures(trials), hypotheses)
    if best_fit is None or not best_fit.explained:
        return learned
    basis = f"{len(trials)} loops of jumps, {best_fit.error_note}"
    rivals = ", ".join(JOINED[n] for n in best_fit.rivals)
    why = assumed(f"no kernel tells it from: {rivals}; {basis}") if rivals else fitted(basis)
    return with_joins(learned, JOINED[best_fit.best], why)


def with_joins(learned: CoreModel, joins: str, why: Evidence) -> CoreModel:
    """Return the learned core with a rule of reads, also at both ends of a range of front ends."""
    front = learned.front_end
    chosen = {JOINS: (joins, why)}
    ends = front.ends
    if ends:
        least, most = ({**end, **chosen} if JOINS in end else end for end in ends)
        ends = least, most
    parameters = {**front.parameters, **chosen}
    return replace(learned, front_end=replace(front, parameters=parameters, ends=ends))


def _choose_jump_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with jumps that need no port, where they show none."""
    kit = laboratory.kit
    branch = learned.branches.ports.get(kit.JUMP)
    blocker = learned.core.blocker_of(branch)
    if blocker is None or not kit.CALLED:
        return learned
    trials = []
    for number in _BUSY_JUMPING:
        instances = form_instances.Instances()
        code = b"".join(instances.of(blocker) for _ in range(number))
        code += kit.jump_over(-(len(code) + len(kit.jump_over(0))) % _LINE)
        trials.append(Trial(closed(laboratory.isa, code), "loop", 0, Run()))
    free = replace(learned.branches, ports={**learned.branches.ports, kit.JUMP: frozenset()})
    hypotheses = [Hypothesis(learned), Hypothesis(replace(learned, branches=free))]
    codes = [trial.code for trial in trials]
    best_fit = fit.fit(laboratory, codes, lambda core: core.figures(trials), hypotheses)
    return best_fit.hypothesis.learned if best_fit and best_fit.explained else learned


def jump_loops(isa: str, kit: Kit) -> Mapping[str, Trial]:
    """Return loops of jumps, by their description."""
    bodies = {}
    for nops in _BEFORE:
        before = kit.pad(3)[0] * nops
        for jumps in _JUMPS:
            code = b""
            for _ in range(jumps):
                code += before
                code += kit.jump_over(-(len(code) + len(kit.jump_over(0))) % _LINE)
            bodies[f"{jumps} jumps to the next line, {nops} nops before each"] = code + before
        bodies[f"a jump within a line behind {nops} nops"] = before + kit.jump_over(_NEAR) + before
    return {name: Trial(closed(isa, code), "loop", 0, Run()) for name, code in bodies.items()}
