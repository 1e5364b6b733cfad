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


def missing(variant: Variant, core: Microarch) -> list[str]:
    """Return the features that a variant needs and a core lacks."""
    return [need for need in variant.needs if need not in core.features]


def conditions(variant: Variant, core: Microarch) -> list[str]:
    """Say in words what must hold on a core, as it is not, for a variant to be chosen there."""
    lacking = [f"there is {need}" for need in missing(variant, core)]
    return lacking + [f"{name} is off" for name in variant.switched_off if name in core.features]
