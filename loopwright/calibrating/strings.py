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
from itertools import product
from statistics import fmean, median

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import (
    UNKNOWN,
    CoreModel,
    Evidence,
    Repeated,
    TimedString,
    assumed,
    fitted,
)
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.code import binding
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Run

SIZES = (
    8, 16, 32, 56, 64, 72, 120, 128, 136, 192, 248, 256, 264, 384, 504, 512, 520, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192,
)  # fmt: skip
# offsets of source and destination
COPIED = ((0, 0), (0, 1), (0, 8), (0, 32), (1, 0), (8, 0), (1, 1))
FILLED = ((0, 0), (0, 1), (0, 8), (0, 32))
_MOVS = "movs"
# Added to the registers: the distance is half a page, and no size ends in the last two lines of a
# page. There Golden Cove takes 300 cycles, as if it read past the end into a page not mapped.
_SOURCE, _DESTINATION = 0x300, 0xC00
_PLACES = (0x20E00E00, 0x20D00D00)  # addresses in the two registers, for the simulator


def all_cases(kit: Kit) -> Iterator[Repeated]:
    """Yield all cases to measure; none if the ISA has no such instructions."""
    for name in kit.REPEATED:
        for source, destination in COPIED if name.startswith(_MOVS) else FILLED:
            for size in SIZES:
                yield Repeated(name, size, source, destination)


def measure_strings(laboratory: Laboratory, cases: Sequence[Repeated]) -> list[TimedString]:
    """Measure string instructions."""
    kit = laboratory.kit
    figures = laboratory.iterations(
        [code(kit, case) for case in cases], [_run(kit, case) for case in cases]
    )
    return [TimedString(case, figure) for case, figure in zip(cases, figures, strict=True)]


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
_FAR = 0.25  # relative error of nearly all sizes of an explained instruction, at most
_LEFT = 0.85  # share of the error without cycles of a misaligned end that is left, at most
_TIMED = 0.75  # share of the cases of an instruction that need a figure
_PLAIN = (0, 0), (0, 1), (1, 0)  # offsets that need a figure
_QUANTILE = 0.95  # quantile of the errors that is compared with _FAR
_LINE = 64  # bytes
_END = "end"
_ENDS_FROM = "string.end_from"
_HOLDS_RENAME, _HOLD_BYTES = "string.holds_rename", "string.hold_bytes"
_HELD_BYTES, _MOVES = 64, (12, 24, 36)  # of a string instruction, and moves behind it


@dataclass(frozen=True)
class _AlignmentRule:
    """An alignment rule: the end of the destination that has to be aligned, its start or its end.

    Beyond end_from bytes, if that is not 0, a misaligned end takes cycles more besides.
    """

    at: str
    end_from: int = 0


_ALIGNMENT_RULES = (
    _AlignmentRule("start"),
    _AlignmentRule(_END),
    *(_AlignmentRule("start", n) for n in (64, 128, 256, 384)),
)

_Curve = Mapping[int, float]
_Curves = Mapping[tuple[int, int], _Curve]


