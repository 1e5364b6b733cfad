"""What was measured stays, comes once, and is gone on with."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from checkout import DATA, ROOT
from quick import some

import loopwright as lw
from loopwright import kernels, toolchain
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.judging.study import stored_measurements
from loopwright.measuring import store
from loopwright.measuring.results import results, withdraw
from loopwright.measuring.store import SCHEMA, Record, Run, Store

MAIN = "from loopwright.cli import main; main()"
FIXTURES = DATA / "kernels"
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")
ONE = ((0, 0),)  # alignment
BANNER: dict[str, Any] = {
    "isa": "x86_64",
    "protocol": 1,
    "time": 1_700_000_000,
    "cpu": 3,
    "identity": {
        "cpuid_00000000_0": "00000010 68747541 444d4163 69746e65",
        "cpuid_00000001_0": "00830f10 00800800 7ed8320b 178bfbff",
        "cpuid_00000007_0": "00000000 219c91a9 00400004 00000000",
    },
    "fingerprint": "0123456789abcdef",
    "files": {},
}


def a_run(uid="u", started=1_700_000_000):
    return Run(uid, BANNER["fingerprint"], started, 1, "kit", BANNER)


def a_record(process=1, size=64, cycles=10.0, refused=""):
    answer = {
        "count": size,
        "dst_align": 0,
        "src_align": 0,
        "skew": 2048,
        "offset": 0,
        "cycles": cycles,
        "clock": "tsc-calibrated",
        "refused": refused,
    }
    return Record(process, "x86_64/copy_user", "movsq", "abc", answer)


def test_a_record_comes_once():
    store = Store.open()
    records = [a_record(), a_record(process=2), a_record(size=128), a_record(refused="noise")]
    assert store.add(a_run(), records) == 4
    assert store.add(a_run(), records) == 0
    assert store.add(a_run("v"), records) == 4
    assert [r.process for r in store.records(a_run())] == [1, 2, 1, 1]
    assert list(store.records(a_run(), "x86_64/csum")) == []
    [machine] = store._database.execute("SELECT microarch FROM machine").fetchall()
    assert machine == ("zen2",)


def test_runs_come_newest_first():
    store = Store.open()
    for uid, started in (("old", 1), ("new", 3), ("between", 2)):
        store.add(a_run(uid, started), [a_record()])
    assert [run.uid for run in store.runs()] == ["new", "between", "old"]
    assert store.runs()[0] == a_run("new", 3)


@pytest.mark.parametrize("table", ["machine", "run", "process", "record"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET id = 77"])
def test_nothing_is_changed_or_deleted(table, change):
    store = Store.open()
    store.add(a_run(), [a_record()], {1: {"self_test": []}})
    with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
        sqlite3.connect(store.path).execute(change.format(table))


def test_a_batch_is_kept_whole_or_not_at_all():
    store = Store.open()
    wrong = Record(1, "x86_64/copy_user", "movsq", "abc", {**a_record().answer, "clock": None})
    with pytest.raises(InputError):
        store.add(a_run(), [a_record(), wrong])
    assert store.runs() == []


def test_a_store_of_a_newer_loopwright_is_left_alone(capsys):
    store = Store.open()
    store._database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(InputError, match=f"is of schema {SCHEMA + 1}.*update it"):
        Store.open()
    assert run_cli(["results"]) == 2
    assert "schema" in capsys.readouterr().err


def test_what_is_no_store_is_named(tmp_path, monkeypatch):
    text, other, folder = tmp_path / "text", tmp_path / "other", tmp_path / "folder"
    text.write_text("not a database at all, and long enough to be looked at" * 10)
    sqlite3.connect(other).execute("CREATE TABLE t (x)")
    folder.mkdir()
    for path in (text, other, folder, text / "below"):
        monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(path))
        with pytest.raises(InputError) as error:
            Store.open()
        assert str(path) in str(error.value)
        assert "LOOPWRIGHT_RESULTS" in str(error.value)
    assert text.read_text().startswith("not a database")


def test_a_withdrawn_run_is_kept_and_used_for_nothing(capsys):
    store = Store.open()
    store.add(a_run("good"), [a_record()])
    store.add(a_run("bad-1"), [a_record(), a_record(size=128)])
    store.add(a_run("bad-2"), [a_record()])
    assert run_cli(["results", "--withdraw", "bad"]) == 2
    assert "2 runs begin with 'bad'" in capsys.readouterr().err
    assert run_cli(["results", "--withdraw", "none"]) == 2
    assert run_cli(["results", "--withdraw", ""]) == 2
    assert run_cli(["results", "--reason", "why"]) == 2
    assert len(store.runs()) == 3
    assert run_cli(["results", "--withdraw", "bad-1", "--reason", "not my machine"]) == 0
    assert [run.uid for run in store.runs()] == ["bad-2", "good"]
    assert len(store.every_run()) == 3
    assert len(list(store.records(a_run("bad-1")))) == 2
    rows = results().set_index("run")["withdrawn"].to_dict()
    assert rows == {"good": "", "bad-1": "not my machine", "bad-2": ""}
    # Once is enough, and what is measured again does not bring it back.
    withdraw("bad-1", "twice")
    store.add(a_run("bad-1"), [a_record(size=256)])
    assert results().set_index("run")["withdrawn"]["bad-1"] == "not my machine"
    assert [run.uid for run in store.runs()] == ["bad-2", "good"]
    with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
        sqlite3.connect(store.path).execute("DELETE FROM withdrawal")


def test_a_store_of_an_earlier_loopwright_is_gone_on_with():
    store = Store.open()
    store.add(a_run(), [a_record()])
    store._database.execute("DROP TABLE withdrawal")
    store._database.execute("PRAGMA user_version = 1")
    assert store.withdrawn() == {}
    store.close()
    again = Store.open()
    assert again.runs() == [a_run()]
    withdraw("u")
    assert again.runs() == []


@pytest.mark.parametrize("banner", ["{}", "[]", "no JSON", '{"isa": "x86_64"}', "null", "{" * 5000])
def test_a_machine_that_cannot_be_read_is_listed_and_used_for_nothing(banner):
    store = Store.open()
    store.add(a_run("bad"), [a_record()])
    store.add(a_run("good"), [a_record()])
    store._database.execute("DROP TRIGGER run_no_update")
    store._database.execute("UPDATE run SET banner = ? WHERE uid = 'bad'", [banner])
    rows = results().set_index("run")
    assert rows["machine"]["bad"] == "not to be read from the store"
    assert rows["microarch"].to_dict() == {"bad": "", "good": "zen2"}
    table, sources = stored_measurements(kernels.load("x86_64/copy_user"), store)
    assert (len(table), sources) == (0, [])
    assert run_cli(["results"]) == 0


def _elsewhere(commands, script):
    """Run shell commands and a Python script in a world of mounts of their own."""
    text = " && ".join([*commands, f"{sys.executable} -c '{script}'"])
    command = ["unshare", "--mount", "sh", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr or "not permitted" in done.stderr:
        pytest.skip(f"mounts cannot be made here: {done.stderr.strip()[:100]}")
    return done


def test_a_full_disk_is_named_and_nothing_is_half_there(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    records = "\n".join(
        [
            "from test_store import *",
            "from pathlib import Path",
            f'store = Store.open(Path("{disk}/results.sqlite"))',
            "store.add(a_run(), [a_record(size=1)])",
            'try: store.add(a_run("big"), (a_record(size=n) for n in range(100000)))',
            "except InputError as error: print(error)",
            "print(len(store.runs()), store.add(a_run(), [a_record(size=1)]))",
        ]
    )
    places = json.dumps([str(ROOT / "tests"), str(Path(__file__).parent)])
    script = f"import sys; sys.path[:0] = {places}\n{records}"
    done = _elsewhere([f"mount -t tmpfs -o size=1m none {disk}"], script)
    assert "database or disk is full" in done.stdout, done.stderr
    assert "make room there" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 0"


def test_a_store_that_cannot_be_written_can_be_read(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    logged, closed = (Store.open(disk / f"{name}.sqlite") for name in ("logged", "closed"))
    for one in (logged, closed):
        one.add(a_run(), [a_record()])
    closed.close()
    script = [
        "import os",
        "from loopwright.cli import run",
        f'for path in ("{logged.path}", "{closed.path}"):',
        '    os.environ["LOOPWRIGHT_RESULTS"] = path',
        '    print(run(["results", "--csv"]), run(["results", "--withdraw", "u"]))',
    ]
    commands = [f"mount --bind {disk} {disk}", f"mount -o remount,bind,ro {disk}"]
    done = _elsewhere(commands, "\n".join(script))
    lines = done.stdout.splitlines()
    assert lines.count("0 2") == 2, done.stderr
    assert done.stdout.count("x86_64/copy_user,movsq") == 2
    assert done.stderr.count("readonly") == done.stderr.count("\n") == 2


def _write(uid):
    store = Store.open()
    return sum(store.add(a_run(uid), [a_record(size=size)]) for size in range(50))


def test_many_write_at_once():
    with ProcessPoolExecutor(4) as pool:
        assert list(pool.map(_write, ["a", "b", "a", "b"])).count(0) <= 2
    assert len(Store.open().runs()) == 2
    assert [len(list(Store.open().records(a_run(uid)))) for uid in "ab"] == [50, 50]


@pytest.mark.measures
@X86_ONLY
def test_what_is_measured_is_kept_and_not_measured_again(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
    first = lw.measure("x86_64/fixture/copy_words", sizes=(0, 64), alignments=ONE)
    store = Store.open()
    [run] = store.runs()
    kept = list(store.records(run))
    assert {r.answer["clock"] for r in kept} == set(first["clock"])
    assert all(r.variant == "copy_words" and len(r.object) == 64 for r in kept)
    accepted = [r for r in kept if not r.answer["refused"]]
    again = lw.measure("x86_64/fixture/copy_words", sizes=(0, 64), alignments=ONE, resume=True)
    now = list(store.records(run))
    assert store.runs() == [run]
    # Only what was refused is tried again.
    assert sum(not r.answer["refused"] for r in now[: len(kept)]) == len(accepted)
    if len(accepted) == len(kept):
        assert len(now) == len(kept)
        assert again["cycles"].tolist() == first["cycles"].tolist()
    # Other sizes are measured beside, in the same run; without resume it is another.
    lw.measure("x86_64/fixture/copy_words", sizes=(128,), alignments=ONE, resume=True)
    assert store.runs() == [run]
    assert {r.answer["count"] for r in store.records(run)} > {r.answer["count"] for r in kept}
    lw.measure("x86_64/fixture/copy_words", sizes=(0,), alignments=ONE)
    assert len(store.runs()) == 2


@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_store_that_another_process_makes_meanwhile_is_ours(tmp_path, late):
    place = tmp_path / "results.sqlite"
    connection = sqlite3.connect(place, isolation_level=None)
    seen = []
    connection.set_trace_callback(
        lambda said: seen.append(said) or len(seen) != late or store.connect(place).close()
    )
    store._identify(connection, place)
    assert len(seen) >= 3
    assert store._identify(connection, place)[0] == SCHEMA


@pytest.mark.measures
@X86_ONLY
@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGKILL], {signal.SIGKILL}))
def test_an_interrupted_run_keeps_what_it_measured(number):
    asked = ["x86_64/copy_user/loop32", "--sizes=64", "--align=0:0,1:0"]
    command = [sys.executable, "-c", MAIN, "measure", *asked]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while process.poll() is None:
        if Path(os.environ["LOOPWRIGHT_RESULTS"]).exists():
            runs = Store.open().runs()
            if runs and len(list(Store.open().records(runs[0]))) > 5:
                break
    process.send_signal(number)
    process.communicate()
    [run] = Store.open().runs()
    kept = [json.dumps(r.answer) for r in Store.open().records(run)]
    assert len(kept) > 5
    lw.measure("x86_64/copy_user/loop32", sizes=(64,), alignments=((0, 0), (1, 0)), resume=True)
    assert Store.open().runs() == [run]
    assert [json.dumps(r.answer) for r in Store.open().records(run)][: len(kept)] == kept
