"""Taken branches: behind which of them a cycle reads on; whether jumps need a port.

Asked: what loops of jumps take. Kernels: jumps within a line, and jumps from line to line, with
nops before each. Answer: the rule of reading on with which what was learned predicts them best,
where loops of one branch left it open; where no rule explains them, it stays open.

Asked: whether a jump needs a port as branches do that are not taken. Kernel: a jump behind what
keeps the ports of branches busy. Answer: the one of the two that predicts it best.
"""

from collections.abc import Mapping
from dataclasses import replace

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.evidence import Evidence, assumed, fitted
from loopwright.calibrating.fit import Hypothesis
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory, closed
from loopwright.microbench.oracle import Run, Trial

JOINS = "uop_cache.joins"
JOINED = ("none", "pairs", "others", "apart", "all")  # the one that delivers least first
_LINE, _NEAR = 64, 6  # bytes
_JUMPS = (1, 2, 3)  # from line to line; one within a line, as some cores find no more of them
_NOPS = (0, 1, 2, 3, 5, 8)  # before each jump, and before the end
_BUSY = (4, 6, 8)  # instructions on the ports of branches


def choose_joins(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the rule, the same where it is known or not told."""
    _, why = learned.front_end.parameters.get(JOINS, ("", None))
    if why is None or not why.assumed or not laboratory.kit.CALLED:
        return learned
    asked = list(kernels(laboratory.isa, laboratory.kit).values())
    codes = [trial.code for trial in asked]
    tried = [Hypothesis(learned, {JOINS: joins}) for joins in JOINED]
    found = fit.fit(laboratory, codes, lambda some: some.figures(asked), tried)
    if found is None or not found.explained:
        return learned
    said = f"{len(asked)} loops of jumps, mean error {100 * found.error:.1f} %"
    others = ", ".join(JOINED[n] for n in found.rivals)
    told = assumed(f"no kernel tells it from: {others}; {said}") if others else fitted(said)
    return with_joins(learned, JOINED[found.best], told)


def with_joins(learned: CoreModel, joins: str, why: Evidence) -> CoreModel:
    """Return what was learned with a rule, at both ends of a range of front ends as well."""
    front = learned.front_end
    chosen = {JOINS: (joins, why)}
    ends = front.ends
    if ends:
        least, most = ({**one, **chosen} if JOINS in one else one for one in ends)
        ends = least, most
    parameters = {**front.parameters, **chosen}
    return replace(learned, front_end=replace(front, parameters=parameters, ends=ends))


def choose_jump_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with jumps that need no port, where they show none."""
    kit = laboratory.kit
    branch = learned.branches.ports.get(kit.JUMP)
    blocker = learned.core.blocker_of(branch)
    if blocker is None or not kit.CALLED:
        return learned
    asked = []
    for number in _BUSY:
        instances = form_instances.Instances()
        code = b"".join(instances.of(blocker) for _ in range(number))
        code += kit.jumped(-(len(code) + len(kit.jumped(0))) % _LINE)
        asked.append(Trial(closed(laboratory.isa, code), "loop", 0, Run()))
    free = replace(learned.branches, ports={**learned.branches.ports, kit.JUMP: frozenset()})
    tried = [Hypothesis(learned), Hypothesis(replace(learned, branches=free))]
    codes = [trial.code for trial in asked]
    found = fit.fit(laboratory, codes, lambda some: some.figures(asked), tried)
    return found.hypothesis.learned if found and found.explained else learned


def kernels(isa: str, kit: Kit) -> Mapping[str, Trial]:
    """Return loops of jumps by what they are."""
    out = {}
    for nops in _NOPS:
        before = kit.pad(3)[0] * nops
        for jumps in _JUMPS:
            code = b""
            for _ in range(jumps):
                code += before
                code += kit.jumped(-(len(code) + len(kit.jumped(0))) % _LINE)
            out[f"{jumps} jumps to the next line, {nops} nops before each"] = code + before
        out[f"a jump within a line behind {nops} nops"] = before + kit.jumped(_NEAR) + before
    return {name: Trial(closed(isa, code), "loop", 0, Run()) for name, code in out.items()}
