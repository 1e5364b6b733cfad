"""How good evidence about a core is: its rank, from what was measured there down to guesses."""

from enum import IntEnum


class Rank(IntEnum):
    """Where a verdict on a core comes from; a lower number goes before a higher one.

    MEASURED: whole calls, on that core. SIMULATED: whole calls by the simulator, which was held to
    loops of that core and was right. BOUNDED: the same where it was held to single instructions of
    the core alone, with the largest error that is known of it. KIN: measured on a core of the same
    family. MODELS: main loops, by the models that have been right there.
    """

    MEASURED = 1
    SIMULATED = 2
    BOUNDED = 3
    KIN = 4
    MODELS = 5


WORDS = {
    Rank.MEASURED: "measured",
    Rank.SIMULATED: "simulated",
    Rank.BOUNDED: "simulated",
    Rank.KIN: "measured on kin",
    Rank.MODELS: "models of the main loop",
}
