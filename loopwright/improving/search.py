"""Beam search over transformations by costs on all cores, and its journal to resume from."""

import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from loopwright import files, microarchs, paths, toolchain
from loopwright.code import binding
from loopwright.errors import InputError
from loopwright.improving.listing import Listing
from loopwright.improving.transformable_loops import Transformation
from loopwright.microarchs import Microarch

ALIKE = 0.025
"""Gains that differ by less count as equal: half of the least difference that a verdict reports."""

_REPRESENTED = ALIKE / 4  # largest distance of a group's representative from its best candidate
_LEAST_GAIN = 0.005  # a smaller gain of a round counts as none
_MOST_IDLE = 2  # rounds without a gain after which a search ends
_MOST_LOSS = 0.02  # largest loss of a step that may prepare another step

_TABLES = ("core.toml", "instructions.csv")


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


CostsOrError = Mapping[str, Cost] | InputError
"""The costs of a candidate by core id, or the reason that it has none."""


class Journal:
    """Costs by text, or the error; a search with the same inputs reuses them.

    digest is that of all inputs of the costs besides the text.
    """

    def __init__(self, path: Path, digest: str) -> None:
        """Read the file; InputError for one of another search, or of another kind."""
        self._path = path
        self._costs: dict[str, CostsOrError] = {}
        lines: Sequence[str] = ()
        if path.exists():
            *lines, _ = files.content(path, regular=True).decode(errors="replace").split("\n")
        if not lines:
            files.written(path, json.dumps({"about": digest}) + "\n")
            return
        try:
            first, *rows = map(json.loads, lines)
            stored_digest = first["about"]
            self._costs = {row["text"]: _from_row(row) for row in rows}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is not a state of a search; name another folder") from None
        if stored_digest != digest:
            raise InputError(
                f"{path} is of a search of other code, cores, parameters or figures; name another "
                "folder, or remove the file to begin again"
            )

    def known(self, texts: Iterable[str]) -> dict[str, CostsOrError]:
        """Return the stored costs, or errors, of those texts that have any."""
        keys = {text: _digest(text) for text in texts}
        return {text: self._costs[key] for text, key in keys.items() if key in self._costs}

    def add(self, costs: Mapping[str, CostsOrError]) -> None:
        """Append the costs of new texts to the file."""
        rows = []
        for text, found in costs.items():
            key = _digest(text)
            if key not in self._costs:
                self._costs[key] = found
                rows.append(json.dumps({"text": key, **_to_row(found)}) + "\n")
        with files.writing(self._path), self._path.open("r+b") as file:
            file.seek(file.read().rfind(b"\n") + 1)  # drop a line that an interrupt cut off
            file.truncate()
            file.write("".join(rows).encode())


def _to_row(costs: CostsOrError) -> dict[str, Any]:
    if isinstance(costs, InputError):
        return {"error": str(costs)}
    return {"costs": {core: [c.mean, c.worst, {**c.sizes}] for core, c in costs.items()}}


