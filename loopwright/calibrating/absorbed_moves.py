"""Macro-fusion of moves and loads with the operation behind them that replaces their result.

Microbenchmarks: loops of three such pairs and nine nops, and loops of the same instructions with a
nop within each pair. A pair fuses where its loop takes fewer dispatch slots than the other one.
Cores whose nops share dispatch slots are not asked, as there the nops' places count as well.
"""

from collections.abc import Iterator

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.evidence import fitted
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory

_PAIRS, _NOPS = 3, 9  # of a loop, whose closing instructions come besides
_FUSED = 0.91  # of the cycles of separated pairs, at most: 13 slots of 16 are 0.81
_RULES = {"move": "macro_fusion.move_ops", "load": "macro_fusion.load_ops"}


def kernels(kit: Kit) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield move or load, an operation, and loop bodies with the pairs together and apart.

    Nothing is yielded for an ISA without such pairs.
    """
    nop = kit.SHORT
    for firsts, operations in kit.ABSORBING:
        for what, first in firsts.items():
            for name, operation in operations.items():
                together = (first + operation) * _PAIRS + nop * _NOPS
                apart = (first + nop + operation) * _PAIRS + nop * (_NOPS - _PAIRS)
                yield what, name, together, apart


def choose_absorbed(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the operations that fuse with moves and loads."""
    if not learned.width.nops:
        return learned
    pairs = list(kernels(laboratory.kit))
    together = laboratory.iterations([fused for *_, fused, _ in pairs])
    apart = laboratory.iterations([fused for *_, fused in pairs])
    fusing: dict[str, list[str]] = {}
    for (what, name, *_), fused, separated in zip(pairs, together, apart, strict=True):
        if fused and separated and fused.cycles <= _FUSED * separated.cycles:
            fusing.setdefault(_RULES[what], []).append(name)
    why = (
        f"{_PAIRS} pairs and {_NOPS} nops take fewer dispatch slots than with nops within the pairs"
    )
    rules = {rule: " ".join(sorted(names)) for rule, names in fusing.items()}
    return fit.with_rules(learned, rules, fitted(why)) if rules else learned
