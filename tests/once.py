"""Folders that tests of several files read, made once a run by the first worker that asks."""

import fcntl
import os
import tempfile
from pathlib import Path


def once(factory, name, make):
    """Return the folder of a name, filled by make(folder) at the first request of a pytest run.

    factory is the fixture tmp_path_factory. Other workers wait meanwhile. If make fails, the next
    request tries again.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # which the workers share
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=root))
            make(part)
            part.rename(folder)
    return folder
