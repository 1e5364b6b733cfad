"""Predictions of whole calls as rows: a size and alignments each, with what they rest on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.code.loops import Placement
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.microarchs import Microarch
from loopwright.predicting import calls, ranges
from loopwright.predicting.call_cache import Place
from loopwright.predicting.call_sizes import Calls
from loopwright.predicting.calls import CallCost, CallQuestion
from loopwright.predicting.model import Block, Model
from loopwright.predicting.pipeline import Pipeline
from loopwright.rows import Rows

COLUMNS = (
    "kernel",
    "routine",
    "variant",
    "microarch",
    "model",
    "notion",
    "offset",
    "size_bytes",
    "dst_align",
    "src_align",
    "cycles",
    "mispredicted",
    "alone",
    "low",
    "high",
    "weight",
    "error",
    "note",
)
_TYPES = dict.fromkeys(("cycles", "mispredicted", "alone", "low", "high", "weight"), "float64")
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


def answer(
    spec: str,
    wanted: Calls,
    microarch: str | None,
    chosen: Sequence[Model],
    offsets: Sequence[int | None],
    overrides: Mapping[str, str],
    progress: calls.Progress | None = None,
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
    asked: Sequence[_Asked], overrides: Mapping[str, str], progress: calls.Progress | None
) -> dict[int, tuple[Answers, Answers, Answers]]:
    """Return for each what its calls cost: as core.toml has it, and at both ends of its ranges."""
    questions = [one.question(overrides) for one in asked]
    open_ = [n for n, one in enumerate(asked) if _rests_on(one, overrides)]
    for end in (0, 1):
        for n in open_:
            questions.append(asked[n].question(ranges.ends(asked[n].core, overrides)[end]))
    found = calls.of_variants(questions, progress)
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
        ranges.rests_on(one.core, block, name, straight=straight)
        for name in ranges.of(one.core, overrides)
    )


def _rows(
    one: _Asked, model: Model, wanted: Calls, found: tuple[Answers, Answers, Answers] | None
) -> Iterator[tuple[Any, ...]]:
    contract = kernels.contract_of(one.variant)
    where = (one.variant.kernel, one.variant.routine, one.variant.name, one.core.id, model.id)
    if found is None:
        yield (*where, "call", one.offset, *(None,) * 9, one.error, "")
        return
    code = assemble.variant_code(one.variant, microarchs.alternatives_left(one.variant, one.core))
    offset = Placement.of(code, contract, one.offset).offset
    for place, answer, *ends in zip(one.places, *found, strict=True):
        size, dst, src = place
        at = (*where, "call", offset, size * contract.count_bytes, dst, src)
        weight, said = wanted.weight(place), wanted.note(place)
        if model.id != Pipeline.id:
            yield (*at, *(None,) * 5, weight, _SEES_LOOPS, said)
        elif isinstance(answer, InputError):
            yield (*at, *(None,) * 3, *_between(ends), weight, str(answer), said)
        else:
            cycles = (answer.cycles, answer.mispredicted, answer.alone)
            note = "; ".join(filter(None, (said, answer.note)))
            yield (*at, *cycles, *_between(ends), weight, "", note)


def _between(ends: Sequence[CallCost | InputError]) -> tuple[float | None, float | None]:
    """Return what the cycles are between, where that is known and a range."""
    known = sorted(one.cycles for one in ends if isinstance(one, CallCost))
    return (known[0], known[1]) if len(known) == 2 and known[0] < known[1] else (None, None)
