"""Loads whose address has the low 12 bits of a store's just before, and is another.

Asked: what it costs that they look alike. Kernels: a store and a load of another place, in a chain
through the register that is stored, and free of each other; the load lies 4 KiB on, and 4 KiB and a
line. Answer: the cycles that the one takes longer than the other, nothing on some cores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating.experiments import banks, stored
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

CHAIN, FREE = "in a chain", "free of each other"
_PAGE, _LINE = 4096, 64  # bytes
_LEAST = 0.2  # cycles: less is what loops of the same instructions differ by
_SURE = 3.0  # standard deviations


@dataclass(frozen=True)
class Aliased:
    """Cycles of a store and a load, 4 KiB on and a line further."""

    same: Figure
    other: Figure

    @property
    def cost(self) -> float:
        """Return the cycles that it costs to look alike; 0 where that does not show."""
        more = self.same.cycles - self.other.cycles
        error = (self.same.uncertainty**2 + self.other.uncertainty**2) ** 0.5
        return more if more > max(_LEAST, _SURE * error) else 0.0


def measure(laboratory: Laboratory, forms: Mapping[str, Form]) -> dict[str, Aliased]:
    """Return what was timed in a chain and free; nothing where that was refused or has no forms."""
    load, store = (forms.get(name) for name in (laboratory.kit.LOAD, laboratory.kit.STORE))
    if load is None or store is None:
        return {}
    asked = [kernel for place in (_PAGE, _PAGE + _LINE) for kernel in _kernels(store, load, place)]
    chain, free, chained, freed = laboratory.time(asked)
    found = {CHAIN: Aliased(chain, chained), FREE: Aliased(free, freed)}
    return {said: one for said, one in found.items() if one.same and one.other}


def _kernels(store: Form, load: Form, place: int) -> Sequence[list[bytes]]:
    """Return a store and a load so many bytes on, in a chain and free of each other."""
    chain = stored.pair(store, load, of={"disp": place})
    return chain, [*stored.stores(store, [0]), *banks.loads(load, [place])]
