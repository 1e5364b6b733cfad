"""String instructions: cycles by size and alignment, and the curves fitted to them.

Repeated string instructions by their bytes and by where both sides lie.

Asked: what one takes by count and alignment. Kernel: an iteration of a loop that sets up the
operands and repeats once; the destination lies half a page from the source, but for the offsets, so
that the low 12 bits of addresses do not meet early. Test: sizes around powers of two, where fast
paths end. Answer: the cycles of an iteration.

The curves of string instructions as the simulator takes them, as far as they explain it.

Asked: what was timed. Answer: points of each curve, and from which alignment and side on it is
another; a point of no one speed lies between its neighbours. Some sizes are kept aside first; where
these, or other offsets, are not predicted, the instruction is left out: its curve stands in
strings.csv alone.

Curves of string instructions of a core: as they were measured, or as the simulator has them.
"""

import csv
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from loopwright import paths
from loopwright.calibrating import fit
from loopwright.calibrating.core_files import STRINGS
from loopwright.calibrating.core_model import CoreModel, Repeated, Timed
from loopwright.calibrating.evidence import UNKNOWN, Evidence, assumed, fitted
from loopwright.code import binding
from loopwright.microarchs import Microarch
from loopwright.microbench import kits
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Run
from loopwright.microbench.simulated import Simulated

SIZES = (
    8, 16, 32, 56, 64, 72, 120, 128, 136, 192, 248, 256, 264, 384, 504, 512, 520, 768, 1024, 1536,
    2048, 3072, 4096,
)  # fmt: skip
COPIED = ((0, 0), (0, 1), (0, 8), (0, 32), (1, 0), (8, 0), (1, 1))  # offsets of both sides
FILLED = ((0, 0), (0, 1), (0, 8), (0, 32))
_READS = "movs"
_SOURCE, _DESTINATION = 0, 0x900  # bytes behind lines, which make it half a page
_PLACES = (0x20E00E00, 0x20D00D00)  # what the two registers hold, for the simulator


def every(kit: Kit) -> Iterator[Repeated]:
    """Yield all that are asked for; none where the ISA has no such instruction."""
    for name in kit.REPEATED:
        for source, destination in COPIED if name.startswith(_READS) else FILLED:
            for size in SIZES:
                yield Repeated(name, size, source, destination)


def measure_strings(laboratory: Laboratory, asked: Sequence[Repeated]) -> list[Timed]:
    """Return what each takes."""
    kit = laboratory.kit
    figures = laboratory.turns([code(kit, one) for one in asked], [_run(kit, o) for o in asked])
    return [Timed(one, figure) for one, figure in zip(asked, figures, strict=True)]


def code(kit: Kit, one: Repeated) -> bytes:
    """Return the code of an iteration."""
    count = one.size // kit.REPEATED[one.name]
    return kit.repeated(one.name, count, _SOURCE + one.source, _DESTINATION + one.destination)


def _run(kit: Kit, one: Repeated) -> Run:
    source, destination = _PLACES
    return Run(
        repeats=one.size // kit.REPEATED[one.name],
        load=source + _SOURCE + one.source,
        store=destination + _DESTINATION + one.destination,
    )


_ASIDE = (192, 384, 768, 1536, 3072)  # bytes: between points
_SAME, _SOME = 0.06, 2  # relative: curves that differ by less at all sizes but so many are one
_ROUGH = 0.2  # mean relative error of what is better than no figures
_FAR = 0.25  # relative error of what explains an instruction:
_TIMED = 0.75  # of what is asked of an instruction has to have a figure
_PLAIN = (0, 0), (0, 1), (1, 0)  # places that have to have one
_MOST = 0.95  # of as many sizes, no further off than that
_LINE = 64  # bytes
_END = "end"
_ENDS = "start", _END  # of the destination: what has to be aligned

_Curve = Mapping[int, float]
_Curves = Mapping[tuple[int, int], _Curve]


