"""Moves and loads that fuse with the operation behind them, which reads and replaces their result.

Asked: which operations share the place of a move, or of a load, right before them. Kernels: loops
of three such pairs and nine nops, and of the same instructions with a nop within each pair. Answer:
the operations whose pairs take fewer places together than apart.
"""

from collections.abc import Iterator

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.evidence import fitted
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory

_PAIRS, _NOPS = 3, 9  # of a loop, which has the end of a loop besides
_FUSED = 0.91  # of the cycles apart, at most: 13 places of 16 are 0.81
_RULES = {"move": "macro_fusion.move_ops", "load": "macro_fusion.load_ops"}


def kernels(kit: Kit) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield what is absorbed, an operation, and the bodies of loops with pairs together and apart.

    None where the ISA's pairs are not asked for.
    """
    nop = kit.SHORT
    for firsts, operations in kit.ABSORBING:
        for what, first in firsts.items():
            for name, operation in operations.items():
                together = (first + operation) * _PAIRS + nop * _NOPS
                apart = (first + nop + operation) * _PAIRS + nop * (_NOPS - _PAIRS)
                yield what, name, together, apart


def choose_absorbed(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the operations that absorb moves and loads."""
    asked = list(kernels(laboratory.kit))
    together = laboratory.turns([one for *_, one, _ in asked])
    apart = laboratory.turns([one for *_, one in asked])
    found: dict[str, list[str]] = {}
    for (what, name, *_), one, other in zip(asked, together, apart, strict=True):
        if one and other and one.cycles <= _FUSED * other.cycles:
            found.setdefault(_RULES[what], []).append(name)
    said = f"{_PAIRS} pairs and {_NOPS} nops take fewer places than with nops within the pairs"
    rules = {rule: " ".join(sorted(names)) for rule, names in found.items()}
    return fit.with_rules(learned, rules, fitted(said)) if rules else learned
