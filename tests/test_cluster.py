"""Tasks on a Dask cluster: each item once, whatever becomes of the workers."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from operator import neg

import pandas as pd
import pytest
from distributed import LocalCluster

import loopwright as lw
from loopwright import cluster as workers
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.predicting import asking, models
from loopwright.predicting.question import Question


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """Return a CSV of distinct blocks, enough for several parts, one of them no code."""
    path = tmp_path_factory.mktemp("blocks") / "blocks.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "hex"])
        for n in range(3000):  # add imm, chains of it, loops of them
            text = f"4881c0{n:04x}0000" * (1 + n % 3)
            writer.writerow([n, text if n % 2 else f"{text}75{256 - 2 - len(text) // 2:02x}"])
        writer.writerow(["none", "0f0b06"])
    return path


@pytest.fixture
def cluster():
    """Yield a scheduler without workers, as other machines would have it."""
    with LocalCluster(n_workers=0, dashboard_address=None) as found:
        yield found


@pytest.fixture
def worker(cluster, tmp_path):
    """Yield what starts a worker as somebody would by hand, and returns its process."""
    started = []

    def start():
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        log = (tmp_path / f"worker{len(started)}").open("w")
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        at = {"cwd": tmp_path, "stdout": log, "stderr": log}
        started.append(subprocess.Popen([*command, *options], **at))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def without_nan(frame):
    return frame.astype(object).where(frame.notna(), None).values.tolist()


def test_a_cluster_gives_the_rows_that_there_are_without(blocks):
    asked = {"blocks": blocks, "microarch": "zen2,skylake"}
    alone, shared = lw.predict(**asked), lw.predict(**asked, dask="local")
    assert list(alone.columns) == list(shared.columns)
    assert without_nan(alone) == without_nan(shared)
    assert alone["error"].iloc[3000]  # which is no code


def test_few_blocks_have_their_bottleneck_on_a_cluster_too(cluster, worker):
    worker()
    asked = {"hex": "4883c0014839c875f7", "microarch": "zen2"}
    found = lw.predict(**asked, dask=cluster.scheduler_address)
    assert without_nan(found) == without_nan(lw.predict(**asked))
    assert found["bottleneck"].all()


def test_the_work_of_a_worker_that_is_killed_is_done_by_others_once(blocks, cluster, worker):
    ours = [worker() for _ in range(3)]
    (core, about), *_ = Question(blocks=blocks, microarch="zen2").select()
    asked = [subject.block(None) for subject in about if not subject.error]
    (pipeline,) = models.select("pipeline")
    parts = [asking._Part(pipeline, asked[n : n + 50], core) for n in range(0, len(asked), 50)]
    found = {}
    with workers.connected(cluster.scheduler_address) as client:
        client.wait_for_workers(3)
        for done in workers.each(client, asking._answer, parts):
            if not found:
                ours[1].send_signal(signal.SIGKILL)
            assert done.number not in found
            found[done.number] = done.result
        assert len(client.nthreads()) == 2
    together = [answer for n in range(len(parts)) for answer in found[n]]
    assert together == [answer for part in parts for answer in asking._answer(part)]


def test_an_item_that_kills_its_workers_is_lost_and_the_others_are_not():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two,
        workers.connected(two.scheduler_address) as client,
    ):
        (lost,) = workers.each(client, os._exit, [3])
        assert lost.result is None
        assert "every worker" in lost.lost
        done = list(workers.each(client, neg, range(40)))
    assert sorted((d.number, d.result) for d in done) == [(n, -n) for n in range(40)]


def test_nobody_waits_for_ever_where_no_worker_is_left(cluster, worker):
    only = worker()
    with workers.connected(cluster.scheduler_address) as client:
        running = workers.each(client, neg, range(10**6), alone=1.0)
        next(running)
        only.kill()
        with pytest.raises(InputError, match="no worker has been left for 1 s"):
            list(running)


def test_an_error_of_a_task_is_raised_here(cluster, worker):
    worker()
    with (
        workers.connected(cluster.scheduler_address) as client,
        pytest.raises(ZeroDivisionError),
    ):
        list(workers.each(client, (1).__truediv__, [0]))


def test_a_worker_with_other_cores_is_refused(cluster, worker, monkeypatch, tmp_path):
    other = tmp_path / "models"
    shutil.copytree(workers.paths.models_root(), other, ignore=shutil.ignore_patterns("pipeline"))
    with (other / "zen2" / "core.toml").open("a") as file:
        file.write("\n")
    worker()
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(other))
    with pytest.raises(InputError, match=r"worker tcp://.* has loopwright .*; install the same"):
        lw.predict(hex="90", dask=cluster.scheduler_address)


@pytest.mark.parametrize("where", ["127.0.0.1:9", "nowhere.invalid:1", "127.0.0.1:99999"])
def test_no_scheduler_is_one_line(where, monkeypatch):
    monkeypatch.setattr(workers, "_ANSWER", 1)
    with pytest.raises(InputError, match="no Dask scheduler at") as said:
        lw.predict(hex="90", dask=where)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("where", ["", "no address", "tcp://:x", "10.0.0.7", "a:b"])
def test_what_is_no_address_is_one_line(where):
    with pytest.raises(InputError, match="is no Dask scheduler; give its HOST:PORT, or local"):
        lw.predict(hex="90", dask=where)


def test_a_scheduler_without_workers_is_one_line(cluster, monkeypatch):
    monkeypatch.setattr(workers, "_ARRIVE", 1)
    with pytest.raises(InputError, match="has no worker; start one with `dask worker"):
        lw.predict(hex="90", dask=cluster.scheduler_address)


@pytest.mark.measures
def test_a_fleet_measures_once_on_each_core_and_keeps_it_here(tmp_path, monkeypatch):
    from loopwright.machine import hosts

    if hosts.microarch() is None:
        pytest.skip("no core.toml describes this machine")
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "here.db"))
    kernel = f"{'x86_64' if hosts.here().isa == 'x86_64' else 'arm64'}/clear_user"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two:
        rows = lw.measure_fleet(two.scheduler_address, kernel, sizes=[256])
    assert rows["worker"].nunique() == 1
    assert len(rows.attrs["left_out"]) == 1
    assert hosts.microarch() in rows.attrs["left_out"][0]
    kept = lw.results(kernel)
    assert set(kept["variant"]) == set(rows["variant"])
    assert set(kept["microarch"]) == {hosts.microarch()}


def test_a_fleet_calibrates_once_on_each_machine_and_brings_the_core_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "there"))
    core, few = "neoverse-n1", ["add", "madd", "fadd"]  # learned in seconds
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two:
        rows = lw.calibrate_fleet(
            two.scheduler_address,
            tmp_path / "cores",
            machine=f"simulated:{core}",
            mnemonics=few,
        )
    assert rows["worker"].nunique() == 1
    assert "is, too" in rows.attrs["left_out"][0]
    alone = lw.calibrate(tmp_path / "alone", machine=f"simulated:{core}", mnemonics=few)
    pd.testing.assert_frame_equal(rows[alone.columns], alone)
    for name in ("core.toml", "instructions.csv", "answers.jsonl"):
        brought = tmp_path / "cores" / f"simulated-{core}" / name
        own = tmp_path / "alone" / f"simulated-{core}" / name
        assert brought.read_bytes() == own.read_bytes()
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path / "cores"))
    chain = "007c019b"  # mul x0, x0, x1
    [one] = lw.predict(hex=chain, notion="unrolled", microarch=f"simulated-{core}")["cycles"]
    assert one == 4.0


def test_a_file_of_answers_is_nothing_for_a_fleet(tmp_path, capsys):
    file = tmp_path / "answers.jsonl"
    asked = ["calibrate", "-o", str(tmp_path), "--machine", str(file), "--fleet", "local"]
    assert run(asked) == 2
    assert "--fleet has workers measure" in capsys.readouterr().err
