"""String instructions: cycles by size and alignment, and the curves fitted to them.

Measurement. Microbenchmark: a loop whose iteration sets up the operands and repeats once. The
destination lies half a page from the source, apart from the offsets, so that the low 12 bits of
addresses do not alias early. Sizes lie around powers of two, where fast paths end.

Fit. Each curve is a list of points (size, cycles), with another curve where one end of the
destination is misaligned. A misaligned end of long ones may take cycles more, as many for all sizes
and as the instruction by bytes takes. A size without a stable speed is interpolated. Some sizes are
held out at first. Where these, or other offsets, are predicted badly, the instruction is left out,
and strings.csv alone has its curve.

Held rename. Microbenchmark: a short string instruction and moves behind it, which start after it
where it holds rename.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import (
    UNKNOWN,
    CoreModel,
    Evidence,
    Repeated,
    Timed,
    assumed,
    fitted,
)
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.code import binding
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Run

SIZES = (
    8, 16, 32, 56, 64, 72, 120, 128, 136, 192, 248, 256, 264, 384, 504, 512, 520, 768, 1024, 1536,
    2048, 3072, 4096,
)  # fmt: skip
# offsets of source and destination
COPIED = ((0, 0), (0, 1), (0, 8), (0, 32), (1, 0), (8, 0), (1, 1))
FILLED = ((0, 0), (0, 1), (0, 8), (0, 32))
_READS = "movs"
# Added to the registers: the distance is half a page, and no size ends in the last two lines of a
# page. There Golden Cove takes 300 cycles, as if it read past the end into a page not mapped.
_SOURCE, _DESTINATION = 0x300, 0xC00
_PLACES = (0x20E00E00, 0x20D00D00)  # addresses in the two registers, for the simulator


def every(kit: Kit) -> Iterator[Repeated]:
    """Yield all cases to measure; none if the ISA has no such instructions."""
    for name in kit.REPEATED:
        for source, destination in COPIED if name.startswith(_READS) else FILLED:
            for size in SIZES:
                yield Repeated(name, size, source, destination)


def measure_strings(laboratory: Laboratory, cases: Sequence[Repeated]) -> list[Timed]:
    """Measure string instructions."""
    kit = laboratory.kit
    figures = laboratory.iterations(
        [code(kit, case) for case in cases], [_run(kit, case) for case in cases]
    )
    return [Timed(case, figure) for case, figure in zip(cases, figures, strict=True)]


def code(kit: Kit, case: Repeated) -> bytes:
    """Return the code of an iteration."""
    count = case.size // kit.REPEATED[case.name]
    return kit.string_instruction(
        case.name, count, _SOURCE + case.source, _DESTINATION + case.destination
    )


def _run(kit: Kit, case: Repeated) -> Run:
    source, destination = _PLACES
    return Run(
        repeats=case.size // kit.REPEATED[case.name],
        load=source + _SOURCE + case.source,
        store=destination + _DESTINATION + case.destination,
    )


_HELD_OUT = (192, 384, 768, 1536, 3072)  # held-out sizes in bytes, between points
_SAME_CURVE, _OUTLIERS = 0.06, 2  # curves that differ by less at all sizes but so many are the same
_ROUGH = 0.2  # mean relative error up to which a curve is better than no figures
_FAR = 0.25  # relative error of nearly all sizes of an explained instruction
_LEFT = 0.85  # share of the error without cycles of a misaligned end that is left, at most
_TIMED = 0.75  # share of the cases of an instruction that need a figure
_PLAIN = (0, 0), (0, 1), (1, 0)  # offsets that need a figure
_QUANTILE = 0.95  # quantile of the errors that is compared with _FAR
_LINE = 64  # bytes
_END = "end"
_ENDS_FROM = "string.end_from"
_HOLDS, _FROM = "string.holds_rename", "string.hold_bytes"
_HELD_BYTES, _BEHIND = 64, (12, 24, 36)  # of a string instruction, and moves behind it


@dataclass(frozen=True)
class _Rule:
    """An alignment rule: the end of the destination that has to be aligned, its start or its end.

    Beyond end_from bytes, if that is not 0, a misaligned end takes cycles more besides.
    """

    at: str
    end_from: int = 0


_ALIGNMENT_RULES = _Rule("start"), _Rule(_END), *(_Rule("start", n) for n in (64, 128, 256, 384))

_Curve = Mapping[int, float]
_Curves = Mapping[tuple[int, int], _Curve]


def fit_strings(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the curves of string instructions.

    The rule of alignment is the one that explains most instructions, and those with least error. If
    a misaligned end takes cycles more, a part of the error of the other rules is left.
    """
    special = learned.special
    if special is None:
        return learned
    left_out = dict(special.left)
    curves: dict[str, list[Timed]] = {}
    for name in laboratory.kit.REPEATED:
        cases = [one for one in special.strings if one.what.name == name]
        timed = _curves_of([one for one in cases if one.figure])
        if len(timed) < _TIMED * len(cases) or not _are_curves(timed):
            refused = (one.figure.refused for one in cases if not one.figure)
            left_out[f"rep {name}"] = next(refused, "not asked")
        elif f"string.{name}_cycles" not in binding.parameters():
            left_out[f"rep {name}"] = "the simulator has no points of its curve; strings.csv has it"
        else:
            curves[name] = timed
    fits = [_explained(laboratory, learned, curves, rule) for rule in _ALIGNMENT_RULES]
    best = min(fits, key=lambda one: (len(one.left), one.error * (_LEFT if one.plain else 1)))
    rules = {**learned.rules, **best.rules}
    return replace(learned, rules=rules, special=replace(special, left={**left_out, **best.left}))


