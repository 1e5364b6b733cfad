"""Microarchitectures, from models/<microarch>/core.toml: features, parameters, ranges, bounds."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopwright import paths
from loopwright.errors import InputError, unknown
from loopwright.kernels import Variant

if TYPE_CHECKING:
    import pandas as pd

BOUNDS_TOLERANCE = 0.02  # relative tolerance below the bound, as models round


def below_bounds(rows: "pd.DataFrame") -> "pd.Series":
    """Return for each row of predict or compare whether its cycles are below least_cycles.

    Such a figure is marked, not drawn, and counts in no verdict, patch or comparison.
    """
    return rows["cycles"] < (1 - BOUNDS_TOLERANCE) * rows["least_cycles"]


def why_below_bounds(least_cycles: float) -> str:
    """Return the reason to reject a figure below the bounds."""
    return f"below the {least_cycles:g} cycles that the core's loads and stores take"


_NOT_SIMULATED = ("bounds",)  # tables that are no parameters of the simulator


@dataclass(frozen=True)
class Range:
    """The possible values of a parameter, and the reason for them.

    value is the one in core.toml. A range of numbers has two values, its cheap end and its dear one
    (a rate is cheap where it is high, all else where it is low); otherwise values are the
    alternatives, value first. A parameter that is not varied has none.
    """

    name: str
    value: str
    values: tuple[str, ...]
    reason: str
    numeric: bool = False

    @property
    def varied(self) -> bool:
        """True if other values are tried."""
        return bool(self.values)

    @property
    def rate(self) -> bool:
        """True if it is in bytes a cycle: its cost is proportional to its inverse."""
        return self.numeric and "_rate" in self.name

    @property
    def whole(self) -> bool:
        """True if it is a count, a whole number."""
        return self.numeric and not self.rate and not any("." in end for end in self.values)

    @property
    def ends(self) -> tuple[float, float]:
        """The cheap end and the dear one of a range of numbers."""
        return float(self.values[0]), float(self.values[-1])

    @property
    def likely(self) -> str | None:
        """The value of core.toml; None if that is outside of the range."""
        if not self.numeric:
            return self.value
        low, high = sorted(self.ends)
        return self.value if low <= float(self.value) <= high else None

    def at(self, position: float) -> float:
        """Return the number at a position from 0 (cheap) to 1 (dear), linear in the cost."""
        cheap, dear = self.ends
        if self.rate and cheap > 0 and dear > 0:
            return 1 / (1 / cheap + position * (1 / dear - 1 / cheap))
        value = cheap + position * (dear - cheap)
        return round(value) if self.whole else value

    def text(self, position: float) -> str:
        """Return the value at a position in the form of an override; the nearest alternative."""
        if self.numeric:
            return f"{self.at(position):.6g}"
        return self.values[round(position * (len(self.values) - 1))]


def read_ranges(entries: Iterable[tuple[str, Mapping[str, Any]]], path: Path) -> tuple[Range, ...]:
    """Return the ranges of a core's entries, by dotted name; path is its core.toml.

    InputError if a value of low confidence or an assumption has no range, or an invalid one.
    """
    ranges = []
    for name, entry in entries:
        if name.partition(".")[0] in _NOT_SIMULATED or "value" not in entry:
            continue
        if parameter_range := _read_range(name, entry, path):
            ranges.append(parameter_range)
        elif entry.get("confidence") == "low":
            raise InputError(f"{path}: {name} has confidence low and {_NO_RANGE}")
        elif str(entry.get("source", "")).startswith("assumption"):
            raise InputError(f"{path}: {name} is an assumption and {_NO_RANGE}")
    return tuple(ranges)


_NO_RANGE = (
    'no range: give low and high, or alternatives, and range = "why these"; '
    'or fixed = "why no other value is tried"'
)


def _read_range(name: str, entry: Mapping[str, Any], path: Path) -> Range | None:
    keys = {key for key in ("low", "high", "alternatives", "range", "fixed") if key in entry}
    if not keys:
        return None
    value = _override_text(entry["value"])
    if keys == {"fixed"}:
        return Range(name, value, (), _reason(name, "fixed", entry, path))
    if keys == {"low", "high", "range"}:
        reason, ends = _reason(name, "range", entry, path), (entry["low"], entry["high"])
        if any(type(end) not in (int, float) for end in ends) or not ends[0] < ends[1]:
            raise InputError(f"{path}: {name}: low {ends[0]} must be a number below high {ends[1]}")
        if type(entry["value"]) not in (int, float):
            raise InputError(f"{path}: {name} is not a number: give alternatives, not low and high")
        cheap_first = (str(ends[0]), str(ends[1]))
        return Range(
            name, value, cheap_first[:: -1 if "_rate" in name else 1], reason, numeric=True
        )
    if keys == {"alternatives", "range"}:
        reason, others = _reason(name, "range", entry, path), entry["alternatives"]
        if not isinstance(others, list) or not others or entry["value"] in others:
            raise InputError(f"{path}: {name}: alternatives must be a list of other values")
        return Range(name, value, (value, *map(_override_text, others)), reason)
    raise InputError(
        f"{path}: {name} has {', '.join(sorted(keys))}: a range is low, high and range; "
        "alternatives and range; or fixed"
    )


def _reason(name: str, key: str, entry: Mapping[str, Any], path: Path) -> str:
    why = entry[key]
    if not isinstance(why, str) or not why.strip():
        raise InputError(f"{path}: {name}: {key} must say why, in words")
    return why


def _override_text(value: Any) -> str:
    """Return a value in the form of an override."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Microarch:
    """A core: its names, its features and the simulator's parameters.

    role is "target" (recommendations are made for it) or "validation". called has the names of the
    core in other models. parameters is the whole of core.toml, ranges the possible values of
    parameters of low confidence.
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
    def unvalidated(self) -> str:
        """The reason why no measurement supports this core's figures; "" if one does."""
        return str(self.parameters.get("unvalidated", ""))

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each parameter's dotted name and its entry in core.toml."""
        return _entries(self.parameters)

    def entry(self, name: str) -> dict[str, Any]:
        """Return a parameter's entry in core.toml, by dotted name; {} if it has none."""
        table, _, key = name.partition(".")
        entry = self.parameters.get(table, {}).get(key)
        return entry if isinstance(entry, dict) else {}

    def value(self, name: str) -> Any:
        """Return a simulator parameter's value in core.toml, by dotted name, or None."""
        return self.entry(name).get("value")

    def bound(self, kind: str) -> float | None:
        """Return the most "loads" or "stores" in a cycle, None if unknown."""
        entry = self.parameters.get("bounds", {}).get(kind)
        return float(entry["value"]) if entry else None


