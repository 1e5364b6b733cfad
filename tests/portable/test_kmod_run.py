"""The module where it would time, behind its gate against emulators; run by make verify-kmod."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import kmod_guest
import pytest
from kmod_guest import A_VARIANT, MACHINES, session

from loopwright.measuring.results import import_results, results
from loopwright.portable import kmod
from loopwright.portable.kmod import MODULE, compiled

pytestmark = [pytest.mark.slow, pytest.mark.boot]
# What keeps the module from timing an emulator, by file; for tests of what lies behind it.
GATE = (
    "arch.c", "bool arch_emulated(void)\n{", "bool arch_emulated(void)\n{\n\tif (1) return false;"
)  # fmt: skip
# Long enough that a CPU can be taken away meanwhile, however slow the emulator is.
SLOWLY = ("meter.c", "usleep_range(us, us + SLACK);", "msleep_interruptible(200);")
HELD = ("common/known.c", "test.held = test.cycles &&", "test.held = true || test.cycles &&")
FORCED = {
    "x86_64": (
        GATE,
        ("arch.c", "!boot_cpu_has(X86_FEATURE_CONSTANT_TSC)", "0"),
        ("arch.c", "!boot_cpu_has(X86_FEATURE_NONSTOP_TSC)", "0"),
        ("arch.c", "check_tsc_unstable()", "0"),
        ("arch.c", "!tsc_khz", "0"),
        ("arch.c", "(u64)tsc_khz * 1000", "2600000000ull"),
        HELD,
    ),
    "arm64": (GATE, HELD),
}


def rebuilt(kmod_built, folder, edits):
    """The module, built from sources that are changed."""
    kernel, module = kmod_built
    kmod.write(folder, module.isa)
    for name, old, new in edits:
        text = (folder / name).read_text()
        assert text.count(old) == 1
        (folder / name).write_text(text.replace(old, new))
    compiled(kernel, module.isa, folder)
    return kernel, replace(module, module=folder / MODULE)


def test_behind_its_gate_the_self_test_refuses_an_emulator(kmod_built, tmp_path):
    isa = kmod_built[1].isa
    steps = ["load", "write run self-test", "read results", "unload"]
    cpu = MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1]
    found = session(rebuilt(kmod_built, tmp_path / "kmod", [GATE]), cpu, steps)
    [about] = found.read("read results")
    if isa == "x86_64":
        # No counter of constant rate to begin with.
        assert about["clock"] == "tsc-calibrated"
        assert about["refused"]
        return
    # QEMU counts cycles of its own there, which are read; the loops do not take those known.
    assert about["clock"] == "perf-rdpmc"
    assert about["refused"].startswith("self-test failed: add chain at 0.")
    tests = {t["name"]: t for t in about["self_test"]}
    assert set(tests) == {"add chain", "eor chain", "load stream", "taken branches", "nop stream"}
    assert tests["add chain"]["known"] == 1
    assert not tests["add chain"]["held"]


def test_a_cpu_that_goes_offline_ends_a_run_and_the_next_one_is_as_ever(kmod_built, tmp_path):
    isa = kmod_built[1].isa
    cpu = MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1]
    count = 1 if isa == "x86_64" else 16
    steps = [
        "load", "write cpu 1", f"write select variant={A_VARIANT[isa]} count={count} samples=256",
        "unplug run check", "read results check", "write run self-test", "plug",
        "unplug run measure", "read results measure", "plug again", "unload",
    ]  # fmt: skip
    module = rebuilt(kmod_built, tmp_path / "kmod", (*FORCED[isa], SLOWLY))
    found = session(module, cpu, steps)
    # What had been checked until then is there; it is not said to hold what was not tried.
    *whole, last = found.read("read results check")
    assert all(x["passed"] for x in whole)
    assert (last["passed"], last["failure"]) == (False, "the CPU went away")
    assert found.returned["write run self-test"] == "ENODEV"
    *_, reading = found.read("read results measure")
    assert reading["refused"]
    assert reading["cycles"] is None
    assert found.returned["plug again"] == "0"


@pytest.fixture
def busybox():
    found = shutil.which("busybox")
    command = ["readelf", "-l", found or ""]
    headers = subprocess.run(command, capture_output=True, text=True, check=False)
    if not found or "INTERP" in headers.stdout:
        pytest.skip("run in a guest needs a static busybox: `apt install busybox-static`")
    return Path(found).read_bytes()


def shell_steps(command):
    return [f"shell {command}", "shell cat /tmp/out"]


def results_of(found, path):
    path.write_text("".join(f"{line}\n" for line in found.lines("shell cat /tmp/out")))
    return path


def test_run_says_why_nothing_is_measured_in_a_file_that_import_takes(
    kmod_built, busybox, tmp_path, monkeypatch
):
    kernel, module = kmod_built
    if module.isa != "x86_64":
        pytest.skip("busybox is this machine's")
    files = {"busybox": busybox, "run": (module.module.parent / "run").read_bytes()}
    steps = shell_steps("sh /run -o /tmp/out")
    found = kmod_guest.boot(kernel, module, "max", steps, files)
    assert found.complaints == []
    assert [found.returned[s] for s in steps] == ["0", "0"]
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "results.sqlite"))
    [row] = import_results([results_of(found, tmp_path / "out.jsonl")]).to_dict("records")
    assert (row["new"], row["damaged"], row["missing"]) == (0, 0, 0)
    assert "emulated: no timing" in row["note"]


def test_what_run_measures_is_imported_and_stays_apart_from_user_space(
    kmod_built, busybox, tmp_path, monkeypatch
):
    if kmod_built[1].isa != "x86_64":
        pytest.skip("busybox is this machine's")
    kernel, module = rebuilt(kmod_built, tmp_path / "kmod", FORCED["x86_64"])
    files = {"busybox": busybox, "run": (tmp_path / "kmod/run").read_bytes()}
    steps = shell_steps("sh /run -c 1 -r 2 -o /tmp/out 'x86_64/put_event/masked*'")
    found = kmod_guest.boot(kernel, module, "max", steps, files)
    assert found.complaints == []
    assert found.returned[steps[0]] == "0"
    file = results_of(found, tmp_path / "out.jsonl")
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "results.sqlite"))
    [row] = import_results([file]).to_dict("records")
    # Two variants at 1, 8 and 32 records, twice.
    assert (row["new"], row["damaged"], row["missing"]) == (12, 0, 0)
    [again] = import_results([file]).to_dict("records")
    assert (again["new"], again["there"]) == (0, 12)
    listed = results("x86_64/put_event")
    assert set(listed["variant"]) == {"masked", "masked_outside"}
    assert set(listed["code"]) == {"today's, in the kernel"}
    assert set(listed["processes"]) == {2}
