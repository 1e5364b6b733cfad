"""The stack: whether moves to it and from it are a store and a load, and nothing else.

Kernel: registers that are moved to the stack, and others that are moved from there. Answer: where
the cycles of a copy are those of as many stores and loads, pushes and pops are such. Where they
are not, as loads of what was just stored may take longer, each kind stands alone beside what moves
the stack pointer back; where one takes another time then, nothing is said of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports, cycles

_TIMES = 3  # of each in a copy
_BYTES = 8
_NEAR = 0.08  # relative: how far what a copy takes may lie from what the rule says
_LATE = 0.15  # relative: by how much longer it may take beside changes of the stack pointer


def measure(laboratory: Laboratory, core: Core) -> dict[str, Uops]:
    """Return the uops of pushes and pops, or why they are not known; nothing without the forms."""
    kit = laboratory.kit
    load, store = core.of(core.load), core.of(core.store)
    if not kit.PUSH or not load or not store:
        return {}
    pool = kit.POOLS["gpr"]
    pairs = [kit.stacked(pool.constant[0], pool.others[n]) for n in range(_TIMES)]
    (figure,) = laboratory.time([[push for push, _ in pairs] + [pop for _, pop in pairs]])
    said = max(cycles(Counter([load, *core.stored] * _TIMES)), 2 * _TIMES / core.width)
    if figure and abs(figure.cycles - said) <= _NEAR * said:
        why = f"{_TIMES} pushes and pops take {figure.cycles:.2f} cycles, as stores and loads do"
        return {kit.PUSH: Uops(1, core.stored, why=why), kit.POP: Uops(1, (load,), why=why)}
    took = f"take {figure.cycles:.2f} cycles" if figure else f"were refused: {figure.refused}"
    both = f"{_TIMES} pushes and pops {took}, as many stores and loads {said:.2f}"
    pushes, pops = _apart(kit, len(pool.others))
    return {
        kit.PUSH: _alone(laboratory, core, "pushes", pushes, core.stored, both),
        kit.POP: _alone(laboratory, core, "pops", pops, (load,), both),
    }


def _alone(
    laboratory: Laboratory,
    core: Core,
    what: str,
    kernel: list[bytes],
    uops: Sequence[Ports],
    both: str,
) -> Uops:
    """Return the uops of pushes or pops where they take as long as these without the others."""
    (figure,) = laboratory.time([kernel])
    times = len(kernel) - 1
    said = max(cycles(Counter([*uops] * times)), len(kernel) / core.width, 1.0)
    took = f"{times} {what} alone "
    if not figure:
        return Uops(0, None, why=f"{both}; {took}were refused: {figure.refused}")
    took += f"{figure.cycles:.2f}"
    if -_NEAR * said <= figure.cycles - said <= _LATE * said:
        return Uops(1, tuple(uops), why=f"{took}, as it is of stores and loads; {both}")
    return Uops(0, None, why=f"{took}, not {said:.2f}; {both}")


def moved(kit: Kit) -> dict[str, list[bytes]]:
    """Return pops and pushes beside what changes the stack pointer otherwise, by what they are."""
    pushes, pops = _apart(kit, 2)
    return {
        "pops behind a change of the stack pointer": pops,
        "pushes before a change of the stack pointer": pushes,
    }


def _apart(kit: Kit, times: int) -> tuple[list[bytes], list[bytes]]:
    """Return so many pushes and so many pops, each with what moves the stack pointer back."""
    pool = kit.POOLS["gpr"]
    pairs = [kit.stacked(pool.constant[0], register) for register in pool.others[:times]]
    pushes, pops = ([pair[n] for pair in pairs] for n in range(2))
    size = _BYTES * times
    return [*pushes, kit.stack_moved(size)], [kit.stack_moved(-size), *pops]


def latencies(
    kit: Kit, found: Mapping[str, Uops], known: Mapping[str, Sequence[Latency]]
) -> dict[str, Sequence[Latency]]:
    """Return the latencies of pushes and pops: from the address those of a plain load."""
    return {name: known[kit.LOAD] if name == kit.POP else () for name in found}
