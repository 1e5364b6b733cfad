"""What a prediction is between, where it rests on a parameter that nobody has measured.

Such a parameter stands in core.toml with `low` and `high`, what the known facts allow.
"""

from collections.abc import Mapping

from loopwright.cores.microarchs import Microarch
from loopwright.predicting.model import Block

Ends = tuple[str, str]

_GATES = (b"\x0f\x01\xcb", b"\x0f\x01\xca")  # stac, clac


def of(core: Microarch, given: Mapping[str, str]) -> dict[str, Ends]:
    """Return the ranges of a core's parameters by dotted name: the cheap end and the dear one.

    What is given a value is no range. A rate is cheap where it is high, all else where it is low.
    """
    out: dict[str, Ends] = {}
    for name, entry in core.entries():
        if "low" in entry and name not in given:
            ends = (str(entry["low"]), str(entry["high"]))
            out[name] = ends[::-1] if "_rate" in name else ends
    return out


def ends(core: Microarch, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is given with every range at its cheap end, and the same at the dear one."""
    known = of(core, given)
    cheap, dear = ({name: both[end] for name, both in known.items()} for end in (0, 1))
    return {**cheap, **given}, {**dear, **given}


def rests_on(block: Block, name: str, *, straight: bool) -> bool:
    """Say whether the prediction of a block can depend on a parameter.

    straight: no string instruction repeats in it.
    """
    table, _, key = name.partition(".")
    if table == "string":
        return not straight
    if key == "stac_clac":
        return any(gate in block.code for gate in _GATES)
    if table == "memory":
        return any(i.written_bytes for i in block.instructions)
    return True
