"""Costs of candidates: cycles of their calls on each core, over possible code offsets."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from loopwright import kernels, microarchs, toolchain
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.improving.listing import Listing
from loopwright.judging import call_costs
from loopwright.judging.call_costs import ALIGNMENTS, UNWEIGHTED, CallPoint
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch
from loopwright.predicting.calls import CallQuestion, of_variants


@dataclass(frozen=True)
class Cost:
    """Cycles of a candidate's calls on one core.

    mean and worst are over the code offsets that a linker may choose; each is the mean over the
    histogram, or without one the geometric mean over sizes. sizes has the mean over code offsets
    and data alignments by size in bytes.
    """

    mean: float
    worst: float
    sizes: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A listing with the variant of its text, and its costs by core id."""

    listing: Listing
    variant: Variant
    code: Code
    costs: Mapping[str, Cost]

    @property
    def bytes(self) -> int:
        """The length of its code in bytes."""
        return self.code.size

    @property
    def digest(self) -> str:
        """A hash of its code."""
        return self.code.sha256


M = TypeVar("M")
C = TypeVar("C")
Known = Mapping[str, Cost] | InputError
"""Costs by core id, or the error."""


def merged(
    texts: Sequence[str],
    assembled: Sequence[M | InputError],
    known: Mapping[str, Known],
    costed: Callable[[Sequence[M | InputError]], Sequence[C | InputError]],
    with_costs: Callable[[M, Mapping[str, Cost]], C],
) -> list[C | InputError]:
    """Return candidates from assembled texts, with known costs or with newly simulated ones."""
    new = [item for text, item in zip(texts, assembled, strict=True) if text not in known]
    answers = iter(costed(new))
    results: list[C | InputError] = []
    for text, item in zip(texts, assembled, strict=True):
        if (costs := known.get(text)) is None:
            results.append(next(answers))
        elif isinstance(costs, InputError):
            results.append(costs)
        else:
            results.append(item if isinstance(item, InputError) else with_costs(item, costs))
    return results


