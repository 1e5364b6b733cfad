"""A core as one HTML page that needs no network: what it is as wide as, what runs where."""

from collections.abc import Iterator, Sequence

import pandas as pd

from loopwright import kernels, microarchs
from loopwright.microarchs import Microarch
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import alignment, core_sheet, origin, plots, sizes
from loopwright.reporting.core_page import tables
from loopwright.reporting.page.figures import Drawing, drawing
from loopwright.reporting.page.made import made
from loopwright.version import VERSION

_HERE = "loopwright.reporting.core_page"
# Loops whose places are shown, and routines whose calls are, by ISA.
_LOOPS = {"x86_64": ("clear_user", "copy_user", "csum"), "arm64": ("copy_user",)}
_CALLS = {"x86_64": ("copy_user", "clear_user"), "arm64": ("copy_user",)}


def render(rows: pd.DataFrame, microarch: str, beside: str | None = None) -> str:
    """Return the page of a core, with another one beside it; rows are those of core_sheet.core."""
    cores = [microarchs.load(one) for one in (microarch, beside) if one is not None]
    again = f"loopwright core {microarch}" + (f" --beside {beside}" if beside else "")
    left_out = core_sheet.left_out(microarch)
    sweeps = list(_sweeps(cores))
    words = [alignment.boundaries(sweep) for sweep in sweeps]
    return made(
        "core.html.j2",
        scripts=("sorting.js",),
        package=_HERE,
        version=VERSION,
        cores=cores,
        origin=origin.of(SIMULATOR, "", ""),
        command=f"{again} --html FILE",
        ports=list(_ports(cores)),
        ports_table=tables.ports(rows, cores),
        instructions=tables.instructions(rows, cores),
        places=list(_places(sweeps, words, cores)),
        boundaries=tables.boundaries(pd.concat(words, ignore_index=True)),
        calls=list(_calls(cores)),
        strings=tables.strings(rows, cores),
        parameters=tables.parameters(rows, cores),
        left_out=tables.left_out(left_out) if left_out else None,
    )


def _ports(cores: Sequence[Microarch]) -> Iterator[Drawing]:
    kinds = list(dict.fromkeys(tables.kinds(cores)))
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
            yield alignment.sweep(spec, names, model=SIMULATOR)


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
        costs = sizes.called(spec, ",".join(core.id for core in cores)) if spec else None
        if spec and costs is not None and len(costs):
            yield drawing(
                plots.size_curves(costs, kernel=spec),
                f"{spec.replace('/', '-')}-calls",
                f"{spec}: predicted cycles a call over its size, by variant",
                "loopwright predict --sizes gives the numbers",
                {},
            )
