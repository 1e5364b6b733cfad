"""What limits a block on a core: each limit with its figure, and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopwright.microarchs import Microarch
from loopwright.predicting import core_ports
from loopwright.predicting.model import Block

ALIKE = 1.02  # two figures of cycles that differ by less say the same
BALANCED = "balanced:"  # begins what is said of several limits of the same figure
_SHOWN = 4  # instructions of a chain that are written out

# The simulator's names of limits, and those that are shown.
_CALLED = {
    "uop cache": "op cache",
    "taken branch": "branches",
    "decode": "decoders",
    "retirement": "retire",
}


@dataclass(frozen=True)
class Limit:
    """One limit of a block.

    cycles are those of an iteration as if the core had no other limit; None where they are not
    known. binds says that the block is faster without it, or without all that bind together. ports
    are letters; taken says how many of their cycles an iteration needs. instructions are those of a
    chain in the order in which they wait for each other, or those that need the ports.
    """

    name: str
    cycles: float | None
    binds: bool
    ports: str
    taken: float
    instructions: tuple[int, ...]

    @property
    def figure(self) -> str:
        """Return its name and its cycles."""
        return self.name if self.cycles is None else f"{self.name} {self.cycles:.2f}"


def of_row(row: Mapping[str, Any]) -> list[Limit]:
    """Return the limits in a row of the simulator: those that bind first, then by their figures."""
    found = [
        Limit(
            name=_name(one["limit"]),
            cycles=one["cycles"],
            binds=one["binds"],
            ports=one["ports"],
            taken=one["taken"],
            instructions=tuple(one["instructions"]),
        )
        for one in row.get("limits", ())
    ]
    return sorted(found, key=lambda one: (not one.binds, -(one.cycles or 0)))


def _name(limit: str) -> str:
    """Return what is shown for the simulator's name of a limit."""
    return "divider" if limit.startswith("divider on") else _CALLED.get(limit, limit)


def figures(limits: Sequence[Limit]) -> str:
    """Return all limits with their figures: "op cache 2.00, ports 1.00, dispatch 0.80"."""
    return ", ".join(one.figure for one in limits)


def words(limits: Sequence[Limit], cycles: float, block: Block, core: Microarch) -> str:
    """Say what limits a block that takes so many cycles, the text of its instructions included.

    Several limits of the same figure are "balanced"; limits of which each alone allows fewer cycles
    are named together.
    """
    full = [one for one in limits if one.cycles is not None and cycles <= one.cycles * ALIKE]
    if not full:
        binding = [one for one in limits if one.binds]
        said = [f"{_said(one, cycles, block, core)}, {_allows(one)}" for one in binding]
        return f"together: {'; '.join(said)}" if said else "not known"
    said = [_said(one, cycles, block, core) for one in full]
    return said[0] if len(said) == 1 else f"{BALANCED} {'; '.join(said)}"


def _allows(one: Limit) -> str:
    return "no figure alone" if one.cycles is None else f"alone {one.cycles:.2f}"


def _said(one: Limit, cycles: float, block: Block, core: Microarch) -> str:
    if one.name == "ports":
        return _ports(one, cycles, core)
    if one.name == "dependencies":
        return _chain(one, block)
    if one.name == "op cache":
        return _op_cache(block, core)
    if one.name == "dispatch":
        width = core.value("rename.instructions") or core.value("rename.width")
        unit = "instructions" if core.value("rename.instructions") else "fused uops"
        return f"dispatch ({width} {unit} a cycle at most)" if width else "dispatch"
    if one.name.startswith("divider"):
        called = core_ports.called(core)
        names = " and ".join(called[letter] for letter in one.ports)
        return f"divider on {names} (busy for {one.taken:g} cycles an iteration)"
    if one.name == "branches":
        return f"taken branch (one every {one.cycles or 0:.2f} cycles)"
    return one.name


def _ports(one: Limit, cycles: float, core: Microarch) -> str:
    """Return "load ports AGU0 and AGU1 (2 of 2 busy)", counted over a cycle."""
    kinds = [use.kind for use in core_ports.uses(core) if set(use.ports) == set(one.ports)]
    if {"store address", "store data"} <= set(kinds):
        kinds = ["store"]
    called = core_ports.called(core)
    names = [called[letter] for letter in one.ports]
    word = "port" if len(names) == 1 else "ports"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    busy = f"{one.taken / cycles:.2f}".rstrip("0").rstrip(".")
    return f"{kinds[0] + ' ' if kinds else ''}{word} {listed} ({busy} of {len(names)} busy)"


def _chain(one: Limit, block: Block) -> str:
    kind = "loop-carried dependency" if block.notion == "loop" else "dependency from copy to copy"
    texts = [" ".join(block.instructions[n].text.split()) for n in one.instructions]
    left = len(texts) - _SHOWN
    shown = [*texts[:_SHOWN], *([f"{left} more"] if left > 0 else [])]
    return f"{kind}: {' -> '.join([*shown, 'itself' if len(texts) == 1 else 'the first'])}"


def _op_cache(block: Block, core: Microarch) -> str:
    """Return what an entry of the op cache cannot hold, where that is a line's end."""
    line = core.value("uop_cache.region_bytes")
    if block.notion != "loop" or not isinstance(line, int):
        return "op cache"
    lines = (block.offset % line + len(block.code) - 1) // line + 1
    return f"op cache (the loop has bytes in {lines} lines of {line})" if lines > 1 else "op cache"
