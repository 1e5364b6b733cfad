"""Costs of whole calls: traced once, simulated on each core, cached on disk, returned as rows.

A cost is that of successive calls with the same arguments, as they are measured: with the loading
of the arguments, call, return and the caller's loop.
"""

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from loopwright import files, kernels, microarchs, paths
from loopwright.code import assemble, binding
from loopwright.code.binding import lacking, outline
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine import emulator, hosts, trace
from loopwright.machine.emulator import Call
from loopwright.machine.trace import Packed, Tracer
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.predicting.model import Block, Model
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.question import Calls, CountPoint, Progress
from loopwright.rows import Rows


class CallAnswer(NamedTuple):
    """The simulator's answer for a call: cycles as in CallCost, or an error."""

    cycles: float = 0.0
    mispredicted: float = 0.0
    alone: float = 0.0
    note: str = ""
    error: str = ""


class Cache:
    """The answers of a routine's calls on a core, by point, kept on disk."""

    def __init__(self, routine: str, figures: tuple[str, ...]) -> None:
        """Read the stored answers of a routine, by its key, on a core with these figures."""
        parts = (_hash_of_tools(), routine, *map(_digest, figures))
        key = hashlib.sha256(repr(parts).encode()).hexdigest()
        self._path = paths.build_dir() / "calls" / f"{key}.json"
        self.answers: dict[CountPoint, CallAnswer] = {}
        self._new = False
        if self._path.is_file():
            rows = json.loads(self._path.read_text())
            self.answers = {
                (size, dst, src): CallAnswer(*fields) for size, dst, src, *fields in rows
            }

    def add(self, point: CountPoint, answer: CallAnswer) -> None:
        """Add the answer for a call."""
        self.answers[point] = answer
        self._new = True

    def write(self) -> None:
        """Write new answers to disk, in one file that is replaced as a whole."""
        if not self._new:
            return
        rows = json.dumps([[*point, *answer] for point, answer in self.answers.items()])
        with suppress(InputError):  # an unwritable cache costs only time
            files.written(self._path, rows)
        self._new = False


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    """Return a hash of a core's tables, cached because thousands of calls share them."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _hash_of_tools() -> str:
    """Return a hash of the code that traces and simulates; a checkout changes within a version."""
    modules = [Path(str(module.__file__)) for module in (emulator, trace)]
    digest = hashlib.sha256()
    for path in (binding.file(), paths.HARNESS / "tracing" / "recorder.c", *modules):
        digest.update(path.read_bytes())
    return digest.hexdigest()


Tick = Callable[[int], None]
"""A callback with the number of calls done since the last one."""

_BATCH = 64  # calls that are traced and simulated between updates of the progress bar


@dataclass(frozen=True)
class Routine:
    """Code to call, and its contract; its text begins shift bytes after a 64-byte boundary."""

    code: Code
    contract: Contract
    shift: int

    @property
    def key(self) -> str:
        """The key of the routine in caches."""
        return repr((self.code.sha256, self.contract, self.shift))

    def effective(self, point: CountPoint) -> CountPoint:
        """Return a point with 0 for the sides that the contract has no input for."""
        size, dst, src = point
        inputs = self.contract.inputs
        return size, dst if "dst" in inputs else 0, src if "src" in inputs else 0


class _Traces:
    """The last traced calls of this process, which other parameters may ask for again.

    limit is the most bytes that they use together.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, CountPoint], Packed | InputError] = OrderedDict()

    def of(
        self, routine: Routine, points: Sequence[CountPoint]
    ) -> dict[CountPoint, Packed | InputError]:
        """Return a routine's traced calls by point, from the cache where possible."""
        key = routine.key
        calls = {p: self._kept[key, p] for p in points if (key, p) in self._kept}
        if new := [p for p in points if p not in calls]:
            tracer = Tracer(routine.code, routine.contract, routine.shift)
            traced = tracer.calls([Call(*p) for p in new])
            calls |= dict(zip(new, traced, strict=True))
        for point, call in calls.items():
            self._keep((key, point), call)
        return {p: calls[p] for p in points}

    def _keep(self, key: tuple[str, CountPoint], call: Packed | InputError) -> None:
        if key not in self._kept:
            self._bytes += _size(call)
        self._kept[key] = call
        self._kept.move_to_end(key)
        while self._bytes > self._limit:
            self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(call: Packed | InputError) -> int:
    return 0 if isinstance(call, InputError) else len(call.code) + len(call.steps)


