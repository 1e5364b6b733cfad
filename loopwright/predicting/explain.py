"""Timeline, port usage and sources of a prediction of the pipeline simulator."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

from loopwright import paths
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.core_figures import forms
from loopwright.predicting.model import Answer, Block
from loopwright.predicting.pipeline import Pipeline, startup_parameter
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
    """The subject of a timeline: a prediction's, and the number of iterations."""

    _: KW_ONLY
    iterations: int = 10


def answer_timeline(question: TimelineQuestion) -> Rows:
    """Return the events of every uop of the first iterations, by the pipeline simulator.

    spec, hex, blocks, asm, isa, microarch, notion, offset and parameters are those of predict.

    One row for each uop, iterations and instructions counted from 0; an instruction that needs no
    uop has a row without one. role: load, store address, store data or compute. how: micro-fused,
    macro-fused (or both), eliminated, no port, inserted by rename, or nothing. port: the port that
    it was issued to. Cycles since the start of the simulation, none where the step was skipped:
    fetched_cycle, decoded_cycle (in the queue before rename, from decoders, op cache or loop
    buffer), dispatched_cycle (renamed), ready_cycle (its inputs known), issued_cycle,
    executed_cycle (its last result known), retired_cycle. waited_for: the last thing that delayed
    its issue. A block without an answer has one row with the error.

    InputError as predict, and where another model or more than 1000 iterations are asked for.

    >>> import loopwright as lw
    >>> rows = lw.timeline(hex="48890748ffc975f8", microarch="zen2", iterations=2)
    >>> rows.groupby("iteration")["retired_cycle"].max().tolist()
    [6, 7]
    """
    if not 1 <= question.iterations <= MOST_ITERATIONS:
        raise InputError(
            f"a timeline of {question.iterations} iterations; "
            f"give a number from 1 to {MOST_ITERATIONS}"
        )
    simulator = _simulator_of(question, "a timeline")

    def rows(block: Block, events: Row) -> Iterator[Row]:
        texts = [i.text for i in block.instructions]
        for row in events["timeline"]:
            with_text = {**row, "text": texts[row["instruction"]]}
            yield with_text | {key: row[key] or "" for key in _NEVER_NONE}

    return _rows_of(
        question,
        (*_WHERE, *_TIMELINE, *_CYCLES, "waited_for", "error"),
        lambda block, core: simulator.inside([block], core, iterations=question.iterations)[0],
        rows,
        dict.fromkeys(("iteration", "instruction", "uop", *_CYCLES), "Int64")
        | dict.fromkeys(_NEVER_NONE, "object"),
    )


timeline = as_frame("timeline", TimelineQuestion, answer_timeline)


