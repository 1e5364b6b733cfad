"""Ports of taken branches, where they are others than those of branches not taken.

Asked: what a short loop takes whose count and branch meet instructions that keep a class of ports
busy. Kernels: for each class loops of as many of its blocking instructions as its ports take in a
few cycles, and of one less. Test: the learned core with its branches on each class of ports, on
each single one of their own, and on all of their own. Answer: the choice with the least error, the
last one where it is as good. Nothing is chosen where no choice explains the kernels.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from loopwright.calibrating import candidate_core, core_files
from loopwright.calibrating.core_model import CoreModel, Ports
from loopwright.microbench import form_instances
from loopwright.microbench.laboratory import Laboratory

_CYCLES = 2  # of a loop: delivery of one that is shorter may bind it
_LEFT = 0.5  # at most, of the error that the ports of branches not taken leave
_MOST = 0.05  # mean relative error of what explains the kernels
PARAMETER = "ports.taken_branch"


def choose_taken_ports(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the ports of taken branches."""
    if not learned.branches.ports:
        return learned
    bodies = list(_bodies(learned))
    took = [(body, figure) for body in bodies if (figure := laboratory.turn(body))]
    if not took:
        return learned
    known = [body for body, _ in took]
    found = []
    for ports in _choices(learned):
        one = _with(learned, ports, "tried") if ports else learned
        core = candidate_core.candidate_laboratory(one, laboratory.machine, known, {})
        errors = [
            abs(said.cycles / figure.cycles - 1) if said else 1.0
            for said, (_, figure) in zip(core.turns(known), took, strict=True)
        ]
        found.append((fmean(errors), ports))
    plain = found[0][0]
    error, best = min(found, key=lambda one: one[0])
    if best is None or error > min(_LEFT * plain, _MOST):
        return learned
    said = f"{len(took)} loops of what keeps a class of ports busy, mean error {100 * error:.1f} %"
    why = core_files.fitted(f"{said}, {100 * plain:.1f} % on the ports of branches not taken")
    return _with(learned, best, why)


def _bodies(learned: CoreModel) -> Iterator[bytes]:
    for one in learned.core.classes:
        if one.blocker.memory or not learned.has_ports(one.blocker.name):
            continue
        for number in (_CYCLES * one.size - 1, _CYCLES * one.size):
            instances = form_instances.Instances()
            yield b"".join(instances.of(one.blocker) for _ in range(number))


def _choices(learned: CoreModel) -> Iterator[Ports | None]:
    """Yield the ports that taken branches may have; None: those of all branches."""
    yield None
    core = learned.core
    computing = [
        ports for one, ports in zip(core.classes, core.ports, strict=True) if not one.blocker.memory
    ]
    own = frozenset().union(*learned.branches.ports.values())
    yield from dict.fromkeys([*computing, *(frozenset({port}) for port in sorted(own))])


def _with(learned: CoreModel, ports: Ports, why: str) -> CoreModel:
    return replace(learned, rules={**learned.rules, PARAMETER: (core_files.shown([ports]), why)})
