"""Predict, check, measure and patch the assembly loops a kernel lives on.

    import loopwright as lw
    lw.predict("x86_64/copy_user", microarch="zen2")

Each verb of the command line is a function here and returns a tidy pandas DataFrame. A verb is
imported when it is first asked for, so that one that needs little starts in no time.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from loopwright.results import results, withdraw
    from loopwright.snippet import read_assembly
    from loopwright.trace.verb import trace
    from loopwright.tune import tune

    __version__: str

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
    "trace",
    "tune",
    "withdraw",
]

# The modules of the verbs that are not called like their module.
_MODULES = {
    "check": "api",
    "import_results": "importing",
    "measure": "api",
    "measure_blocks": "blocks",
    "patch": "patch.verb",
    "ports": "predict.inside",
    "read_assembly": "snippet",
    "timeline": "predict.inside",
    "trace": "trace.verb",
    "withdraw": "results",
}


class _Package(ModuleType):
    """This package: it imports a verb when it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            from importlib import metadata

            return metadata.version(__name__)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_MODULES.get(name, name)}")
        verb = getattr(module, name)
        self.__dict__[name] = verb
        return verb

    def __setattr__(self, name: str, value: Any) -> None:
        # A verb is not hidden by the module of its name, whenever that is imported.
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
