"""Which features a core has, of those that variants need or choose alternatives by."""

from loopwright.cores.microarchs import Microarch
from loopwright.kernels import Variant


def alternatives_left(variant: Variant, core: Microarch) -> frozenset[str]:
    """Return which alternatives of a variant a core does not take, for want of the feature."""
    optional = [a for a in variant.alternatives if feature(a) not in variant.needs]
    return frozenset(a for a in optional if feature(a) not in core.features)


def feature(alternative: str) -> str:
    """Return the feature that an alternative's name speaks of: X86_FEATURE_SMAP is smap."""
    return alternative.rsplit("FEATURE_", 1)[-1].removeprefix("ARM64_HAS_").lower()


def provides(core: Microarch, need: str) -> bool:
    """Say whether a core has a feature. "noX" is X switched off, which every core can do."""
    return need in core.features or (need.startswith("no") and need not in core.features)