_traces = _Traces(128 << 20)


def _run_batches(routine: Routine, jobs: Sequence["_Job"], tick: Tick) -> list[list[CallAnswer]]:
    """Return the answer at each point of each job; tick gets the number of points done.

    Answers are written to disk also where this is interrupted.
    """
    demand = Counter(point for job in jobs for point in job.points)
    new = [point for point in demand if any(job.lacks(point) for job in jobs)]
    tick(demand.total() - sum(demand[point] for point in new))
    try:
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            traced = _traces.of(routine, batch)
            for job in jobs:
                job.simulate({p: call for p, call in traced.items() if job.lacks(p)})
            tick(sum(demand[point] for point in batch))
    finally:
        for job in jobs:
            job.cache.write()
    return [[job.cache.answers[point] for point in job.points] for job in jobs]


class _Job:
    """A question's calls of a routine, and the cache of their answers by a core's figures."""

    def __init__(
        self, routine: Routine, question: "CallQuestion", figures: tuple[str, ...]
    ) -> None:
        self._question, self._figures = question, figures
        self.points = [routine.effective(point) for point in question.points]
        self._wanted = frozenset(self.points)
        self.cache = Cache(routine.key, figures)

    def lacks(self, point: CountPoint) -> bool:
        """True if a call is wanted and not known."""
        return point in self._wanted and point not in self.cache.answers

    def simulate(self, traced: Mapping[CountPoint, Packed | InputError]) -> None:
        """Simulate traced calls."""
        for point, call in traced.items():
            if isinstance(call, InputError):
                self.cache.add(point, CallAnswer(error=str(call)))
        calls = {point: c for point, c in traced.items() if not isinstance(c, InputError)}
        model, core = Pipeline(self._question.overrides), self._question.core
        rows = model.calls(list(calls.values()), core, self._figures)
        for point, row in zip(calls, rows, strict=True):
            self.cache.add(point, _answer(row))


def _answer(row: Mapping[str, Any]) -> CallAnswer:
    if row.get("error"):
        return CallAnswer(error=row["error"])
    notes = [*row["caveats"], *([] if row["steady"] else ["calls do not settle: a mean of many"])]
    cycles, mispredicted, alone = (round(row[n], 3) for n in ("cycles", "mispredicted", "alone"))
    return CallAnswer(cycles, mispredicted, alone, "; ".join(notes))


@dataclass(frozen=True)
class CallCost:
    """Cycles of a call on a core, with its data in the L1 cache.

    size, dst and src are its point. cycles is for successive calls with all branches predicted;
    mispredicted the same with those exits of loops mispredicted that the core's branch history
    cannot predict; alone the cycles of one call from its first instruction to its last on an empty
    machine. note names the parts that the simulator leaves out.
    """

    size: int
    dst: int
    src: int
    cycles: float
    mispredicted: float
    alone: float
    note: str = ""


class CallQuestion(NamedTuple):
    """Calls of a variant on a core.

    overrides are parameters of the simulator by dotted name. offset is the code offset of the main
    loop (None: by its own alignment). in_user_space takes the code that this machine can measure,
    without privileged alternatives, else the code of the core's kernel.
    """

    variant: Variant
    core: Microarch
    points: Sequence[CountPoint]
    overrides: Mapping[str, str]
    offset: int | None = None
    in_user_space: bool = False


def refusal(core: Microarch, overrides: Mapping[str, str]) -> str:
    """Return the simulator's objection to values of a core's parameters, or ""."""
    try:
        Pipeline(overrides).check(core)
    except InputError as error:
        return str(error)
    return ""


