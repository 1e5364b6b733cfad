"""The kernel module: its sources, what they are built from, and building it against headers."""

import shutil
import subprocess
from pathlib import Path

import pytest
import test_kmod_boot
import test_kmod_pages
import test_kmod_run

from loopwright import kernels, paths
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.kernels.contracts import EFFECTS
from loopwright.portable import kmod

DEBIAN = sorted(Path("/usr/src").glob("linux-headers-6.1.*-amd64"))


def text_of(folder: Path, variant: Variant) -> Path:
    return folder / "kernels" / variant.kernel / variant.source.name


@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_the_sources_hold_the_text_of_every_variant_and_a_caller_for_each(isa, tmp_path):
    parts = kmod.write(tmp_path / "kmod", isa)
    every = {
        v.id
        for k in kernels.every()
        if k.isa == isa
        for v in k.variants.values()
        if EFFECTS[kernels.contract_of(v).effect].in_module
    }
    assert {p.variant.id for p in parts} == every
    for part in parts:
        copied = text_of(tmp_path / "kmod", part.variant)
        assert copied.read_bytes() == part.variant.source.read_bytes()
        wrapper = tmp_path / "kmod" / f"v{part.number}{part.variant.source.suffix}"
        assert f'#include "kernels/{part.variant.kernel}/' in wrapper.read_text()
        caller = (tmp_path / "kmod" / f"c{part.number}.S").read_text()
        assert f"#define TARGET loopwright_v{part.number}\n" in caller


def test_an_effect_that_the_module_does_not_know_is_refused(tmp_path):
    with pytest.raises(InputError, match="the module does not know effect 'set'; leave it out"):
        kmod.write(tmp_path / "kmod", "x86_64", ["x86_64/memset"])


def test_no_stand_in_for_the_kernel_is_among_the_sources(tmp_path):
    kmod.write(tmp_path / "kmod", "x86_64")
    written = {p.read_bytes() for p in (tmp_path / "kmod").rglob("*") if p.is_file()}
    stand_ins = [p for p in (paths.HARNESS / "include").rglob("*") if p.is_file()]
    assert not [p for p in stand_ins if p.read_bytes() in written]
    family = paths.kernels_root() / "x86_64/put_event"
    for name in ("putuser.h", "copy_to_user.h"):
        assert (family / name).read_bytes() not in written


def test_callers_open_user_memory_where_the_kernel_s_callers_do(tmp_path):
    specs = ["x86_64/copy_user/movsq", "x86_64/put_event/masked", "x86_64/csum/adc1"]
    parts = kmod.write(tmp_path / "kmod", "x86_64", specs)
    gated = {
        p.variant.id: "#define GATED\n" in (tmp_path / "kmod" / f"c{p.number}.S").read_text()
        for p in parts
    }
    assert {spec: gated[spec] for spec in specs} == dict(
        zip(specs, (True, False, False), strict=True)
    )
    # A variant comes with the baseline that a verdict compares it with.
    assert {*gated} - {*specs} == {
        "x86_64/copy_user/movsq_aligned", "x86_64/put_event/put_user_twice",
        "x86_64/csum/two_chains_40",
    }  # fmt: skip


def test_a_feature_that_a_variant_does_not_take_stays_off_on_every_cpu(tmp_path):
    specs = ["x86_64/copy_user/movsq_aligned", "x86_64/copy_user/movsb"]
    without, taken = kmod.write(tmp_path / "kmod", "x86_64", specs)
    off = "#define X86_FEATURE_ERMS ALT_NOT(X86_FEATURE_ALWAYS)\n"
    assert off in (tmp_path / "kmod" / f"v{without.number}.S").read_text()
    assert off not in (tmp_path / "kmod" / f"v{taken.number}.S").read_text()


@pytest.mark.parametrize(
    ("isa", "specs", "offsets", "said"),
    [
        ("x86_64", ["arm64/copy_user"], [0], "arm64"),
        ("x86_64", ["x86_64/copy_user/nope"], [0], "nope"),
        ("x86_64", [], [8], "offset 8"),
        ("x86_64", [], [], "offset none"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(isa, specs, offsets, said, tmp_path):
    with pytest.raises(InputError, match=said):
        kmod.write(tmp_path / "kmod", isa, specs, offsets)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        kmod.write(tmp_path, "x86_64")
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


def test_what_holds_no_headers_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="linux-headers"):
        kmod.build(tmp_path, tmp_path / "kmod")
    assert not list(tmp_path.iterdir())


def test_run_wants_root_and_a_module_and_says_so(tmp_path):
    kmod.write(tmp_path / "kmod", "x86_64", ["x86_64/csum/adc1"])
    for arguments, said in ([["-r", "x"], "-r x"], [["-n", "1,2"], "-n '1,2'"], [[], "run: "]):
        done = subprocess.run(
            [tmp_path / "kmod/run", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert said in done.stderr
    assert not (tmp_path / "kmod/results-kernel.jsonl").exists()


def test_what_is_edited_for_tests_under_qemu_is_still_there():
    """These take long and run seldom: that they have to follow is to be seen at once."""
    for file, old, *_ in test_kmod_boot.MUTANTS.values():
        assert old in (paths.kernels_root() / file).read_text(), file
    edits = {e for of_isa in test_kmod_run.FORCED.values() for e in of_isa}
    for name, old, _ in edits | {test_kmod_run.SLOWLY, test_kmod_pages.NOT_WHOLE}:
        folders = (paths.HARNESS, *(paths.HARNESS / "kmod" / x for x in ("", "x86_64", "arm64")))
        found = [(f / name).read_text() for f in folders if (f / name).is_file()]
        assert any(text.count(old) == 1 for text in found), name


@pytest.mark.slow
def test_it_builds_against_debian_s_headers_of_6_1_without_a_warning(tmp_path):
    if not DEBIAN or not shutil.which("make"):
        pytest.skip("no headers of Linux 6.1: `apt install linux-headers-amd64` on Debian 12")
    built = kmod.build(DEBIAN[-1], tmp_path / "kmod", offsets=[0, 48])
    assert built.isa == "x86_64"
    assert built.release.startswith("6.1.")
    assert built.warnings == ()
    # These use what later kernels have.
    assert set(built.left_out) == {
        "x86_64/put_event/masked",
        "x86_64/put_event/masked_outside",
        "x86_64/put_event/stat_buffer",
        "x86_64/put_event/stat_buffer_fsrm",
    }
    symbols = subprocess.run(
        ["nm", built.module], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    defined = {line.split()[-1] for line in symbols if " T " in line or " t " in line}
    # Each variant that is not left out, at both offsets, under its own name.
    assert len([s for s in defined if s.startswith("loopwright_v")]) == 2 * len(built.variants)
    assert "rep_movs_alternative" not in defined