@dataclass(frozen=True)
class CallComparison:
    """The comparison of candidates: cores, sizes, parameters, and the variant that they replace."""

    variant: Variant
    cores: Sequence[Microarch]
    histogram: Histogram | None
    settings: Mapping[str, str]
    folder: Path

    @cached_property
    def points(self) -> tuple[CallPoint, ...]:
        contract = kernels.contract_of(self.variant)
        return call_costs.judged_points(contract, self.histogram)

    def candidates(
        self, listings: Sequence[Listing], known: Mapping[str, Known] | None = None
    ) -> list[Candidate | InputError]:
        """Return the candidate of each listing, or the error; known has costs by text."""
        with ThreadPoolExecutor(toolchain.cpus()) as pool:
            assembled = list(pool.map(self._assembled, listings))
        return merged(
            [listing.render() for listing in listings],
            assembled,
            known or {},
            self._costed,
            lambda code, costs: Candidate(*code, costs),
        )

    def of_variants(self, variants: Iterable[Variant]) -> dict[str, Candidate | InputError]:
        """Return the given variants of kernel.toml with their costs, or the error, by name."""
        contract = kernels.contract_of(self.variant)
        empty = Listing((), contract)
        assembled: list[tuple[Listing, Variant, Code] | InputError] = []
        names = []
        for variant in variants:
            names.append(variant.name)
            try:
                assembled.append((empty, variant, assemble.variant_code(variant)))
            except InputError as error:
                assembled.append(error)
        return dict(zip(names, self._costed(assembled), strict=True))

    def _assembled(self, listing: Listing) -> tuple[Listing, Variant, Code] | InputError:
        """Return a listing with its variant and code, or the error; the source is kept."""
        text = listing.render()
        source = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.S"
        source.write_text(text)
        variant = replace(self.variant, name=source.stem, source=source, edits=(), loop="")
        try:
            return listing, variant, assemble.variant_code(variant)
        except InputError as error:
            return error

    def _costed(
        self, assembled: Sequence[tuple[Listing, Variant, Code] | InputError]
    ) -> list[Candidate | InputError]:
        questions: list[tuple[int, Microarch, CallQuestion]] = []
        record = kernels.contract_of(self.variant).count_bytes
        points = tuple((p.size // record, p.dst, p.src) for p in self.points)
        for n, item in enumerate(assembled):
            if isinstance(item, InputError):
                continue
            for core in self.cores:
                try:
                    offsets = call_costs.code_offsets(item[1], core)
                except InputError:
                    offsets = (None,)
                for offset in _few(offsets):
                    question = CallQuestion(item[1], core, points, self.settings, offset)
                    questions.append((n, core, question))
        answers = of_variants([question for _, _, question in questions])
        costs: dict[int, dict[str, list[Mapping[int, float]] | InputError]] = {}
        for (n, core, _), answer in zip(questions, answers, strict=True):
            of_offsets = costs.setdefault(n, {}).setdefault(core.id, [])
            error = next((a for a in answer if isinstance(a, InputError)), None)
            if error is not None:
                costs[n][core.id] = InputError(f"{core.id}: {error}")
            elif isinstance(of_offsets, list):
                cycles = {
                    p: a.cycles
                    for p, a in zip(self.points, answer, strict=True)
                    if not isinstance(a, InputError)
                }
                of_offsets.append(call_costs.mean(cycles, ALIGNMENTS))
        return [
            item if isinstance(item, InputError) else self._candidate(*item, costs[n])
            for n, item in enumerate(assembled)
        ]

    def _candidate(
        self,
        listing: Listing,
        variant: Variant,
        code: Code,
        by_core: Mapping[str, list[Mapping[int, float]] | InputError],
    ) -> Candidate | InputError:
        candidate_costs = {}
        for core, by_offset in by_core.items():
            if isinstance(by_offset, InputError):
                return by_offset
            all_offsets = [self._over_sizes(sizes) for sizes in by_offset]
            mean = {s: float(np.mean([o[s] for o in by_offset])) for s in by_offset[0]}
            candidate_costs[core] = Cost(float(np.mean(all_offsets)), max(all_offsets), mean)
        return Candidate(listing, variant, code, candidate_costs)

    def _over_sizes(self, cycles: Mapping[int, float]) -> float:
        order = sorted(cycles)
        if self.histogram:
            shares = call_costs.weights(order, self.histogram)
            return float(np.dot(shares, [cycles[s] for s in order]))
        counted = _unweighted(order)
        return math.exp(sum(math.log(cycles[s]) for s in counted) / len(counted))

    @property
    def described(self) -> str:
        """Return the meaning of a cost in words."""
        if self.histogram:
            return f"mean of a call over the sizes of {self.histogram.name}"
        counted = _unweighted(sorted({p.size for p in self.points}))
        return f"geometric mean over calls of {counted[0]} to {counted[-1]} B"


def _unweighted(sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes that count without a histogram."""
    low, high = UNWEIGHTED
    return [size for size in sizes if low <= size <= high] or sizes


_MOST_OFFSETS = 4


def _few(offsets: Sequence[int | None]) -> Sequence[int | None]:
    """Return _MOST_OFFSETS or a few more of many offsets, evenly spread."""
    if len(offsets) <= _MOST_OFFSETS:
        return offsets
    return offsets[:: len(offsets) // _MOST_OFFSETS]


def cores(ids: str | None, isa: str) -> list[Microarch]:
    """Return the cores of a comma-separated list, or without one the targets of an ISA."""
    if ids:
        chosen = [microarchs.load(name.strip()) for name in ids.split(",") if name.strip()]
    else:
        chosen = microarchs.targets(isa)
    if wrong := [core.id for core in chosen if core.isa != isa]:
        raise InputError(f"{wrong[0]} does not run {isa} code; --microarch names cores of {isa}")
    if not chosen:
        raise InputError("--microarch names no core; give it as zen2,zen4")
    return chosen


def usable(comparison: CallComparison, candidate: Candidate | InputError) -> Candidate:
    """Return a candidate; InputError if it has no cost."""
    if isinstance(candidate, InputError):
        raise InputError(f"{comparison.variant.id} has no cost: {candidate}")
    return candidate
