"""What calls were found to cost, kept on disk until code, core or simulator change."""

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from loopwright import files, paths
from loopwright.code import binding
from loopwright.errors import InputError

Place = tuple[int, int, int]
"""A call: its size (as the contract counts: bytes or records), and the alignments of both sides."""


class Found(NamedTuple):
    """What the simulator found of a call: cycles as in CallCost, or the error that says why not."""

    cycles: float = 0.0
    mispredicted: float = 0.0
    alone: float = 0.0
    note: str = ""
    error: str = ""


class Cache:
    """The calls of some code on some core that are known."""

    def __init__(self, routine: str, figures: tuple[str, ...]) -> None:
        """Read what is kept of a routine, by its key, on a core with these figures."""
        key = hashlib.sha256(repr((_made_by(), routine, figures)).encode()).hexdigest()
        self._path = paths.build_dir() / "calls" / f"{key}.json"
        self.known: dict[Place, Found] = {}
        self._new = False
        if self._path.is_file():
            rows = json.loads(self._path.read_text())
            self.known = {(size, dst, src): Found(*rest) for size, dst, src, *rest in rows}

    def add(self, place: Place, found: Found) -> None:
        """Take what was found of a call."""
        self.known[place] = found
        self._new = True

    def keep(self) -> None:
        """Write what is new to disk: all of the file or nothing."""
        if not self._new:
            return
        rows = json.dumps([[*place, *found] for place, found in self.known.items()])
        with suppress(InputError):  # a cache that cannot be written costs time alone
            files.written(self._path, rows)
        self._new = False


@cache
def _made_by() -> str:
    """Return a hash of what traces and simulates: it changes without its version in a checkout."""
    tracing = Path(__file__).parents[1] / "tracing"
    made = [binding.file(), paths.HARNESS / "tracing" / "recorder.c", *sorted(tracing.glob("*.py"))]
    digest = hashlib.sha256()
    for path in made:
        digest.update(path.read_bytes())
    return digest.hexdigest()
