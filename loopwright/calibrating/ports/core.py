"""What is known of a core and of its forms: classes, their ports, uops."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.calibrating.ports.classes import Class
from loopwright.calibrating.ports.rule import Ports


@dataclass(frozen=True)
class Uops:
    """What a form needs: places at dispatch, ports of each uop, cycles that its unit is busy.

    why says how it is known, or, without ports, why nothing is said.
    """

    places: int
    ports: tuple[Ports, ...] | None
    busy: int = 0
    why: str = ""


@dataclass(frozen=True)
class Core:
    """What is known of the core that forms run on: classes, their ports, places at dispatch."""

    classes: Sequence[Class]
    ports: Sequence[Ports]
    width: int
    load: str = ""  # names of the forms that only load and only store a register
    store: str = ""
    renamed: frozenset[str] = frozenset()  # names of forms that rename does for small constants

    def of(self, name: str) -> Ports | None:
        """Return the ports of the class that a form is of."""
        number = self.class_of(name)
        return None if number is None else self.ports[number]

    def class_of(self, name: str) -> int | None:
        """Return the number of the class that a form is of."""
        return next((n for n, one in enumerate(self.classes) if name in one.members), None)

    def within(self, uops: Sequence[Ports]) -> tuple[int, ...]:
        """Return how many uops floods of each class show."""
        return tuple(sum(one <= ports for one in uops) for ports in self.ports)

    @property
    def sets(self) -> Sequence[Ports]:
        """Return the ports that uops that compute may have.

        Those of classes, those of all arithmetic, and what any of these share: where no instruction
        has just these, no class shows them.
        """
        memory = (self.of(self.load), self.of(self.store))
        found = list(dict.fromkeys(p for p in (*self.ports, self.wide) if p not in memory))
        for one in found:  # grows as it goes
            found += dict.fromkeys(one & other for other in found if one & other not in found)
        return [one for one in found if one]

    @property
    def wide(self) -> Ports:
        """Return the ports of what no flood can show: all that arithmetic has."""
        memory = {self.of(self.load), self.of(self.store)}
        return frozenset().union(*(ports for ports in self.ports if ports not in memory))
