"""What a patch's message reports: the tables that the verbs before it made."""

from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Evidence:
    """Why a variant should replace the baseline, as the other verbs found it.

    predictions: kernel, variant, microarch, model, notion, offset, cycles (per iteration or call),
    error, bytes_per_iteration. measurements: kernel, variant, quantity, unit, size_bytes,
    dst_align, offset, cycles, uncertainty, clock, status, machine, microarch, note. checks:
    kernel, variant, passed, cases, failure, entries, entries_hit, over_report_bytes, note. Rows of
    other variants than the patch's and its baseline are passed over; an empty table is said to be
    missing, with unmeasured as the reason why there are no measurements. summary is the
    recommendation's line, confidence its word for how sure it is. baselines says by routine what
    the variant is compared with where that is not what its kernel.toml says.
    """

    predictions: pd.DataFrame = field(default_factory=pd.DataFrame)
    measurements: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    summary: str = ""
    confidence: str = ""
    unmeasured: str = ""
    baselines: dict[str, str] = field(default_factory=dict)
