"""What happens inside a core while it runs a block: the timeline of its uops and their ports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predict import selection
from loopwright.predict.model import Block
from loopwright.predict.pipeline import Pipeline

MOST_ITERATIONS = 1000

STEPS = ("fetched", "decoded", "issued", "ready", "dispatched", "executed", "retired")
_WHERE = ("microarch", "model", "notion", "offset")
_CYCLES = tuple(f"{step}_cycle" for step in STEPS)
_TIMELINE = ("iteration", "instruction", "text", "uop", "role", "how", "port")
_PORTS = ("instruction", "text", "form", "port", "uops_per_iteration")

Row = dict[str, Any]


def timeline(
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
    iterations: int = 10,
    parameters: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return what every uop of the first iterations does and when, by the pipeline simulator.

    spec, hex, blocks, asm, isa, microarch, notion, offset and parameters are those of predict.

    One row for each uop, iterations and instructions counted from 0; an instruction that needs no
    uop has a row without one. role: load, store address, store data or compute. how: micro-fused,
    macro-fused (or both), eliminated, no port, inserted by rename, or nothing. port: where it
    started. Cycles since the start of the simulation, none where the step was skipped:
    fetched_cycle, decoded_cycle (in the queue in front of rename, from decoders, uop cache or loop
    buffer), issued_cycle (renamed), ready_cycle (its inputs known), dispatched_cycle,
    executed_cycle (its last result known), retired_cycle. waited_for: the last thing that kept it
    from starting. A block without an answer has one row with the error.

    InputError as predict, and where another model or more than 1000 iterations are asked for.
    """
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise InputError(
            f"a timeline of {iterations} iterations; give a number from 1 to {MOST_ITERATIONS}"
        )
    simulator = _simulator(model, parameters, "a timeline")

    def rows(block: Block, found: Row) -> Iterator[Row]:
        texts = [i.text for i in block.instructions]
        for row in found["timeline"]:
            yield {**row, "text": texts[row["instruction"]]}

    out = _gather(
        [*selection.key(spec), *_WHERE, *_TIMELINE, *_CYCLES, "waited_for", "error"],
        selection.select(spec, hex, blocks, asm, isa, microarch, notion),
        selection.offsets(offset),
        lambda block, core: simulator.inside([block], core, iterations=iterations)[0],
        rows,
    )
    out[["role", "port"]] = out[["role", "port"]].astype(object).fillna("")
    return out.astype(dict.fromkeys(("iteration", "instruction", "uop", *_CYCLES), "Int64"))


def ports(
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
    """Return how many uops an iteration each instruction runs on each port, by the simulator.

    The arguments are those of predict. One row for each instruction and port of the core:
    instruction (from 0), text, form (its row in instructions.csv), port and uops_per_iteration.
    A block without an answer has one row with the error. InputError as timeline.
    """
    simulator = _simulator(model, parameters, "the use of ports")

    def rows(block: Block, found: Row) -> Iterator[Row]:
        for n, (ins, uses) in enumerate(zip(block.instructions, found["ports"], strict=True)):
            for port, count in zip(found["port_names"], uses, strict=True):
                yield {
                    "instruction": n,
                    "text": ins.text,
                    "form": found["forms"][n],
                    "port": port,
                    "uops_per_iteration": round(count, 3),
                }

    out = _gather(
        [*selection.key(spec), *_WHERE, *_PORTS, "error"],
        selection.select(spec, hex, blocks, asm, isa, microarch, notion),
        selection.offsets(offset),
        lambda block, core: simulator.inside([block], core)[0],
        rows,
    )
    return out.astype({"instruction": "Int64", "uops_per_iteration": "float64"})


def _simulator(model: str | None, parameters: Mapping[str, str] | None, what: str) -> Pipeline:
    if model not in (None, Pipeline.id):
        raise InputError(
            f"{what} is more than model {model!r} can tell; "
            f"leave the model out or give {Pipeline.id}"
        )
    return Pipeline(parameters)


def _gather(
    columns: list[str],
    selected: selection.Selected,
    offsets: Sequence[int | None],
    answer: Callable[[Block, Microarch], Row],
    rows: Callable[[Block, Row], Iterator[Row]],
) -> pd.DataFrame:
    """Collect the rows of every block, each with where it stands, or with the error."""
    out: list[Row] = []
    for core, chosen in selected:
        for subject in chosen:
            for offset in offsets:
                block = subject.block(offset)
                where: Row = {**subject.key, "microarch": core.id, "model": Pipeline.id}
                where |= {"notion": block.notion, "offset": block.offset}
                found = {"error": subject.error} if subject.error else answer(block, core)
                if found["error"]:
                    out.append({**where, "error": found["error"]})
                    continue
                out += [{**where, **row, "error": ""} for row in rows(block, found)]
    return pd.DataFrame(out, columns=columns)
