"""Tasks on a Dask cluster: each item once, whatever becomes of the workers."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from operator import neg

import pytest

from loopwright.errors import InputError
from loopwright.scanning import folder_scan as workers


def local_cluster(**asked):
    """Return a cluster of this machine; its library takes a second to import."""
    from distributed import LocalCluster

    return LocalCluster(**asked)


@pytest.fixture
def cluster():
    """Yield a scheduler without workers, as other machines would have it."""
    with local_cluster(n_workers=0, dashboard_address=None) as found:
        yield found


@contextmanager
def started(count, cluster, folder):
    """Yield the processes of workers, started as somebody would by hand."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
    with (folder / "workers").open("w") as log:
        settings = {"cwd": folder, "stdout": log, "stderr": log}
        processes = [subprocess.Popen([*command, *options], **settings) for _ in range(count)]
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Yield the address of a scheduler with a worker."""
    folder = tmp_path_factory.mktemp("served")
    with (
        local_cluster(n_workers=0, dashboard_address=None) as found,
        started(1, found, folder),
    ):
        yield found.scheduler_address


@pytest.mark.slow
def test_the_work_of_killed_workers_is_done_by_others_once_until_none_is_left(
    cluster, tmp_path, monkeypatch
):
    found = {}
    with (
        started(2, cluster, tmp_path) as processes,
        workers.connected(cluster.scheduler_address) as client,
    ):
        client.wait_for_workers(2)
        for done in workers.each(client, neg, range(200)):
            if not found:
                processes[1].send_signal(signal.SIGKILL)
            assert done.number not in found
            found[done.number] = done.result
        assert len(client.nthreads()) == 1
        assert found == {n: -n for n in range(200)}
        monkeypatch.setattr(workers, "_RESULT_TIMEOUT", 1)
        running = workers.each(client, neg, range(10**6), worker_timeout=1.0)
        next(running)
        processes[0].kill()
        with pytest.raises(InputError, match="no worker has been left for 1 s"):
            list(running)


@pytest.mark.slow
def test_an_item_that_kills_its_workers_is_lost_and_the_others_are_not():
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        local_cluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two,
        workers.connected(two.scheduler_address) as client,
    ):
        (lost,) = workers.each(client, os._exit, [3])
        assert lost.result is None
        assert "every worker" in lost.lost
        done = list(workers.each(client, neg, range(40)))
    assert sorted((d.number, d.result) for d in done) == [(n, -n) for n in range(40)]


def test_an_error_of_a_task_is_raised_here(served):
    with (
        workers.connected(served) as client,
        pytest.raises(ZeroDivisionError),
    ):
        list(workers.each(client, (1).__truediv__, [0]))


def test_a_worker_with_other_cores_is_refused(served, monkeypatch, tmp_path):
    other = tmp_path / "models"
    shutil.copytree(workers.paths.models_root(), other, ignore=shutil.ignore_patterns("pipeline"))
    with (other / "zen2" / "core.toml").open("a") as file:
        file.write("\n")
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(other))
    with (
        pytest.raises(InputError, match=r"worker tcp://.* has loopwright .*; install the same"),
        workers.connected(served),
    ):
        pass


@pytest.mark.parametrize("where", ["127.0.0.1:9", "nowhere.invalid:1", "127.0.0.1:99999"])
def test_no_scheduler_is_one_line(where, monkeypatch):
    monkeypatch.setattr(workers, "_SCHEDULER_TIMEOUT", 1)
    with (
        pytest.raises(InputError, match="no Dask scheduler at") as said,
        workers.connected(where),
    ):
        pass
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("where", ["", "no address", "tcp://:x", "10.0.0.7", "a:b"])
def test_what_is_no_address_is_one_line(where):
    with (
        pytest.raises(InputError, match="is no Dask scheduler; give its HOST:PORT, or local"),
        workers.connected(where),
    ):
        pass


def test_a_scheduler_without_workers_is_one_line(cluster, monkeypatch):
    monkeypatch.setattr(workers, "_FIRST_WORKER_TIMEOUT", 1)
    with (
        pytest.raises(InputError, match="has no worker; start one with `dask worker"),
        workers.connected(cluster.scheduler_address),
    ):
        pass
