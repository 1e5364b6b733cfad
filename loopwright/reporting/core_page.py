"""A core as one HTML page that needs no network: parameters, ports, common instructions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright import kernels, microarchs
from loopwright.calibrating import core_sheet
from loopwright.calibrating.core_sheet import LATENCY, PARAMETER, PORTS, STRINGS, THROUGHPUT, UOPS
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import cycle_curves, findings, plots
from loopwright.reporting.html import Cell, Column, Grid, GridRow, made, number, text
from loopwright.reporting.kernel_section import Drawing, drawing
from loopwright.version import VERSION

_PARTS = (LATENCY, THROUGHPUT, UOPS)


def kinds_table(cores: Sequence[Microarch]) -> Iterator[str]:
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


def left_out_table(forms: Sequence[tuple[str, str]]) -> Grid:
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


# Loops whose places are shown, and routines whose calls are, by ISA.
_LOOPS = {"x86_64": ("clear_user", "copy_user", "csum"), "arm64": ("copy_user",)}
_CALLS = {"x86_64": ("copy_user", "clear_user"), "arm64": ("copy_user",)}


def render(rows: pd.DataFrame, microarch: str, beside: str | None = None) -> str:
    """Return the page of a core, with another one beside it; rows are those of core_sheet.core."""
    cores = [microarchs.load(one) for one in (microarch, beside) if one is not None]
    again = f"loopwright core {microarch}" + (f" --beside {beside}" if beside else "")
    left_out = core_sheet.left_out(microarch)
    sweeps = list(_sweeps(cores))
    words = [cycle_curves.boundaries(sweep) for sweep in sweeps]
    return made(
        "core.html.j2",
        scripts=("sorting.js",),
        version=VERSION,
        cores=cores,
        origin=findings.origin_of(SIMULATOR, "", ""),
        command=f"{again} --html FILE",
        ports=list(_ports(cores)),
        ports_table=ports(rows, cores),
        instructions=instructions(rows, cores),
        places=list(_places(sweeps, words, cores)),
        boundaries=boundaries(pd.concat(words, ignore_index=True)),
        calls=list(_calls(cores)),
        strings=strings(rows, cores),
        parameters=parameters(rows, cores),
        left_out=left_out_table(left_out) if left_out else None,
    )


def _ports(cores: Sequence[Microarch]) -> Iterator[Drawing]:
    kinds = list(dict.fromkeys(kinds_table(cores)))
    for core in cores:
        yield drawing(
            plots.port_map(core, kinds),
            f"{core.id}-ports",
            f"{core.name}: a square where a kind of uops runs, a column a port",
            "the table below has the same",
            {},
        )


def _spec(core: Microarch, name: str) -> str | None:
    spec = f"{core.isa}/{name}"
    return spec if spec in kernels.ids() else None


def _sweeps(cores: Sequence[Microarch]) -> Iterator[pd.DataFrame]:
    names = ",".join(core.id for core in cores)
    for name in _LOOPS[cores[0].isa]:
        if spec := _spec(cores[0], name):
            yield cycle_curves.sweep(spec, names, model=SIMULATOR)


def _places(
    sweeps: Sequence[pd.DataFrame], words: Sequence[pd.DataFrame], cores: Sequence[Microarch]
) -> Iterator[Drawing]:
    for rows, said in zip(sweeps, words, strict=True):
        for core in cores:
            slow = said[(said["microarch"] == core.id) & said["slow_offsets"].ne("")]
            if slow.empty:
                continue
            kernel = str(slow["kernel"].iloc[0])
            yield drawing(
                plots.heat_map(rows, core.id),
                f"{core.id}-{kernel.replace('/', '-')}-places",
                f"{core.id}, {kernel}: slowdown of main loops over code offsets; a dot marks more "
                "than 2 % above the best",
                f"loops that some offset slows down: {', '.join(slow['variant'])}",
                {},
            )


def _calls(cores: Sequence[Microarch]) -> Iterator[Drawing]:
    for name in _CALLS[cores[0].isa]:
        spec = _spec(cores[0], name)
        costs = cycle_curves.called(spec, ",".join(core.id for core in cores)) if spec else None
        if spec and costs is not None and len(costs):
            yield drawing(
                plots.size_curves(costs, kernel=spec),
                f"{spec.replace('/', '-')}-calls",
                f"{spec}: predicted cycles a call over its size, by variant",
                "loopwright predict --sizes gives the numbers",
                {},
            )
