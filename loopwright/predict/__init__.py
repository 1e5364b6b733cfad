"""Predict the throughput of code with every model that knows the core."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from loopwright.errors import InputError, unknown
from loopwright.microarchs import Microarch
from loopwright.predict import selection
from loopwright.predict.llvm_mca import CorrectedLlvmMca, LlvmMca
from loopwright.predict.model import Answer, Model
from loopwright.predict.osaca import Osaca
from loopwright.predict.pipeline import Pipeline
from loopwright.predict.subjects import Subject
from loopwright.predict.uica import Uica

# The order in which models are shown everywhere.
MODELS: tuple[Model, ...] = (Pipeline(), LlvmMca(), CorrectedLlvmMca(), Osaca(), Uica())
COLUMNS = (
    "microarch",
    "model",
    "notion",
    "offset",
    "cycles",
    "bottleneck",
    "error",
    "bytes_per_iteration",
    "least_cycles",
    "startup_cycles",
)


def predict(
    spec: str | None = None,
    *,
    hex: str | None = None,
    blocks: Path | str | None = None,
    asm: str | None = None,
    isa: str | None = None,
    microarch: str | None = None,
    model: str | None = None,
    notion: str | None = None,
    offset: int | str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Predict KERNEL[/VARIANT] or "all", a hex string, a CSV of blocks, or loops of assembly text.

    Exactly one of them. isa is that of asm, "x86_64" or "arm64"; left out, it is that of the
    named cores, or else the one that the text assembles for (see loopwright.read_assembly).

    microarch and model are "ID[,ID]" or "all"; left out, they are the targets of the code's ISA
    and the pipeline simulator. offset is a code offset 0..63 or "all"; left out, the code's own.
    parameters set the simulator's, by dotted name, e.g. {"front_end.mode": "ideal"}.

    Returns one row for each subject, core, model and offset: its key (kernel, routine, variant;
    or id), microarch, model, notion, offset (bytes mod 64), cycles (per iteration; per call of a
    routine without a loop), bottleneck, error (why there is no number), bytes_per_iteration and
    least_cycles (what the core's loads and stores take at the least, by bounds in core.toml)
    and startup_cycles (once, before the first iteration of a string instruction).
    """
    selected = selection.select(spec, hex, blocks, asm, isa, microarch, notion)
    chosen = select_models(model or Pipeline.id)
    if parameters:
        chosen = [Pipeline(parameters) if m.id == Pipeline.id else m for m in chosen]
    offsets = selection.offsets(offset)
    rows: list[dict[str, object]] = []
    for core, subject_list in selected:
        for one in chosen:
            rows += _ask(one, core, subject_list, offsets, required=model != "all")
    return pd.DataFrame(rows, columns=[*selection.key(spec), *COLUMNS]).astype(
        {"cycles": "float64", "least_cycles": "float64", "startup_cycles": "float64"}
    )


def select_models(spec: str) -> list[Model]:
    """Resolve "ID[,ID]" or "all" to models."""
    if spec == "all":
        return list(MODELS)
    by_id = {m.id: m for m in MODELS}
    names = [name.strip() for name in spec.split(",") if name.strip()]
    for name in names:
        if name not in by_id:
            raise unknown("model", name, by_id)
    if not names:
        raise InputError("no model named; give --model ID[,ID] or all")
    return [by_id[name] for name in names]


def _ask(
    model: Model,
    core: Microarch,
    about: Sequence[Subject],
    offsets: Sequence[int | None],
    *,
    required: bool,
) -> list[dict[str, object]]:
    """Return the rows of one model for one core.

    A model that is not installed raises where it was asked for by name, else it fills errors.
    """
    pairs = [(s, offset) for s in about for offset in offsets]
    asked = [(s, offset) for s, offset in pairs if not s.error]
    try:
        found = model.predict([s.block(offset) for s, offset in asked], core)
    except InputError as error:
        if required:
            raise
        found = [Answer.none(str(error)) for _ in asked]
    answers = iter(found)
    rows: list[dict[str, object]] = []
    for subject, offset in pairs:
        answer = Answer.none(subject.error) if subject.error else next(answers)
        rows.append(
            {
                **subject.key,
                "microarch": core.id,
                "model": model.id,
                "notion": subject.notion,
                "offset": subject.natural if offset is None else offset,
                "cycles": answer.cycles,
                "bottleneck": answer.bottleneck,
                "error": answer.error,
                "bytes_per_iteration": subject.moved,
                "least_cycles": subject.least_cycles,
                "startup_cycles": None if answer.cycles is None else answer.startup,
            }
        )
    return rows
