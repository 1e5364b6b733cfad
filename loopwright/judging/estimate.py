"""The value of an unmeasured parameter of a core, from measured calls that depend on it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.code.assemble import PRIVILEGED
from loopwright.errors import InputError, unknown
from loopwright.judging.study import used_runs
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.measuring.store import Run, Store
from loopwright.microarchs import Microarch, Range
from loopwright.predicting.calls import CallCost, CallQuestion, of_variants

COLUMNS = [
    "kernel", "microarch", "parameter", "value", "low", "high", "calls", "outside",
    "error_percent", "machine", "set",
]  # fmt: skip
_SAMPLES = 17  # values of a numeric parameter that are simulated
_MOVES = 0.005  # least change of a call's cycles, relative, for the call to depend on a parameter
_ALIGNMENTS = (  # by the end of a parameter's name: the alignments of calls that depend on it
    ("_odd_line_cycles", ((8, 0), (1, 0))),
    ("_rate_unaligned", ((0, 0), (8, 0))),
    ("odd_side", ((0, 8), (0, 1))),
    ("_startup", ((0, 0),)),
    ("", ((0, 0), (8, 0), (1, 0))),
)


def alignments(parameter: str) -> tuple[tuple[int, int], ...]:
    """Return the alignments of calls that depend on a parameter: (destination, source), bytes."""
    return next(pairs for end, pairs in _ALIGNMENTS if parameter.endswith(end))


@dataclass(frozen=True)
class MeasuredCall:
    """A measured call: variant, privilege level, size in bytes or records, alignment, cycles.

    offset is the code offset of its main loop (None: by its own alignment).
    """

    variant: Variant
    in_kernel: bool
    size: int
    dst: int
    src: int
    cycles: float
    offset: int | None = None

    @classmethod
    def of(cls, variant: Variant, row: Mapping[Any, Any]) -> Self:
        """Return the call of a row of measure, made in user space."""
        size = int(row["size_bytes"]) // kernels.contract_of(variant).count_bytes
        alignments = int(row["dst_align"]), int(row["src_align"])
        at = row.get("offset")
        offset = None if at is None or pd.isna(at) else int(at)
        return cls(variant, False, size, *alignments, float(row["cycles"]), offset)

    @property
    def alike(self) -> tuple[str, int]:
        """The key that calls share which differ only by their alignment."""
        return self.variant.id, self.size


def estimate(spec: str, parameter: str, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the value of a parameter at which simulated calls cost the measured cycles.

    spec is KERNEL or KERNEL/VARIANT. rows are those of measure on this machine; where left out,
    those of any machine in the results store, with runs of the kernel module. There is a row for
    each core (microarch). value is the median over the calls that depend on the parameter, low and
    high the quartiles. outside counts the calls whose cycles no value of the range explains,
    error_percent is the mean error of the simulated calls at the value, set the option by which
    other verbs take it. Where a call of the same size does not depend on the parameter, its error
    is subtracted: an error of the simulator in both then cancels. InputError if no call depends
    on the parameter.
    """
    _, variants = kernels.select(spec)
    measured = _stored(variants) if rows is None else _measured(variants, parameter, rows)
    if not measured:
        raise InputError(f"{spec}: no measured calls are known; measure them first")
    out = [_row(spec, parameter, *where, calls) for where, calls in measured.items()]
    return pd.DataFrame(out, columns=COLUMNS)


def unmeasured_here(parameter: str) -> tuple[str, Range]:
    """Return this machine's core and the range of a parameter of it; InputError without either."""
    core = hosts.microarch()
    if core is None:
        raise InputError("no core.toml describes this machine; `loopwright calibrate` makes one")
    return core, _range(microarchs.load(core), parameter)


def _measured(
    variants: Sequence[Variant], parameter: str, rows: pd.DataFrame
) -> Mapping[tuple[str, str], list[MeasuredCall]]:
    core, _ = unmeasured_here(parameter)
    by_name = {v.name: v for v in variants}
    mine = rows[(rows["quantity"] == "call") & (rows["cache"] == "hot") & (rows["cycles"] > 0)]
    calls = [
        MeasuredCall.of(variant, row)
        for row in mine.to_dict("records")
        if (variant := by_name.get(row["variant"]))
    ]
    return {(core, hosts.machine()): calls} if calls else {}


def _stored(variants: Sequence[Variant]) -> Mapping[tuple[str, str], list[MeasuredCall]]:
    by_machine: dict[tuple[str, str], list[MeasuredCall]] = {}
    with closing(Store.open()) as store:
        for run, core, facts in used_runs(store):
            if calls := [c for v in variants for c in _recorded(store, run, v)]:
                by_machine.setdefault((core, hosts.machine(facts)), []).extend(calls)
    return by_machine


def _recorded(store: Store, run: Run, variant: Variant) -> Iterator[MeasuredCall]:
    code = assemble.code_hash(variant)
    own_gate = not kernels.contract_of(variant).faulting or PRIVILEGED & {*variant.alternatives}
    for record in store.records(run, variant.kernel):
        answer = record.answer
        if record.variant != variant.name or answer["refused"] or not answer["cycles"]:
            continue
        # Where its caller has stac and clac, a figure of the kernel holds what is not simulated.
        if record.object == code or (record.object == f"kernel:{code}" and own_gate):
            size, dst, src = (answer[key] for key in ("count", "dst_align", "src_align"))
            yield MeasuredCall(variant, record.object != code, size, dst, src, answer["cycles"])


