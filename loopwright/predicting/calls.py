"""Costs of whole calls: traced once, simulated on each core, kept on disk, shown as rows.

A cost is of calls with the same arguments that follow each other, as they are measured: with the
loading of the arguments, call, return and the caller's loop.
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
from loopwright.predicting import core_figures, error_ranges
from loopwright.predicting.model import Block, Model
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.question import Calls, Place, Progress
from loopwright.rows import Rows


class Found(NamedTuple):
    """The simulator's answer for a call: cycles as in CallCost, or an error."""

    cycles: float = 0.0
    mispredicted: float = 0.0
    alone: float = 0.0
    note: str = ""
    error: str = ""


class Cache:
    """The calls of some code on some core that are known."""

    def __init__(self, routine: str, figures: tuple[str, ...]) -> None:
        """Read what is kept of a routine, by its key, on a core with these figures."""
        of = (_made_by(), routine, *map(_digest, figures))
        key = hashlib.sha256(repr(of).encode()).hexdigest()
        self._path = paths.build_dir() / "calls" / f"{key}.json"
        self.known: dict[Place, Found] = {}
        self._new = False
        if self._path.is_file():
            rows = json.loads(self._path.read_text())
            self.known = {(size, dst, src): Found(*rest) for size, dst, src, *rest in rows}

    def add(self, place: Place, found: Found) -> None:
        """Take what was found of a call."""
        self.known[place] = found
        self._new = True

    def keep(self) -> None:
        """Write what is new to disk: all of the file or nothing."""
        if not self._new:
            return
        rows = json.dumps([[*place, *found] for place, found in self.known.items()])
        with suppress(InputError):  # a cache that cannot be written costs time alone
            files.written(self._path, rows)
        self._new = False


@lru_cache(maxsize=256)
def _digest(text: str) -> str:
    """Return a hash of a text: of a core's tables, which are the same for thousands of calls."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _made_by() -> str:
    """Return a hash of what traces and simulates: it changes without its version in a checkout."""
    tracing = [Path(str(module.__file__)) for module in (emulator, trace)]
    made = [binding.file(), paths.HARNESS / "tracing" / "recorder.c", *tracing]
    digest = hashlib.sha256()
    for path in made:
        digest.update(path.read_bytes())
    return digest.hexdigest()


Tick = Callable[[int], None]

_BATCH = 64  # calls that are traced and simulated before the bar moves on


@dataclass(frozen=True)
class Routine:
    """Code that is called, and how; its text stands shift bytes behind a 64-byte boundary."""

    code: Code
    contract: Contract
    shift: int

    @property
    def key(self) -> str:
        """Return its key among others."""
        return repr((self.code.sha256, self.contract, self.shift))

    def effective(self, place: Place) -> Place:
        """Return a place without what the contract has no input for."""
        size, dst, src = place
        given = self.contract.inputs
        return size, dst if "dst" in given else 0, src if "src" in given else 0


class _Traces:
    """The last traced calls of this process, which other parameters may ask for again.

    limit is the most bytes that they hold together.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, Place], Packed | InputError] = OrderedDict()

    def of(self, routine: Routine, places: Sequence[Place]) -> dict[Place, Packed | InputError]:
        """Return a routine's calls by place, those that are not kept traced now."""
        key = routine.key
        found = {p: self._kept[key, p] for p in places if (key, p) in self._kept}
        if new := [p for p in places if p not in found]:
            tracer = Tracer(routine.code, routine.contract, routine.shift)
            traced = tracer.calls([Call(*p) for p in new])
            found |= dict(zip(new, traced, strict=True))
        for place, call in found.items():
            self._keep((key, place), call)
        return {p: found[p] for p in places}

    def _keep(self, key: tuple[str, Place], call: Packed | InputError) -> None:
        if key not in self._kept:
            self._bytes += _size(call)
        self._kept[key] = call
        self._kept.move_to_end(key)
        while self._bytes > self._limit:
            self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(call: Packed | InputError) -> int:
    return 0 if isinstance(call, InputError) else len(call.code) + len(call.steps)


_traces = _Traces(128 << 20)


