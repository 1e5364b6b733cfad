"""The kernel module: variants in the kernel itself, with its own macros and real user memory."""

from loopwright.portable.kmod.build import Built, build
from loopwright.portable.kmod.source import OFFSETS, write

__all__ = ["OFFSETS", "Built", "build", "write"]
