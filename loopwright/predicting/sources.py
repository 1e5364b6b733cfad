"""What a prediction rests on: the sources of its figures, and the assumptions it would follow."""

import csv
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from loopwright import paths
from loopwright.cores.microarchs import Microarch
from loopwright.errors import InputError
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.question import Question
from loopwright.rows import Rows, as_frame

_COLUMNS = (
    "microarch", "notion", "offset", "of", "figure", "confidence", "source", "least_cycles",
    "most_cycles", "error",
)  # fmt: skip
_CITED = re.compile(r"\[([a-z0-9-]+)\]")
_STEP = 0.1  # of a rate, as a share


def answer_sources(asked: Question) -> Rows:
    """Return what a prediction of the pipeline simulator rests on; the arguments are predict's.

    One row for each instruction (of: its text; figure: its form in instructions.csv; source: where
    the form's figures come from), and one for each parameter of the core that nobody has measured
    and whose value the prediction would follow: of is its name, figure its value, confidence and
    source what core.toml says of it, least_cycles and most_cycles what an iteration and a start-up
    take over its range, or where it has none at the next values below and above. A block without an
    answer has one row with the error. InputError as predict, and where another model is asked for.
    """
    if asked.model not in (None, Pipeline.id):
        raise InputError(
            f"{asked.model!r} names no sources of its figures; leave the model out or give "
            f"{Pipeline.id}"
        )
    shown = (*asked.key, *_COLUMNS)
    out: list[dict[str, Any]] = []
    for core, chosen in asked.select():
        for subject in chosen:
            for offset in asked.offsets:
                block = subject.block(offset)
                where: dict[str, Any] = {**subject.key, "microarch": core.id}
                where |= {"notion": block.notion, "offset": block.offset}
                model = Pipeline(asked.parameters)
                (found,) = model.predict([block], core)
                if error := subject.error or found.error:
                    out.append({**where, "error": error})
                    continue
                for row in (*_forms(model, block, core), *_assumed(asked, block, core)):
                    out.append({**where, "error": "", **row})
    types = {"least_cycles": "float64", "most_cycles": "float64"}
    return Rows(shown, [tuple(row.get(c, _BLANK.get(c, "")) for c in shown) for row in out], types)


_BLANK = {"least_cycles": None, "most_cycles": None}

sources = as_frame("sources", Question, answer_sources)


def _forms(model: Pipeline, block: Block, core: Microarch) -> Iterator[dict[str, Any]]:
    """Yield a row for each instruction; those that core.toml itself prices say so."""
    (found,) = model.inside([block], core)
    forms = found.get("forms") or [""] * len(block.instructions)
    table = _table(core.id, (paths.models_root() / core.id / "instructions.csv").stat().st_mtime_ns)
    for ins, form in zip(block.instructions, forms, strict=True):
        keys = table.get(form) or table.get(form.replace(",0", ",i8")) or ""
        said = "; ".join(_named(key) for key in keys.split("+") if key)
        yield {"of": ins.text, "figure": form, "source": said or "parameters of core.toml"}


@cache
def _table(core: str, changed: int) -> dict[str, str]:
    """Return the source of each form in a core's table; changed is when the file was."""
    del changed
    path = paths.models_root() / core / "instructions.csv"
    with path.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            f"{row['mnemonic']} {operands}".strip(): row["source"]
            for row in rows
            for operands in row["operands"].split(";")
        }


@cache
def _known() -> dict[str, dict[str, str]]:
    known = tomllib.loads((paths.models_root() / "sources.toml").read_text())
    return {key: {k: str(v) for k, v in entry.items()} for key, entry in known.items()}


def _named(key: str) -> str:
    """Return a source by its key, with its title and address."""
    entry = _known().get(key)
    return f"{key}: {entry['title']}, {entry['address']}" if entry else key


def _assumed(asked: Question, block: Block, core: Microarch) -> Iterator[dict[str, Any]]:
    """Yield a row for each unmeasured parameter that the block's cycles follow."""
    given = dict(asked.parameters or {})
    tables = {name: t for name, t in core.parameters.items() if isinstance(t, dict)}
    for table, entries in tables.items():
        for key, entry in entries.items():
            name = f"{table}.{key}"
            if not isinstance(entry, dict) or entry.get("confidence") != "low" or name in given:
                continue
            cycles = [
                answer
                for value in _others(entry)
                if (answer := _cycles({**given, name: value}, block, core)) is not None
            ]
            now = _cycles(given, block, core)
            every = cycles if "low" in entry or now is None else [now, *cycles]
            if len(set(every)) > 1:
                yield {
                    "of": name,
                    "figure": str(entry["value"]).lower(),
                    "confidence": entry["confidence"],
                    "source": _CITED.sub(lambda m: f"[{_named(m[1])}]", str(entry["source"])),
                    "least_cycles": min(every),
                    "most_cycles": max(every),
                }


def _others(entry: dict[str, Any]) -> list[str]:
    """Return other values of a parameter: the ends of its range, or the next ones to its own."""
    value = entry.get("value")
    if "low" in entry:
        return [str(entry["low"]), str(entry["high"])]
    if isinstance(value, bool):
        return [str(not value).lower()]
    if isinstance(value, int):
        return [str(value - 1), str(value + 1)] if value else ["1"]
    if isinstance(value, float):
        return [str(value * (1 - _STEP)), str(value * (1 + _STEP))]
    return []


def _cycles(given: dict[str, str], block: Block, core: Microarch) -> float | None:
    """Return cycles and start-up with these values, None where one of them is none that can be."""
    try:
        (found,) = Pipeline(given).predict([block], core)
    except InputError:
        return None
    if found.cycles is None:
        return None
    startup = found.startup
    if startup is None and block.string:
        # The model gives none where it is an assumption: that is the one to look at here.
        name = f"string.{block.string.mnemonic.split()[-1][:4]}_startup"
        startup = float(given.get(name) or core.value(name) or 0)
    return found.cycles + (startup or 0)
