"""Predict, check, measure and patch the assembly loops a kernel lives on.

    import loopwright as lw
    lw.predict("x86_64/copy_user", microarch="zen2")

Each verb of the command line is a function here and returns a tidy pandas DataFrame.
"""

from loopwright.api import check, measure
from loopwright.baseline import baseline
from loopwright.blocks import measure_blocks
from loopwright.compare import compare
from loopwright.doctor import doctor
from loopwright.importing import import_results
from loopwright.kit import kit
from loopwright.patch.verb import patch
from loopwright.predict import predict
from loopwright.predict.inside import ports, timeline
from loopwright.published import published
from loopwright.recommend import recommend
from loopwright.results import results
from loopwright.snippet import read_assembly
from loopwright.tune import tune

__version__ = "0.1.0"

__all__ = [
    "baseline",
    "check",
    "compare",
    "doctor",
    "import_results",
    "kit",
    "measure",
    "measure_blocks",
    "patch",
    "ports",
    "predict",
    "published",
    "read_assembly",
    "recommend",
    "results",
    "timeline",
    "tune",
]