def of_variants(
    questions: Sequence[CallQuestion], progress: Progress | None = None
) -> list[list[CallCost | InputError]]:
    """Return for each question a cost, or the reason for none, for each of its points.

    progress is called with the number of calls done and of all calls. InputError if the
    simulator is missing or does not know an overridden parameter.
    """
    total, done = sum(len(q.points) for q in questions), 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, total)

    out: list[list[CallCost | InputError]] = [[] for _ in questions]
    by_routine: dict[str, tuple[Routine, list[int]]] = {}
    # Verdicts ask for the same code under hundreds of values: each file is read once.
    routines: dict[tuple[object, ...], Routine | str] = {}
    figures: dict[tuple[object, ...], tuple[str, ...]] = {}
    for n, question in enumerate(questions):
        key = (id(question.variant), question.core.id, question.offset, question.in_user_space)
        if key not in routines:
            routines[key] = _routine(question)
        routine = routines[key]
        if isinstance(routine, str):
            out[n] = [InputError(routine) for _ in question.points]
            tick(len(question.points))
        else:
            by_routine.setdefault(routine.key, (routine, []))[1].append(n)
    for routine, numbers in by_routine.values():
        jobs = []
        for question in (questions[n] for n in numbers):
            core_key = (question.core.id, *sorted(question.overrides.items()))
            if core_key not in figures:
                figures[core_key] = Pipeline(question.overrides).figures(question.core)
            jobs.append(_Job(routine, question, figures[core_key]))
        for n, answers in zip(numbers, _run_batches(routine, jobs, tick), strict=True):
            out[n] = list(map(_cost, questions[n].points, answers))
    return out


def _cost(point: CountPoint, answer: CallAnswer) -> CallCost | InputError:
    if answer.error:
        return InputError(answer.error)
    return CallCost(*point, answer.cycles, answer.mispredicted, answer.alone, answer.note)


def _routine(question: CallQuestion) -> Routine | str:
    """Return the routine to call, or the reason for no prediction."""
    variant, core = question.variant, question.core
    if lacks := Pipeline(question.overrides).lacks(core):
        return lacks
    if missing := microarchs.missing(variant, core):
        return f"needs {', '.join(missing)}, which {core.id} lacks"
    alternatives = microarchs.alternatives_left(variant, core)
    alternatives |= assemble.PRIVILEGED if question.in_user_space else frozenset()
    code = assemble.variant_code(variant, alternatives)
    contract = kernels.contract_of(variant)
    routine = Routine(code, contract, Placement.of(code, contract, question.offset).shift)
    body = b"".join(i.code for i in code.instructions)
    if unsupported := lacking(code.isa, body, outline(code.isa, body).needs, core.features):
        return f"{unsupported}, which {core.id} lacks"
    return routine


COLUMNS = (
    "kernel", "routine", "variant", "microarch", "model", "notion", "offset", "size_bytes",
    "dst_align", "src_align", "cycles", "mispredicted", "alone", "cheap", "dear", "low", "high",
    "weight", "error", "note",
)  # fmt: skip
_TYPES = dict.fromkeys(
    ("cycles", "mispredicted", "alone", "cheap", "dear", "low", "high", "weight"), "float64"
)
_SEES_LOOPS = "this model sees loops and blocks, not whole calls; pipeline does"

Answers = Sequence[CallCost | InputError]


@dataclass(frozen=True)
class _Request:
    """Calls of a variant on a core at an offset; error is the reason for no prediction."""

    variant: Variant
    core: Microarch
    offset: int | None
    points: tuple[CountPoint, ...]
    error: str = ""

    @property
    def code(self) -> Code:
        """The variant's code as the core would run it."""
        alternatives = microarchs.alternatives_left(self.variant, self.core)
        return assemble.variant_code(self.variant, alternatives)

    def question(self, overrides: Mapping[str, str]) -> CallQuestion:
        return CallQuestion(self.variant, self.core, self.points, overrides, self.offset)


def answer_calls(
    spec: str,
    calls: Calls,
    microarch: str | None,
    models: Sequence[Model],
    offsets: Sequence[int | None],
    overrides: Mapping[str, str],
    progress: Progress | None = None,
) -> Rows:
    """Return a row for each variant, core, model, offset, size and pair of alignments."""
    requests = [
        _request(variant, core, offset, calls)
        for variant, core in _select(spec, microarch)
        for offset in offsets
    ]
    if requests and all(request.error for request in requests):
        raise InputError(requests[0].error)
    contracts = [kernels.contract_of(request.variant) for request in requests]
    if contracts and not any(map(calls.fits, contracts)):
        first = contracts[0]
        raise InputError(
            f"{first.symbol} takes no count: a call is {first.count_bytes} bytes; give --sizes 1"
        )
    costs = _simulated([r for r in requests if not r.error], overrides, progress)
    values: list[tuple[Any, ...]] = []
    for request in requests:
        for model in models:
            values += _rows(request, model, calls, costs.get(id(request)))
    return Rows(COLUMNS, values, _TYPES)


