"""A core as one HTML page that needs no network: parameters, ports, common instructions."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pandas as pd

from loopwright import kernels, microarchs
from loopwright.microarchs import Microarch
from loopwright.paths import VERSION
from loopwright.predicting import core_figures
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import core_sheet, cycle_curves, findings, plots
from loopwright.reporting.core_sheet import LATENCY, PARAMETER, PORTS, STRINGS, THROUGHPUT, UOPS
from loopwright.reporting.html import Cell, Column, Grid, Row, column, grid, rendered, text
from loopwright.reporting.kernel_section import OFFSET_COSTS, Drawing, drawing

_HEADS = {LATENCY: "latency, cycles", THROUGHPUT: "cycles each", UOPS: "ports"}
_SIDES = ("value", "beside")  # keys of rows: the core, and the one beside it


def _part(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    return rows[rows["part"] == part]


def _columns(cores: Sequence[Microarch]) -> list[Column]:
    return [column(core.id, side) for core, side in zip(cores, _SIDES, strict=False)]


def ports(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return the ports of each kind of uop."""
    caption = "Ports that run each kind of uops, by their letters"
    return grid("ports", caption, _part(rows, PORTS), [column("uops", "figure"), *_columns(cores)])


def instructions(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return latency, throughput and ports of well-known instructions."""
    forms = rows[rows["part"].isin(_HEADS)].groupby("figure", sort=False)
    return grid(
        "instructions",
        "Instructions as the simulator takes them by this core's table: latency from operand to "
        "result (least to most over operands; none where no chain through it is plain), how long "
        "until another one can start, and its uops by port",
        [{"form": form} | mine.set_index("part").to_dict("index") for form, mine in forms],
        [
            column("instruction", "form"),
            *(
                (column if part == UOPS else _figures)(f"{core.id}: {head}", _value(part, side))
                for part, head in _HEADS.items()
                for core, side in zip(cores, _SIDES, strict=False)
            ),
        ],
    )


def _value(part: str, side: str) -> Callable[[Row], Any]:
    return lambda row: row.get(part, {}).get(side)


def _figures(head: str, value: Callable[[Row], Any]) -> Column:
    """Return a column of figures, sorted by number; of several in a cell the last one counts."""

    def cell(row: Row) -> Cell:
        plain = text(value(row))
        return Cell(plain.text, float(plain.text.rpartition(" ")[2])) if plain.text else plain

    return Column(head, cell, number=True)


def parameters(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return all parameters of core.toml with their sources."""
    return grid(
        "parameters",
        "Every parameter of the core's pipeline; models/pipeline/README.md says what each is",
        _part(rows, PARAMETER),
        [
            column("parameter", "figure"), *_columns(cores),
            column(f"how sure, {cores[0].id}", "confidence"),
            column(f"source, {cores[0].id}", "source", wide=True),
        ],
    )  # fmt: skip


def strings(rows: pd.DataFrame, cores: Sequence[Microarch]) -> Grid:
    """Return the cycles of repeated string instructions by bytes and offsets."""
    return grid(
        "strings",
        "Cycles of repeated string instructions, their operands set up: measured where the core "
        "was calibrated, else simulated by its parameters; offsets are bytes behind a line",
        _part(rows, STRINGS),
        [
            column("instruction, bytes, offsets of source and destination", "figure"),
            *(
                _figures(f"{core.id}, cycles", itemgetter(side))
                for core, side in zip(cores, _SIDES, strict=False)
            ),
            column(f"source, {cores[0].id}", "source"),
        ],
    )


def boundaries(costs: pd.DataFrame) -> Grid:
    """Return the cost of code alignment: a row of cycle_curves.boundaries for each loop."""
    return grid(
        "places",
        "Cycles an iteration of main loops over the code offsets 0 to 63, simulated",
        costs,
        [
            column("loop", lambda row: f"{row['kernel']}/{row['variant']}"),
            column("core", "microarch"),
            *OFFSET_COSTS,
        ],
    )


def left_out_table(forms: Sequence[tuple[str, str]]) -> Grid:
    """Return the forms without figures in a calibrated core, with the reasons."""
    return grid(
        "left-out",
        "Forms without figures: the simulator refuses them",
        [{"form": form, "why": why} for form, why in forms],
        [column("form"), column("why", wide=True)],
    )


# Kernels whose loops are shown over code offsets, and whose calls over sizes, by ISA.
_LOOPS = {"x86_64": ("clear_user", "copy_user", "csum"), "arm64": ("copy_user",)}
_CALLS = {"x86_64": ("copy_user", "clear_user"), "arm64": ("copy_user",)}


def render(rows: pd.DataFrame, microarch: str, beside: str | None = None) -> str:
    """Return the page of a core, with another one beside it; rows are those of core_sheet.core."""
    cores = [microarchs.load(core) for core in (microarch, beside) if core is not None]
    command = f"loopwright core {microarch}" + (f" --beside {beside}" if beside else "")
    left_out = core_sheet.left_out(microarch)
    sweeps = list(_sweeps(cores))
    offset_costs = [cycle_curves.boundaries(sweep) for sweep in sweeps]
    return rendered(
        "core.html.j2",
        scripts=("sorting.js",),
        version=VERSION,
        cores=cores,
        origin=findings.origin_of(SIMULATOR, "", ""),
        command=f"{command} --html FILE",
        ports=list(_ports(cores)),
        ports_table=ports(rows, cores),
        instructions=instructions(rows, cores),
        places=list(_places(sweeps, offset_costs, cores)),
        boundaries=boundaries(pd.concat(offset_costs, ignore_index=True)),
        calls=list(_calls(cores)),
        strings=strings(rows, cores),
        parameters=parameters(rows, cores),
        left_out=left_out_table(left_out) if left_out else None,
    )


def _ports(cores: Sequence[Microarch]) -> Iterator[Drawing]:
    kinds = list(dict.fromkeys(u.kind for core in cores for u in core_figures.port_uses(core)))
    for core in cores:
        yield drawing(
            plots.port_map(core, kinds),
            f"{core.id}-ports",
            f"{core.name}: a square where a kind of uops runs, a column a port",
            "the table below has the same",
        )


def _spec(core: Microarch, name: str) -> str | None:
    spec = f"{core.isa}/{name}"
    return spec if spec in kernels.ids() else None


def _sweeps(cores: Sequence[Microarch]) -> Iterator[pd.DataFrame]:
    names = ",".join(core.id for core in cores)
    for name in _LOOPS[cores[0].isa]:
        if spec := _spec(cores[0], name):
            yield cycle_curves.sweep(spec, names)


def _places(
    sweeps: Sequence[pd.DataFrame], offset_costs: Sequence[pd.DataFrame], cores: Sequence[Microarch]
) -> Iterator[Drawing]:
    for rows, costs in zip(sweeps, offset_costs, strict=True):
        for core in cores:
            slow = costs[(costs["microarch"] == core.id) & costs["slow_offsets"].ne("")]
            if slow.empty:
                continue
            kernel = str(slow["kernel"].iloc[0])
            yield drawing(
                plots.heat_map(rows, core.id),
                f"{core.id}-{kernel.replace('/', '-')}-places",
                f"{core.id}, {kernel}: slowdown of main loops over code offsets; a dot marks more "
                "than 2 % above the best",
                f"loops that some offset slows down: {', '.join(slow['variant'])}",
            )


def _calls(cores: Sequence[Microarch]) -> Iterator[Drawing]:
    for name in _CALLS[cores[0].isa]:
        spec = _spec(cores[0], name)
        costs = cycle_curves.predicted(spec, ",".join(core.id for core in cores)) if spec else None
        if spec and costs is not None and len(costs):
            yield drawing(
                plots.size_curves(costs, kernel=spec),
                f"{spec.replace('/', '-')}-calls",
                f"{spec}: predicted cycles a call over its size, by variant",
                "loopwright predict --sizes gives the numbers",
            )
