"""The tables of a core's page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.reporting.core_sheet import (
    LATENCY,
    PARAMETER,
    PORTS,
    STRINGS,
    THROUGHPUT,
    UOPS,
)
from loopwright.reporting.page.grid import Cell, Column, Grid, GridRow, number, text

_PARTS = (LATENCY, THROUGHPUT, UOPS)


def kinds(cores: Sequence[Microarch]) -> Iterator[str]:
    """Yield the kinds of uops that any of the cores has figures of."""
    return (use.kind for core in cores for use in core_figures.port_uses(core))


def ports(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return which ports run what."""
    mine = rows[rows["part"] == PORTS]
    columns = (Column("uops"), *(Column(core.id) for core in cores))
    return Grid(
        "ports",
        "Ports that run each kind of uops, by their letters",
        columns,
        [GridRow([text(row["figure"]), *_both(row, cores)]) for row in mine.to_dict("records")],
    )


def instructions(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return what well-known instructions take: latency, cycles each, ports."""
    heads = {LATENCY: "latency, cycles", THROUGHPUT: "cycles each", UOPS: "ports"}
    columns = [Column("instruction")]
    columns += [
        Column(f"{core.id}: {heads[part]}", part != UOPS) for part in _PARTS for core in cores
    ]
    found = rows[rows["part"].isin(_PARTS)]
    out = []
    for form, mine in found.groupby("figure", sort=False):
        cells: list[Cell] = [text(form)]
        for part in _PARTS:
            some = mine[mine["part"] == part]
            row = some.iloc[0] if len(some) else pd.Series({"value": None, "beside": None})
            for name in ("value", "beside")[: len(cores)]:
                cells.append(_figure(row[name], part))
        out.append(GridRow(cells))
    caption = (
        "Instructions as the simulator takes them by this core's table: latency from operand to "
        "result (least to most over operands; none where no chain through it is plain), how long "
        "until another one can start, and its uops by port"
    )
    return Grid("instructions", caption, columns, out)


def parameters(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return all parameters of core.toml with their sources."""
    mine = rows[rows["part"] == PARAMETER]
    columns = (
        Column("parameter"), *(Column(core.id) for core in cores),
        Column(f"how sure, {cores[0].id}"), Column(f"source, {cores[0].id}", wide=True),
    )  # fmt: skip
    return Grid(
        "parameters",
        "Every parameter of the core's pipeline; models/pipeline/README.md says what each is",
        columns,
        [
            GridRow(
                [
                    text(row["figure"]), *_both(row, cores), text(row["confidence"]),
                    text(row["source"]),
                ]
            )
            for row in mine.to_dict("records")
        ],
    )  # fmt: skip


def strings(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return what repeated string instructions take by bytes and offsets; empty for most cores."""
    mine = rows[rows["part"] == STRINGS]
    columns = (
        Column("instruction, bytes, offsets of source and destination"),
        *(Column(f"{core.id}, cycles", True) for core in cores),
        Column(f"source, {cores[0].id}"),
    )
    return Grid(
        "strings",
        "Cycles of repeated string instructions, their operands set up: measured where the core "
        "was calibrated, else simulated by its parameters; offsets are bytes behind a line",
        columns,
        [
            GridRow([text(row["figure"]), *_numbers(row, cores), text(row["source"])])
            for row in mine.to_dict("records")
        ],
    )


def boundaries(words: pd.DataFrame) -> Grid:
    """Return what code alignment costs, in words."""
    columns = (
        Column("loop"), Column("core"), Column("best, cycles", True), Column("worst, cycles", True),
        Column("boundary, B", True), Column("in words", wide=True),
    )  # fmt: skip
    return Grid(
        "places",
        "Cycles an iteration of main loops over the code offsets 0 to 63, simulated",
        columns,
        [
            GridRow(
                [
                    text(f"{row['kernel']}/{row['variant']}"), text(row["microarch"]),
                    number(row["best_cycles"]), number(row["worst_cycles"]),
                    number(row["boundary_bytes"], 0), text(row["words"]),
                ]
            )
            for row in words.to_dict("records")
        ],
    )  # fmt: skip


def left_out(forms: Sequence[tuple[str, str]]) -> Grid:
    """Return the forms that a calibrated core knows nothing of, and why."""
    columns = (Column("form"), Column("why", wide=True))
    rows = [GridRow([text(form), text(why)]) for form, why in forms]
    return Grid("left-out", "Forms without figures: the simulator refuses them", columns, rows)


def _both(row: Mapping[Any, Any], cores: Sequence[Microarch]) -> list[Cell]:
    """Return the cells of the core and of the one beside it."""
    shown = [text(row[name]) for name in ("value", "beside")]
    return shown[: len(cores)]


def _numbers(row: Mapping[Any, Any], cores: Sequence[Microarch]) -> list[Cell]:
    """Return the same as numbers, by which they sort."""
    return [Cell(cell.text, float(cell.text)) if cell.text else cell for cell in _both(row, cores)]


def _figure(value: object, part: str) -> Cell:
    """Return a cell that sorts by its number, of several the last."""
    shown = text(value)
    if part == UOPS or not shown.text:
        return shown
    return Cell(shown.text, float(shown.text.rpartition(" ")[2]))
