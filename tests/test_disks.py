"""Disks that are full or cannot be written: one line, exit code 2, nothing half written."""

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from checkout import LOOPWRIGHT
from few_variants import few
from quick import some

from loopwright import files
from loopwright.errors import InputError

LIBRARY = Path("/lib/x86_64-linux-gnu/libcrypt.so.1")
DISKS = {"full": ("size=64k", "No space left"), "read-only": ("size=1m,ro", "Read-only file sys")}
NO_MEASURE = ("--microarch", "sandybridge", "--no-measure")
VERBS = {
    "scan": [LIBRARY, "--microarch", "zen2", "--html", "{disk}/loops.html"],
    "kit": ["-o", "{disk}/kit.tar.gz"],
    "report": ["x86_64/clear_user", *NO_MEASURE, "-o", "{disk}/out"],
    "kmod": ["source", "x86_64/put_event", "-o", "{disk}/kmod"],
    "calibrate": ["--quick", "--machine", "simulated:skylake", "-o", "{disk}/cores"],
}
# Arguments: mount options, the place, a file for the list of what is left there, the command.
MOUNTED = """
mount -t tmpfs -o "$1" tmpfs "$2" || exit 77
place=$2 left=$3; shift 3
"$@"; code=$?
find "$place" -type f >"$left"; exit $code
"""


def on_disk(options, place, *command):
    """Run a command with a small disk at place; return what it did and which files are left."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here: no small disk can be mounted")
    left = place.parent / "left"
    mounting = ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNTED, "sh", options]
    run = subprocess.run([*mounting, place, left, *command], capture_output=True, text=True)
    if run.returncode == 77 or "unshare:" in run.stderr:
        pytest.skip(f"no small disk can be mounted here: {run.stderr.strip()}")
    return run, left.read_text().split()


# A page, a folder and answers of a machine stand for what others write; one for a read-only disk.
QUICK = {("scan", "full"), ("kmod", "full"), ("calibrate", "full"), ("kmod", "read-only")}


@pytest.mark.parametrize(("verb", "disk"), some(product(VERBS, DISKS), QUICK))
def test_a_verb_that_writes_ends_in_one_line(tmp_path, monkeypatch, verb, disk):
    if verb == "scan" and not LIBRARY.exists():
        pytest.skip(f"no {LIBRARY} here")
    if verb == "report":
        few(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", "unrolled64", "aligned16")
    place = tmp_path / "disk"
    place.mkdir()
    arguments = [str(a).format(disk=place) for a in VERBS[verb]]
    options, word = DISKS[disk]
    run, left = on_disk(options, place, LOOPWRIGHT, verb, *arguments)
    assert run.returncode == 2, run.stderr
    lines = run.stderr.splitlines()
    assert "Traceback" not in run.stderr
    [line] = [candidate for candidate in lines if candidate.startswith("loopwright: ")]
    assert str(place) in line
    assert word in line
    # What a machine has answered is kept: the next run goes on there.
    assert [name for name in left if not name.endswith("answers.jsonl")] == []


@pytest.mark.parametrize("arguments", [["list", "kernels"], ["predict", "x86_64/csum", "--json"]])
def test_output_that_nobody_takes_is_one_line(arguments):
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [LOOPWRIGHT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert "No space left on device" in line


def test_a_harness_that_cannot_be_built_names_the_variable(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    run, _ = on_disk(
        "size=1m,ro", place, "env", f"LOOPWRIGHT_BUILD={place}", LOOPWRIGHT, "check",
        "x86_64/csum/adc1",
    )  # fmt: skip
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert "LOOPWRIGHT_BUILD" in line


def fail_half_way(path):
    with files.replaced(path) as part:
        part.write_text("half")
        raise ZeroDivisionError


def test_a_file_that_is_not_finished_leaves_the_old_one(tmp_path):
    path = tmp_path / "new" / "table.csv"
    with pytest.raises(ZeroDivisionError):
        fail_half_way(path)
    assert list(tmp_path.iterdir()) == []
    files.written(path, "whole")
    with pytest.raises(ZeroDivisionError):
        fail_half_way(path)
    assert [p.name for p in path.parent.iterdir()] == ["table.csv"]
    assert path.read_text() == "whole"


def test_a_folder_where_a_file_is_wanted_is_one_line(tmp_path):
    with pytest.raises(InputError, match="directory"):
        files.written(tmp_path, "text")


def test_a_fault_of_the_program_is_not_taken_for_a_full_disk(tmp_path):
    with pytest.raises(FileNotFoundError), files.staged(tmp_path / "out"):
        (tmp_path / "missing").read_text()
    assert list(tmp_path.iterdir()) == []
