"""Turn a variant into a kernel patch that applies, says why, and is proven before it is kept."""

from loopwright.tree.patch.evidence import Evidence
from loopwright.tree.patch.mail import PatchError
from loopwright.tree.patch.make import ALREADY_THERE, WRITTEN, MadePatch, make
from loopwright.tree.scratch import Identity

__all__ = ["ALREADY_THERE", "WRITTEN", "Evidence", "Identity", "MadePatch", "PatchError", "make"]
