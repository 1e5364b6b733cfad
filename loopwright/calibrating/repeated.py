"""The curves of string instructions as the simulator takes them, as far as they explain it.

Asked: what experiments.strings timed. Answer: points of each curve, and from which alignment and
side on it is another. Some sizes are kept aside first; where these, or other offsets, are not
predicted, the instruction is left out: its curve stands in strings.csv alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from loopwright.calibrating import parameters, tried
from loopwright.calibrating.experiments import strings
from loopwright.calibrating.experiments.strings import Repeated, Timed
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.code import binding

_ASIDE = (192, 384, 768, 1536, 3072)  # bytes: between points
_SAME, _SOME = 0.06, 2  # relative: curves that differ by less at all sizes but so many are one
_MEAN, _WORST = 0.05, 0.25  # relative errors of what explains an instruction
_LINE = 64  # bytes

_Curve = Mapping[int, float]
_Curves = Mapping[tuple[int, int], _Curve]


def choose(laboratory: Laboratory, learned: Learned) -> Learned:
    """Return what was learned with the curves that explain string instructions."""
    special = learned.special
    if special is None:
        return learned
    left = dict(special.left)
    alignment: int | None = None
    for name in laboratory.kit.REPEATED:
        mine = [one for one in special.strings if one.what.name == name]
        refused = [one.figure.refused for one in mine if not one.figure]
        if refused or not mine:
            left[f"rep {name}"] = refused[0] if refused else "not asked"
            continue
        found = _curves(mine)
        if f"string.{name}_cycles" not in binding.parameters():
            left[f"rep {name}"] = "the simulator has no points of its curve; strings.csv has it"
            continue
        aligned = alignment or _alignment(found)
        why, source = _held(laboratory, learned, _rules(name, found, aligned, _ASIDE), mine)
        if why:
            left[f"rep {name}"] = why
            continue
        known = {key: (value, source) for key, value in _rules(name, found, aligned).items()}
        alignment, learned = aligned, replace(learned, rules={**learned.rules, **known})
    return replace(learned, special=replace(special, left=left))


def _curves(mine: Sequence[Timed]) -> _Curves:
    out: dict[tuple[int, int], dict[int, float]] = {}
    for one in mine:
        place = one.what.source, one.what.destination
        out.setdefault(place, {})[one.what.size] = one.figure.cycles
    return out


def _alignment(found: _Curves) -> int:
    """Return which multiples a destination has to lie at to be as fast as at a line's start."""
    offsets = sorted({destination for source, destination in found if not source and destination})
    slow = [one for one in offsets if not _alike(found[0, one], found[0, 0])]
    quick = [one for one in offsets if one > max(slow, default=0)]
    return min(quick, default=_LINE) if slow else 1


def _alike(one: _Curve, other: _Curve) -> bool:
    return sum(abs(one[size] / other[size] - 1) > _SAME for size in one) <= _SOME


def _rules(
    name: str, found: _Curves, aligned: int, aside: Sequence[int] = ()
) -> Mapping[str, object]:
    """Return the parameters of an instruction, without the points of some sizes."""

    def points(one: _Curve, other: _Curve) -> list[list[int]]:
        return [[n, round(one[n]), round(other[n])] for n in sorted(one) if n not in aside]

    other = found[0, max((d for _, d in found if d % aligned), default=0)]
    out: dict[str, object] = {
        "string.alignment": aligned, f"string.{name}_cycles": points(found[0, 0], other),
    }  # fmt: skip
    if name.endswith("q"):
        out[f"string.{name}_odd_cycles"] = points(found[0, 1], found[0, 1])
    if name == "movsq":
        either = not _alike(found[1, 0], found[0, 0])
        out["string.odd_side"] = "either" if either else "destination"
    return out


def _held(
    laboratory: Laboratory, learned: Learned, rules: Mapping[str, object], mine: Sequence[Timed]
) -> tuple[str, str]:
    """Return why rules do not predict an instruction, or nothing and what they rest on."""
    asked = [one.what for one in mine]
    some = {name: (value, "tried") for name, value in rules.items()}
    with_them = replace(learned, rules={**learned.rules, **some})
    codes = [strings.code(laboratory.kit, one) for one in asked[:1]]
    place = tried.laboratory(with_them, laboratory.machine, codes, {})
    said = [one.figure for one in strings.measure(place, asked)]
    if refused := next((one.refused for one in said if not one), ""):
        return f"nothing holds its curve to the core: {refused}", ""
    off = [
        abs(a.cycles - b.figure.cycles) / max(b.figure.cycles, 1.0)
        for a, b in zip(said, mine, strict=True)
    ]
    worst = max(range(len(off)), key=lambda n: off[n])
    shown = f"mean error {100 * fmean(off):.1f} %, worst {100 * off[worst]:.0f} % "
    shown += f"({_named(asked[worst])}), sizes kept aside among them"
    if fmean(off) > _MEAN or off[worst] > _WORST:
        return f"no curve of the simulator explains it: {shown}; strings.csv has it", ""
    return "", parameters.fitted(f"rep {mine[0].what.name} by size and offsets, {shown}")


def _named(one: Repeated) -> str:
    return f"{one.size} bytes, offsets {one.source} and {one.destination}"
