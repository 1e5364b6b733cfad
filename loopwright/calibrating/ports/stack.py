"""The stack: whether moves to it and from it are a store and a load, and nothing else.

Kernel: registers that are moved to the stack, and others that are moved from there. Answer: where
the cycles of a copy are those of as many stores and loads, pushes and pops are such; where they
are not, nothing is said of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import cycles

_TIMES = 3  # of each in a copy
_NEAR = 0.08  # relative: how far what a copy takes may lie from what the rule says


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
    why = f"{_TIMES} pushes and pops {took}, as many stores and loads {said:.2f}"
    return {name: Uops(0, None, why=why) for name in (kit.PUSH, kit.POP)}


def moved(kit: Kit) -> dict[str, list[bytes]]:
    """Return pops and pushes beside what changes the stack pointer otherwise, by what they are."""
    pool = kit.POOLS["gpr"]
    pairs = [kit.stacked(pool.constant[0], pool.others[n]) for n in range(2)]
    return {
        "pops behind a change of the stack pointer": [
            kit.stack_moved(-16),
            *(pop for _, pop in pairs),
        ],
        "pushes before a change of the stack pointer": [
            *(push for push, _ in pairs),
            kit.stack_moved(16),
        ],
    }


def latencies(
    kit: Kit, found: Mapping[str, Uops], known: Mapping[str, Sequence[Latency]]
) -> dict[str, Sequence[Latency]]:
    """Return the latencies of pushes and pops: from the address those of a plain load."""
    return {name: known[kit.LOAD] if name == kit.POP else () for name in found}