@dataclass(frozen=True)
class Work:
    """Calls that are wanted of a core, and all figures that they follow from."""

    core: Microarch
    model: Pipeline
    figures: tuple[str, ...]
    places: Sequence[Place]


def _run_batches(routine: Routine, works: Sequence[Work], tick: Tick) -> list[list[Found]]:
    """Return the cycles at each place of each work; tick is told the count of places done.

    What is found is kept on disk, also where this is interrupted.
    """
    jobs = [_Job(routine, work) for work in works]
    asked = Counter(place for job in jobs for place in job.places)
    new = [place for place in asked if any(job.lacks(place) for job in jobs)]
    tick(asked.total() - sum(asked[place] for place in new))
    try:
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            traced = _traces.of(routine, batch)
            for job in jobs:
                job.simulate({p: call for p, call in traced.items() if job.lacks(p)})
            tick(sum(asked[place] for place in batch))
    finally:
        for job in jobs:
            job.cache.keep()
    return [[job.cache.known[place] for place in job.places] for job in jobs]


class _Job:
    """Calls that are wanted of a core, and those that are known."""

    def __init__(self, routine: Routine, work: Work) -> None:
        self._work = work
        self.places = [routine.effective(place) for place in work.places]
        self._wanted = frozenset(self.places)
        self.cache = Cache(routine.key, work.figures)

    def lacks(self, place: Place) -> bool:
        """Say whether a call is wanted and not known."""
        return place in self._wanted and place not in self.cache.known

    def simulate(self, traced: Mapping[Place, Packed | InputError]) -> None:
        """Find what calls cost."""
        for place, call in traced.items():
            if isinstance(call, InputError):
                self.cache.add(place, Found(error=str(call)))
        calls = {place: c for place, c in traced.items() if not isinstance(c, InputError)}
        work = self._work
        rows = work.model.calls(list(calls.values()), work.core, work.figures)
        for place, row in zip(calls, rows, strict=True):
            self.cache.add(place, _found(row))


def _found(row: Mapping[str, Any]) -> Found:
    if row.get("error"):
        return Found(error=row["error"])
    notes = [*row["caveats"], *([] if row["steady"] else ["calls do not settle: a mean of many"])]
    cycles, mispredicted, alone = (round(row[n], 3) for n in ("cycles", "mispredicted", "alone"))
    return Found(cycles, mispredicted, alone, "; ".join(notes))


@dataclass(frozen=True)
class CallCost:
    """Cycles of a call on a core, with its data in the L1 cache.

    size, dst and src are its place. cycles is for calls that follow each other, with all branches
    predicted; mispredicted the same with those exits of loops mispredicted that the core's branch
    history cannot know; alone what one call takes from its first instruction to its last on an
    empty machine. note says what the simulator leaves out.
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

    overrides are parameters of the simulator by dotted name. offset is where the main loop stands
    mod 64 (None: where its own alignment puts it). in_user_space takes the code as this machine can
    measure it, without privileged alternatives, else as the core's kernel has it.
    """

    variant: Variant
    core: Microarch
    places: Sequence[Place]
    overrides: Mapping[str, str]
    offset: int | None = None
    in_user_space: bool = False


def refusal(core: Microarch, overrides: Mapping[str, str]) -> str:
    """Return the simulator's objection to values of a core's parameters, or nothing."""
    try:
        Pipeline(overrides).check(core)
    except InputError as error:
        return str(error)
    return ""


def of_variant(
    variant: Variant,
    core: Microarch,
    places: Sequence[Place],
    overrides: Mapping[str, str],
    offset: int | None = None,
) -> list[CallCost]:
    """Return the cycles of calls of a variant on a core.

    InputError for what cannot be predicted, with the reason.
    """
    [found] = of_variants([CallQuestion(variant, core, places, overrides, offset)])
    costs = []
    for one in found:
        if isinstance(one, InputError):
            raise one
        costs.append(one)
    return costs


