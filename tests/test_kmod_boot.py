"""The module in kernels that run: checks on real user memory; run by make verify-kmod.

QEMU interprets here: it proves what code does, and what the module refuses.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import kmod_guest
import pytest

from loopwright import kernels, paths
from loopwright.portable import kmod
from loopwright.portable.kmod.build import MODULE, compiled
from loopwright.store.importing import import_results
from loopwright.store.results import results

pytestmark = [pytest.mark.slow, pytest.mark.boot]

MACHINES = [
    ("x86_64", "max,+smap", {"smap": True}),
    ("x86_64", "max,-smap,-erms", {"smap": False, "erms": False}),
    ("arm64", "max,pauth-impdef=on", {"pan": True}),
    ("arm64", "cortex-a72", {"pan": False}),
]
A_VARIANT = {"x86_64": "x86_64/put_event/masked", "arm64": "arm64/copy_user/to_user_pairs"}
READS = ("cpu", "select")
SELECTED = "variant={} count=16 dst_align=3 src_align=5 offset=0 user=dst samples=12"


@pytest.fixture(scope="module", params=["x86_64", "arm64"])
def built(request, tmp_path_factory):
    """A kernel, and the module with all variants built for it."""
    folder = kmod_guest.kernel(request.param)
    return folder, kmod.build(folder, tmp_path_factory.mktemp("kmod") / request.param)


def session(built, cpu, steps):
    folder, module = built
    found = kmod_guest.boot(folder, module, cpu, steps)
    assert found.complaints == []
    assert found.returned["load"] == "0"
    assert found.returned["unload"] == "0"
    return found


def test_it_builds_without_a_warning_and_leaves_no_variant_out(built):
    module = built[1]
    assert module.warnings == ()
    assert module.left_out == ()
    every = {v.id for k in kernels.every() if k.isa == module.isa for v in k.variants.values()}
    assert set(module.variants) == every


@pytest.mark.parametrize(("isa", "cpu", "guards"), MACHINES)
def test_every_variant_keeps_its_contract_and_nothing_is_timed(built, isa, cpu, guards):
    if built[1].isa != isa:
        pytest.skip("the other architecture's kernel")
    point = f"variant={A_VARIANT[isa]} count=16"
    steps = [
        "load", "read variants", "write run self-test", "read results self-test",
        "write run check", "read results check", "write cpu 1", f"write select {point}",
        "write run measure", "read results measure", "unload",
    ]  # fmt: skip
    found = session(built, cpu, steps)
    assert {step: found.returned[step] for step in steps} == dict.fromkeys(steps, "0")
    [about] = found.read("read results self-test")
    assert {key: about[key] for key in guards} == guards
    assert about["refused"] == "emulated: no timing"
    assert about["cpu"] == 0

    listed = found.read("read variants")
    assert {x["id"] for x in listed} == set(built[1].variants)
    runs = {x["id"] for x in listed if x["runs"]}
    if isa == "x86_64":
        assert ("x86_64/copy_user/movsb" in runs) == ("-erms" not in cpu)
        assert ("x86_64/put_event/stat_buffer" in runs) == ("-erms" in cpu)
    else:
        assert ("arm64/copy_user/to_user_nopan" in runs) == (not guards["pan"])
    checks = {x["id"]: x for x in found.read("read results check")}
    assert set(checks) == runs
    assert [x for x in checks.values() if not x["passed"] or x["failure"]] == []
    for key, check in checks.items():
        floor = 300 if "/put_event/stat" not in key else 150
        assert check["cases"] > floor
        assert (check["faults"] > 100) == ("/csum/" not in key)
        # arm64's copies may claim too little, and do; those of x86 must not.
        assert (check["over_report"] > 0) == (isa == "arm64")

    *_, reading = found.read("read results measure")
    assert reading["refused"] == "emulated: no timing"
    assert reading["cycles"] is None
    assert reading["samples"] == []
    assert (reading["cpu"], reading["mode"], reading["user"]) == (1, "kernel", "dst")
    assert reading["skew"] == 2048


def test_wrong_words_are_refused_and_change_nothing(built):
    isa = built[1].isa
    right = SELECTED.format(A_VARIANT[isa])
    wrong = [f"write {line.format(A_VARIANT[isa])}" for line in kmod_guest.WRONG]
    steps = ["load", "write run measure", "write cpu 1", f"write select {right}"]
    steps += [f"read {file} before" for file in READS]
    steps += [*wrong, *(f"read {file} after" for file in READS), "unload"]
    found = session(built, MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1], steps)
    # Nothing was selected when it was first asked to measure.
    assert found.returned["write run measure"] == "EINVAL"
    outcomes = {step: found.returned[step] for step in wrong}
    assert outcomes == dict.fromkeys(wrong, "EINVAL")
    for when in ("before", "after"):
        assert found.line(f"read cpu {when}") == "1"
        assert found.line(f"read select {when}") == right


def test_a_variant_that_this_cpu_cannot_run_is_not_selected(built):
    if built[1].isa != "x86_64":
        pytest.skip("the arm64 kernel runs all variants but one")
    step = "write select variant=x86_64/copy_user/movsb count=64"
    found = session(built, "max,-erms", ["load", step, "read select", "unload"])
    assert found.returned[step] == "EOPNOTSUPP"
    assert found.line("read select") == ""


def test_a_signal_ends_a_run_and_the_module_still_goes(built):
    cpu = MACHINES[0][1] if built[1].isa == "x86_64" else MACHINES[2][1]
    steps = ["load", "signal run check", "read results", "write run self-test", "unload"]
    found = session(built, cpu, steps)
    assert found.returned["signal run check"] == "EINTR"
    assert found.returned["write run self-test"] == "0"
    # What was checked until then is there, and says where it ended.
    *whole, last = found.read("read results")
    assert last["failure"] == "interrupted"
    assert not last["passed"]
    assert all(x["passed"] for x in whole)


def test_it_runs_in_debian_s_own_kernel_of_6_1(tmp_path):
    headers = sorted(Path("/usr/src").glob("linux-headers-6.1.*-amd64"))
    release = headers[-1].name.removeprefix("linux-headers-") if headers else ""
    image = Path(os.environ.get("LOOPWRIGHT_BOOT") or "/boot") / f"vmlinuz-{release}"
    if not image.is_file():
        pytest.skip(
            "no kernel of Debian 12 with its headers: `apt install linux-headers-amd64 "
            "linux-image-amd64`, or name a folder that holds its vmlinuz by LOOPWRIGHT_BOOT"
        )
    module = kmod.build(headers[-1], tmp_path / "kmod")
    steps = ["load", "write run check", "read results", "write run self-test", "read results 2",
             "unload"]  # fmt: skip
    # A CPU whose returns the kernel guards by a thunk.
    found = kmod_guest.boot(image, module, "EPYC-Rome", steps)
    assert {step: found.returned[step] for step in steps} == dict.fromkeys(steps, "0")
    checks = found.read("read results")
    assert len(checks) > 15
    assert [x for x in checks if not x["passed"]] == []
    [about] = found.read("read results 2")
    assert about["smap"]
    assert about["release"] == release
    assert about["return_thunk"]


# What keeps the module from timing an emulator, by file; for tests of what lies behind it.
GATE = (
    "arch.c", "bool arch_emulated(void)\n{", "bool arch_emulated(void)\n{\n\tif (1) return false;"
)  # fmt: skip
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


def rebuilt(built, folder, edits):
    """The module, built from sources that are changed."""
    kernel, module = built
    kmod.write(folder, module.isa)
    for name, old, new in edits:
        text = (folder / name).read_text()
        assert text.count(old) == 1
        (folder / name).write_text(text.replace(old, new))
    compiled(kernel, module.isa, folder)
    return kernel, replace(module, module=folder / MODULE)


def test_behind_its_gate_the_self_test_refuses_an_emulator(built, tmp_path):
    isa = built[1].isa
    steps = ["load", "write run self-test", "read results", "unload"]
    cpu = MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1]
    found = session(rebuilt(built, tmp_path / "kmod", [GATE]), cpu, steps)
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
    assert set(tests) == {"add chain", "eor chain", "load stream", "taken branches"}
    assert tests["add chain"]["known"] == 1
    assert not tests["add chain"]["held"]


def test_a_cpu_that_goes_offline_ends_a_run_and_the_next_one_is_as_ever(built, tmp_path):
    isa = built[1].isa
    cpu = MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1]
    count = 1 if isa == "x86_64" else 16
    steps = [
        "load", "write cpu 1", f"write select variant={A_VARIANT[isa]} count={count} samples=256",
        "unplug run check", "read results check", "write run self-test", "plug",
        "unplug run measure", "read results measure", "plug again", "unload",
    ]  # fmt: skip
    found = session(rebuilt(built, tmp_path / "kmod", FORCED[isa]), cpu, steps)
    # What had been checked until then is there; it is not said to hold what was not tried.
    *whole, last = found.read("read results check")
    assert all(x["passed"] for x in whole)
    assert (last["passed"], last["failure"]) == (False, "the CPU went away")
    assert found.returned["write run self-test"] == "ENODEV"
    *_, reading = found.read("read results measure")
    assert reading["refused"]
    assert reading["cycles"] is None
    assert found.returned["plug again"] == "0"


PAGES_64K = ["load", "write run check", "read results", "unload"]


def test_every_variant_keeps_its_contract_with_pages_of_64_kib(tmp_path):
    folder = kmod_guest.kernel("arm64", pages=64)
    module = kmod.build(folder, tmp_path / "kmod")
    found = session((folder, module), "max,pauth-impdef=on", PAGES_64K)
    checks = found.read("read results")
    assert {x["id"] for x in checks} <= set(module.variants)
    assert len(checks) >= 4
    assert [x for x in checks if not x["passed"]] == []
    # Faults are met, at every position: the user side ends where the guard page begins.
    assert all(x["faults"] > 10000 for x in checks)


@pytest.fixture
def busybox():
    found = shutil.which("busybox")
    if not found or b"ld-linux" in Path(found).read_bytes():
        pytest.skip("run in a guest needs a static busybox: `apt install busybox-static`")
    return Path(found).read_bytes()


def shell_steps(command):
    return [f"shell {command}", "shell cat /tmp/out"]


def results_of(found, path):
    path.write_text("".join(f"{line}\n" for line in found.lines("shell cat /tmp/out")))
    return path


def test_run_says_why_nothing_is_measured_in_a_file_that_import_takes(
    built, busybox, tmp_path, monkeypatch
):
    kernel, module = built
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
    built, busybox, tmp_path, monkeypatch
):
    if built[1].isa != "x86_64":
        pytest.skip("busybox is this machine's")
    kernel, module = rebuilt(built, tmp_path / "kmod", FORCED["x86_64"])
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


MUTANTS = {
    "no clac": (
        "x86_64/put_event/masked_outside.c",
        "	user_access_end();\n	return uevent + 1;",
        "	return uevent + 1;",
        "x86_64/put_event/masked_outside",
        "max,+smap",
        "AC flag is left set",
    ),
    "clac in a routine whose caller has it": (
        "x86_64/clear_user/plain.S",
        ".Lexit:\n	RET",
        ".Lexit:\n	.byte 0x0f,0x01,0xca\n	RET",
        "x86_64/clear_user/plain",
        "max,+smap",
        "AC flag is cleared",
    ),
    "fixup that forgets a word": (
        "x86_64/copy_user/negative_index.S",
        "	subq $8,%rcx\n.Lfirst_of_pair:",
        ".Lfirst_of_pair:",
        "x86_64/copy_user/negative_index",
        "max,+smap",
        "fewer bytes are not done than cannot be accessed",
    ),
    "PAN left off": (
        "arm64/copy_user/to_user_pairs.S",
        "	mov	x0, #0\n	ret",
        "	.inst	0xd500409f\n	mov	x0, #0\n	ret",
        "arm64/copy_user/to_user_pairs",
        "max,pauth-impdef=on",
        "PAN is left clear",
    ),
}


@pytest.mark.parametrize("kind", MUTANTS)
def test_an_error_put_in_on_purpose_is_found(built, kind, tmp_path, monkeypatch):
    file, old, new, spec, cpu, said = MUTANTS[kind]
    folder, module = built
    if not spec.startswith(module.isa):
        pytest.skip("the other architecture's kernel")
    shutil.copytree(paths.kernels_root(), tmp_path / "kernels")
    source: Path = tmp_path / "kernels" / file
    assert source.read_text().count(old) >= 1
    source.write_text(source.read_text().replace(old, new, 1))
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(tmp_path / "kernels"))
    broken = kmod.build(folder, tmp_path / "kmod", [spec])
    steps = ["load", "write run check", "read results", f"write select variant={spec} count=1",
             "write run measure", "read results measure", "unload"]  # fmt: skip
    found = session((folder, broken), cpu, steps)
    [check] = found.read("read results")
    assert not check["passed"]
    assert said in check["failure"]
    reading = found.read("read results measure")[-1]
    assert reading["refused"] == "the check of the variant has not passed"
    assert reading["cycles"] is None
