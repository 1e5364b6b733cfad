"""Evidence in a patch's message: findings of the verbs before it, and conclusions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Judged:
    """Conclusion about a variant: doubt speaks against it, proof says why it is a winner.

    Both are sentences, or empty. off_by has, by core and model, how far that model has been off
    there, in percent; those that are missing were never held to measurements of the core. by_size
    has the bands of sizes in which it is faster, rests_on what kind of evidence that is on each
    core, decides the numbers that would decide what is open.
    """

    doubt: str = ""
    proof: str = ""
    off_by: Mapping[tuple[str, str], float] = field(default_factory=dict)
    by_size: str = ""
    rests_on: str = ""
    decides: str = ""


@dataclass(frozen=True)
class Evidence:
    """Evidence that a variant should replace the baseline, as the other verbs found it.

    table is what compare returns, measurements what measure.run does, checks what check.run does.
    Rows of other variants than the patch's and its baseline are passed over; an empty table is said
    to be missing, with unmeasured as the reason why there are no measurements. judged holds by
    variant what is concluded; baselines says by routine what the variant is compared with where
    that is not what its kernel.toml says; words says by variant what it does. unproven has what
    verifying the patch left open.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    measurements: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    judged: Mapping[str, Judged] = field(default_factory=dict)
    unmeasured: str = ""
    baselines: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    unproven: tuple[str, ...] = ()
