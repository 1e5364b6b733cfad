"""The module in kernels that run: checks on real user memory; run by make verify-kmod.

QEMU interprets here: it proves what code does, and what the module refuses.
"""

import os
import shutil
from pathlib import Path

import kmod_guest
import pytest
from kmod_guest import A_VARIANT, MACHINES, session

from loopwright import kernels, paths
from loopwright.kernels.contracts import EFFECTS
from loopwright.portable import kmod

pytestmark = [pytest.mark.slow, pytest.mark.boot]
READS = ("cpu", "select")
SELECTED = "variant={} count=16 dst_align=3 src_align=5 offset=0 user=dst samples=12"


def test_it_builds_without_a_warning_and_leaves_no_variant_out(kmod_built):
    module = kmod_built[1]
    assert module.warnings == ()
    assert module.left_out == ()
    every = {
        v.id
        for k in kernels.every()
        if k.isa == module.isa
        for v in k.variants.values()
        if EFFECTS[kernels.contract_of(v).effect].in_module
    }
    assert set(module.variants) == every


@pytest.mark.parametrize(("isa", "cpu", "guards"), MACHINES)
def test_every_variant_keeps_its_contract_and_nothing_is_timed(kmod_built, isa, cpu, guards):
    if kmod_built[1].isa != isa:
        pytest.skip("the other architecture's kernel")
    point = f"variant={A_VARIANT[isa]} count=16"
    steps = [
        "load", "read variants", "write run self-test", "read results self-test",
        "write run check", "read results check", "write cpu 1", f"write select {point}",
        "write run measure", "read results measure", "unload",
    ]  # fmt: skip
    found = session(kmod_built, cpu, steps)
    assert {step: found.returned[step] for step in steps} == dict.fromkeys(steps, "0")
    [about] = found.read("read results self-test")
    assert {key: about[key] for key in guards} == guards
    assert about["refused"] == "emulated: no timing"
    assert about["cpu"] == 0

    listed = found.read("read variants")
    assert {x["id"] for x in listed} == set(kmod_built[1].variants)
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


def test_wrong_words_are_refused_and_change_nothing(kmod_built):
    isa = kmod_built[1].isa
    right = SELECTED.format(A_VARIANT[isa])
    wrong = [f"write {line.format(A_VARIANT[isa])}" for line in kmod_guest.WRONG]
    steps = ["load", "write run measure", "write cpu 1", f"write select {right}"]
    steps += [f"read {file} before" for file in READS]
    steps += [*wrong, *(f"read {file} after" for file in READS), "unload"]
    found = session(kmod_built, MACHINES[0][1] if isa == "x86_64" else MACHINES[2][1], steps)
    # Nothing was selected when it was first asked to measure.
    assert found.returned["write run measure"] == "EINVAL"
    outcomes = {step: found.returned[step] for step in wrong}
    assert outcomes == dict.fromkeys(wrong, "EINVAL")
    for when in ("before", "after"):
        assert found.line(f"read cpu {when}") == "1"
        assert found.line(f"read select {when}") == right


def test_a_variant_that_this_cpu_cannot_run_is_not_selected(kmod_built):
    if kmod_built[1].isa != "x86_64":
        pytest.skip("the arm64 kernel runs all variants but one")
    step = "write select variant=x86_64/copy_user/movsb count=64"
    found = session(kmod_built, "max,-erms", ["load", step, "read select", "unload"])
    assert found.returned[step] == "EOPNOTSUPP"
    assert found.line("read select") == ""


def test_a_signal_ends_a_run_and_the_module_still_goes(kmod_built):
    cpu = MACHINES[0][1] if kmod_built[1].isa == "x86_64" else MACHINES[2][1]
    steps = ["load", "signal run check", "read results", "write run self-test", "unload"]
    found = session(kmod_built, cpu, steps)
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


MUTANTS = {
    "no clac": (
        "x86_64/put_event/masked_outside.c",
        "	user_write_access_end();\n	return uevent + 1;",
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
def test_an_error_put_in_on_purpose_is_found(kmod_built, kind, tmp_path, monkeypatch):
    file, old, new, spec, cpu, said = MUTANTS[kind]
    folder, module = kmod_built
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
