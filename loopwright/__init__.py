"""Predict, check, measure and patch the assembly loops a kernel lives on.

    import loopwright as lw
    lw.predict("x86_64/copy_user", microarch="zen2")

Each verb of the command line is a function here and returns a tidy pandas DataFrame; plots has
functions that draw them. A verb's module is imported at the first access, so that the package
itself imports fast. No package or module beside this file has the name of a verb: one would hide
the other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.calibrating.calibrate import calibrate
    from loopwright.checking.check import check
    from loopwright.code.snippet import read_assembly
    from loopwright.improving.improve import improve
    from loopwright.inventory import doctor
    from loopwright.judging.published import published
    from loopwright.judging.recommend import recommend
    from loopwright.judging.study import compare
    from loopwright.judging.unmeasured import estimate
    from loopwright.linux.baseline import baseline
    from loopwright.linux.patch import patch
    from loopwright.machine.trace import trace
    from loopwright.measuring.measure import measure
    from loopwright.measuring.measure_blocks import compare_loops, measure_blocks
    from loopwright.measuring.results import import_results, results, withdraw
    from loopwright.portable.kit import import_calibration, kit
    from loopwright.predicting.explain import ports, sources, timeline
    from loopwright.predicting.predict import predict
    from loopwright.reporting import plots as plots
    from loopwright.reporting.core_sheet import core
    from loopwright.scanning.builds import compare_builds
    from loopwright.scanning.scan import scan

    __version__: str

# The module of each verb.
_VERBS = {
    "baseline": "linux.baseline", "calibrate": "calibrating.calibrate", "check": "checking.check",
    "compare": "judging.study", "compare_builds": "scanning.builds",
    "compare_loops": "measuring.measure_blocks", "core": "reporting.core_sheet",
    "doctor": "inventory", "estimate": "judging.unmeasured",
    "import_calibration": "portable.kit", "import_results": "measuring.results",
    "improve": "improving.improve", "kit": "portable.kit", "measure": "measuring.measure",
    "measure_blocks": "measuring.measure_blocks", "patch": "linux.patch",
    "ports": "predicting.explain", "predict": "predicting.predict",
    "published": "judging.published", "read_assembly": "code.snippet",
    "recommend": "judging.recommend", "results": "measuring.results", "scan": "scanning.scan",
    "sources": "predicting.explain", "timeline": "predicting.explain", "trace": "machine.trace",
    "withdraw": "measuring.results",
}  # fmt: skip

__all__ = [
    "baseline", "calibrate", "check", "compare", "compare_builds", "compare_loops", "core",
    "doctor", "estimate", "import_calibration", "import_results", "improve", "kit", "measure",
    "measure_blocks", "patch", "ports", "predict", "published", "read_assembly", "recommend",
    "results", "scan", "sources", "timeline", "trace", "withdraw",
]  # fmt: skip


if not TYPE_CHECKING:  # or no misspelt name would be an error

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from loopwright.paths import VERSION

            return VERSION
        if name != "plots" and name not in _VERBS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from loopwright.errors import naming_missing_extra

        with naming_missing_extra():
            if name == "plots":
                return import_module("loopwright.reporting.plots")
            verb = getattr(import_module(f"{__name__}.{_VERBS[name]}"), name)
        globals()[name] = verb
        return verb


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