def fit_strings(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the curves that explain string instructions.

    The destination's start has to be aligned for the faster curve, or its end: whichever explains
    more of the instructions, and these with less error.
    """
    special = learned.special
    if special is None:
        return learned
    left = dict(special.left)
    known: dict[str, list[Timed]] = {}
    for name in laboratory.kit.REPEATED:
        mine = [one for one in special.strings if one.what.name == name]
        timed = _curves_of([one for one in mine if one.figure])
        if len(timed) < _TIMED * len(mine) or not _are_curves(timed):
            refused = (one.figure.refused for one in mine if not one.figure)
            left[f"rep {name}"] = next(refused, "not asked")
        elif f"string.{name}_cycles" not in binding.parameters():
            left[f"rep {name}"] = "the simulator has no points of its curve; strings.csv has it"
        else:
            known[name] = timed
    tried_ = [_explained(laboratory, learned, known, at) for at in _ENDS]
    best = min(tried_, key=lambda one: (len(one.left), one.error))
    rules = {**learned.rules, **best.rules}
    return replace(learned, rules=rules, special=replace(special, left={**left, **best.left}))


@dataclass(frozen=True)
class _Explained:
    """Rules that explain string instructions, their summed mean error, and why others are left."""

    rules: Mapping[str, tuple[object, Evidence]]
    error: float
    left: dict[str, str]


def _explained(
    laboratory: Laboratory, learned: CoreModel, known: Mapping[str, Sequence[Timed]], at: str
) -> _Explained:
    """Return what explains string instructions if one end of the destination has to be aligned."""
    alignment: int | None = None
    rules: dict[str, tuple[object, Evidence]] = {}
    left: dict[str, str] = {}
    error = 0.0
    for name, mine in known.items():
        found = _curves(mine)
        aligned = alignment or _alignment(found)
        held = _held(laboratory, learned, _rules(name, found, aligned, at, _ASIDE), mine)
        if held.why:
            left[f"rep {name}"] = held.why
            continue
        alignment, error = aligned, error + held.error
        rules |= {k: (value, held.source) for k, value in _rules(name, found, aligned, at).items()}
    return _Explained(rules, error, left)


def _curves_of(timed: Sequence[Timed]) -> list[Timed]:
    """Return what was timed at places that have the smallest and the largest size."""
    asked = {(one.what.source, one.what.destination, one.what.size) for one in timed}

    def whole(one: Repeated) -> bool:
        return all((one.source, one.destination, size) in asked for size in (SIZES[0], SIZES[-1]))

    return [one for one in timed if whole(one.what)]


def _are_curves(timed: Sequence[Timed]) -> bool:
    """Say whether what was timed has the places that rules rest on."""
    places = {(one.what.source, one.what.destination) for one in timed}
    return places >= set(_PLAIN if any(source for source, _ in places) else FILLED[:2])


def _curves(mine: Sequence[Timed]) -> _Curves:
    """Return cycles by size for each place; a size without a figure lies between its neighbours."""
    out: dict[tuple[int, int], dict[int, float]] = {}
    for one in mine:
        place = one.what.source, one.what.destination
        out.setdefault(place, {})[one.what.size] = one.figure.cycles
    return {place: {size: _between(some, size) for size in SIZES} for place, some in out.items()}


def _alignment(found: _Curves) -> int:
    """Return which multiples a destination has to lie at to be as fast as at a line's start."""
    offsets = sorted({destination for source, destination in found if not source and destination})
    slow = [one for one in offsets if not _alike(found[0, one], found[0, 0])]
    quick = [one for one in offsets if one > max(slow, default=0)]
    return min(quick, default=_LINE) if slow else 1


def _alike(one: _Curve, other: _Curve) -> bool:
    return sum(abs(one[size] / other[size] - 1) > _SAME for size in one) <= _SOME


def _rules(
    name: str, found: _Curves, aligned: int, at: str, aside: Sequence[int] = ()
) -> Mapping[str, object]:
    """Return the parameters of an instruction, without the points of some sizes."""
    sizes = [size for size in sorted(found[0, 0]) if size not in aside]

    def points(one: _Curve, other: _Curve) -> list[list[int]]:
        return [[n, round(_between(one, n)), round(_between(other, n))] for n in sizes]

    def fits(size: int, place: int) -> bool:
        return (place + size * (at == _END)) % aligned == 0

    quick = _of(found, fits, aside)
    slow = _of(found, lambda size, place: not fits(size, place), aside)
    out: dict[str, object] = {
        "string.alignment": aligned,
        "string.aligned_at": at,
        f"string.{name}_cycles": points(quick, slow or quick),
    }
    if name.endswith("q"):
        out[f"string.{name}_odd_cycles"] = points(found[0, 1], found[0, 1])
    if name == "movsq":
        either = not _alike(found[1, 0], found[0, 0])
        out["string.odd_side"] = "either" if either else "destination"
    return out


def _of(
    found: _Curves, wanted: Callable[[int, int], bool], aside: Sequence[int]
) -> dict[int, float]:
    """Return the cycles by sizes, at a line's start or the largest offset that is wanted."""
    places = sorted(destination for source, destination in found if not source)
    out = {}
    for size in found[0, 0]:
        some = [place for place in places if wanted(size, place)]
        if some and size not in aside:
            out[size] = found[0, 0 if 0 in some else max(some)][size]
    return out


def _between(known: _Curve, size: int) -> float:
    """Return the cycles of a size, on the line between the sizes that are known."""
    sizes = sorted(known)
    after = bisect(sizes, size)
    low, high = sizes[max(after - 1, 0)], sizes[min(after, len(sizes) - 1)]
    share = (size - low) / (high - low) if low < size else 0.0
    return known[low] + share * (known[high] - known[low])


@dataclass(frozen=True)
class _Held:
    """Fit of an instruction's rules: the reason for a refusal, or mean error and evidence."""

    error: float
    why: str = ""
    source: Evidence = UNKNOWN


def _held(
    laboratory: Laboratory, learned: CoreModel, rules: Mapping[str, object], mine: Sequence[Timed]
) -> _Held:
    """Hold rules to all that was timed of an instruction."""
    asked = [one.what for one in mine]
    codes = [code(laboratory.kit, one) for one in asked[:1]]
    place = fit.candidate_laboratory(learned, laboratory.machine, codes, rules)
    said = [one.figure for one in measure_strings(place, asked)]
    if refused := next((one.refused for one in said if not one), ""):
        return _Held(0.0, f"nothing holds its curve to the core: {refused}")
    off = fit.errors(said, [one.figure for one in mine])
    order = sorted(range(len(off)), key=lambda n: off[n])
    worst = order[-1]
    shown = f"mean error {100 * fmean(off):.1f} %, worst {100 * off[worst]:.0f} % "
    shown += f"({_named(asked[worst])}), sizes kept aside among them"
    if fmean(off) > _ROUGH:
        why = f"no curve of the simulator explains it: {shown}; strings.csv has it"
        return _Held(fmean(off), why)
    if fmean(off) > fit.EXPLAINED or off[order[int(_MOST * len(order))]] > _FAR:
        doubt = f"not all of rep {mine[0].what.name} by size and offsets is explained, {shown}"
        return _Held(fmean(off), source=assumed(doubt))
    source = fitted(f"rep {mine[0].what.name} by size and offsets, {shown}")
    return _Held(fmean(off), source=source)


def _named(one: Repeated) -> str:
    return f"{one.size} bytes, offsets {one.source} and {one.destination}"


def measured_curves(core: Microarch) -> dict[Repeated, float]:
    """Return the cycles of each that calibrating timed; none where it was not calibrated."""
    file = paths.models_root() / core.id / STRINGS
    if not file.is_file():
        return {}
    with file.open(newline="") as rows:
        return {
            Repeated(
                row["instruction"].removeprefix("rep "),
                *(int(row[name]) for name in ("bytes", "source_offset", "destination_offset")),
            ): float(row["cycles"])
            for row in csv.DictReader(rows)
            if row["cycles"]
        }


def simulated_curves(core: Microarch) -> dict[Repeated, float]:
    """Return the cycles that the core's parameters say of each, as far as they say any."""
    asked = list(every(kits.of(core.isa)))
    timed = measure_strings(Laboratory(Simulated(core.id, noise=0)), asked)
    return {one.what: one.figure.cycles for one in timed if one.figure}
