"""A session that edits a file is answered from the file as it is now."""

import shutil
from pathlib import Path

import pytest
from few_variants import changed

import loopwright as lw
from loopwright import kernels, microarchs, paths
from loopwright.code import assemble
from loopwright.errors import InputError


@pytest.fixture
def clear_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a kernel that may be edited."""
    return changed(monkeypatch, tmp_path, "x86_64/clear_user")


@pytest.fixture
def zen2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a core that may be edited."""
    folder = tmp_path / "zen2"
    shutil.copytree(paths.models_root() / "zen2", folder)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path))
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def bytes_moved() -> int:
    rows = lw.predict("x86_64/clear_user/plain", microarch="zen2")
    return int(rows["bytes_per_iteration"].item())


def test_a_source_that_is_edited_is_assembled_anew(clear_user):
    assert bytes_moved() == 8
    edit(clear_user / "plain.S", "movq %rax,(%rdi)", "movl %eax,(%rdi)")
    assert bytes_moved() == 4
    edit(clear_user / "plain.S", "movl %eax,(%rdi)", "movw %ax,(%rdi)")
    assert bytes_moved() == 2


def test_a_file_that_a_source_includes_counts_as_its_text(clear_user):
    (clear_user / "store.h").write_text("#define STORE movq %rax, (%rdi)\n")
    edit(clear_user / "plain.S", "movq %rax,(%rdi)", "STORE")
    edit(clear_user / "plain.S", "#include <asm/asm.h>", '#include <asm/asm.h>\n#include "store.h"')
    assert bytes_moved() == 8
    (clear_user / "store.h").write_text("#define STORE movb %al, (%rdi)\n")
    assert bytes_moved() == 1
    (clear_user / "store.h").unlink()
    with pytest.raises(InputError, match=r"store\.h"):
        bytes_moved()


def test_code_that_has_not_changed_is_not_assembled_again(clear_user, monkeypatch):
    assert bytes_moved() == 8
    monkeypatch.setattr(assemble, "_assemble", None)
    assert bytes_moved() == 8
    (clear_user / "plain.S").touch()
    assert bytes_moved() == 8


def test_a_kernel_that_is_edited_is_read_anew(clear_user):
    assert kernels.load("x86_64/clear_user").summary
    toml = clear_user / "kernel.toml"
    text = toml.read_text()
    for summary in ("one thing", "two thing"):  # of one length, and written at once
        toml.write_text(text.replace(kernels.load("x86_64/clear_user").summary, summary))
        text = toml.read_text()
        assert kernels.load("x86_64/clear_user").summary == summary
    edit(toml, 'name = "plain"', 'name = "flat"')
    (clear_user / "plain.S").rename(clear_user / "flat.S")
    assert "flat" in kernels.load("x86_64/clear_user").variants
    assert lw.predict("x86_64/clear_user/flat", microarch="zen2")["cycles"].notna().all()


def test_a_core_that_is_edited_answers_anew(zen2):
    def cycles() -> float:
        return float(lw.predict(hex="90" * 6, microarch="zen2")["cycles"].item())

    assert cycles() == pytest.approx(1.2)
    edit(zen2 / "core.toml", "\ninstructions = { value = 5", "\ninstructions = { value = 3")
    assert cycles() == pytest.approx(2.0)
    edit(zen2 / "core.toml", 'name = "AMD Zen 2"', 'name = "Another one"')
    assert microarchs.load("zen2").name == "Another one"
    (zen2 / "instructions.csv").unlink()
    assert "no figures for zen2" in lw.predict(hex="90", microarch="zen2")["error"].item()


def test_a_table_that_is_edited_answers_anew(zen2):
    def cycles() -> float:
        return float(lw.predict(hex="480fafc3", microarch="zen2")["cycles"].item())

    before = cycles()
    (row,) = [
        line
        for line in (zen2 / "instructions.csv").read_text().splitlines()
        if line.startswith('imul,"r16,r16;r32,r32;r64,r64;')
    ]
    edit(zen2 / "instructions.csv", row, row.replace("*:3", "*:7"))
    assert cycles() == pytest.approx(before + 4)
