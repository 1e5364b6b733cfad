"""Reach the workers of a Dask cluster, and hold them to one loopwright."""

import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright import paths
from loopwright.errors import InputError
from loopwright.version import VERSION

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
_ADDRESS = re.compile(r"(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):\d{1,5}")
_ANSWER = 10  # s that a scheduler has to answer in
_ARRIVE = 30  # s that the first worker has to come in


@contextmanager
def connected(where: str) -> Iterator["Client"]:
    """Yield a client of the Dask scheduler at HOST:PORT, or of workers here where it is "local".

    InputError where Dask is not installed, where no scheduler answers or none of its workers comes,
    and where a worker has no loopwright, or another one, or other cores.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "dask.distributed is not here: pip install 'loopwright[cluster]', or leave --dask out"
        ) from None
    # What workers were lost the rows say; a warning each is noise.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if where == LOCAL:
        with (
            LocalCluster(
                threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    if not _ADDRESS.fullmatch(where):
        raise InputError(f"{where!r} is no Dask scheduler; give its HOST:PORT, or local")
    try:
        client = Client(where, timeout=_ANSWER)
    except (OSError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else "no answer"
        raise InputError(
            f"no Dask scheduler at {where}: {said}; start one with `dask scheduler`, or say --dask "
            "local"
        ) from None
    with client:
        _wait_for_one(client, where)
        _hold_to_one_loopwright(client)
        yield client


def identity() -> str:
    """Return what has to be alike for two machines to give the same figures."""
    return _identity(str(paths.models_root()))


@lru_cache(maxsize=1)
def _identity(models: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in Path(models).glob("*/*") if p.is_file()):
        if path.suffix in (".toml", ".csv") and path.parent.name not in ("derive", "pipeline"):
            digest.update(path.parent.name.encode() + b"\0" + path.name.encode() + b"\0")
            digest.update(path.read_bytes())
    return f"loopwright {VERSION}, cores {digest.hexdigest()[:12]}"


def _wait_for_one(client: "Client", where: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_ARRIVE)
    except TimeoutError:
        raise InputError(
            f"the Dask scheduler at {where} has no worker; start one with `dask worker {where}`"
        ) from None


def _hold_to_one_loopwright(client: "Client") -> None:
    """Raise InputError unless all workers have what this machine has."""
    ours = identity()
    for worker, said in client.run(identity, on_error="return").items():
        if isinstance(said, ModuleNotFoundError):
            raise InputError(f"worker {worker} has no loopwright; install {ours} there")
        if isinstance(said, Exception):
            raise InputError(f"worker {worker} does not answer: {type(said).__name__}: {said}")
        if said != ours:
            raise InputError(f"worker {worker} has {said}, and here is {ours}; install the same")
