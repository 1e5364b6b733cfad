"""The journal of a search: simulated costs in a file, from which an interrupted search resumes."""

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
    """Costs by text, or the error; a search with the same inputs reuses them.

    about is a digest of all inputs of the costs besides the text.
    """

    def __init__(self, path: Path, about: str) -> None:
        """Read the file; InputError for one of another search, or of another kind."""
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
            stored = first["about"]
            self._known = {row["text"]: _found(row) for row in rows}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is not a state of a search; name another folder") from None
        if stored != about:
            raise InputError(
                f"{path} is of a search of other code, cores, parameters or figures; name another "
                "folder, or remove the file to begin again"
            )

    def known(self, texts: Iterable[str]) -> dict[str, Mapping[str, Cost] | InputError]:
        """Return the stored costs, or errors, of those texts that have any."""
        keys = {text: _digest(text) for text in texts}
        return {text: self._known[key] for text, key in keys.items() if key in self._known}

    def add(self, costs: Mapping[str, Mapping[str, Cost] | InputError]) -> None:
        """Append the costs of new texts to the file."""
        rows = []
        for text, cost in costs.items():
            key = _digest(text)
            if key not in self._known:
                self._known[key] = cost
                rows.append(json.dumps({"text": key, **_row(cost)}) + "\n")
        with files.writing(self._path), self._path.open("r+b") as file:
            file.seek(file.read().rfind(b"\n") + 1)  # drop a line that an interrupt cut off
            file.truncate()
            file.write("".join(rows).encode())


def _row(costs: Mapping[str, Cost] | InputError) -> dict[str, Any]:
    if isinstance(costs, InputError):
        return {"error": str(costs)}
    return {"costs": {core: [c.mean, c.worst, {**c.sizes}] for core, c in costs.items()}}


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
    """Return a digest of the inputs of costs: simulator, core tables, parameters, and more."""
    digest = hashlib.sha256(binding.file().read_bytes())
    for core in cores:
        for name in _TABLES:
            digest.update((paths.models_root() / core.id / name).read_bytes())
    digest.update(repr((sorted(parameters.items()), more)).encode())
    return digest.hexdigest()
