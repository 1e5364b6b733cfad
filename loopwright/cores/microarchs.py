"""Microarchitectures, read from models/<microarch>/core.toml."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from loopwright import paths
from loopwright.cores import ranges
from loopwright.cores.ranges import Range
from loopwright.errors import InputError, unknown


@dataclass(frozen=True)
class Microarch:
    """A core: the names that outside models know it by and the features that kernels ask for.

    role is "target" (recommendations are made for it) or "validation". parameters is the whole
    of core.toml, ranges what parameters of low confidence may be.
    """

    id: str
    name: str
    isa: str
    role: str
    called: dict[str, str]
    features: frozenset[str]
    parameters: dict[str, Any]
    ranges: tuple[Range, ...] = ()

    @property
    def related(self) -> tuple[str, ...]:
        """Return the related cores, the most alike first."""
        return tuple(self.parameters.get("related", ()))

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return what core.toml says of each parameter: its dotted name and its entry."""
        return _entries(self.parameters)

    def entry(self, name: str) -> dict[str, Any]:
        """Return what core.toml says of a parameter, by dotted name; nothing where it has none."""
        table, _, key = name.partition(".")
        entry = self.parameters.get(table, {}).get(key)
        return entry if isinstance(entry, dict) else {}

    def value(self, name: str) -> Any:
        """Return what core.toml gives a parameter of the simulator, by dotted name, or None."""
        return self.entry(name).get("value")

    def bound(self, kind: str) -> float | None:
        """Return how many "loads" or "stores" it does a cycle at most, None where unknown."""
        entry = self.parameters.get("bounds", {}).get(kind)
        return float(entry["value"]) if entry else None


def _entries(parameters: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for table, entries in parameters.items():
        if isinstance(entries, dict):
            for key, entry in entries.items():
                if isinstance(entry, dict):
                    yield f"{table}.{key}", entry


def load(microarch_id: str) -> Microarch:
    """Read one core; InputError where it is unknown or its core.toml is wrong."""
    path = paths.models_root() / microarch_id / "core.toml"
    if "/" in microarch_id or not path.is_file():
        raise unknown("microarch", microarch_id, ids())
    return _read(microarch_id, path, path.read_bytes())


# Keyed by what the file holds: it may change while this process lives.
@cache
def _read(microarch_id: str, path: Path, content: bytes) -> Microarch:
    try:
        data = tomllib.loads(content.decode())
        return Microarch(
            id=microarch_id,
            name=data["name"],
            isa=data["isa"],
            role=data.get("role", "validation"),
            called=dict(data.get("called", {})),
            features=frozenset(data.get("features", ())),
            parameters=data,
            ranges=ranges.read(_entries(data), path),
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    except KeyError as error:
        raise InputError(f"{path}: {error} is missing") from None


def ids() -> list[str]:
    """Return the ids of all cores, sorted; InputError where there is none."""
    root = paths.models_root()
    found = sorted(p.parent.name for p in root.glob("*/core.toml"))
    if not found:
        raise InputError(f"{root} holds no core: no CORE/core.toml below it")
    return found


def targets(isa: str | None = None) -> list[Microarch]:
    """Return the cores that recommendations are made for, of one ISA or of all."""
    cores = [load(i) for i in ids()]
    return [c for c in cores if c.role == "target" and isa in (None, c.isa)]


def select(spec: str | None, isa: str | None = None) -> list[Microarch]:
    """Resolve "ID[,ID]", "all" or None (the targets) to cores of the given ISA.

    InputError where a named core is of another ISA.
    """
    if spec is None:
        return targets(isa)
    if spec == "all":
        return [c for c in (load(i) for i in ids()) if isa in (None, c.isa)]
    cores = [load(i.strip()) for i in spec.split(",") if i.strip()]
    if not cores:
        raise InputError("no microarchitecture named; give --microarch ID[,ID] or all")
    for core in cores:
        if isa not in (None, core.isa):
            raise InputError(
                f"{core.id} is {core.isa} and the code is {isa}; "
                f"give one of {', '.join(c.id for c in targets(isa))}"
            )
    return cores