def fit_hold(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the rule that string instructions hold rename, if they do."""
    kit = laboratory.kit
    cases = [Repeated(name, _HELD_BYTES, 0, 0) for name in kit.REPEATED]
    cases = [one for one in cases if f"string.{one.name}_cycles" in learned.rules]
    if not cases:
        return learned
    asked = [(one, number) for one in cases for number in _BEHIND]
    bodies = [code(kit, one) + kit.MOVE * number for one, number in asked]
    runs = [_run(kit, one) for one, _ in asked]

    def time(core: Laboratory) -> list[Figure]:
        return core.iterations(bodies, runs)

    tried: list[Rules] = [{}, {_HOLDS: True}, {_HOLDS: True, _FROM: max(kit.REPEATED.values())}]
    hypotheses = [Hypothesis(learned, rule) for rule in tried]
    found = fit.fit(laboratory, bodies, time, hypotheses)
    if found is None or not found.explained or not found.hypothesis.rules:
        return learned
    note = f"{len(bodies)} loops of string instructions of {_HELD_BYTES} bytes and moves, mean "
    note += f"error {100 * found.error:.1f} %, {100 * found.error_of(0):.1f} % without"
    return fit.with_chosen_rules(learned, found, note)


@dataclass(frozen=True)
class _Explained:
    """Parameters of string instructions, their summed mean error, and reasons of omissions."""

    rules: Mapping[str, tuple[object, Evidence]]
    error: float
    left: dict[str, str]

    @property
    def plain(self) -> bool:
        """True if a misaligned end takes no cycles more."""
        return _ENDS_FROM not in self.rules


def _explained(
    laboratory: Laboratory, learned: CoreModel, known: Mapping[str, Sequence[Timed]], rule: _Rule
) -> _Explained:
    """Fit string instructions by a rule of alignment."""
    alignment: int | None = None
    rules: dict[str, tuple[object, Evidence]] = {}
    left_out: dict[str, str] = {}
    error = 0.0
    more: dict[str, float] = {}
    for name, cases in known.items():
        found = _curves(cases)
        aligned = alignment or _alignment(found)
        extra = more.setdefault(name[:-1], _end_cycles(found[0, 0], rule))
        about = name, found, aligned, rule, extra
        fitted = _check(laboratory, learned, _rules(*about, _HELD_OUT), cases)
        if fitted.why:
            left_out[f"rep {name}"] = fitted.why
            continue
        alignment, error = aligned, error + fitted.error
        rules |= {k: (value, fitted.source) for k, value in _rules(*about).items()}
    return _Explained(rules, error, left_out)


def _curves_of(timed: Sequence[Timed]) -> list[Timed]:
    """Return the cases at offsets that have the smallest and the largest size."""
    known = {(one.what.source, one.what.destination, one.what.size) for one in timed}

    def whole(one: Repeated) -> bool:
        return all((one.source, one.destination, size) in known for size in (SIZES[0], SIZES[-1]))

    return [one for one in timed if whole(one.what)]


def _are_curves(timed: Sequence[Timed]) -> bool:
    """True if cases include the offsets that the rules need."""
    offsets = {(one.what.source, one.what.destination) for one in timed}
    return offsets >= set(_PLAIN if any(source for source, _ in offsets) else FILLED[:2])


def _curves(cases: Sequence[Timed]) -> _Curves:
    """Return cycles by size for each pair of offsets; missing sizes are interpolated."""
    out: dict[tuple[int, int], dict[int, float]] = {}
    for one in cases:
        offsets = one.what.source, one.what.destination
        out.setdefault(offsets, {})[one.what.size] = one.figure.cycles
    return {
        offsets: {size: _between(curve, size) for size in SIZES} for offsets, curve in out.items()
    }


def _alignment(curves: _Curves) -> int:
    """Return the alignment of the destination that is as fast as the start of a line."""
    offsets = sorted({destination for source, destination in curves if not source and destination})
    slow = [one for one in offsets if not _alike(curves[0, one], curves[0, 0])]
    fast = [one for one in offsets if one > max(slow, default=0)]
    return min(fast, default=_LINE) if slow else 1


def _alike(one: _Curve, other: _Curve) -> bool:
    return sum(abs(one[size] / other[size] - 1) > _SAME_CURVE for size in one) <= _OUTLIERS


def _end_cycles(curve: _Curve, rule: _Rule) -> float:
    """Return the cycles of an end in the middle of a line, by a curve of an aligned start."""
    sizes = [size for size in curve if rule.end_from and size > rule.end_from]
    whole = {size: curve[size] for size in sizes if size % _LINE == 0}
    extra = [curve[size] - _between(whole, size) for size in sizes if size % _LINE]
    return max(round(median(extra), 1), 0.0) if extra and whole else 0.0


def _rules(
    name: str, curves: _Curves, aligned: int, rule: _Rule, extra: float, aside: Sequence[int] = ()
) -> Mapping[str, object]:
    """Return the parameters of an instruction, without the points of held-out sizes."""
    sizes = [size for size in sorted(curves[0, 0]) if size not in aside]

    def points(one: _Curve, other: _Curve) -> list[list[int]]:
        return [[n, round(_between(one, n)), round(_between(other, n))] for n in sizes]

    def fits(size: int, offset: int) -> bool:
        return (offset + size * (rule.at == _END)) % aligned == 0

    curves = {
        (source, offset): {
            size: cycles - extra * (size > rule.end_from and (offset + size) % aligned != 0)
            for size, cycles in curve.items()
        }
        for (source, offset), curve in curves.items()
    }
    fast = _curve(curves, fits, aside)
    slow = _curve(curves, lambda size, offset: not fits(size, offset), aside)
    out: dict[str, object] = {
        "string.alignment": aligned,
        "string.aligned_at": rule.at,
        f"string.{name}_cycles": points(fast, slow or fast),
    }
    if extra:
        out |= {f"string.{name[:-1]}_end_cycles": extra, _ENDS_FROM: rule.end_from}
    if name.endswith("q"):
        out[f"string.{name}_odd_cycles"] = points(curves[0, 1], curves[0, 1])
    if name == "movsq":
        either = not _alike(curves[1, 0], curves[0, 0])
        out["string.odd_side"] = "either" if either else "destination"
    return out


def _curve(
    curves: _Curves, wanted: Callable[[int, int], bool], aside: Sequence[int]
) -> dict[int, float]:
    """Return cycles by size, at a line's start or the largest offset that qualifies."""
    offsets = sorted(destination for source, destination in curves if not source)
    out = {}
    for size in curves[0, 0]:
        qualifying = [offset for offset in offsets if wanted(size, offset)]
        if qualifying and size not in aside:
            out[size] = curves[0, 0 if 0 in qualifying else max(qualifying)][size]
    return out


def _between(known: _Curve, size: int) -> float:
    """Return the cycles of a size by linear interpolation."""
    sizes = sorted(known)
    after = bisect(sizes, size)
    low, high = sizes[max(after - 1, 0)], sizes[min(after, len(sizes) - 1)]
    share = (size - low) / (high - low) if low < size else 0.0
    return known[low] + share * (known[high] - known[low])


@dataclass(frozen=True)
class _Checked:
    """Fit of an instruction's parameters: a refusal, or mean error and evidence."""

    error: float
    why: str = ""
    source: Evidence = UNKNOWN


def _check(
    laboratory: Laboratory, learned: CoreModel, rules: Mapping[str, object], cases: Sequence[Timed]
) -> _Checked:
    """Check parameters against all cases of an instruction."""
    wanted = [one.what for one in cases]
    codes = [code(laboratory.kit, one) for one in wanted[:1]]
    simulated = fit.candidate_laboratory(learned, laboratory.machine, codes, rules)
    predicted = [one.figure for one in measure_strings(simulated, wanted)]
    if refused := next((one.refused for one in predicted if not one), ""):
        return _Checked(0.0, f"nothing holds its curve to the core: {refused}")
    errors = fit.errors(predicted, [one.figure for one in cases])
    order = sorted(range(len(errors)), key=lambda n: errors[n])
    worst = order[-1]
    summary = f"mean error {100 * fmean(errors):.1f} %, worst {100 * errors[worst]:.0f} % "
    summary += f"({_case_name(wanted[worst])}), sizes kept aside among them"
    if fmean(errors) > _ROUGH:
        why = f"no curve of the simulator explains it: {summary}; strings.csv has it"
        return _Checked(fmean(errors), why)
    if fmean(errors) > fit.EXPLAINED or errors[order[int(_QUANTILE * len(order))]] > _FAR:
        doubt = f"not all of rep {cases[0].what.name} by size and offsets is explained, {summary}"
        return _Checked(fmean(errors), source=assumed(doubt))
    source = fitted(f"rep {cases[0].what.name} by size and offsets, {summary}")
    return _Checked(fmean(errors), source=source)


def _case_name(one: Repeated) -> str:
    return f"{one.size} bytes, offsets {one.source} and {one.destination}"
