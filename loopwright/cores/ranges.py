"""What a parameter of a core may be where its value is an assumption or of low confidence.

An entry of core.toml states it: `low` and `high`, or `alternatives` to its value, with the reason
under `range`; or `fixed`, the reason why other values are not tried.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopwright.errors import InputError

_NO_PARAMETERS = ("bounds",)  # tables of figures that the simulator does not take


@dataclass(frozen=True)
class Range:
    """The values that a parameter may have, and why no others.

    value is the one in core.toml. A range of numbers has two values, its cheap end and its dear one
    (a rate is cheap where it is high, all else where it is low); else values are the alternatives,
    value first. A parameter that is not varied has none.
    """

    name: str
    value: str
    values: tuple[str, ...]
    reason: str
    numeric: bool = False

    @property
    def varied(self) -> bool:
        """Say whether other values are tried."""
        return bool(self.values)

    @property
    def rate(self) -> bool:
        """Say whether it is bytes a cycle: what it costs goes by its inverse."""
        return self.numeric and "_rate" in self.name

    @property
    def whole(self) -> bool:
        """Say whether it counts something, in whole numbers."""
        return self.numeric and not self.rate and not any("." in end for end in self.values)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the cheap end and the dear one of a range of numbers."""
        return float(self.values[0]), float(self.values[-1])

    @property
    def likely(self) -> str | None:
        """Return the value of core.toml; None where that stands for no answer."""
        if not self.numeric:
            return self.value
        low, high = sorted(self.ends)
        return self.value if low <= float(self.value) <= high else None

    def at(self, place: float) -> float:
        """Return the number at a place from 0 (cheap) to 1 (dear), evenly by what it costs."""
        cheap, dear = self.ends
        if self.rate and cheap > 0 and dear > 0:
            return 1 / (1 / cheap + place * (1 / dear - 1 / cheap))
        value = cheap + place * (dear - cheap)
        return round(value) if self.whole else value

    def text(self, place: float) -> str:
        """Return the value at a place as an override takes it; of alternatives the nearest one."""
        if self.numeric:
            return f"{self.at(place):.6g}"
        return self.values[round(place * (len(self.values) - 1))]


def read(entries: Iterable[tuple[str, Mapping[str, Any]]], path: Path) -> tuple[Range, ...]:
    """Return the ranges of a core's entries, by dotted name; path is its core.toml.

    InputError where a value of low confidence or an assumption has none, or one that cannot be.
    """
    found = []
    for name, entry in entries:
        if name.partition(".")[0] in _NO_PARAMETERS or "value" not in entry:
            continue
        if one := _of(name, entry, path):
            found.append(one)
        elif entry.get("confidence") == "low":
            raise InputError(f"{path}: {name} has confidence low and {_MISSING}")
        elif str(entry.get("source", "")).startswith("assumption"):
            raise InputError(f"{path}: {name} is an assumption and {_MISSING}")
    return tuple(found)


_MISSING = (
    'no range: give low and high, or alternatives, and range = "why these"; '
    'or fixed = "why no other value is tried"'
)


def _of(name: str, entry: Mapping[str, Any], path: Path) -> Range | None:
    given = {key for key in ("low", "high", "alternatives", "range", "fixed") if key in entry}
    if not given:
        return None
    value = _text(entry["value"])
    if given == {"fixed"}:
        return Range(name, value, (), _reason(name, "fixed", entry, path))
    if given == {"low", "high", "range"}:
        why, ends = _reason(name, "range", entry, path), (entry["low"], entry["high"])
        if any(type(end) not in (int, float) for end in ends) or not ends[0] < ends[1]:
            raise InputError(f"{path}: {name}: low {ends[0]} must be a number below high {ends[1]}")
        if type(entry["value"]) not in (int, float):
            raise InputError(f"{path}: {name} is no number: give alternatives, not low and high")
        cheap_first = (str(ends[0]), str(ends[1]))
        return Range(name, value, cheap_first[:: -1 if "_rate" in name else 1], why, numeric=True)
    if given == {"alternatives", "range"}:
        why, others = _reason(name, "range", entry, path), entry["alternatives"]
        if not isinstance(others, list) or not others or entry["value"] in others:
            raise InputError(f"{path}: {name}: alternatives must be a list of other values")
        return Range(name, value, (value, *map(_text, others)), why)
    raise InputError(
        f"{path}: {name} has {', '.join(sorted(given))}: a range is low, high and range; "
        "alternatives and range; or fixed"
    )


def _reason(name: str, key: str, entry: Mapping[str, Any], path: Path) -> str:
    why = entry[key]
    if not isinstance(why, str) or not why.strip():
        raise InputError(f"{path}: {name}: {key} must say why, in words")
    return why


def _text(value: Any) -> str:
    """Return a value as an override takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
