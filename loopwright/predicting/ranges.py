"""What a prediction is between, where it rests on a cost that nobody has measured.

Costs are those of microcoded and serialising instructions, of streams through the cache, and of
forms and front ends that are in doubt: they only ever add cycles, so that their ends are those of
the prediction. Verdicts vary all ranges of core.toml.
"""

from collections.abc import Mapping

from loopwright.microarchs import Microarch
from loopwright.predicting import doubts
from loopwright.predicting.model import Block

Ends = tuple[str, str]

# Code of the instructions that a cost is of.
_CODE = {
    "stac_clac": (b"\x0f\x01\xcb", b"\x0f\x01\xca"),
    "lfence": (b"\x0f\xae\xe8",),
    "mfence": (b"\x0f\xae\xf0",),
}


def of(core: Microarch, given: Mapping[str, str]) -> dict[str, Ends]:
    """Return the ranges of a core's costs by dotted name: the cheap end and the dear one.

    What is given a value is no range. A rate is cheap where it is high, all else where it is low.
    """
    found = (r for r in core.ranges if r.numeric and r.name not in given and _cost(r.name))
    known = {r.name: (r.values[0], r.values[1]) for r in found}
    if doubts.listed(core) and doubts.END not in given:
        known[doubts.END] = doubts.LEAST, doubts.MOST
    if doubts.front_end_open(core) and doubts.FRONT_END not in given:
        known[doubts.FRONT_END] = doubts.LEAST, doubts.MOST
    return known


def _cost(name: str) -> bool:
    return name.partition(".")[0] in ("string", "serial") or name == "memory.stream_line_cycles"


def ends(core: Microarch, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is given with every range at its cheap end, and the same at the dear one."""
    known = of(core, given)
    cheap, dear = ({name: both[end] for name, both in known.items()} for end in (0, 1))
    return {**cheap, **given}, {**dear, **given}


def rests_on(core: Microarch, block: Block, name: str, *, straight: bool) -> bool:
    """Say whether the prediction of a block can depend on a parameter.

    straight: no string instruction repeats in it.
    """
    if name == doubts.END:
        return doubts.concern(core, block.code)
    table, _, key = name.partition(".")
    if table == "string":
        return not straight
    if table == "serial":
        return any(code in block.code for code in _CODE[key])
    if table == "memory":
        return any(i.written_bytes for i in block.instructions)
    return True
