"""Checks that passed, kept below the build folder, so that none is run twice."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from loopwright import files, paths
from loopwright.errors import InputError


def key(*parts: str) -> str:
    """Return the name of a question: a hash of all that decides its answer."""
    return hashlib.sha256("\n".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


def passed(name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a record from the cache, or as run makes it; kept where its "passed" is true.

    Its "cached" says which.
    """
    path = paths.build_dir() / "check" / f"{name}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return {**stored, "cached": True}
    record = run()
    if record["passed"]:
        with suppress(InputError):  # without the cache it is checked again
            files.written(path, json.dumps(record))
    return {**record, "cached": False}
