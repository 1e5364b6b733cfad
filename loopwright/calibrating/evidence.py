"""The evidence of a learned value: what it rests on, and how sure that makes it."""

from enum import Enum


class Confidence(Enum):
    """How sure a value is, in the words of core.toml."""

    MEASURED = "high"  # microbenchmarks tell it from all others
    FITTED = "medium"  # it explains microbenchmarks best, together with others
    ASSUMED = "low"  # no microbenchmark tells


class Evidence(str):
    """What a value rests on, in words, and how sure that makes it."""

    confidence: Confidence

    def __new__(cls, said: str, confidence: Confidence) -> "Evidence":
        """Take the words and the confidence."""
        made = super().__new__(cls, said)
        made.confidence = confidence
        return made

    @property
    def assumed(self) -> bool:
        """Say whether no microbenchmark tells the value."""
        return self.confidence is Confidence.ASSUMED


def measured(said: str) -> Evidence:
    """Return the evidence of a value that microbenchmarks tell from all others."""
    return Evidence(f"{said} [{SOURCE}]", Confidence.MEASURED)


def fitted(said: str) -> Evidence:
    """Return the evidence of a value that was chosen with others for what microbenchmarks take."""
    return Evidence(f"{_FITTED}: {said} [{SOURCE}]", Confidence.FITTED)


def assumed(said: str) -> Evidence:
    """Return the evidence of a value that no microbenchmark tells."""
    return Evidence(f"assumption: {said}", Confidence.ASSUMED)


SOURCE = "calibrated"  # the key of a learned core in sources.toml
_FITTED = "fitted to kernels together with others"
TRIED = measured("tried")  # of a candidate that is never written
UNKNOWN = assumed("not measured")