def _entries(parameters: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for table, entries in parameters.items():
        if isinstance(entries, dict):
            for key, entry in entries.items():
                if isinstance(entry, dict):
                    yield f"{table}.{key}", entry


def load(microarch_id: str) -> Microarch:
    """Read one core; InputError if it is unknown or its core.toml is wrong."""
    path = paths.models_root() / microarch_id / "core.toml"
    if "/" in microarch_id or not path.is_file():
        raise unknown("microarch", microarch_id, ids())
    return _read(microarch_id, path, path.read_bytes())


def of_text(microarch_id: str, toml: str) -> Microarch:
    """Read a core from the text of a core.toml; InputError if it is wrong."""
    return _read(microarch_id, Path(microarch_id) / "core.toml", toml.encode())


# The content is a part of the cache's key: the file may change while this process lives.
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
            ranges=read_ranges(_entries(data), path),
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    except KeyError as error:
        raise InputError(f"{path}: {error} is missing") from None


def ids() -> list[str]:
    """Return the ids of all cores, sorted; InputError if there is none."""
    root = paths.models_root()
    core_ids = sorted(p.parent.name for p in root.glob("*/core.toml"))
    if not core_ids:
        raise InputError(f"{root} holds no core: no CORE/core.toml below it")
    return core_ids


def targets(isa: str | None = None) -> list[Microarch]:
    """Return the cores that recommendations are made for, of one ISA or of all."""
    cores = [load(i) for i in ids()]
    return [c for c in cores if c.role == "target" and isa in (None, c.isa)]


def select(spec: str | None, isa: str | None = None) -> list[Microarch]:
    """Resolve "ID[,ID]", "all" or None (the targets) to cores of the given ISA.

    InputError if a named core is of another ISA.
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


def alternatives_left(variant: Variant, core: Microarch) -> frozenset[str]:
    """Return the alternatives of a variant whose feature a core lacks."""
    optional = [a for a in variant.alternatives if feature(a) not in variant.needs]
    return frozenset(a for a in optional if feature(a) not in core.features)


def feature(alternative: str) -> str:
    """Return the feature of an alternative's name: smap for X86_FEATURE_SMAP."""
    return alternative.rsplit("FEATURE_", 1)[-1].removeprefix("ARM64_HAS_").lower()


def missing(variant: Variant, core: Microarch) -> list[str]:
    """Return the features that a variant needs and a core lacks."""
    return [need for need in variant.needs if need not in core.features]


def conditions(variant: Variant, core: Microarch) -> list[str]:
    """Return the conditions, unmet on a core, for a variant to be chosen there, in words."""
    lacking = [f"there is {need}" for need in missing(variant, core)]
    return lacking + [f"{name} is off" for name in variant.switched_off if name in core.features]
