"""What happens inside a core while it runs a block: the timeline of its uops and their ports."""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.question import Question
from loopwright.rows import Rows, as_frame

MOST_ITERATIONS = 1000

STEPS = ("fetched", "decoded", "dispatched", "ready", "issued", "executed", "retired")
_WHERE = ("microarch", "model", "notion", "offset")
_CYCLES = tuple(f"{step}_cycle" for step in STEPS)
_TIMELINE = ("iteration", "instruction", "text", "uop", "role", "how", "port")
_NEVER_NONE = ("role", "port")
_PORTS = ("instruction", "text", "form", "port", "uops_per_iteration", "address", "bytes", "chain")

Row = dict[str, Any]


@dataclass(frozen=True)
class TimelineQuestion(Question):
    """What a timeline is asked of: what a prediction is, and how many iterations to show."""

    _: KW_ONLY
    iterations: int = 10


def answer_timeline(asked: TimelineQuestion) -> Rows:
    """Return what every uop of the first iterations does and when, by the pipeline simulator.

    spec, hex, blocks, asm, isa, microarch, notion, offset and parameters are those of predict.

    One row for each uop, iterations and instructions counted from 0; an instruction that needs no
    uop has a row without one. role: load, store address, store data or compute. how: micro-fused,
    macro-fused (or both), eliminated, no port, inserted by rename, or nothing. port: where it
    started. Cycles since the start of the simulation, none where the step was skipped:
    fetched_cycle, decoded_cycle (in the queue in front of rename, from decoders, uop cache or loop
    buffer), dispatched_cycle (renamed), ready_cycle (its inputs known), issued_cycle,
    executed_cycle (its last result known), retired_cycle. waited_for: the last thing that kept it
    from starting. A block without an answer has one row with the error.

    InputError as predict, and where another model or more than 1000 iterations are asked for.

    >>> import loopwright as lw
    >>> rows = lw.timeline(hex="48890748ffc975f8", microarch="zen2", iterations=2)
    >>> rows.groupby("iteration")["retired_cycle"].max().tolist()
    [6, 7]
    """
    if not 1 <= asked.iterations <= MOST_ITERATIONS:
        raise InputError(
            f"a timeline of {asked.iterations} iterations; "
            f"give a number from 1 to {MOST_ITERATIONS}"
        )
    simulator = _simulator(asked, "a timeline")

    def rows(block: Block, found: Row) -> Iterator[Row]:
        texts = [i.text for i in block.instructions]
        for row in found["timeline"]:
            shown = {**row, "text": texts[row["instruction"]]}
            yield shown | {key: row[key] or "" for key in _NEVER_NONE}

    return _gather(
        asked,
        (*_WHERE, *_TIMELINE, *_CYCLES, "waited_for", "error"),
        lambda block, core: simulator.inside([block], core, iterations=asked.iterations)[0],
        rows,
        dict.fromkeys(("iteration", "instruction", "uop", *_CYCLES), "Int64")
        | dict.fromkeys(_NEVER_NONE, "object"),
    )


timeline = as_frame("timeline", TimelineQuestion, answer_timeline)


def answer_ports(asked: Question) -> Rows:
    """Return how many uops an iteration each instruction runs on each port, by the simulator.

    The arguments are those of predict. One row for each instruction and port of the core:
    instruction (from 0), text, form (its row in instructions.csv), port, uops_per_iteration,
    address (of its first byte, from the start of the 64-byte line that the block begins in), bytes,
    and chain: whether it is on the longest chain of dependencies from one iteration to the next. A
    block without an answer has one row with the error. InputError as timeline.
    """
    simulator = _simulator(asked, "the use of ports")

    def rows(block: Block, found: Row) -> Iterator[Row]:
        chain = {
            n
            for one in found["limits"]
            if one["limit"] == "dependencies"
            for n in one["instructions"]
        }
        for n, (ins, uses) in enumerate(zip(block.instructions, found["ports"], strict=True)):
            for port, count in zip(found["port_names"], uses, strict=True):
                yield {
                    "instruction": n,
                    "text": ins.text,
                    "form": found["forms"][n],
                    "port": port,
                    "uops_per_iteration": round(count, 3),
                    "address": block.offset + ins.address,
                    "bytes": len(ins.code),
                    "chain": n in chain,
                }

    return _gather(
        asked,
        (*_WHERE, *_PORTS, "error"),
        lambda block, core: simulator.inside([block], core)[0],
        rows,
        {
            **dict.fromkeys(("instruction", "address", "bytes"), "Int64"),
            "uops_per_iteration": "float64",
            "chain": "boolean",
        },
    )


ports = as_frame("ports", Question, answer_ports)


def _simulator(asked: Question, what: str) -> Pipeline:
    if asked.models not in (None, Pipeline.id):
        raise InputError(
            f"{what} is more than model {asked.models!r} can tell; "
            f"leave the model out or give {Pipeline.id}"
        )
    return Pipeline(asked.parameters)


def _gather(
    asked: Question,
    columns: tuple[str, ...],
    answer: Callable[[Block, Microarch], Row],
    rows: Callable[[Block, Row], Iterator[Row]],
    types: dict[str, str],
) -> Rows:
    """Collect the rows of every block, each with where it stands, or with the error."""
    shown = (*asked.key, *columns)
    out: list[Row] = []
    for core, chosen in asked.select():
        for subject in chosen:
            for offset in asked.offsets:
                block = subject.block(offset)
                where: Row = {**subject.key, "microarch": core.id, "model": Pipeline.id}
                where |= {"notion": block.notion, "offset": block.offset}
                found = {"error": subject.error} if subject.error else answer(block, core)
                if found["error"]:
                    nothing = {key: "" for key, kind in types.items() if kind == "object"}
                    out.append(where | nothing | {"error": found["error"]})
                    continue
                out += [{**where, **row, "error": ""} for row in rows(block, found)]
    return Rows(shown, [tuple(row.get(c) for c in shown) for row in out], types)
