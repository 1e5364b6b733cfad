"""Journal of a search: the costs simulated so far, in a file, so that the search can be resumed."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopwright import files, paths
from loopwright.code import binding
from loopwright.errors import InputError
from loopwright.improving.costs import Cost
from loopwright.microarchs import Microarch

_TABLES = ("core.toml", "instructions.csv")


class Journal:
    """Costs by text, or the reasons for refusals; a resumed search simulates only the rest.

    about identifies everything besides the text that costs depend on.
    """

    def __init__(self, path: Path, about: str) -> None:
        """Read the file; InputError if it belongs to another search, or to none."""
        self._path = path
        self._known: dict[str, Mapping[str, Cost] | InputError] = {}
        lines: Sequence[str] = ()
        if path.exists():
            *lines, _ = files.content(path, regular=True).decode(errors="replace").split("\n")
        if not lines:
            files.written(path, json.dumps({"about": about}) + "\n")
            return
        try:
            first, *rows = map(json.loads, lines)
            theirs = first["about"]
            self._known = {row["text"]: _found(row) for row in rows}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is no state of a search; name another folder") from None
        if theirs != about:
            raise InputError(
                f"{path} is of a search of other code, cores, parameters or figures; name another "
                "folder, or remove the file to begin again"
            )

    def known(self, texts: Iterable[str]) -> dict[str, Mapping[str, Cost] | InputError]:
        """Return the known costs of these texts."""
        keys = {text: _digest(text) for text in texts}
        return {text: self._known[key] for text, key in keys.items() if key in self._known}

    def add(self, found: Mapping[str, Mapping[str, Cost] | InputError]) -> None:
        """Append new costs to the file."""
        rows = []
        for text, one in found.items():
            key = _digest(text)
            if key not in self._known:
                self._known[key] = one
                rows.append(json.dumps({"text": key, **_row(one)}) + "\n")
        with files.writing(self._path), self._path.open("r+b") as file:
            file.seek(file.read().rfind(b"\n") + 1)  # what an interrupt cut off goes
            file.truncate()
            file.write("".join(rows).encode())


def _row(one: Mapping[str, Cost] | InputError) -> dict[str, Any]:
    if isinstance(one, InputError):
        return {"error": str(one)}
    return {"costs": {core: [c.mean, c.worst, {**c.sizes}] for core, c in one.items()}}


def _found(row: Mapping[str, Any]) -> Mapping[str, Cost] | InputError:
    if "error" in row:
        return InputError(row["error"])
    return {
        core: Cost(mean, worst, {int(size): cycles for size, cycles in sizes.items()})
        for core, (mean, worst, sizes) in row["costs"].items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(cores: Iterable[Microarch], parameters: Mapping[str, str], *more: object) -> str:
    """Return a digest of what costs depend on: the simulator, the cores' tables, and more."""
    digest = hashlib.sha256(binding.file().read_bytes())
    for core in cores:
        for name in _TABLES:
            digest.update((paths.models_root() / core.id / name).read_bytes())
    digest.update(repr((sorted(parameters.items()), more)).encode())
    return digest.hexdigest()
