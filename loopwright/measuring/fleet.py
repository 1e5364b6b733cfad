"""Measure a kernel on every distinct core of a Dask cluster, and keep the results under it."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd

from loopwright import cluster, kernels, microarchs
from loopwright.machine import hosts
from loopwright.measuring.measure import measure
from loopwright.measuring.rounds import Progress
from loopwright.store.runs import Record, Run, Store

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Member:
    """A worker, and the machine that it says it is; microarch None where no core is like it."""

    address: str
    machine: str
    microarch: str | None


@dataclass(frozen=True)
class Share:
    """What one worker measured: rows of measure, and the run that they are from."""

    rows: pd.DataFrame
    runs: Sequence[tuple[Run, Sequence[Record], Mapping[int, Mapping[str, Any]]]]


def measure_fleet(
    where: str, spec: str, *, progress: Progress | None = None, **asked: Any
) -> pd.DataFrame:
    """Measure KERNEL[/VARIANT] on one worker of each distinct core, side by side.

    where is HOST:PORT of a Dask scheduler, or "local"; asked is what measure takes. Rows are those
    of measure, with the worker behind them, and every reading is kept in this machine's results
    store under the machine that it is from. Of each core the first worker measures; those whose
    machine no core.toml describes, or whose ISA is another, do not. attrs["left_out"] says which do
    not and why, and what kept one from measuring. progress is called with workers done and all.
    InputError where none has measured.
    """
    kernel, _ = kernels.select(spec)
    with cluster.connected(where) as client:
        chosen, left_out = _one_of_each(client, kernel.isa)
        return cluster.gather(
            client,
            {member.address: partial(_measure, spec, asked) for member in chosen},
            _keep,
            left_out,
            called={m.address: f"{m.address} ({m.microarch})" for m in chosen},
            nothing=f"no worker at {where} has measured",
            progress=progress,
        )


def _one_of_each(client: "Client", isa: str) -> tuple[list[Member], list[str]]:
    """Return the first worker of each core of an ISA, and why the others are left out."""
    said = client.run(_describe)
    chosen: dict[str, Member] = {}
    left_out = []
    for address in sorted(said):
        member = Member(address, *said[address])
        core = member.microarch
        if core is None:
            left_out.append(f"{address}: no core.toml describes {member.machine}")
        elif microarchs.load(core).isa != isa:
            left_out.append(f"{address}: {core} runs no code for {isa}")
        elif core in chosen:
            left_out.append(f"{address}: {core}, which {chosen[core].address} is, too")
        else:
            chosen[core] = member
    return list(chosen.values()), left_out


def _describe() -> tuple[str, str | None]:
    return hosts.machine(), hosts.microarch()


def _measure(spec: str, asked: Mapping[str, Any]) -> Share:
    """Measure on a worker, into a store of its own, and hand over what is in it."""
    with TemporaryDirectory(prefix="loopwright-") as scratch:
        place = Path(scratch, "results.db")
        rows = measure(spec, store=place, **asked)
        with closing(Store.open(place)) as store:
            runs = [(r, list(store.records(r)), store.processes(r)) for r in store.runs()]
    return Share(rows, runs)


def _keep(share: Share) -> pd.DataFrame:
    """Put what was measured into the store; return its rows."""
    with closing(Store.open()) as store:
        for run, records, processes in share.runs:
            store.add(run, records, processes)
    return share.rows