def _from_row(row: Mapping[str, Any]) -> CostsOrError:
    if "error" in row:
        return InputError(row["error"])
    return {
        core: Cost(mean, worst, {int(size): cycles for size, cycles in sizes.items()})
        for core, (mean, worst, sizes) in row["costs"].items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(cores: Iterable[Microarch], parameters: Mapping[str, str], *more: object) -> str:
    """Return a digest of the inputs of costs: simulator, core tables, parameters, and `more`."""
    digest = hashlib.sha256(binding.file().read_bytes())
    for core in cores:
        for name in _TABLES:
            digest.update((paths.models_root() / core.id / name).read_bytes())
    digest.update(repr((sorted(parameters.items()), more)).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Settings:
    """The beam width and the depth of a search; tried limits the simulated candidates."""

    beam: int = 6
    depth: int = 5
    tried: int = 600
    seed: int = 0


class Candidate(Protocol):
    """A listing with its costs by core id."""

    @property
    def listing(self) -> Listing:
        """The listing."""

    @property
    def costs(self) -> Mapping[str, Cost]:
        """The cost on each core, by id."""

    @property
    def bytes(self) -> int:
        """The length of the code in bytes."""

    @property
    def digest(self) -> str:
        """A hash of the code."""


C = TypeVar("C", bound=Candidate)
M = TypeVar("M")


class Comparison(ABC, Generic[M, C]):
    """The comparison of candidates C on several cores; M is the assembled code of one."""

    cores: Sequence[Microarch]

    @abstractmethod
    def _assembled(self, listing: Listing) -> M:
        """Return the assembled code of a listing; InputError if there is none."""

    @abstractmethod
    def _costed(self, assembled: Sequence[M | InputError]) -> Sequence[C | InputError]:
        """Return assembled code as candidates, with newly simulated costs."""

    @abstractmethod
    def _with_costs(self, assembled: M, costs: Mapping[str, Cost]) -> C:
        """Return assembled code as a candidate with known costs."""

    def _assembled_or_error(self, listing: Listing) -> M | InputError:
        try:
            return self._assembled(listing)
        except InputError as error:
            return error

    def candidates(
        self, listings: Sequence[Listing], known: Mapping[str, CostsOrError] = MappingProxyType({})
    ) -> list[C | InputError]:
        """Return the candidate of each listing, or the error; known has costs by text."""
        with ThreadPoolExecutor(toolchain.cpus()) as pool:
            assembled = list(pool.map(self._assembled_or_error, listings))
        given_costs = [known.get(listing.render()) for listing in listings]
        pairs = list(zip(assembled, given_costs, strict=True))
        answers = iter(self._costed([item for item, costs in pairs if costs is None]))
        results: list[C | InputError] = []
        for item, costs in pairs:
            if costs is None:
                results.append(next(answers))
            elif isinstance(costs, InputError):
                results.append(costs)
            elif isinstance(item, InputError):
                results.append(item)
            else:
                results.append(self._with_costs(item, costs))
        return results


def selected_cores(ids: str | None, isa: str) -> list[Microarch]:
    """Return the cores of a comma-separated list, or without one the targets of an ISA."""
    if ids:
        chosen = [microarchs.load(name.strip()) for name in ids.split(",") if name.strip()]
    else:
        chosen = microarchs.targets(isa)
    if foreign := [core.id for core in chosen if core.isa != isa]:
        raise InputError(f"{foreign[0]} does not run {isa} code; --microarch names cores of {isa}")
    if not chosen:
        raise InputError("--microarch names no core; give it as zen2,zen4")
    return chosen


@dataclass
class Search(Generic[C]):
    """The result of a search: candidates by code, the parent of each, and the errors of others."""

    base: C
    candidates: dict[str, C] = field(default_factory=dict)
    parents: dict[str, C] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    interrupted: bool = False

    def rank(self, candidate: C) -> tuple[float, float, int]:
        """Return the sort key of a candidate: first the gain on the core that gains least.

        The worst code offset counts as much as the mean over offsets.
        """
        gains = [*self.robust(candidate).values()]
        return min(gains), math.prod(gains) ** (1 / len(gains)), -candidate.bytes

    def robust(self, candidate: C) -> dict[str, float]:
        """Return, by core, the gain over the base: geometric mean for mean and worst offset."""
        base = self.base.costs
        return {
            core: math.sqrt(base[core].mean / cost.mean * base[core].worst / cost.worst)
            for core, cost in candidate.costs.items()
        }

    def ordered(self, without: Collection[str] = ()) -> list[C]:
        """Return the candidates, the best first; of alike ones only the shortest."""
        remaining = (c for c in self.candidates.values() if c.digest not in without)
        return _representatives(sorted(remaining, key=self.rank, reverse=True), self.robust)

    def pareto(self, without: Collection[str] = ()) -> list[C]:
        """Return the candidates that no other beats on every core and in bytes of code.

        without has the digests of candidates to leave out.
        """
        ordered = self.ordered(without)
        return [c for c in ordered if not any(self._beats(other, c) for other in ordered)]

    def _beats(self, candidate: C, other: C) -> bool:
        gains, other_gains = self.robust(candidate), self.robust(other)
        no_worse = all(gains[core] >= other_gains[core] for core in gains)
        better = any(gains[core] > other_gains[core] * (1 + ALIKE) for core in gains)
        return candidate is not other and no_worse and (better or candidate.bytes < other.bytes)

    def gains(self, candidate: C) -> dict[str, float]:
        """Return, by core, the speedup over the base: cycles are the mean over offsets."""
        return {core: self.base.costs[core].mean / c.mean for core, c in candidate.costs.items()}

    def in_words(self, reason: str) -> str:
        """Return the number of simulated candidates in words, and the reason of dropped ones."""
        dropped = sum(self.dropped.values())
        words = [f"{self.tried} candidates simulated"]
        words += [f"{dropped} of them {reason}"] if dropped else []
        words += ["interrupted: the best so far"] if self.interrupted else []
        return ", ".join(words)

    def path(self, candidate: C) -> list[C]:
        """Return the candidates from the base to this one, one transformation apart."""
        path = [candidate]
        while (parent := self.parents.get(path[0].digest)) is not None:
            path.insert(0, parent)
        return path


def _representatives(ordered: Sequence[C], gains: Callable[[C], Mapping[str, float]]) -> list[C]:
    """Return a representative of each group of candidates that are alike on every core.

    It is the shortest of those within _SAME of the group's first, which is the best.
    """
    groups: list[list[C]] = []
    for candidate in ordered:
        own_gains = gains(candidate)
        for group in groups:
            first_gains = gains(group[0])
            difference = max(abs(own_gains[core] / first_gains[core] - 1) for core in own_gains)
            if difference < _REPRESENTED:
                group.append(candidate)
            if difference < ALIKE:
                break
        else:
            groups.append([candidate])
    return [min(group, key=lambda c: c.bytes) for group in groups]


Progress = Callable[[int, int | None, str], None]


def search(
    comparison: Comparison[Any, C],
    base: C,
    transformations: Sequence[Transformation],
    settings: Settings,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> Search[C]:
    """Search better candidates from a base; an interrupt ends it with the best so far.

    The journal keeps simulated costs, and supplies those that it has.
    """
    result = Search(base)
    result.candidates[base.digest] = base
    generator = random.Random(settings.seed)
    beam = [base]
    best_rank, idle_rounds = result.rank(base), 0
    try:
        for _ in range(settings.depth):
            proposals = _proposals(beam, transformations)
            generator.shuffle(proposals)
            # A transformation's further results come after the first ones of all others.
            proposals.sort(key=lambda proposal: proposal.number)
            promising = _simulated(comparison, proposals, result, settings, progress, journal)
            # The best on each core stays, too: a mean over cores may hide the gain on one of them.
            ranked = sorted(promising, key=result.rank, reverse=True)
            cores = comparison.cores if promising else ()
            best = [max(promising, key=lambda c: result.robust(c)[core.id]) for core in cores]
            beam = list(dict.fromkeys([*ranked[: settings.beam], *best]))
            rank = max(map(result.rank, result.candidates.values()))
            idle_rounds = idle_rounds + 1 if rank[0] < best_rank[0] * (1 + _LEAST_GAIN) else 0
            best_rank = max(rank, best_rank)
            if not beam or result.tried >= settings.tried or idle_rounds == _MOST_IDLE:
                break
    except KeyboardInterrupt:
        result.interrupted = True
    return result


class _Proposal(NamedTuple, Generic[C]):
    """A listing, the candidate it derives from, and its index among a transformation's results."""

    parent: C
    listing: Listing
    number: int


def _proposals(beam: Iterable[C], transformations: Sequence[Transformation]) -> list[_Proposal[C]]:
    proposals: list[_Proposal[C]] = []
    seen: set[str] = set()
    for parent in beam:
        for transformation in transformations:
            for number, listing in enumerate(transformation.apply(parent.listing)):
                text = listing.render()
                if text not in seen:
                    seen.add(text)
                    proposals.append(_Proposal(parent, listing, number))
    return proposals


_BATCH = 8


def _simulated(
    comparison: Comparison[Any, C],
    proposals: Sequence[_Proposal[C]],
    result: Search[C],
    settings: Settings,
    progress: Progress | None,
    journal: Journal | None,
) -> list[C]:
    """Simulate proposed listings; return the new candidates that are worth further steps."""
    promising = []
    proposals = proposals[: max(0, settings.tried - result.tried)]
    for start in range(0, len(proposals), _BATCH):
        batch = proposals[start : start + _BATCH]
        texts = [proposal.listing.render() for proposal in batch]
        known = journal.known(texts) if journal else {}
        answers = comparison.candidates([proposal.listing for proposal in batch], known)
        if journal:
            costs = (a if isinstance(a, InputError) else a.costs for a in answers)
            journal.add(dict(zip(texts, costs, strict=True)))
        for (parent, _, _), candidate in zip(batch, answers, strict=True):
            result.tried += 1
            if isinstance(candidate, InputError):
                result.dropped[str(candidate)] = result.dropped.get(str(candidate), 0) + 1
            elif candidate.digest not in result.candidates:
                result.candidates[candidate.digest] = candidate
                result.parents[candidate.digest] = parent
                gains, before = result.robust(candidate), result.robust(parent)
                if max(gains[core] / before[core] for core in gains) > 1 - _MOST_LOSS:
                    promising.append(candidate)
        if progress:
            progress(result.tried, settings.tried, _best(result))
    return promising


def _best(result: Search[C]) -> str:
    candidate = max(result.candidates.values(), key=result.rank)
    gains = result.gains(candidate)
    return "best so far " + ", ".join(f"{core} {gain:.2f}x" for core, gain in gains.items())
