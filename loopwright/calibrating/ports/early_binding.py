"""Whether a core bind uops to ports early: as they are dispatched, before it is known when.

Asked: how much longer pairs of classes take together than their ports ask for. Kernels: those that
told the ports. Answer: early, where one of ten takes longer by more than noise. Then what blockers
show more than whole uops counts for nothing, and forms may take longer than their ports ask for.
"""

from collections import Counter

from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import classes
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.rule import cycles, subsets

_MANY = 0.9  # share of pairs
_LONGER = 0.04  # relative: by how much longer pairs take where ports are bound early


def measure(laboratory: Laboratory, core: Core) -> bool:
    """Say whether ports are bound early; not where there are no two classes."""
    found = core.classes
    pairs = subsets(len(found), 2)
    asked = [classes.mixture(classes.together([found[n] for n in pair])) for pair in pairs]
    longer = []
    for pair, figure in zip(pairs, laboratory.time(asked), strict=True):
        uops: Counter[frozenset[int]] = Counter()
        for n in pair:
            uops.update(dict.fromkeys(core.blocked(n), classes.TIMES * found[n].size))
        places = classes.TIMES * sum(found[n].size for n in pair)
        said = max(cycles(uops), places / core.width)
        if figure:
            longer.append(figure.cycles / said - 1)
    return bool(longer) and sorted(longer)[int(_MANY * len(longer))] > _LONGER
