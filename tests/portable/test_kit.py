"""A kit is packed alike twice, runs without Python, and what it measured comes home."""

import json
import re
import shutil
import signal
import subprocess
import tarfile
import time

import pytest
from calibration_kits import run
from checkout import DATA, ROOT
from test_store import BANNER

from loopwright import toolchain
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring.results import import_results, results
from loopwright.measuring.store import Store
from loopwright.portable.kit import kit

FIXTURES = DATA / "kernels"
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")
ONLY = ["--only", "x86_64/chains/imul"]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A kit of the fixtures, unpacked by tar."""
    folder = tmp_path_factory.mktemp("kit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
        kit(folder / "kit.tar.gz")
    subprocess.run(["tar", "-xzf", "kit.tar.gz"], cwd=folder, check=True)
    return folder / "loopwright-kit"


@pytest.fixture(autouse=True)
def _fixtures(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))


@pytest.fixture(scope="module")
def measured_file(packed):
    """What the kit measured on this machine, and what it said."""
    path = packed / "results.jsonl"
    return path, run(packed, *ONLY, "-o", path.name)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def planned(path):
    [plan] = [line for line in lines(path) if line.get("id") == "plan"]
    return plan["points"] * plan["processes"]


def test_the_same_tree_gives_the_same_kit(packed, tmp_path):
    said = kit(tmp_path / "again.tar.gz").iloc[0]
    again = (tmp_path / "again.tar.gz").read_bytes()
    assert again == (packed.parent / "kit.tar.gz").read_bytes()
    assert said["bytes"] == len(again)
    with tarfile.open(tmp_path / "again.tar.gz") as archive:
        members = archive.getmembers()
    names = {m.name.removeprefix("loopwright-kit/"): m for m in members}
    assert names["run"].mode == 0o755
    assert {"bin/harness-x86_64", "bin/harness-arm64", "jobs/arm64.jobs", "LICENSE"} <= set(names)
    assert {m.mtime for m in members} == {0}
    assert str(ROOT).encode() not in (packed / "bin" / "harness-x86_64").read_bytes()


def test_a_name_that_is_no_archive_is_refused(tmp_path):
    for name in ("kit.zip", "gone/kit.tar.gz"):
        with pytest.raises(InputError) as error:
            kit(tmp_path / name)
        assert str((tmp_path / name).parent) in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.measures(loud=True)
@X86_ONLY
def test_a_run_leaves_a_file_that_says_all(measured_file):
    path, done = measured_file
    assert done.returncode in (0, 1), done.stderr
    head, facts, *rest = lines(path)
    assert head["loopwright_results"] == 1
    assert facts["fingerprint"]
    assert [line["id"] for line in rest if "passed" in line] == ["x86_64/chains/imul"]
    readings = [line for line in rest if "point" in line]
    assert rest[-1] == {"end": 1, "readings": len(readings), "nothing_measured": ""} or (
        done.returncode == 1
    )
    # Three processes at least, each with its self-test and an order of its own; samples are raw.
    orders = []
    for line in rest:
        if line.get("id") == "clock":
            orders.append([])
        elif "point" in line:
            orders[-1].append(line["point"])
    assert len(orders) >= 3
    assert orders[0] != orders[1] or done.returncode == 1
    assert all(len(r["samples"]) >= 12 for r in readings if not r["refused"])
    assert "CPU" in done.stderr
    assert "clock" in done.stderr


@pytest.mark.measures(loud=True)
@X86_ONLY
def test_what_a_kit_measured_is_this_host(measured_file, capsys):
    path, _ = measured_file
    [first] = import_results([path]).to_dict("records")
    assert first["microarch"] == (hosts.microarch() or "")
    assert (first["there"], first["missing"], first["damaged"]) == (0, 0, 0)
    assert first["new"] >= planned(path)
    assert run_cli(["import", str(path)]) == 0
    assert f"0 new, {first['new']} already there" in capsys.readouterr().out
    assert len(Store.open().runs()) == 1
    listed = results("x86_64/chains")
    assert set(listed["code"]) == {"today's"}
    assert listed["records"].sum() == first["new"]


@pytest.mark.measures(loud=True)
@X86_ONLY
def test_a_file_that_was_cut_off_gives_all_whole_records(measured_file, tmp_path):
    path, _ = measured_file
    data = path.read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(data[: len(data) // 2])
    whole = sum("point" in json.loads(line) for line in data[: len(data) // 2].split(b"\n")[:-1])
    [row] = import_results([cut]).to_dict("records")
    assert row["new"] == whole
    assert row["missing"] == max(0, planned(path) - whole)
    assert "interrupted or cut off" in row["note"]


@pytest.mark.measures(loud=True)
@X86_ONLY
@pytest.mark.parametrize("damaged", ["reading", "clock"])
def test_a_damaged_line_is_noticed_by_the_count_at_the_end(measured_file, tmp_path, damaged):
    whole = measured_file[0].read_bytes().split(b"\n")[:-1]
    parsed = [json.loads(line) for line in whole]
    clocks = [n for n, line in enumerate(parsed) if line.get("id") == "clock"]
    readings = [n for n, line in enumerate(parsed) if "point" in line]
    # Without its clock, readings of the second process repeat points of the first.
    first = {parsed[n]["point"] for n in readings if n < clocks[1]}
    again = [n for n in readings if clocks[1] < n < clocks[2] and parsed[n]["point"] in first]
    number, lost = (clocks[1], again) if damaged == "clock" else (readings[0], readings[:1])
    whole[number] = whole[number][:40]
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"\n".join([*whole, b""]))
    [row] = import_results([cut]).to_dict("records")
    assert (row["missing"], row["damaged"]) == (len(lost), len({number, *lost}))
    assert row["new"] == len(readings) - len(lost)


@pytest.mark.measures(loud=True)
@X86_ONLY
@pytest.mark.parametrize(
    "text", [b"", b"{}\n", b"\x7fELF\0\1", b'{"loopwright_results": 2}\n', b"id,hex\n1,90\n"]
)
def test_what_is_no_file_of_results_changes_nothing(measured_file, tmp_path, text):
    wrong = tmp_path / "wrong"
    wrong.write_bytes(text)
    head = measured_file[0].read_bytes().split(b"\n")[0]
    (tmp_path / "head").write_bytes(head + b"\n")
    for other in (wrong, tmp_path / "head", tmp_path / "absent"):
        with pytest.raises(InputError) as error:
            import_results([measured_file[0], other])
        assert str(other) in str(error.value)
    assert Store.open().runs() == []


@pytest.mark.measures(loud=True)
@X86_ONLY
def test_an_interrupted_run_is_gone_on_with(packed, tmp_path):
    path = tmp_path / "cut.jsonl"
    only = ["--only", "x86_64/chains/xor"]
    command = ["sh", "./run", *only, "-o", str(path)]
    process = subprocess.Popen(command, cwd=packed, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and (not path.exists() or b'"point"' not in path.read_bytes()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert f"go on with ./run --resume {path}" in said
    before = path.read_text()
    assert before.endswith("\n")
    assert "end" not in lines(path)[-1]
    with path.open("a") as file:
        file.write('{"id": "x86_64/ch')  # as a power cut leaves it
    done = run(packed, *only, "--resume", str(path))
    assert done.returncode in (0, 1), done.stderr
    assert path.read_text().startswith(before)
    assert lines(path)[-1]["readings"] == sum("point" in line for line in lines(path))
    # What was checked before is not checked again.
    assert sum("passed" in line for line in lines(path)) == 1
    again = run(packed, *only, "--resume", str(path))
    assert "is complete" in again.stderr or "still wanted" in done.stderr


def test_a_file_of_another_kit_or_machine_is_left_alone(packed, tmp_path):
    path = tmp_path / "other.jsonl"
    hashed = (packed / "run").read_text().split("kit=")[1].split("\n")[0]
    facts = json.dumps({"id": "facts", **BANNER})
    for kit_hash, why in (("0" * 64, "another version of the kit"), (hashed, "another machine")):
        path.write_text(f'{{"loopwright_results": 1, "kit": "{kit_hash}"}}\n{facts}\n')
        before = path.read_bytes()
        done = run(packed, "--resume", str(path))
        assert done.returncode == 2
        assert why in done.stderr
        assert path.read_bytes() == before


def test_wrong_options_and_a_damaged_kit_are_named(packed, tmp_path):
    for options, why in ((["--frob"], "--frob is no option"), (["-o"], "-o needs a value")):
        done = run(packed, *options)
        assert done.returncode == 2
        assert why in done.stderr
    copy = tmp_path / "copy"
    shutil.copytree(packed, copy)
    with (copy / "jobs" / f"{toolchain.host_isa()}.jobs").open("a") as file:
        file.write("\n")
    done = run(copy)
    assert done.returncode == 2
    assert "unpack it again" in done.stderr


def test_a_name_that_the_kit_does_not_hold_is_named(packed, tmp_path):
    path = tmp_path / "none.jsonl"
    done = run(packed, "--only", "x86_64/chain", "-o", str(path))
    assert done.returncode == 2
    assert "--only x86_64/chain:" in done.stderr
    assert "x86_64/chains" in done.stderr
    assert not path.exists()


@pytest.mark.parametrize(
    ("tools", "said"), [((), "dirname and uname"), (("dirname",), "uname"), (("uname",), "dirname")]
)
def test_a_machine_without_dirname_or_uname_is_told_so_in_a_line(packed, tmp_path, tools, said):
    for tool in tools:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    path = str(tmp_path) if tools else ""
    done = subprocess.run(
        ["/bin/sh", "./run"], cwd=packed, env={"PATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == f"run: it needs {said}, which PATH ('{path}') does not have\n"


def test_a_machine_without_dev_null_will_do(packed, tmp_path):
    """The machine is one whose /dev is empty, as an early boot or a bare container leaves it."""
    path = tmp_path / "bare.jsonl"
    script = f"mount -t tmpfs none /dev && exec sh ./run --only x86_64/chain -o {path}"
    command = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(
        command, cwd=packed, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mounts cannot be made here: {done.stderr.strip()[:100]}")
    # As far as the options of the program itself: all that the shell does came before.
    assert "x86_64/chains" in done.stderr
    assert "/dev/null" not in done.stderr
    assert done.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
@pytest.mark.skipif(toolchain.host_isa() == "arm64", reason="arm64 is not emulated here")
def test_an_emulated_run_checks_and_measures_nothing(packed, tmp_path):
    path = tmp_path / "arm.jsonl"
    jobs = tmp_path / "jobs"
    # The check of one variant alone.
    whole = (packed / "jobs" / "arm64.jobs").read_text()
    head, first, _ = re.split(r"(?m)^(?=job check$)", whole, maxsplit=2)
    jobs.write_text(head + first.replace("job check\n", "job check\nmax_size 8\n"))
    program = ["qemu-aarch64", packed / "bin" / "harness-arm64", "kit", jobs, "HASH", "0.1.0"]
    done = subprocess.run([*program, "-o", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "emulated: no timing" in done.stderr
    assert any(line.get("passed") == 1 for line in lines(path))
    assert "emulated: no timing" in lines(path)[-1]["nothing_measured"]
    [row] = import_results([path]).to_dict("records")
    assert (row["new"], row["microarch"], row["machine"][:5]) == (0, "", "arm64")
    assert "nothing was measured there" in row["note"]
