"""What whole calls cost: traced once, simulated on each core, kept in a cache on disk.

A cost is of calls with the same arguments that follow each other, as they are measured: with the
loading of the arguments, call, return and the caller's loop.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.code.loops import Placement
from loopwright.code.outline import lacking, outline
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch
from loopwright.predicting.call_batches import Routine, Work, run
from loopwright.predicting.call_cache import Found, Place
from loopwright.predicting.pipeline import Pipeline

Progress = Callable[[int, int], None]


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
    """Which calls of a variant on which core.

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
    """Return why the simulator takes no such values of a core's parameters, or nothing."""
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
    """Return what calls of a variant cost on a core.

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
    for n, question in enumerate(questions):
        routine = _routine(question)
        if isinstance(routine, str):
            out[n] = [InputError(routine) for _ in question.places]
            tick(len(question.places))
        else:
            alike.setdefault(routine.key, (routine, []))[1].append(n)
    for routine, numbers in alike.values():
        asked = [questions[n] for n in numbers]
        works = [Work(q.core, Pipeline(q.overrides), q.places) for q in asked]
        for n, found in zip(numbers, run(routine, works, tick), strict=True):
            out[n] = [_cost(*both) for both in zip(questions[n].places, found, strict=True)]
    return out


def _cost(place: Place, found: Found) -> CallCost | InputError:
    if found.error:
        return InputError(found.error)
    return CallCost(*place, found.cycles, found.mispredicted, found.alone, found.note)


def _routine(question: CallQuestion) -> Routine | str:
    """Return what is called, or why no call of it can be predicted."""
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