def of_variants(
    questions: Sequence[CallQuestion], progress: Progress | None = None
) -> list[list[CallCost | InputError]]:
    """Return for each question a cost, or why there is none, for each of its places.

    progress is called with calls done and all calls. InputError where the simulator is missing or
    does not know an overridden parameter.
    """
    total, done = sum(len(q.places) for q in questions), 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if progress:
            progress(done, total)

    out: list[list[CallCost | InputError]] = [[] for _ in questions]
    alike: dict[str, tuple[Routine, list[int]]] = {}
    # Verdicts ask for the same code under hundreds of values: files are read once for all of them.
    routines: dict[tuple[object, ...], Routine | str] = {}
    figures: dict[tuple[object, ...], tuple[str, ...]] = {}
    for n, question in enumerate(questions):
        variant, core, _, _, offset, in_user_space = question
        called = (id(variant), core.id, offset, in_user_space)
        if called not in routines:
            routines[called] = _routine(question)
        routine = routines[called]
        if isinstance(routine, str):
            out[n] = [InputError(routine) for _ in question.places]
            tick(len(question.places))
        else:
            alike.setdefault(routine.key, (routine, []))[1].append(n)
    for routine, numbers in alike.values():
        works = []
        for _, core, places, overrides, _, _ in (questions[n] for n in numbers):
            model, key = Pipeline(overrides), (core.id, *sorted(overrides.items()))
            if key not in figures:
                figures[key] = model.figures(core)
            works.append(Work(core, model, figures[key], places))
        for n, found in zip(numbers, _run_batches(routine, works, tick), strict=True):
            out[n] = [_cost(*both) for both in zip(questions[n].places, found, strict=True)]
    return out


def _cost(place: Place, found: Found) -> CallCost | InputError:
    if found.error:
        return InputError(found.error)
    return CallCost(*place, found.cycles, found.mispredicted, found.alone, found.note)


def _routine(question: CallQuestion) -> Routine | str:
    """Return the routine to call, or the reason for no prediction."""
    variant, core = question.variant, question.core
    if lacks := Pipeline(question.overrides).lacks(core):
        return lacks
    if missing := microarchs.missing(variant, core):
        return f"needs {', '.join(missing)}, which {core.id} lacks"
    left = microarchs.alternatives_left(variant, core)
    left |= assemble.PRIVILEGED if question.in_user_space else frozenset()
    code = assemble.variant_code(variant, left)
    contract = kernels.contract_of(variant)
    routine = Routine(code, contract, Placement.of(code, contract, question.offset).shift)
    body = b"".join(i.code for i in code.instructions)
    if short := lacking(code.isa, body, outline(code.isa, body).needs, core.features):
        return f"{short}, which {core.id} lacks"
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
class _Asked:
    """Calls of a variant on a core at an offset; error says why none can be predicted."""

    variant: Variant
    core: Microarch
    offset: int | None
    places: tuple[Place, ...]
    error: str = ""

    def question(self, overrides: Mapping[str, str]) -> CallQuestion:
        return CallQuestion(self.variant, self.core, self.places, overrides, self.offset)


def answer_calls(
    spec: str,
    wanted: Calls,
    microarch: str | None,
    chosen: Sequence[Model],
    offsets: Sequence[int | None],
    overrides: Mapping[str, str],
    progress: Progress | None = None,
) -> Rows:
    """Return a row for each variant, core, model, offset, size and pair of alignments."""
    asked = [
        one
        for variant, core in _select(spec, microarch)
        for offset in offsets
        for one in [_asked(variant, core, offset, wanted)]
    ]
    if asked and all(one.error for one in asked):
        raise InputError(asked[0].error)
    contracts = [kernels.contract_of(one.variant) for one in asked]
    if contracts and not any(map(wanted.fits, contracts)):
        first = contracts[0]
        raise InputError(
            f"{first.symbol} takes no count: a call is {first.count_bytes} bytes; give --sizes 1"
        )
    found = _simulated([a for a in asked if not a.error], overrides, progress)
    values: list[tuple[Any, ...]] = []
    for one in asked:
        for model in chosen:
            values += _rows(one, model, wanted, found.get(id(one)))
    return Rows(COLUMNS, values, _TYPES)


