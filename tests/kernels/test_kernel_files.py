"""Kernels from elsewhere: what is read of their files, and what is wrong with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.errors import InputError

GOOD = """
summary = "a test"
[contract]
symbol = "f"
effect = "clear"
inputs = { dst = "rdi", count = "rcx" }
returns = { uncopied = "rcx" }
may_change = ["flags"]
[upstream]
file = "arch/x86/lib/f.S"
[[variant]]
name = "v"
summary = "one"
"""
SOURCE = """
#include <linux/linkage.h>
SYM_FUNC_START(f)
1:	movb $0,(%rdi)
	incq %rdi
	decq %rcx
	jnz 1b
	RET
SYM_FUNC_END(f)
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "x86_64" / "mine"
    folder.mkdir(parents=True)
    (folder / "kernel.toml").write_text(GOOD)
    (folder / "v.S").write_text(SOURCE)
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(tmp_path))
    return folder


def test_kernel_from_elsewhere_assembles(family: Path) -> None:
    variant = kernels.load("x86_64/mine").variants["v"]
    loop = assemble.main_loop(variant, assemble.variant_code(variant))
    assert variant.source == family / "v.S"
    assert (loop.read_bytes, loop.written_bytes) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('effect = "clear"', 'effect = "clean"', "effect 'clean' is none of copy, clear"),
        ('effect = "clear"', "", "'effect' is missing"),
        ('symbol = "f"', "symbol = 1", "'symbol' must be a str"),
        ('name = "v"', 'name = "w"', "'w' has no w.S or w.c"),
        ('file = "arch/x86/lib/f.S"', 'file = "../f.S"', "leaves the kernel tree"),
        ('file = "arch/x86/lib/f.S"', 'file = "/etc/f.S"', "leaves the kernel tree"),
        (
            'summary = "a test"',
            'summary = "a test"\nbaseline = "w"',
            "has no variant 'w', its baseline",
        ),
        ('name = "v"', 'name = "v"\nroutine = "g"', "'v' names none of the routines"),
        ('name = "v"', 'name = "v"\nneeds = ["no_such"]', "unknown CPU feature 'no_such'"),
        ('name = "v"', 'name = "v"\nneeds = ["nosmap"]', 'switched_off = ["smap"]'),
        ('name = "v"', 'name = "v"\nswitched_off = ["smapp"]', "unknown CPU feature 'smapp'"),
        ('may_change = ["flags"]', 'may_change = ["flags"', "kernel.toml"),
        ('may_change = ["flags"]', 'may_change = ["xmm0"]', "'xmm0' is not a general register"),
        (
            'name = "v"',
            'name = "v"\nmay_change = ["x4"]',
            "'x4' is not a general register of x86_64",
        ),
        (
            'summary = "one"',
            'summary = "one"\n[[variant]]\nname = "v"\nsummary = "two"',
            "stands there twice",
        ),
    ],
)
def test_wrong_kernel_toml_is_named(family: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    (family / "kernel.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        kernels.load("x86_64/mine")
    assert message in str(caught.value)
    assert str(family / "kernel.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_assembly_names_file_and_line(family: Path) -> None:
    (family / "v.S").write_text(SOURCE.replace("incq %rdi", "incq $5"))
    with pytest.raises(InputError) as caught:
        assemble.variant_code(kernels.load("x86_64/mine").variants["v"])
    assert f"{family / 'v.S'}:5: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_symbol_and_data_are_named(family: Path) -> None:
    variant = kernels.load("x86_64/mine").variants["v"]
    (family / "v.S").write_text(SOURCE.replace("(f)", "(g)"))
    with pytest.raises(InputError, match="defines no f"):
        assemble.variant_code(variant)
    (family / "v.S").write_text(SOURCE + "\t.data\n\t.long 1\n")
    with pytest.raises(InputError, match=r"section \.data holds data"):
        assemble.variant_code(variant)


def test_code_without_loop_says_so(family: Path) -> None:
    (family / "v.S").write_text(SOURCE.replace("jnz 1b", "nop"))
    variant = kernels.load("x86_64/mine").variants["v"]
    with pytest.raises(InputError, match=r"v\.S: no loop in f"):
        assemble.main_loop(variant, assemble.variant_code(variant))


def test_loop_behind_a_jump_is_no_loop(family: Path) -> None:
    (family / "v.S").write_text(SOURCE.replace("1:\tmovb", "\tRET\n1:\tmovb"))
    code = assemble.variant_code(kernels.load("x86_64/mine").variants["v"])
    assert not code.loops


@pytest.mark.parametrize(
    ("variants", "baseline"),
    [
        ('[[variant]]\nname = "a"\nsummary = "a"\n[[variant]]\nname = "b"\nsummary = "b"\n', "a"),
        (
            '[[variant]]\nname = "a"\nsummary = "a"\n'
            '[[variant]]\nname = "b"\nsummary = "b"\nmerged = "0123456789ab"\n'
            '[[variant]]\nname = "c"\nsummary = "c"\nneeds = ["erms"]\nmerged = "123456789abc"\n',
            "b",
        ),
    ],
)
def test_a_baseline_that_is_not_named_is_what_linux_merged_last(
    tmp_path, monkeypatch, variants, baseline
):
    family = tmp_path / "x86_64" / "mine"
    family.mkdir(parents=True)
    for name in "abc":
        (family / f"{name}.S").write_text("")
    (family / "kernel.toml").write_text(
        'summary = "mine"\n[contract]\nsymbol = "mine"\neffect = "clear"\n'
        'inputs = { dst = "rdi", count = "rcx" }\nmay_change = []\n' + variants
    )
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(tmp_path))
    assert kernels.load("x86_64/mine").routines["mine"].baseline == baseline


def test_a_core_has_no_feature_that_it_does_not_list():
    """Names that begin with "no" are names as others: nopl, notpr."""
    zen2, n1 = microarchs.load("zen2"), microarchs.load("neoverse-n1")
    masked = kernels.load("x86_64/put_event").variants["masked"]
    assert microarchs.missing(replace(masked, needs=("nopl",)), zen2) == ["nopl"]
    assert microarchs.missing(replace(masked, needs=("smap",)), zen2) == []
    nopan = kernels.load("arm64/copy_user").variants["to_user_nopan"]
    assert microarchs.missing(nopan, n1) == []
    assert microarchs.conditions(nopan, n1) == ["pan is off"]
    without = replace(n1, features=n1.features - {"pan"})
    assert microarchs.conditions(nopan, without) == []


def test_every_feature_of_a_core_has_a_name():
    for core in map(microarchs.load, microarchs.ids()):
        assert core.features <= kernels.CPU_FEATURES[core.isa]
