"""Evidence of a learned value: its basis in words, and the confidence that follows."""

from enum import Enum


class Confidence(Enum):
    """Confidence in a value, in the words of core.toml."""

    MEASURED = "high"  # microbenchmarks tell it from all other values
    FITTED = "medium"  # it explains microbenchmarks best, together with other values
    ASSUMED = "low"  # no microbenchmark tells it


class Evidence(str):
    """Basis of a value in words, with the confidence that follows from it."""

    confidence: Confidence

    def __new__(cls, said: str, confidence: Confidence) -> "Evidence":
        """Make evidence of words and a confidence."""
        made = super().__new__(cls, said)
        made.confidence = confidence
        return made

    @property
    def assumed(self) -> bool:
        """True if no microbenchmark tells the value."""
        return self.confidence is Confidence.ASSUMED


def measured(said: str) -> Evidence:
    """Return the evidence of a value that microbenchmarks tell from all others."""
    return Evidence(f"{said} [{SOURCE}]", Confidence.MEASURED)


def fitted(said: str) -> Evidence:
    """Return the evidence of a value that was fitted to measurements together with others."""
    return Evidence(f"{_FITTED}: {said} [{SOURCE}]", Confidence.FITTED)


def assumed(said: str) -> Evidence:
    """Return the evidence of a value that no microbenchmark tells."""
    return Evidence(f"assumption: {said}", Confidence.ASSUMED)


SOURCE = "calibrated"  # the key of a learned core in sources.toml
_FITTED = "fitted to kernels together with others"
TRIED = measured("tried")  # of a candidate that is never written
UNKNOWN = assumed("not measured")