def _select(spec: str, microarch: str | None) -> Iterator[tuple[Variant, Microarch]]:
    """Yield each variant with each core that it is to be predicted for."""
    if spec == "all":
        found = [v for kernel in kernels.every() for v in kernel.variants.values()]
        cores = hosts.cores(microarch)
    else:
        kernel, found = kernels.select(spec)
        cores = hosts.cores(microarch, kernel.isa)
    for variant in found:
        for core in cores:
            if core.isa == kernels.load(variant.kernel).isa:
                yield variant, core


def _asked(variant: Variant, core: Microarch, offset: int | None, wanted: Calls) -> _Asked:
    try:
        places = tuple(wanted.places(kernels.contract_of(variant)))
        assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
    except InputError as error:
        return _Asked(variant, core, offset, (), str(error))
    return _Asked(variant, core, offset, places)


def _simulated(
    asked: Sequence[_Asked], overrides: Mapping[str, str], progress: Progress | None
) -> dict[int, tuple[Answers, Answers, Answers]]:
    """Return for each what its calls cost: as core.toml has it, and at both ends of its ranges."""
    questions = [one.question(overrides) for one in asked]
    open_ = [n for n, one in enumerate(asked) if _rests_on(one, overrides)]
    for end in (0, 1):
        for n in open_:
            questions.append(
                asked[n].question(core_figures.at_range_ends(asked[n].core, overrides)[end])
            )
    found = of_variants(questions, progress)
    cheap = dict(zip(open_, found[len(asked) :], strict=False))
    dear = dict(zip(open_, found[len(asked) + len(open_) :], strict=True))
    return {
        id(one): (found[n], cheap.get(n, found[n]), dear.get(n, found[n]))
        for n, one in enumerate(asked)
    }


def _rests_on(one: _Asked, overrides: Mapping[str, str]) -> bool:
    """Say whether calls can depend on a parameter that nobody has measured."""
    code = assemble.variant_code(one.variant, microarchs.alternatives_left(one.variant, one.core))
    block = Block(code.isa, code.text[: code.entry + code.size], "unrolled", 0)
    straight = not any(i.string for i in code.instructions)
    return any(
        core_figures.depends_on(one.core, block, name, straight=straight)
        for name in core_figures.cost_ranges(one.core, overrides)
    )


def _rows(
    one: _Asked, model: Model, wanted: Calls, found: tuple[Answers, Answers, Answers] | None
) -> Iterator[tuple[Any, ...]]:
    contract = kernels.contract_of(one.variant)
    where = (one.variant.kernel, one.variant.routine, one.variant.name, one.core.id, model.id)
    if found is None:
        yield (*where, "call", one.offset, *(None,) * 11, one.error, "")
        return
    code = assemble.variant_code(one.variant, microarchs.alternatives_left(one.variant, one.core))
    offset = Placement.of(code, contract, one.offset).offset
    for place, answer, *ends in zip(one.places, *found, strict=True):
        size, dst, src = place
        at = (*where, "call", offset, size * contract.count_bytes, dst, src)
        weight, said = wanted.weight(place), wanted.note(place)
        if model.id != Pipeline.id:
            yield (*at, *(None,) * 7, weight, _SEES_LOOPS, said)
        elif isinstance(answer, InputError):
            yield (*at, *(None,) * 3, *_ranges(one.core, None, ends), weight, str(answer), said)
        else:
            cycles = (answer.cycles, answer.mispredicted, answer.alone)
            note = "; ".join(filter(None, (said, answer.note)))
            ranges = _ranges(one.core, answer.cycles, ends)
            yield (*at, *cycles, *ranges, weight, "", note)


def _ranges(
    core: Microarch, cycles: float | None, ends: Sequence[CallCost | InputError]
) -> tuple[float | None, ...]:
    """Return both ends of what nobody has measured, and of what 95 % of measurements lie between.

    None for those that are not known.
    """
    known = sorted(one.cycles for one in ends if isinstance(one, CallCost))
    open_ = len(known) == 2 and known[0] < known[1]
    unmeasured = (known[0], known[1]) if open_ else (None, None)
    span = error_ranges.of_call(core.id)
    if span is None:
        return (*unmeasured, *unmeasured)
    if open_:
        return (*unmeasured, *span.around(*known))
    return (*unmeasured, *((None, None) if cycles is None else span.around(cycles, cycles)))
