"""A core in rows: parameters, ports, throughput and latency of instructions."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopwright import microarchs, paths
from loopwright.calibrating import reference_instructions, self_check, strings
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.predicting.core_figures import forms
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("part", "figure", "unit", "value", "beside", "source", "confidence")
PARAMETER, PORTS, LATENCY, THROUGHPUT, UOPS, STRINGS, HELD_OUT = (
    "parameter", "ports", "latency", "throughput", "uops", "strings", "held out",
)  # fmt: skip

_SIMULATED = "instructions.csv, simulated"


@dataclass(frozen=True)
class _Figure:
    unit: str
    value: object
    source: str = ""
    confidence: str = ""


def core(microarch: str, *, beside: str | None = None) -> "pd.DataFrame":
    """Return what is known of a core, and the same of another one beside it.

    Rows have part ("parameter", "ports" of a kind of uops, "latency" and "throughput" in cycles and
    "uops" by port of instructions that everybody knows; "held out", what a calibrated core predicts
    of loops that it did not learn from; "strings", cycles of repeated ones by bytes
    and offsets of both sides, where one of the cores was calibrated; of one that was not they are
    simulated), figure (the parameter, the kind, the form or what is repeated), unit, value, beside
    (the other core's), source and confidence. Latencies and throughputs are those that the
    simulator takes on this core; a latency is one number or the least and most over operands, a
    throughput "at most" where other instructions keep instances apart. InputError
    where a core is unknown or the simulator has no figures for it, and where the two are of
    different instruction sets.
    """
    return core_rows(microarch, beside).frame()


def core_rows(microarch: str, beside: str | None = None) -> Rows:
    """Return the rows of core."""
    mine = microarchs.load(microarch)
    other = microarchs.load(beside) if beside is not None else None
    if other and other.isa != mine.isa:
        raise InputError(f"{other.id} is {other.isa} and {mine.id} {mine.isa}; give one like it")
    here, there = dict(_figures(mine)), dict(_figures(other)) if other else {}
    if any(strings.measured_curves(one) for one in (mine, other) if one):
        here |= _strings(mine)
        there |= _strings(other) if other else {}
    rows = []
    for key in {**here, **there}:
        one, two = here.get(key), there.get(key)
        shown = one or two
        assert shown
        rows.append(
            (
                *key,
                shown.unit,
                one.value if one else None,
                two.value if two else None,
                one.source if one else "",
                one.confidence if one else "",
            )
        )
    return Rows(COLUMNS, rows)


def left_out(microarch: str) -> list[tuple[str, str]]:
    """Return the forms that a calibrated core has no figures for, and why; none of another core."""
    file = paths.models_root() / microarch / "left-out.csv"
    if not file.is_file():
        return []
    with file.open(newline="") as rows:
        return [(row["form"], row["why"]) for row in csv.DictReader(rows)]


def _figures(about: Microarch) -> Iterator[tuple[tuple[str, str], _Figure]]:
    for name, entry in about.entries():
        if "value" in entry:
            source, sure = (str(entry.get(key, "")) for key in ("source", "confidence"))
            yield (PARAMETER, name), _Figure("", _said(entry["value"]), source, sure)
    for held in self_check.judged(self_check.read(paths.models_root() / about.id)):
        yield (HELD_OUT, held.kind), _Figure("%", f"{100 * held.error:.1f}", str(held))
    for use in core_figures.port_uses(about):
        yield (PORTS, use.kind), _Figure("ports", use.ports, "core.toml, instructions.csv")
    table: Mapping[str, Mapping[str, str]] = forms(about.id)
    for one in reference_instructions.figures(about):
        if one.latencies:
            least, most = (f"{value:.3g}" for value in one.latencies)
            said = least if least == most else f"{least} to {most}"
            yield (LATENCY, one.form), _Figure("cycles", said, _SIMULATED)
        if one.cycles is not None:
            said = ("" if one.clean else "at most ") + f"{one.cycles:.2f}"
            yield (THROUGHPUT, one.form), _Figure("cycles", said, _SIMULATED)
        if one.form in table:
            row = table[one.form]
            yield (UOPS, one.form), _Figure("ports", row["ports"] or "none", row.get("source", ""))


def _strings(about: Microarch) -> dict[tuple[str, str], _Figure]:
    """Return what repeated string instructions take, by their names, bytes and offsets."""
    timed = strings.measured_curves(about)
    source = "strings.csv, measured" if timed else "core.toml, simulated"
    return {
        (
            STRINGS,
            f"rep {one.name}, {one.size} bytes, offsets {one.source} and {one.destination}",
        ): _Figure("cycles", f"{cycles:.1f}", source)
        for one, cycles in (timed or strings.simulated_curves(about)).items()
    }


def _said(value: object) -> object:
    if isinstance(value, list):
        return " ".join(
            ":".join(map(str, one)) if isinstance(one, list) else str(one) for one in value
        )
    return value
