"""The ports of each class where a store may be two uops: an address, and what is written.

A store that shares ports with loads and with arithmetic, which share none with each other, is two:
its address uses ports of loads, and what it writes ports of arithmetic (Zen 5 takes stores of
general registers from there). Then loads are taken to share ports with addresses alone.
"""

from collections.abc import Sequence

from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import classes, mapping
from loopwright.calibrating.ports.classes import Class, Union
from loopwright.calibrating.ports.rule import Ports


def find(
    laboratory: Laboratory, found: Sequence[Class], width: int
) -> tuple[list[Ports], Ports | None]:
    """Return the ports of each class, and those of what stores write, if they are others.

    InputError as mapping.find has it.
    """
    kit = laboratory.kit

    def measure(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return classes.unions(laboratory, found, wanted, width)

    sizes = [one.size for one in found]
    named = {one.blocker.name: n for n, one in enumerate(found)}
    load, store = named.get(kit.LOAD), named.get(kit.STORE)
    if load is None or store is None or not _two(measure, sizes, load, store):
        return mapping.find(sizes, width, measure)[0], None

    def apart(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return measure([one for one in wanted if load not in one])

    ports, _ = mapping.find(sizes, width, apart)
    written = ports[store]
    ports[store] = frozenset(sorted(ports[load])[: sizes[store]])
    return ports, written


def _two(measure: mapping.Measure, sizes: Sequence[int], load: int, store: int) -> bool:
    """Say whether stores share ports with loads, and with a class that shares none with loads."""
    rest = [n for n in range(len(sizes)) if n not in (load, store)]
    pairs = [tuple(sorted(pair)) for n in rest for pair in ((n, store), (n, load))]
    seen = measure([tuple(sorted((load, store))), *pairs])
    less = {one.of for one in seen if one.ports < sum(sizes[n] for n in one.of) and not one.least}
    apart = {one.of for one in seen} - less
    return tuple(sorted((load, store))) in less and any(
        tuple(sorted((n, store))) in less and tuple(sorted((n, load))) in apart for n in rest
    )
