"""The simulator's Python module, which `make setup` builds."""

import importlib
from functools import cache
from typing import Any

from loopwright.errors import InputError


@cache
def module() -> Any:
    """Return the module; InputError that says how to get it where it is missing or older."""
    try:
        found = importlib.import_module("loopwright_pipeline")
    except ImportError:
        raise InputError("the pipeline simulator is not built: run `make setup`") from None
    if not hasattr(found, "outline"):
        raise InputError("the pipeline simulator is older than this checkout: run `make setup`")
    return found
