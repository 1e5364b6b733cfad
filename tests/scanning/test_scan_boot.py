"""Patches of a scan, booted: kernels that run the aligned loops; run by make verify-boot."""

import re
import shutil
from pathlib import Path

import pytest
from linux_trees import SOMEONE, whole_tree

from loopwright import microarchs
from loopwright.linux import boot_tier, object_tier
from loopwright.linux.build import Overlay, hold
from loopwright.linux.verification import FAIL, PASS, Tier, outcomes
from loopwright.scanning import alignment_patches, images
from loopwright.scanning.alignment_patches import Booted, PatchedFile
from loopwright.scanning.binary_loops import ScannedLoop, find_loops
from loopwright.scanning.scan import Question, scanned

pytestmark = [pytest.mark.slow, pytest.mark.boot]

X86, STOS = "arch/x86/lib/clear_page_64.S", "rep_stos_alternative"


def _booting(isa: str) -> None:
    program, package = boot_tier._PROGRAMS[isa]
    if not shutil.which(program):
        pytest.skip(f"booting kernels needs {program}: `apt install {package}`")


def _object(isa: str, file: str, folder: Path) -> Path:
    """The object of a file of 6.12, built by its own makefiles."""
    name = file.replace(".S", ".o")
    with hold(whole_tree("6.12")) as overlay:
        overlay.put({})
        build = object_tier.prepare(overlay, isa)
        object_tier.build_anew(build, [name])
        path = folder / Path(name).name
        path.write_bytes((build.folder / name).read_bytes())
    return path


def test_the_kernel_with_a_patch_boots_and_runs_the_loop(tmp_path: Path) -> None:
    _booting("x86_64")
    scan = scanned(Question(_object("x86_64", X86, tmp_path), microarch="zen2"))
    root = str(whole_tree("6.12").root)
    made = alignment_patches.patch(scan, STOS, root, tmp_path / "out", None, SOMEONE, tier="boot")
    status = {str(row["check"]): str(row["status"]) for row in made.checks}
    assert (
        status["kernel"] == status["code offset in the kernel"] == status["loops that ran"] == PASS
    )
    assert status["boot: SMAP, neither ERMS nor FSRM"] == PASS
    assert status["sweep zero: no SMAP, ERMS, FSRM"] == PASS
    assert made.file
    text = " ".join(made.file.read_text().split())
    assert "Booted under QEMU" in text
    row = re.search(r"SMAP, neither ERMS nor FSRM ([\d,]+) \d+ pass ([\d,]+) as they must", text)
    assert row
    assert all(int(number.replace(",", "")) > 1000 for number in row.groups())
    assert "Not shown: its speed on hardware; what loops take elsewhere" in text


def _rows(checks: Tier) -> dict[str, tuple[str, str]]:
    rows = outcomes(checks, "loops", "boot", "again", None)
    return {str(row["check"]): (str(row["status"]), str(row["what"])) for row in rows}


def _patched_file(
    overlay: Overlay, isa: str, file: str, function: str, loops: list[ScannedLoop]
) -> PatchedFile:
    core = microarchs.load("zen2" if isa == "x86_64" else "neoverse-n1")
    every = [dict.fromkeys(range(len(loops)), 64)]
    patched = PatchedFile(overlay.tree, overlay, isa, function, file, loops, every, [core])
    for check in (patched._prepare, patched._find, patched._change, patched._same):
        check()
    return patched


def _loops(path: Path, function: str) -> list[ScannedLoop]:
    image = images.read_image(path)
    loops = find_loops(image).loops
    return [loops[n] for n in alignment_patches.inside(image.sections, loops, function)]


def test_what_the_object_does_not_show_the_boot_finds(tmp_path: Path) -> None:
    """An entry of the exception table gone: all instructions are as they were."""
    _booting("x86_64")
    loops = _loops(_object("x86_64", X86, tmp_path), STOS)
    with hold(whole_tree("6.12")) as overlay:
        patched = _patched_file(overlay, "x86_64", X86, STOS, loops)
        lines = patched.new.splitlines(keepends=True)
        at = next(n for n, line in enumerate(lines) if "_ASM_EXTABLE_UA(10b" in line)
        patched.new = "".join([*lines[:at], *lines[at + 1 :]])
        rows = _rows(Booted(patched).checks())
        overlay.put({})
    assert FAIL in [status for status, _ in rows.values()]
    assert rows["kernel"][0] == rows["code offset in the kernel"][0] == PASS


def test_guests_of_arm64_run_aligned_loops(tmp_path: Path) -> None:
    _booting("arm64")
    file, function = "arch/arm64/lib/clear_user.S", "__arch_clear_user"
    loops = _loops(_object("arm64", file, tmp_path), function)
    with hold(whole_tree("6.12")) as overlay:
        booted = Booted(_patched_file(overlay, "arm64", file, function, loops))
        rows = _rows(booted.checks())
        overlay.put({})
    assert {status for status, _ in rows.values()} <= {PASS, "not covered"}
    assert rows["loops that ran"][0] == PASS
    assert all(loop.address % 64 == 0 for loop in booted.loops)
