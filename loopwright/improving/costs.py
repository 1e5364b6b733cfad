"""Costs of candidates: cycles of their calls on each core, at each possible code offset."""

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
from loopwright.judging.call_costs import ALIGNMENTS, UNWEIGHTED, Place
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch
from loopwright.predicting.calls import CallQuestion, of_variants


@dataclass(frozen=True)
class Cost:
    """Cycles of a candidate's calls on one core.

    mean and worst are over the code offsets that a linker may choose. Each offset counts with the
    mean over the histogram, or without one the geometric mean over sizes. sizes has the mean over
    offsets and alignments by size in bytes.
    """

    mean: float
    worst: float
    sizes: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A listing with its variant, and its costs by core."""

    listing: Listing
    variant: Variant
    code: Code
    costs: Mapping[str, Cost]

    @property
    def bytes(self) -> int:
        """Return the length of its code."""
        return self.code.size

    @property
    def digest(self) -> str:
        """Return a digest of its code."""
        return self.code.sha256


M = TypeVar("M")
C = TypeVar("C")
Known = Mapping[str, Cost] | InputError
"""Costs by the id of a core, or why there are none."""


def merged(
    texts: Sequence[str],
    made: Sequence[M | InputError],
    known: Mapping[str, Known],
    costed: Callable[[Sequence[M | InputError]], Sequence[C | InputError]],
    with_costs: Callable[[M, Mapping[str, Cost]], C],
) -> list[C | InputError]:
    """Return the candidates of texts, with costs that are known or have just been simulated."""
    new = [one for text, one in zip(texts, made, strict=True) if text not in known]
    answers = iter(costed(new))
    out: list[C | InputError] = []
    for text, one in zip(texts, made, strict=True):
        costs = known.get(text)
        if costs is None:
            out.append(next(answers))
        elif isinstance(costs, InputError) or isinstance(one, InputError):
            out.append(costs if isinstance(costs, InputError) else InputError(str(one)))
        else:
            out.append(with_costs(one, costs))
    return out


@dataclass(frozen=True)
class Question:
    """The comparison of candidates: cores, sizes, parameters, and the variant to replace."""

    variant: Variant
    cores: Sequence[Microarch]
    histogram: Histogram | None
    settings: Mapping[str, str]
    folder: Path

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Return the calls to simulate."""
        contract = kernels.contract_of(self.variant)
        return call_costs.judged_places(contract, self.histogram)

    def candidates(
        self, listings: Sequence[Listing], known: Mapping[str, Known] | None = None
    ) -> list[Candidate | InputError]:
        """Return the candidate of each listing, or the refusal; known has costs by text."""
        with ThreadPoolExecutor(toolchain.cpus()) as pool:
            made = list(pool.map(self._assembled, listings))
        return merged(
            [one.render() for one in listings],
            made,
            known or {},
            self._costed,
            lambda one, costs: Candidate(*one, costs),
        )

    def of_variants(self, variants: Iterable[Variant]) -> dict[str, Candidate | InputError]:
        """Return the costs of variants of kernel.toml by name."""
        contract = kernels.contract_of(self.variant)
        empty = Listing((), contract)
        made: list[tuple[Listing, Variant, Code] | InputError] = []
        names = []
        for variant in variants:
            names.append(variant.name)
            try:
                made.append((empty, variant, assemble.variant_code(variant)))
            except InputError as error:
                made.append(error)
        return dict(zip(names, self._costed(made), strict=True))

    def _assembled(self, listing: Listing) -> tuple[Listing, Variant, Code] | InputError:
        """Return a listing with its variant and code; the source stays in the folder."""
        text = listing.render()
        source = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.S"
        source.write_text(text)
        variant = replace(self.variant, name=source.stem, source=source, edits=(), loop="")
        try:
            return listing, variant, assemble.variant_code(variant)
        except InputError as error:
            return error

    def _costed(
        self, made: Sequence[tuple[Listing, Variant, Code] | InputError]
    ) -> list[Candidate | InputError]:
        asked: list[tuple[int, Microarch, CallQuestion]] = []
        record = kernels.contract_of(self.variant).count_bytes
        spots = tuple((p.size // record, p.dst, p.src) for p in self.places)
        for n, one in enumerate(made):
            if isinstance(one, InputError):
                continue
            for core in self.cores:
                try:
                    offsets = call_costs.code_offsets(one[1], core)
                except InputError:
                    offsets = (None,)
                for offset in _few(offsets):
                    question = CallQuestion(one[1], core, spots, self.settings, offset)
                    asked.append((n, core, question))
        answers = of_variants([question for _, _, question in asked])
        found: dict[int, dict[str, list[Mapping[int, float]] | InputError]] = {}
        for (n, core, _), answer in zip(asked, answers, strict=True):
            mine = found.setdefault(n, {}).setdefault(core.id, [])
            wrong = next((a for a in answer if isinstance(a, InputError)), None)
            if wrong is not None:
                found[n][core.id] = InputError(f"{core.id}: {wrong}")
            elif isinstance(mine, list):
                cycles = {
                    p: a.cycles
                    for p, a in zip(self.places, answer, strict=True)
                    if not isinstance(a, InputError)
                }
                mine.append(call_costs.mean(cycles, ALIGNMENTS))
        return [
            one if isinstance(one, InputError) else self._candidate(*one, found[n])
            for n, one in enumerate(made)
        ]

    def _candidate(
        self,
        listing: Listing,
        variant: Variant,
        code: Code,
        found: Mapping[str, list[Mapping[int, float]] | InputError],
    ) -> Candidate | InputError:
        costs = {}
        for core, by_offset in found.items():
            if isinstance(by_offset, InputError):
                return by_offset
            every = [self._over_sizes(sizes) for sizes in by_offset]
            mean = {s: float(np.mean([o[s] for o in by_offset])) for s in by_offset[0]}
            costs[core] = Cost(float(np.mean(every)), max(every), mean)
        return Candidate(listing, variant, code, costs)

    def _over_sizes(self, cycles: Mapping[int, float]) -> float:
        """Return the mean cost of a call."""
        order = sorted(cycles)
        if self.histogram:
            shares = call_costs.weights(order, self.histogram)
            return float(np.dot(shares, [cycles[s] for s in order]))
        low, high = UNWEIGHTED
        counted = [s for s in order if low <= s <= high] or order
        return math.exp(sum(math.log(cycles[s]) for s in counted) / len(counted))

    @property
    def said(self) -> str:
        """Describe the unit of a cost."""
        if self.histogram:
            return f"mean of a call over the sizes of {self.histogram.name}"
        low, high = UNWEIGHTED
        sizes = sorted({p.size for p in self.places})
        counted = [s for s in sizes if low <= s <= high] or sizes
        return f"geometric mean over calls of {counted[0]} to {counted[-1]} B"


_MOST_OFFSETS = 4


def _few(offsets: Sequence[int | None]) -> Sequence[int | None]:
    """Return offsets spread over all, where there are many, as inlined code begins anywhere."""
    if len(offsets) <= _MOST_OFFSETS:
        return offsets
    return offsets[:: len(offsets) // _MOST_OFFSETS]


def cores(ids: str | None, isa: str) -> list[Microarch]:
    """Return the given cores, or the target cores of an ISA."""
    if ids:
        chosen = [microarchs.load(name.strip()) for name in ids.split(",") if name.strip()]
    else:
        chosen = [c for c in (microarchs.load(i) for i in microarchs.ids()) if c.role == "target"]
        chosen = [c for c in chosen if c.isa == isa]
    if wrong := [core.id for core in chosen if core.isa != isa]:
        raise InputError(f"{wrong[0]} does not run {isa} code; --microarch names cores of {isa}")
    if not chosen:
        raise InputError("--microarch names no core; give it as zen2,zen4")
    return chosen


def usable(question: Question, found: Candidate | InputError) -> Candidate:
    """Return a candidate; InputError if it has no cost."""
    if isinstance(found, InputError):
        raise InputError(f"{question.variant.id} has no cost: {found}")
    return found
