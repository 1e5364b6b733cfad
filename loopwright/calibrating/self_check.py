"""Self-check of a learned core on held-out loops, with and without calls.

No pass learns from them. Blocks are loops of random forms, drawn by their use in libraries. Other
loops have few instructions at random code offsets, or calls of a return. held-out.csv has the
core's predictions and their ranges beside the measurements, so that anyone with the folder can
repeat the check.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from loopwright import microarchs
from loopwright.calibrating import core_files, port_classes
from loopwright.calibrating.calls import STACKED
from loopwright.calibrating.core_model import CoreModel
from loopwright.errors import InputError
from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory, closed
from loopwright.microbench.oracle import COUNTER, CandidateCore, Machine, Trial
from loopwright.predicting import core_figures, held_out
from loopwright.predicting.core_figures import TABLE
from loopwright.predicting.held_out import BLOCKS, CALLS, OFFSETS, HeldOut, Judgement

_SEED = 97
_BLOCKS, _LOOPS, _OFFSETS = 200, 48, 2  # blocks; loop bodies, and code offsets of each
_CALLS, _CALLED = 30, 2  # loops with calls, and calls of each at most
_ALIGNED = range(0, 64, 16)  # code offsets of loops with calls, as functions have them
_FORMS, _INSTANCES, _SHORT = 6, 3, 5  # at most: forms of a block, instances of each; of a loop
_USAGE = 0.5  # per million instructions: the weight of forms that libraries hardly use
_BYTES = 480  # of a block, at most
_CHEAP = 0.5  # cycles of an instance, at most
_AGREES = 0.005  # cycles by which a repeated prediction may differ from the file


def measure(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> list[HeldOut]:
    """Time held-out loops, and predict them with the learned core.

    Loops that the machine refuses are dropped.
    """
    trials = [
        *islice(_blocks(laboratory, forms), _BLOCKS),
        *_loops(laboratory, learned, forms),
        *_calls(laboratory, learned, forms),
    ]
    timings = laboratory.timings([trial for _, trial in trials])
    loops = [
        HeldOut(kind, trial.code, trial.offset, timing.cycles, timing.uncertainty)
        for (kind, trial), timing in zip(trials, timings, strict=True)
        if timing.cycles
    ]
    toml, table = core_files.core_texts(learned, laboratory.machine)
    doubtful = core_files.doubtful_table(learned)
    front_ends = core_files.front_end_ends(learned, laboratory.machine)
    return predicted(laboratory.machine, _texts(toml, table, doubtful, front_ends), loops)


# core.toml, instructions.csv, and parameters that replace those of core.toml.
_Texts = tuple[str, str, Mapping[str, str]]


def _texts(toml: str, table: str, doubtful: str, front_ends: Mapping[str, str]) -> Sequence[_Texts]:
    """Return the texts of a core, as they are and at both ends of its ranges."""
    parameter_ends = core_figures.parameter_ends(microarchs.of_text("learned", toml), {})
    texts: list[_Texts] = [(toml, table, {})]
    for number, end in enumerate((core_figures.LEAST, core_figures.MOST)):
        rows = core_figures.with_doubtful_rows(table, doubtful, end)
        settings = {name: ends[number] for name, ends in parameter_ends.items()}
        texts.append((front_ends.get(end, toml), rows, settings))
    return texts


def texts_of(folder: Path) -> Sequence[_Texts]:
    """Return the texts of a core in a folder, as they are and at both ends of its ranges."""
    toml, table = ((folder / name).read_text() for name in ("core.toml", TABLE))
    file = folder / core_figures.DOUBTFUL_TABLE
    doubtful = file.read_text() if file.is_file() else ""
    files = {end: folder / name for end, name in core_figures.FRONT_END_FILES.items()}
    front_ends = {end: file.read_text() for end, file in files.items() if file.is_file()}
    return _texts(toml, table, doubtful, front_ends)


def predicted(machine: Machine, texts: Sequence[_Texts], loops: Sequence[HeldOut]) -> list[HeldOut]:
    """Return held-out loops with the predictions of a core; texts are those of texts_of."""
    trials = [
        Trial(loop.code, "loop", loop.offset, STACKED if loop.kind == CALLS else None)
        for loop in loops
    ]
    timings = [CandidateCore(machine, *parts).measure(trials) for parts in texts]
    out = []
    for loop, likely, least, most in zip(loops, *timings, strict=True):
        known = [end.cycles for end in (likely, least, most) if end.cycles is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        ranged = likely.cycles is not None and low < high
        out.append(
            replace(
                loop,
                predicted=likely.cycles,
                low=low if ranged else None,
                high=high if ranged else None,
                error=likely.refused,
            )
        )
    return out


def _blocks(laboratory: Laboratory, forms: Sequence[Form]) -> Iterator[tuple[str, Trial]]:
    """Yield loops of random forms without end."""
    weights = kits.usage_weights(forms, _USAGE)
    draw = random.Random(_SEED)
    while True:
        drawn = draw.choices(forms, weights, k=draw.randint(2, _FORMS))
        if not _may_meet(drawn):
            continue
        kernel = port_classes.mixture([(one, draw.randint(1, _INSTANCES)) for one in drawn])
        draw.shuffle(kernel)
        body = b"".join(kernel)
        if len(body) <= _BYTES:
            yield BLOCKS, _loop(laboratory.isa, body, 0)


def _loops(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> Iterator[tuple[str, Trial]]:
    """Yield short loops of cheap instructions at random code offsets."""
    draw = random.Random(_SEED + 1)
    cheap = _cheap_forms(learned, forms)
    step = laboratory.kit.BYTES or 1
    for number in range(_LOOPS if cheap else 0):
        drawn = _draw_cheap(draw, cheap)
        body = b"".join(port_classes.mixture([(one, 1) for one in drawn]))
        loop = _loop(laboratory.isa, body, 0)
        if number % 2:  # the branch of every other one has no result beside it
            loop = replace(loop, code=block.tested(laboratory.isa, COUNTER[laboratory.isa], body))
        for offset in draw.sample(range(0, 64, step), _OFFSETS):
            yield OFFSETS, replace(loop, offset=offset)


def _calls(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> Iterator[tuple[str, Trial]]:
    """Yield loops that call a return, behind and before cheap instructions."""
    draw = random.Random(_SEED + 2)
    cheap, called = _cheap_forms(learned, forms), laboratory.kit.CALLED_APART
    for _ in range(_CALLS if cheap and called else 0):
        parts = [called] * draw.randint(1, _CALLED)
        drawn = _draw_cheap(draw, cheap)
        parts += port_classes.mixture([(one, draw.randint(1, _INSTANCES)) for one in drawn])
        draw.shuffle(parts)
        body = b"".join(parts)
        code = closed(laboratory.isa, body)
        yield CALLS, Trial(code, "loop", draw.choice(_ALIGNED), STACKED)


def _draw_cheap(draw: random.Random, cheap: Sequence[Form]) -> list[Form]:
    """Draw forms that compilers put beside each other."""
    while True:
        drawn = draw.choices(cheap, k=draw.randint(1, _SHORT))
        if _may_meet(drawn):
            return drawn


def _may_meet(forms: Sequence[Form]) -> bool:
    """True if no form keeps upper halves of vectors that another form writes."""
    return all(one.beside(other) for one in forms for other in forms)


def _cheap_forms(learned: CoreModel, forms: Sequence[Form]) -> list[Form]:
    """Return the forms with a throughput at which the front end may limit a short loop."""
    rates = learned.throughputs
    return [
        form
        for form in forms
        if learned.has_ports(form.name) and form.memory is None
        if rates[form.name].clean and rates[form.name].cycles <= _CHEAP
    ]


def _loop(isa: str, body: bytes, offset: int) -> Trial:
    return Trial(closed(isa, body), "loop", offset)


def check(machine: Machine, folder: Path) -> list[Judgement]:
    """Return the judgement of a core in a folder, predicted anew from its files.

    InputError if the files predict something other than held-out.csv states: a file was changed,
    or comes from another version.
    """
    stated = held_out.read(folder)
    repeated = predicted(machine, texts_of(folder), stated)
    for one, other in zip(stated, repeated, strict=True):
        if not _agree(one.predicted, other.predicted):
            raise InputError(
                f"{folder / held_out.FILE}: the core predicts {other.predicted} cycles for "
                f"{one.code.hex()}, not {one.predicted}; a file was changed"
            )
    return held_out.judged(repeated)


def _agree(one: float | None, other: float | None) -> bool:
    """True if two predictions are the same, or both are missing."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _AGREES