def _row(
    spec: str, parameter: str, core_id: str, machine: str, calls: Sequence[MeasuredCall]
) -> list[object]:
    core = microarchs.load(core_id)
    parameter_range = _range(core, parameter)
    texts = [*dict.fromkeys(parameter_range.text(n / (_SAMPLES - 1)) for n in range(_SAMPLES))]
    if not parameter_range.numeric:
        texts = [*parameter_range.values]
    rest = {
        other.name: other.text(0.0)
        for other in core.ranges
        if other.varied and other.likely is None and other.name != parameter
    }
    answers = [simulated(core, {**rest, parameter: text}, calls) for text in texts]
    costs = np.array(
        [[c.cycles if isinstance(c, CallCost) else np.nan for c in of] for of in answers]
    )
    cycles = np.array([call.cycles for call in calls])
    known = ~np.isnan(costs).any(axis=0)
    moves = known & (np.ptp(costs, axis=0) > _MOVES * cycles)
    if not known.any():
        raise InputError(next(str(c) for of in answers for c in of if isinstance(c, InputError)))
    if not moves.any():
        raise InputError(
            f"{spec}: no measured call depends on {parameter} of {core_id}; "
            "measure a variant and alignments that do"
        )
    excess = _excess(calls, costs, cycles, known & ~moves)[:, moves]
    error = np.abs(excess) / cycles[moves]
    if parameter_range.numeric and len(texts) == _SAMPLES:
        zeros, outside = _zeros(excess)
        low, value, high = (
            float(f"{parameter_range.at(float(np.quantile(zeros, share))):.4g}")
            for share in (0.25, 0.5, 0.75)
        )
        low, high = sorted((low, high))
        text = f"{value:.4g}"
        shown: tuple[object, ...] = (value, low, high)
        at = float(np.median(zeros)) * (_SAMPLES - 1)
        off = float(np.interp(at, range(_SAMPLES), error.mean(axis=1)))
    else:
        best = int(error.mean(axis=1).argmin())
        text = texts[best]
        only: object = float(text) if parameter_range.numeric else text
        shown, outside, off = (only, only, only), 0, float(error[best].mean())
    return [
        spec, core_id, parameter, *shown, int(moves.sum()), outside, 100 * off, machine,
        f"--set {parameter}={text}",
    ]  # fmt: skip


def _range(core: Microarch, parameter: str) -> Range:
    varied = {
        varied_range.name: varied_range for varied_range in core.ranges if varied_range.varied
    }
    if parameter not in varied:
        if core.entry(parameter):
            raise InputError(
                f"{parameter} of {core.id} has no range in its core.toml: it is not unmeasured"
            )
        raise unknown("parameter", parameter, varied)
    return varied[parameter]


def simulated(
    core: Microarch, given: Mapping[str, str], calls: Sequence[MeasuredCall]
) -> list[CallCost | InputError]:
    """Return the simulated cost of measured calls on a core, or the reason why there is none.

    given are values of the core's parameters.
    """
    of_code: dict[tuple[str, bool, int | None], list[int]] = {}
    for n, call in enumerate(calls):
        of_code.setdefault((call.variant.id, call.in_kernel, call.offset), []).append(n)
    questions = [
        CallQuestion(
            calls[numbers[0]].variant,
            core,
            [(calls[n].size, calls[n].dst, calls[n].src) for n in numbers],
            given,
            calls[numbers[0]].offset,
            in_user_space=not calls[numbers[0]].in_kernel,
        )
        for numbers in of_code.values()
    ]
    out: dict[int, CallCost | InputError] = {}
    for numbers, answers in zip(of_code.values(), of_variants(questions), strict=True):
        out |= zip(numbers, answers, strict=True)
    return [out[n] for n in range(len(calls))]


def _excess(
    calls: Sequence[MeasuredCall],
    costs: NDArray[np.float64],
    cycles: NDArray[np.float64],
    steady: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return simulated less measured cycles, by sample and call.

    The excess of calls of the same size that do not depend on the parameter (steady) is subtracted.
    """
    excess: NDArray[np.float64] = costs - cycles
    out = excess.copy()
    for n, call in enumerate(calls):
        references = [m for m, other in enumerate(calls) if steady[m] and other.alike == call.alike]
        if references and not steady[n]:
            out[:, n] -= excess[:, references].mean(axis=1)
    return out


def _zeros(excess: NDArray[np.float64]) -> tuple[list[float], int]:
    """Return the zero of each call's excess, from 0 to 1, and the count of calls without one."""
    zeros, outside = [], 0
    last = len(excess) - 1
    for of_call in excess.T:
        turns = np.flatnonzero((of_call[:-1] > 0) != (of_call[1:] > 0))
        if len(turns):
            n = int(turns[0])
            zeros.append(float((n + of_call[n] / (of_call[n] - of_call[n + 1])) / last))
        else:
            outside += 1
            zeros.append(float(np.abs(of_call).argmin() / last))
    return zeros, outside
