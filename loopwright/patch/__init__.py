"""Turn a variant into a kernel patch that applies, says why, and is proven before it is kept."""

from loopwright.patch.evidence import Evidence
from loopwright.patch.make import ALREADY_THERE, WRITTEN, PatchError, Result, make
from loopwright.patch.scratch import Identity

__all__ = ["ALREADY_THERE", "WRITTEN", "Evidence", "Identity", "PatchError", "Result", "make"]
