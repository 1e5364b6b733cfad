"""The kernel module: variants in the kernel itself, with its own macros and real user memory."""

from loopwright.kmod.build import Built, build
from loopwright.kmod.source import OFFSETS, write

__all__ = ["OFFSETS", "Built", "build", "write"]
