"""What is known of one kernel when the report is written."""

from dataclasses import dataclass, field

import pandas as pd

from loopwright.study import Study


@dataclass(frozen=True)
class Finding:
    """A kernel's study, its comparison table, its recommendation, and what became of patches.

    patches maps a routine to one line: the patch files, or why there is none.
    """

    study: Study
    table: pd.DataFrame
    recommendation: pd.DataFrame
    patches: dict[str, str] = field(default_factory=dict)
