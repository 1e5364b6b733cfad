"""Contracts with calls of many bytes, values that carry, and pointers that are none of a user's."""

import shutil

import pytest
from few_variants import changed
from quick import some

from loopwright import kernels, toolchain
from loopwright.checking.check import run
from loopwright.errors import InputError

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 code natively")


@pytest.fixture
def mutant(tmp_path, monkeypatch):
    """Return a function that checks a variant with a text of its source replaced."""

    def checked(spec, old, new):
        [variant] = kernels.select(spec)[1]
        changed(monkeypatch, tmp_path, variant.kernel, (variant.source.name, old, new))
        return run(kernels.select(spec)[1]).iloc[0]

    return checked


TRUNCATED = {
    "16 bits of a count": ("overlapped", "\tshrq $3,%rcx", "\tmovzwl %cx,%ecx\n\tshrq $3,%rcx"),
    "32 bits of a shift": ("overlapped", "\tshrq $3,%rcx", "\tshrl $3,%ecx"),
    "32 bits compared": ("overlapped", "cmpq $64,%rcx", "cmpl $64,%ecx"),
    "32 bits moved": ("movsq", "movq %rcx,%rax", "movl %ecx,%eax\n\tmovl %eax,%ecx"),
    "32 bits counted down": ("loop32", "subq $32,%rcx\n\tjae", "subl $32,%ecx\n\tjae"),
    "32 bits of an index": ("negative_index", "negq %rcx\n\n", "negl %ecx\n\tmovslq %ecx,%rcx\n\n"),
    "31 bits": ("movsq_aligned", "\tshrq $3,%rcx", "\tbtrq $31,%rcx\n\tshrq $3,%rcx"),
    "20 bits": ("movsq_aligned", "\tshrq $3,%rcx", "\tandl $0xfffff,%ecx\n\tshrq $3,%rcx"),
    "signed 32 bits": ("movsq", "\tshrq $3,%rcx", "\tmovslq %ecx,%rcx\n\tshrq $3,%rcx"),
}  # fmt: skip


QUICK = {"16 bits of a count"}


@X86_ONLY
@pytest.mark.parametrize("kind", some(TRUNCATED, QUICK))
def test_a_count_is_taken_whole(mutant, kind):
    variant, old, new = TRUNCATED[kind]
    row = mutant(f"x86_64/copy_user/{variant}", old, new)
    assert not row["passed"]
    size = int(row["failure"].split("size ")[1].split(",")[0])
    assert size > 65535


@X86_ONLY
@pytest.mark.parametrize("mask", some(["0xffe0", "0xfff8", "0xffff8", "0xffffff8"], {"0xffffff8"}))
def test_a_sum_is_of_all_bytes(mutant, mask):
    row = mutant("x86_64/csum/adc1", "(len & ~7)", f"(len & {mask})")
    assert not row["passed"]


CARRIES = {  # errors that values without carries do not show
    "the last carry": ('"2:\tadcq $0,%[sum]"', '"2:\tnop"'),
    "the fold of the halves": (
        "(temp64 + ror64(temp64, 32)) >> 32", "(temp64 >> 32) + (u32)temp64"),
    "zero for minus zero": (
        "return (__force __wsum)((temp64 + ror64(temp64, 32)) >> 32);",
        "u64 all = temp64 + ror64(temp64, 32);\n\tu32 s = all >> 32;\n"
        "\treturn (__force __wsum)(s % 0xffff);",
    ),
}  # fmt: skip


@X86_ONLY
@pytest.mark.parametrize("kind", some(CARRIES, {"the last carry"}))
def test_carries_are_kept(mutant, kind):
    row = mutant("x86_64/csum/adc1", *CARRIES[kind])
    assert not row["passed"]
    assert "folds to" in row["failure"]


UNGUARDED = {
    "masked": ("uevent = masked_user_access_begin(uevent);", "stac();"),
    "write_begin": (
        "if (!user_write_access_begin(uevent, sizeof(*uevent)))\n\t\treturn NULL;", "stac();"),
    "masked_outside": ("dst = mask_user_address(dst);", ""),
    "stat_direct": (
        "if (!user_write_access_begin(statbuf, sizeof(*statbuf)))\n\t\treturn -EFAULT;", "stac();"),
    "stat_buffer": (
        '#include "copy_to_user.h"', '#define access_ok(to, n) true\n#include "copy_to_user.h"'),
}  # fmt: skip


@X86_ONLY
@pytest.mark.parametrize("variant", some(UNGUARDED, {"write_begin", "stat_buffer"}))
def test_a_pointer_that_is_no_user_s_is_left_alone(mutant, variant):
    row = mutant(f"x86_64/put_event/{variant}", *UNGUARDED[variant])
    assert not row["passed"]
    assert "which is no user's" in row["failure"]


def test_what_guards_says_is_read(tmp_path, monkeypatch):
    family = "x86_64/put_event"
    guards = "kernel.toml", 'guards = ["dst"]', 'guards = ["src"]'
    changed(monkeypatch, tmp_path, family, guards, count=1)
    with pytest.raises(InputError, match=r"guards .'src'. must be"):
        kernels.load(family)


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
@pytest.mark.parametrize("cut", some(["uxth\tw2, w2", "mov\tw2, w2"], {"uxth\tw2, w2"}))
@pytest.mark.parametrize("variant", some(["to_user_pairs", "from_user_batched"], {"to_user_pairs"}))
def test_a_count_is_taken_whole_on_arm64(mutant, variant, cut):
    row = mutant(
        f"arm64/copy_user/{variant}", "\tadd\tend, x0, x2\n", f"\t{cut}\n\tadd\tend, x0, x2\n"
    )
    assert not row["passed"]
