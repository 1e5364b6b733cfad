"""Throughput predictions of code by every model that has the core."""

from collections.abc import Iterator, Sequence
from typing import Any

from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting import models
from loopwright.predicting.model import Answer, Model
from loopwright.predicting.question import Question, Subject
from loopwright.rows import Rows, as_frame

COLUMNS = (
    "microarch", "model", "notion", "offset", "cycles", "bottleneck", "error",
    "bytes_per_iteration", "least_cycles", "startup_cycles", "cheap", "dear", "low", "high", "note",
    "limits",
)  # fmt: skip
_TYPES = dict.fromkeys(
    ("cycles", "least_cycles", "startup_cycles", "cheap", "dear", "low", "high"), "float64"
)


def answer(question: Question) -> Rows:
    """Predict KERNEL[/VARIANT] or "all", hex, a CSV of blocks, or loops of assembly or an object.

    Exactly one of them. isa is that of asm, "x86_64" or "arm64"; left out, it is that of the
    named cores, or else the one that the text assembles for (see loopwright.read_assembly). obj is
    "FILE[:SYMBOL]": an ELF object, an archive of them or a program; a row for each innermost loop
    (of the routine), named by symbol and offset in it. Where there is no loop each routine is one
    call, of which no conditional branch is taken.

    microarch and model are "ID[,ID]" or "all"; left out, they are the targets of the code's ISA
    and the pipeline simulator. offset is a code offset 0..63 or "all"; left out, the code's own.
    parameters set the simulator's, by dotted name, e.g. {"front_end.mode": "ideal"}.

    Returns one row for each subject, core, model and offset: its key (kernel, routine, variant;
    or id), microarch, model, notion, offset (bytes mod 64), cycles (per iteration; per call of a
    routine without a loop), bottleneck, error (why there is no number), bytes_per_iteration and
    least_cycles (the lower bound by the core's load and store ports, in core.toml)
    and startup_cycles (once, before the first iteration of a string instruction); cheap and dear
    are the cycles at both ends of the ranges of unmeasured parameters, where they matter;
    low and high, in cycles, contain 95 % of the measurements of similar code (models/ranges.csv);
    note names the parts of the block that the model leaves out, in sentences after "; "; limits
    gives each limit that the simulator sees with its own figure, cycles an iteration as if the
    core had no other, binding ones first.

    With sizes, rows are of whole calls (notion call): sizes in bytes (records of a routine that
    stores records) as numbers, "64,256", or FILE[:MAP] with a bpftrace histogram; align where
    destination and source start, in bytes from a page start, as pairs or "0:0,1:0" (the source
    half a page further). Columns are then size_bytes, dst_align, src_align, cycles (per call, of
    successive calls with these arguments as `measure` makes them, with the loading of
    arguments, call and return, data in the L1 cache, branches predicted), mispredicted (the same
    with those exits mispredicted that the core's branch history cannot predict), alone (of one
    call on an empty machine), cheap, dear, low and high as above, weight (the share of a
    histogram's calls that the size stands for), error and note. progress is called with the
    number of calls done and of all calls.

    >>> import loopwright as lw
    >>> rows = lw.predict(hex="48890748ffc975f8", microarch=["zen2", "skylake"])
    >>> rows["cycles"].tolist()
    [1.0, 1.0]
    """
    chosen = models.select(question.models or models.SIMULATOR, question.parameters)
    offsets = question.offsets
    if call_question := question.calls:
        from loopwright.predicting import calls

        spec, overrides = question.spec or "", question.parameters or {}
        return calls.answer_calls(
            spec, call_question, question.cores, chosen, offsets, overrides, question.progress
        )
    rows: list[tuple[Any, ...]] = []
    for core, subjects in question.select():
        for model in chosen:
            rows += _ask(model, core, subjects, offsets, required=question.models != "all")
    return Rows((*question.key, *COLUMNS), rows, _TYPES)


predict = as_frame("predict", Question, answer)


def _ask(
    model: Model,
    core: Microarch,
    subjects: Sequence[Subject],
    offsets: Sequence[int | None],
    *,
    required: bool,
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one model for one core.

    A model that is not installed raises where it was asked for by name, else it fills errors.
    """
    pairs = [(s, offset) for s in subjects for offset in offsets]
    answerable = [(s, offset) for s, offset in pairs if not s.error]
    try:
        answers_of_model = model.predict([s.block(offset) for s, offset in answerable], core)
    except InputError as error:
        if required:
            raise
        answers_of_model = [Answer.none(str(error)) for _ in answerable]
    answers = iter(answers_of_model)
    for subject, offset in pairs:
        answer = Answer.none(subject.error) if subject.error else next(answers)
        yield (
            *subject.key.values(),
            core.id,
            model.id,
            subject.notion,
            subject.natural if offset is None else offset,
            answer.cycles,
            answer.bottleneck,
            answer.error,
            subject.moved,
            subject.least_cycles,
            None if answer.cycles is None else answer.startup,
            answer.cheap,
            answer.dear,
            answer.low,
            answer.high,
            answer.note,
            answer.limits,
        )
