"""Taken branches: continued op-cache reads behind them, and the ports of jumps.

Reads. Microbenchmarks: loops of jumps within a line, and of jumps from line to line, with nops
before each. Where loops of one branch left it open after which branches a cycle's read goes on, the
rule is taken with which the learned core predicts these loops best, if it explains them.

Ports of jumps. Microbenchmark: a jump behind instructions that keep the ports of branches busy. The
learned core predicts it with a port for the jump and without one; the better one is taken.
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
JOINED = ("none", "pairs", "others", "apart", "all")  # the one that delivers least comes first
_LINE, _NEAR = 64, 6  # bytes
# from line to line; a single one within a line, as some cores find no more in it
_JUMPS = (1, 2, 3)
_NOPS = (0, 1, 2, 3, 5, 8)  # before each jump, and before the closing instructions
_BUSY = (4, 6, 8)  # instructions on the ports of branches


def choose_joins(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the rule of reads; unchanged if known, or if no loop tells."""
    _, why = learned.front_end.parameters.get(JOINS, ("", None))
    if why is None or not why.assumed or not laboratory.kit.CALLED:
        return learned
    trials = list(kernels(laboratory.isa, laboratory.kit).values())
    codes = [trial.code for trial in trials]
    hypotheses = [Hypothesis(learned, {JOINS: joins}) for joins in JOINED]
    found = fit.fit(laboratory, codes, lambda core: core.figures(trials), hypotheses)
    if found is None or not found.explained:
        return learned
    measured_by = f"{len(trials)} loops of jumps, mean error {100 * found.error:.1f} %"
    indistinguishable = ", ".join(JOINED[n] for n in found.rivals)
    evidence = (
        assumed(f"no kernel tells it from: {indistinguishable}; {measured_by}")
        if indistinguishable
        else fitted(measured_by)
    )
    return with_joins(learned, JOINED[found.best], evidence)


def with_joins(learned: CoreModel, joins: str, why: Evidence) -> CoreModel:
    """Return the learned core with a rule of reads, also at both ends of a range of front ends."""
    front = learned.front_end
    chosen = {JOINS: (joins, why)}
    ends = front.ends
    if ends:
        least, most = ({**one, **chosen} if JOINS in one else one for one in ends)
        ends = least, most
    parameters = {**front.parameters, **chosen}
    return replace(learned, front_end=replace(front, parameters=parameters, ends=ends))


def choose_jump_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with jumps that need no port, where they show none."""
    kit = laboratory.kit
    branch = learned.branches.ports.get(kit.JUMP)
    blocker = learned.core.blocker_of(branch)
    if blocker is None or not kit.CALLED:
        return learned
    trials = []
    for number in _BUSY:
        instances = form_instances.Instances()
        code = b"".join(instances.of(blocker) for _ in range(number))
        code += kit.jump_over(-(len(code) + len(kit.jump_over(0))) % _LINE)
        trials.append(Trial(closed(laboratory.isa, code), "loop", 0, Run()))
    free = replace(learned.branches, ports={**learned.branches.ports, kit.JUMP: frozenset()})
    hypotheses = [Hypothesis(learned), Hypothesis(replace(learned, branches=free))]
    codes = [trial.code for trial in trials]
    found = fit.fit(laboratory, codes, lambda core: core.figures(trials), hypotheses)
    return found.hypothesis.learned if found and found.explained else learned


def kernels(isa: str, kit: Kit) -> Mapping[str, Trial]:
    """Return loops of jumps, by their description."""
    out = {}
    for nops in _NOPS:
        before = kit.pad(3)[0] * nops
        for jumps in _JUMPS:
            code = b""
            for _ in range(jumps):
                code += before
                code += kit.jump_over(-(len(code) + len(kit.jump_over(0))) % _LINE)
            out[f"{jumps} jumps to the next line, {nops} nops before each"] = code + before
        out[f"a jump within a line behind {nops} nops"] = before + kit.jump_over(_NEAR) + before
    return {name: Trial(closed(isa, code), "loop", 0, Run()) for name, code in out.items()}