def _select(spec: str, microarch: str | None) -> Iterator[tuple[Variant, Microarch]]:
    """Yield each variant with each core that it is to be predicted for."""
    if spec == "all":
        variants = [v for kernel in kernels.every() for v in kernel.variants.values()]
        cores = hosts.cores(microarch)
    else:
        kernel, variants = kernels.select(spec)
        cores = hosts.cores(microarch, kernel.isa)
    for variant in variants:
        for core in cores:
            if core.isa == kernels.load(variant.kernel).isa:
                yield variant, core


def _request(variant: Variant, core: Microarch, offset: int | None, calls: Calls) -> _Request:
    try:
        points = tuple(calls.points(kernels.contract_of(variant)))
        request = _Request(variant, core, offset, points)
        _ = request.code  # raises where it does not assemble
    except InputError as error:
        return _Request(variant, core, offset, (), str(error))
    return request


def _simulated(
    requests: Sequence[_Request], overrides: Mapping[str, str], progress: Progress | None
) -> dict[int, tuple[Answers, Answers, Answers]]:
    """Return the costs of each request by id: by core.toml, and at both ends of its ranges."""
    with_ranges = [request for request in requests if _depends_on_range(request, overrides)]
    ends = [core_figures.at_range_ends(request.core, overrides) for request in with_ranges]
    questions = [request.question(overrides) for request in requests]
    for values_at_end in zip(*ends, strict=True):
        questions += map(_Request.question, with_ranges, values_at_end)
    costs = iter(of_variants(questions, progress))
    base, cheap, dear = (
        {id(request): next(costs) for request in part}
        for part in (requests, with_ranges, with_ranges)
    )
    return {key: (of, cheap.get(key, of), dear.get(key, of)) for key, of in base.items()}


def _depends_on_range(request: _Request, overrides: Mapping[str, str]) -> bool:
    """True if calls can depend on an unmeasured parameter."""
    code = request.code
    block = Block(code.isa, code.text[: code.entry + code.size], "unrolled", 0)
    straight = not any(i.string for i in code.instructions)
    return any(
        core_figures.depends_on(request.core, block, name, straight=straight)
        for name in core_figures.cost_ranges(request.core, overrides)
    )


def _rows(
    request: _Request, model: Model, calls: Calls, costs: tuple[Answers, Answers, Answers] | None
) -> Iterator[tuple[Any, ...]]:
    contract = kernels.contract_of(request.variant)
    variant = request.variant
    key = (variant.kernel, variant.routine, variant.name, request.core.id, model.id)
    if costs is None:
        yield (*key, "call", request.offset, *(None,) * 11, request.error, "")
        return
    code = request.code
    offset = Placement.of(code, contract, request.offset).offset
    for point, cost, *ends in zip(request.points, *costs, strict=True):
        size, dst, src = point
        columns = (*key, "call", offset, size * contract.count_bytes, dst, src)
        weight, size_note = calls.weight(point), calls.note(point)
        if model.id != Pipeline.id:
            yield (*columns, *(None,) * 7, weight, _SEES_LOOPS, size_note)
        elif isinstance(cost, InputError):
            ranges = _ranges(request.core, None, ends)
            yield (*columns, *(None,) * 3, *ranges, weight, str(cost), size_note)
        else:
            cycles = (cost.cycles, cost.mispredicted, cost.alone)
            note = "; ".join(filter(None, (size_note, cost.note)))
            ranges = _ranges(request.core, cost.cycles, ends)
            yield (*columns, *cycles, *ranges, weight, "", note)


def _ranges(
    core: Microarch, cycles: float | None, ends: Sequence[CallCost | InputError]
) -> tuple[float | None, ...]:
    """Return the ends of the cost over unmeasured parameters, and of 95 % of measurements.

    None for ends that are not known.
    """
    cycles_at_ends = sorted(cost.cycles for cost in ends if isinstance(cost, CallCost))
    differ = len(cycles_at_ends) == 2 and cycles_at_ends[0] < cycles_at_ends[1]
    unmeasured = (cycles_at_ends[0], cycles_at_ends[1]) if differ else (None, None)
    span = core_figures.span_of_calls(core.id)
    if span is None:
        return (*unmeasured, *unmeasured)
    if differ:
        return (*unmeasured, *span.around(*cycles_at_ends))
    return (*unmeasured, *((None, None) if cycles is None else span.around(cycles, cycles)))
