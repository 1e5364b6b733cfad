"""The kit of each ISA."""

from collections.abc import Mapping

from loopwright.calibrating.forms import x86_kit
from loopwright.calibrating.forms.kit import Kit

_KITS: Mapping[str, Kit] = {"x86_64": x86_kit}


def of(isa: str) -> Kit:
    """Return the kit of an ISA."""
    return _KITS[isa]
