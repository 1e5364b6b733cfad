"""Findings about one kernel when the report is written."""

from dataclasses import dataclass, field

import pandas as pd

from loopwright.judging.study import Study
from loopwright.kernels import Kernel
from loopwright.linux.message import Evidence
from loopwright.reporting.threads import ThreadAnswer
from loopwright.reporting.timelines import Moment


@dataclass(frozen=True)
class Finding:
    """A kernel's study, its comparison table, its recommendation, and what became of patches.

    bands says which variant is best from which size to which, as recommend.Judgement has it.
    sweep has the simulator's cycles over code offsets, boundaries what they mean in words, and
    moments the timelines; evidence is what patches say. answers are those to the questions of
    mailing lists about the kernel. assumed has a row for each figure of the simulator and each
    parameter that it would follow and nobody has measured (loopwright.sources).
    calls has what whole calls are predicted to cost on each core judged for and on this one.
    baselines says by routine what the baseline is in the tree; patches maps a routine to one line:
    the patch files, or why there is none; texts holds the patch files by name.
    """

    study: Study
    table: pd.DataFrame
    recommendation: pd.DataFrame
    sweep: pd.DataFrame
    boundaries: pd.DataFrame
    moments: tuple[Moment, ...]
    evidence: Evidence
    answers: tuple[ThreadAnswer, ...] = ()
    assumed: pd.DataFrame = field(default_factory=pd.DataFrame)
    bands: pd.DataFrame = field(default_factory=pd.DataFrame)
    calls: pd.DataFrame = field(default_factory=pd.DataFrame)
    baselines: dict[str, str] = field(default_factory=dict)
    patches: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        """Return the kernel, with the tree's own functions among its variants."""
        return self.study.kernel

    def cores(self) -> list[str]:
        """Return the cores that there are rows for."""
        return [str(core) for core in self.table["microarch"].unique()]