def fit_strings(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the curves of string instructions.

    The rule of alignment is the one that explains most instructions, with the least error. One by
    which a misaligned end takes cycles more is taken if it leaves less than _LEFT of that error.
    """
    special = learned.special
    if special is None:
        return learned
    left_out = dict(special.left)
    cases_by_name: dict[str, list[TimedString]] = {}
    for name in laboratory.kit.REPEATED:
        cases = [one for one in special.strings if one.case.name == name]
        timed = _of_whole_curves([one for one in cases if one.figure])
        if len(timed) < _TIMED * len(cases) or not _have_needed_offsets(timed):
            refusals = (one.figure.refused for one in cases if not one.figure)
            left_out[f"rep {name}"] = next(refusals, "not asked")
        elif f"string.{name}_cycles" not in binding.parameters():
            left_out[f"rep {name}"] = "the simulator has no points of its curve; strings.csv has it"
        else:
            cases_by_name[name] = timed
    fits = [_fit_by_rule(laboratory, learned, cases_by_name, rule) for rule in _ALIGNMENT_RULES]

    def rank(one: _StringFits) -> tuple[int, float]:
        return len(one.left), one.error * (1 if _ENDS_FROM in one.parameters else _LEFT)

    best = min(fits, key=rank)
    rules = {**learned.rules, **best.parameters}
    return replace(learned, rules=rules, special=replace(special, left={**left_out, **best.left}))


def fit_hold(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the rule that string instructions hold rename, if they do."""
    kit = laboratory.kit
    cases = [Repeated(name, _HELD_BYTES, 0, 0) for name in kit.REPEATED]
    cases = [case for case in cases if f"string.{case.name}_cycles" in learned.rules]
    if not cases:
        return learned
    pairs = list(product(cases, _MOVES))
    bodies = [code(kit, case) + kit.MOVE * moves for case, moves in pairs]
    runs = [_run(kit, case) for case, _ in pairs]
    held = {_HOLDS_RENAME: True}
    widest = max(kit.REPEATED.values())
    rules: list[Rules] = [{}, held, {**held, _HOLD_BYTES: widest}]
    hypotheses = [Hypothesis(learned, rule) for rule in rules]
    best_fit = fit.fit(laboratory, bodies, lambda core: core.iterations(bodies, runs), hypotheses)
    if best_fit is None or not best_fit.explained or not best_fit.hypothesis.rules:
        return learned
    kind = f"loops of string instructions of {_HELD_BYTES} bytes and moves"
    basis = f"{len(bodies)} {kind}, {best_fit.gain_note}"
    return fit.with_chosen_rules(learned, best_fit, basis)


@dataclass(frozen=True)
class _StringFits:
    """Parameters of string instructions, their summed mean error, and reasons of omissions."""

    parameters: Mapping[str, tuple[object, Evidence]]
    error: float
    left: dict[str, str]


def _fit_by_rule(
    laboratory: Laboratory,
    learned: CoreModel,
    cases_by_name: Mapping[str, Sequence[TimedString]],
    rule: _AlignmentRule,
) -> _StringFits:
    """Fit the parameters of string instructions by a rule of alignment."""
    alignment: int | None = None
    parameters: dict[str, tuple[object, Evidence]] = {}
    left_out: dict[str, str] = {}
    error = 0.0
    end_cycles: dict[str, float] = {}
    for name, cases in cases_by_name.items():
        curves = _curves(cases)
        aligned = alignment or _alignment(curves)
        extra = end_cycles.setdefault(name[:-1], _end_cycles(curves[0, 0], rule))
        arguments = name, curves, aligned, rule, extra
        checked = _check(laboratory, learned, _parameters(*arguments, _HELD_OUT), cases)
        if checked.why:
            left_out[f"rep {name}"] = checked.why
            continue
        alignment, error = aligned, error + checked.error
        parameters |= {k: (value, checked.source) for k, value in _parameters(*arguments).items()}
    return _StringFits(parameters, error, left_out)


def _of_whole_curves(timed: Sequence[TimedString]) -> list[TimedString]:
    """Return the cases at offsets that have the smallest and the largest size."""
    keys = {(one.case.source, one.case.destination, one.case.size) for one in timed}

    def is_whole(case: Repeated) -> bool:
        ends = SIZES[0], SIZES[-1]
        return all((case.source, case.destination, size) in keys for size in ends)

    return [one for one in timed if is_whole(one.case)]


def _have_needed_offsets(timed: Sequence[TimedString]) -> bool:
    """True if cases include the offsets that the rules need."""
    offsets = {(one.case.source, one.case.destination) for one in timed}
    return offsets >= set(_PLAIN if any(source for source, _ in offsets) else FILLED[:2])


def _curves(timed: Sequence[TimedString]) -> _Curves:
    """Return cycles by size for each pair of offsets; missing sizes are interpolated."""
    curves: dict[tuple[int, int], dict[int, float]] = {}
    for one in timed:
        offsets = one.case.source, one.case.destination
        curves.setdefault(offsets, {})[one.case.size] = one.figure.cycles
    return {
        offsets: {size: _between(curve, size) for size in SIZES}
        for offsets, curve in curves.items()
    }


def _alignment(curves: _Curves) -> int:
    """Return the least alignment of the destination that is as fast as the start of a line."""
    offsets = sorted({destination for source, destination in curves if not source and destination})
    slow = [offset for offset in offsets if not _alike(curves[0, offset], curves[0, 0])]
    fast = [offset for offset in offsets if offset > max(slow, default=0)]
    return min(fast, default=_LINE) if slow else 1


def _alike(one: _Curve, other: _Curve) -> bool:
    return sum(abs(one[size] / other[size] - 1) > _SAME_CURVE for size in one) <= _OUTLIERS


def _end_cycles(curve: _Curve, rule: _AlignmentRule) -> float:
    """Return the cycles of an end in the middle of a line, by a curve of an aligned start."""
    sizes = [size for size in curve if rule.end_from and size > rule.end_from]
    whole = {size: curve[size] for size in sizes if size % _LINE == 0}
    extra = [curve[size] - _between(whole, size) for size in sizes if size % _LINE]
    return max(round(median(extra), 1), 0.0) if extra and whole else 0.0


def _parameters(
    name: str,
    curves: _Curves,
    aligned: int,
    rule: _AlignmentRule,
    extra: float,
    held_out: Sequence[int] = (),
) -> Mapping[str, object]:
    """Return the parameters of an instruction, without the points of held-out sizes."""
    sizes = [size for size in sorted(curves[0, 0]) if size not in held_out]

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
    fast = _qualifying_points(curves, fits, held_out)
    slow = _qualifying_points(curves, lambda size, offset: not fits(size, offset), held_out)
    parameters: dict[str, object] = {
        "string.alignment": aligned,
        "string.aligned_at": rule.at,
        f"string.{name}_cycles": points(fast, slow or fast),
    }
    if extra:
        parameters |= {f"string.{name[:-1]}_end_cycles": extra, _ENDS_FROM: rule.end_from}
    if name.endswith("q"):
        parameters[f"string.{name}_odd_cycles"] = points(curves[0, 1], curves[0, 1])
    if name == "movsq":
        either = not _alike(curves[1, 0], curves[0, 0])
        parameters["string.odd_side"] = "either" if either else "destination"
    return parameters


def _qualifying_points(
    curves: _Curves, qualifies: Callable[[int, int], bool], held_out: Sequence[int]
) -> dict[int, float]:
    """Return cycles by size, at a line's start or the largest offset that qualifies."""
    offsets = sorted(destination for source, destination in curves if not source)
    points = {}
    for size in curves[0, 0]:
        qualifying = [offset for offset in offsets if qualifies(size, offset)]
        if qualifying and size not in held_out:
            points[size] = curves[0, 0 if 0 in qualifying else max(qualifying)][size]
    return points


def _between(curve: _Curve, size: int) -> float:
    """Return the cycles of a size by linear interpolation."""
    sizes = sorted(curve)
    after = bisect(sizes, size)
    low, high = sizes[max(after - 1, 0)], sizes[min(after, len(sizes) - 1)]
    share = (size - low) / (high - low) if low < size else 0.0
    return curve[low] + share * (curve[high] - curve[low])


@dataclass(frozen=True)
class _Check:
    """Check of an instruction's parameters: mean error, and a refusal or the evidence."""

    error: float
    why: str = ""
    source: Evidence = UNKNOWN


def _check(
    laboratory: Laboratory,
    learned: CoreModel,
    rules: Mapping[str, object],
    timed: Sequence[TimedString],
) -> _Check:
    """Check parameters against all timed cases of an instruction."""
    cases = [one.case for one in timed]
    codes = [code(laboratory.kit, cases[0])]
    simulated = fit.candidate_laboratory(learned, laboratory.machine, codes, rules)
    predicted = [one.figure for one in measure_strings(simulated, cases)]
    if refused := next((one.refused for one in predicted if not one), ""):
        return _Check(0.0, f"nothing holds its curve to the core: {refused}")
    errors = fit.errors(predicted, [one.figure for one in timed])
    order = sorted(range(len(errors)), key=lambda n: errors[n])
    worst = order[-1]
    case = cases[worst]
    summary = f"mean error {100 * fmean(errors):.1f} %, worst {100 * errors[worst]:.0f} % "
    summary += f"({case.size} bytes, offsets {case.source} and {case.destination}), "
    summary += "sizes kept aside among them"
    if fmean(errors) > _ROUGH:
        why = f"no curve of the simulator explains it: {summary}; strings.csv has it"
        return _Check(fmean(errors), why)
    if fmean(errors) > fit.EXPLAINED or errors[order[int(_QUANTILE * len(order))]] > _FAR:
        doubt = f"not all of rep {timed[0].case.name} by size and offsets is explained, {summary}"
        return _Check(fmean(errors), source=assumed(doubt))
    source = fitted(f"rep {timed[0].case.name} by size and offsets, {summary}")
    return _Check(fmean(errors), source=source)
