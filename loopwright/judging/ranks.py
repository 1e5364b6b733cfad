"""Rank of evidence: a measurement goes before a simulation, a validated model before others."""

from enum import IntEnum


class Rank(IntEnum):
    """Where a verdict on a core comes from; a lower number goes before a higher one.

    MEASURED: whole calls, measured on that core. SIMULATED: whole calls by the simulator, validated
    on loops of that core. BOUNDED: whole calls by the simulator, validated on single instructions
    of the core alone; the error is the largest one known. MODELS: main loops, by the models that
    have been right on that core.
    """

    MEASURED = 1
    SIMULATED = 2
    BOUNDED = 3
    MODELS = 4


WORDS = {
    Rank.MEASURED: "measured",
    Rank.SIMULATED: "simulated",
    Rank.BOUNDED: "simulated",
    Rank.MODELS: "models of the main loop",
}
