"""Learn the core of each distinct machine of a Dask cluster, on one of its workers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from loopwright import cluster, files, paths
from loopwright.calibrating.calibrate import HOST, SIMULATED, calibrate, folder
from loopwright.errors import InputError
from loopwright.machine import hosts

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Share:
    """One worker's result: rows of calibrate, and the files of the core by their names."""

    rows: pd.DataFrame
    folder: str
    files: Mapping[str, bytes]


def calibrate_fleet(
    where: str,
    out: Path | str,
    *,
    machine: str = HOST,
    progress: Callable[[int, int], None] | None = None,
    **asked: Any,
) -> pd.DataFrame:
    """Calibrate one worker of each distinct machine, side by side, and bring the cores below out.

    where is HOST:PORT of a Dask scheduler, or "local"; asked is what calibrate takes. A core's
    folder is called like its machine. Rows are those of calibrate, with folder and worker behind
    them; attrs["left_out"] says which workers do not calibrate and why, and what kept one from it.
    What a worker has answered is kept there: the same call goes on where a lost one was. progress
    is called with workers done and all. InputError where none has learned a core, and where machine
    is a file of answers.
    """
    if not (machine == HOST or machine.startswith(SIMULATED)):
        raise InputError("--fleet has workers measure; leave it out where a file has the answers")
    asked = {**asked, "machine": machine}
    with cluster.connected(where) as client:
        chosen, left_out = _one_of_each(client)
        return cluster.gather(
            client,
            {at: partial(_learn, machine, asked) for machine, at in chosen.items()},
            partial(_keep, Path(out)),
            left_out,
            called={at: at for at in chosen.values()},
            nothing=f"no worker at {where} has learned a core",
            progress=progress,
        )


def _one_of_each(client: "Client") -> tuple[dict[str, str], list[str]]:
    """Return the first worker of each machine by its name, and why others are left out."""
    chosen: dict[str, str] = {}
    left_out = []
    for address, machine in sorted(client.run(hosts.machine).items()):
        if machine in chosen:
            left_out.append(f"{address}: {machine}, which {chosen[machine]} is, too")
        else:
            chosen[machine] = address
    return chosen, left_out


def _learn(machine: str, asked: Mapping[str, Any]) -> Share:
    """Calibrate on a worker, in a folder that stays there, and hand over what is in it."""
    kept = paths.data_dir() / "calibrations" / "own"
    rows = calibrate(kept, **asked)
    learned = folder(asked["machine"])
    files = {file.name: file.read_bytes() for file in (kept / learned).iterdir()}
    files["sources.toml"] = (kept / "sources.toml").read_bytes()
    return Share(rows, hosts.slug(machine) if learned == HOST else learned, files)


def _keep(out: Path, share: Share) -> pd.DataFrame:
    """Write a core's files and return its rows; InputError where they cannot be written."""
    place = out / share.folder
    with files.staged(place) as scratch:
        for name, content in share.files.items():
            if name != "sources.toml":
                (scratch / name).write_bytes(content)
    files.written(out / "sources.toml", share.files["sources.toml"])
    return share.rows.assign(folder=share.folder)
