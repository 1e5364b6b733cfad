"""Find the innermost loops of a binary by its control flow."""

from collections.abc import Iterator

from loopwright.code.elf import Section
from loopwright.code.instructions import Flow
from loopwright.code.pieces import Piece, of_loops
from loopwright.scanning.found import Found, ScannedLoop
from loopwright.scanning.images import Image


def find(image: Image) -> Found:
    """Return all innermost loops of a file that do not call, by address, and what was left out."""
    found = Found()
    for section in image.sections:
        for piece in of_loops(section, range(section.address, section.end)):
            _sort(found, section, piece)
    return found


def _sort(found: Found, section: Section, piece: Piece) -> None:
    flows = {i.flow for i in piece.instructions}
    if piece.error:
        found.lost += 1
    elif any(i.string for i in piece.instructions):
        found.refused["a string instruction repeats in it"] += 1
    elif Flow.CALL in flows:
        found.calling += 1
    elif flows & {Flow.INDIRECT, Flow.RETURN} or any(_inside(piece)):
        found.refused["control does not go straight through it"] += 1
    else:
        found.loops.append(_loop(section, piece))


def _inside(piece: Piece) -> Iterator[bool]:
    """Yield for each branch but the last whether it is one that always goes elsewhere."""
    return (i.flow is Flow.JUMP for i in piece.instructions[:-1])


def _loop(section: Section, piece: Piece) -> ScannedLoop:
    routine = section.routine(piece.address)
    exits = tuple(i.address for i in piece.instructions[:-1] if i.flow is Flow.BRANCH)
    return ScannedLoop(
        file=section.file,
        section=section.name,
        isa=section.isa,
        address=piece.address,
        code=piece.code,
        path=((0, len(piece.code)),),
        function=routine.name if routine else "",
        into=piece.address - routine.address if routine else 0,
        exits=exits,
        kind="exits" if exits else "block",
    )
