"""Tier boot: kernels with a patch, booted under QEMU; run by make verify-boot."""

import shutil

import pytest
from linux_trees import whole_tree
from test_verify import patched

from loopwright.linux import boot_tier, verification, verify

pytestmark = [pytest.mark.slow, pytest.mark.boot]

TARGETS = [
    "x86_64/copy_user/overlapped",
    "x86_64/clear_user/aligned16",
    "x86_64/put_event/write_begin",
    "x86_64/put_event/masked",
    "x86_64/csum/adc2",
    "arm64/copy_user/to_user_nopan",
]


@pytest.mark.parametrize("spec", TARGETS)
def test_a_patched_kernel_boots_and_its_copies_survive_every_fault(spec, tmp_path, capsys):
    tree = whole_tree("6.12")
    subject = patched(spec, tree, tmp_path)
    program, package = boot_tier._PROGRAMS[subject.isa]
    if not shutil.which(program):
        pytest.skip(f"booting kernels needs {program}: `apt install {package}`")
    rows = []

    def said(row):
        rows.append(row)
        with capsys.disabled():
            print(f"\n{row['tier']}: {row['check']}: {row['status']}: {row['what']}", end="")

    verify.run(subject, "boot", said)
    failed = [row for row in rows if row["status"] == verification.FAIL]
    assert not failed
    passed = [row["check"] for row in rows if row["status"] == "pass" and row["tier"] == "boot"]
    for suite in ("usercopy", "checksum")[: 1 + ("csum" in spec)]:
        assert len([name for name in passed if name.startswith(f"KUnit {suite}")]) >= 3
    with_smap = "SMAP, neither ERMS nor FSRM" if subject.isa == "x86_64" else "PAN"
    without = "no SMAP, ERMS, FSRM" if subject.isa == "x86_64" else "no PAN, as Cortex-A72"
    for machine in (with_smap, without):
        for sweep in ("write", "read", "zero", "epoll"):
            assert f"sweep {sweep}: {machine}" in passed