def answer_ports(question: Question) -> Rows:
    """Return the uops an iteration of each instruction on each port, by the simulator.

    The arguments are those of predict. One row for each instruction and port of the core:
    instruction (from 0), text, form (its row in instructions.csv), port, uops_per_iteration,
    address (of its first byte, from the start of the 64-byte line that the block begins in), bytes,
    and chain: whether it is on the longest chain of dependencies from one iteration to the next. A
    block without an answer has one row with the error. InputError as timeline.
    """
    simulator = _simulator_of(question, "the use of ports")

    def rows(block: Block, events: Row) -> Iterator[Row]:
        chain = {
            n
            for limit in events["limits"]
            if limit["limit"] == "dependencies"
            for n in limit["instructions"]
        }
        for n, (ins, uses) in enumerate(zip(block.instructions, events["ports"], strict=True)):
            for port, count in zip(events["port_names"], uses, strict=True):
                yield {
                    "instruction": n,
                    "text": ins.text,
                    "form": events["forms"][n],
                    "port": port,
                    "uops_per_iteration": round(count, 3),
                    "address": block.offset + ins.address,
                    "bytes": len(ins.code),
                    "chain": n in chain,
                }

    return _rows_of(
        question,
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


def _simulator_of(question: Question, what: str) -> Pipeline:
    if question.models not in (None, Pipeline.id):
        raise InputError(
            f"{what} is more than model {question.models!r} can tell; "
            f"leave the model out or give {Pipeline.id}"
        )
    return Pipeline(question.parameters)


def _rows_of(
    question: Question,
    columns: tuple[str, ...],
    answer: Callable[[Block, Microarch], Row],
    rows: Callable[[Block, Row], Iterator[Row]],
    types: dict[str, str],
) -> Rows:
    """Return the rows of every block, each with its key, or its error."""
    names = (*question.key, *columns)
    out: list[Row] = []
    for core, subjects in question.select():
        for subject in subjects:
            for offset in question.offsets:
                block = subject.block(offset)
                key: Row = {**subject.key, "microarch": core.id, "model": Pipeline.id}
                key |= {"notion": block.notion, "offset": block.offset}
                events = {"error": subject.error} if subject.error else answer(block, core)
                if events["error"]:
                    blanks = {column: "" for column, kind in types.items() if kind == "object"}
                    out.append(key | blanks | {"error": events["error"]})
                    continue
                out += [{**key, **row, "error": ""} for row in rows(block, events)]
    return Rows(names, [tuple(row.get(c) for c in names) for row in out], types)


_SOURCE_COLUMNS = (
    "microarch", "notion", "offset", "of", "figure", "confidence", "source", "least_cycles",
    "most_cycles", "error",
)  # fmt: skip
_CITED = re.compile(r"\[([a-z0-9-]+)\]")


def answer_sources(question: Question) -> Rows:
    """Return the sources of the pipeline simulator's prediction; the arguments are predict's.

    One row for each instruction (of: its text; figure: its form in instructions.csv; source: the
    source of the form's figures), and one for each parameter of the core that has a range in
    core.toml and that the prediction depends on: of is its name, figure its value, confidence and
    source those of core.toml, least_cycles and most_cycles the cycles of an iteration and a
    start-up over its range. A block without an answer has one row with the error. InputError as
    predict, and where another model is asked for.
    """
    if question.models not in (None, Pipeline.id):
        raise InputError(
            f"{question.models!r} names no sources of its figures; leave the model out or give "
            f"{Pipeline.id}"
        )
    names = (*question.key, *_SOURCE_COLUMNS)
    model = Pipeline(question.parameters)
    out: list[Row] = []
    for core, subjects in question.select():
        pairs = [(s, s.block(offset)) for s in subjects for offset in question.offsets]
        blocks = [block for subject, block in pairs if not subject.error]
        answers = iter(model.predict(blocks, core, brief=True))
        parameters = iter(_parameters(model, blocks, core))
        for subject, block in pairs:
            key: Row = {**subject.key, "microarch": core.id}
            key |= {"notion": block.notion, "offset": block.offset}
            if subject.error:
                out.append({**key, "error": subject.error})
                continue
            answer, of_parameters = next(answers), next(parameters)
            if answer.error:
                out.append({**key, "error": answer.error})
                continue
            for row in (*_forms(model, block, core), *of_parameters):
                out.append({**key, "error": "", **row})
    types = {"least_cycles": "float64", "most_cycles": "float64"}
    blanks: Row = {name: None if name in types else "" for name in names}
    return Rows(names, [tuple((blanks | row).values()) for row in out], types)


sources = as_frame("sources", Question, answer_sources)


def _forms(model: Pipeline, block: Block, core: Microarch) -> Iterator[Row]:
    """Yield a row for each instruction; the source may be core.toml itself."""
    (events,) = model.inside([block], core)
    table = forms(core.id)
    forms_of_instructions = events.get("forms") or [""] * len(block.instructions)
    for ins, form in zip(block.instructions, forms_of_instructions, strict=True):
        row = table.get(form) or table.get(form.replace(",0", ",i8")) or {"source": ""}
        source = "; ".join(citation(key) for key in row["source"].split("+") if key)
        yield {"of": ins.text, "figure": form, "source": source or "parameters of core.toml"}


@cache
def _references() -> dict[str, dict[str, str]]:
    tables = tomllib.loads((paths.models_root() / "sources.toml").read_text())
    return {key: {k: str(v) for k, v in entry.items()} for key, entry in tables.items()}


def citation(key: str) -> str:
    """Return the key, title and address of a source of models/sources.toml, or the key alone."""
    entry = _references().get(key)
    return f"{key}: {entry['title']}, {entry['address']}" if entry else key


def _parameters(model: Pipeline, blocks: Sequence[Block], core: Microarch) -> list[list[Row]]:
    """Return for each block a row for each parameter with a range that its cycles depend on."""
    base = _cycles(model.overrides, blocks, core)
    out: list[list[Row]] = [[] for _ in blocks]
    for parameter in core.ranges:
        if not parameter.varied or parameter.name in model.overrides:
            continue
        values = [value for value in parameter.values if value != parameter.value]
        by_value = [_cycles({**model.overrides, parameter.name: v}, blocks, core) for v in values]
        alternatives = by_value if parameter.likely is None else [base, *by_value]
        entry = core.entry(parameter.name)
        for of_block, at_each in zip(out, zip(*alternatives, strict=True), strict=True):
            cycles = [c for c in at_each if c is not None]
            if len(set(cycles)) > 1:
                row = {"of": parameter.name, "figure": parameter.value}
                row["confidence"] = str(entry["confidence"])
                row["source"] = _CITED.sub(lambda m: f"[{citation(m[1])}]", str(entry["source"]))
                of_block.append(row | {"least_cycles": min(cycles), "most_cycles": max(cycles)})
    return out


def _cycles(
    overrides: Mapping[str, str], blocks: Sequence[Block], core: Microarch
) -> list[float | None]:
    """Return each block's cycles and start-up with these values; None without an answer."""
    try:
        answers = Pipeline(overrides).predict(blocks, core, brief=True)
    except InputError:
        return [None for _ in blocks]  # an impossible value
    return [_total(overrides, *pair, core) for pair in zip(blocks, answers, strict=True)]


def _total(
    overrides: Mapping[str, str], block: Block, answer: Answer, core: Microarch
) -> float | None:
    if answer.cycles is None:
        return None
    startup = answer.startup
    if startup is None and block.string:
        # The model gives no start-up that is an assumption, which is what is varied here.
        name = startup_parameter(block.string)
        startup = float(overrides.get(name) or core.value(name) or 0)
    return answer.cycles + (startup or 0)
