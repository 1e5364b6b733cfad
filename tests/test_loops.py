"""Loops are found from backward branches that close a cycle."""

import subprocess

import pytest

from loopwright import decode, kernels, loops, toolchain


def _instructions(tmp_path, isa, source):
    path, obj, raw = (tmp_path / name for name in ("a.s", "a.o", "a.bin"))
    path.write_text(source)
    gcc = toolchain.find(isa).gcc
    subprocess.run([gcc, "-c", path, "-o", obj], check=True)
    subprocess.run(
        [gcc.replace("gcc", "objcopy"), "-O", "binary", "-j", ".text", obj, raw], check=True
    )
    return decode.decode(isa, raw.read_bytes())


COPY = kernels.load("x86_64/copy_user").routines["copy_user"].contract

NESTED = """
1:  mov $4, %ecx
2:  movq (%rsi), %rax
    movq %rax, (%rdi)
    dec %ecx
    jnz 2b
    dec %edx
    jnz 1b
    ret
"""
FIXUP = """
3:  movb (%rsi), %al
    dec %rcx
    jnz 3b
4:  ret
    lea (%rax,%rcx,8), %rcx
    jmp 4b
"""
CARRIED = """
1:  jrcxz 2f
    adcq (%rdi,%rcx), %rax
    lea 8(%rcx), %rcx
    jmp 1b
2:  ret
"""


def test_only_the_innermost_loop_counts(tmp_path):
    found = loops.find(_instructions(tmp_path, "x86_64", NESTED))
    assert [len(loop.instructions) for loop in found] == [4]


def test_a_fixup_that_jumps_back_to_an_exit_is_no_loop(tmp_path):
    found = loops.find(_instructions(tmp_path, "x86_64", FIXUP))
    assert [loop.instructions[0].mnemonic for loop in found] == ["movb"]
    assert len(found) == 1


def test_a_loop_may_leave_in_its_middle(tmp_path):
    found = loops.find(_instructions(tmp_path, "x86_64", CARRIED))
    assert [loop.instructions[-1].mnemonic for loop in found] == ["jmp"]
    assert found[0].read_bytes == 8


@pytest.mark.parametrize(("tail", "kind"), [("rep movsb", "branch"), ("nop", "branch")])
def test_a_wide_branch_loop_goes_before_a_string_tail(tmp_path, tail, kind):
    source = f"1: movups (%rsi), %xmm0\n movups %xmm0, (%rdi)\n dec %edx\n jnz 1b\n {tail}\n ret\n"
    found = loops.find(_instructions(tmp_path, "x86_64", source))
    assert loops.main_loop(found, COPY).kind == kind


def test_a_string_instruction_goes_before_a_word_loop(tmp_path):
    source = "1: movq (%rsi), %rax\n movq %rax, (%rdi)\n dec %edx\n jnz 1b\n rep movsq\n ret\n"
    found = loops.find(_instructions(tmp_path, "x86_64", source))
    main = loops.main_loop(found, COPY)
    assert (main.kind, main.written_bytes) == ("string", 8)


def test_arm64_pairs_count_both_registers(tmp_path):
    source = (
        "1: ldp x7, x8, [x1], #16\n sttr x7, [x6]\n sttr x8, [x6, #8]\n ldrb w3, [x1]\n"
        " subs x2, x2, #64\n b.ge 1b\n ret\n"
    )
    found = loops.find(_instructions(tmp_path, "arm64", source))
    assert (found[0].read_bytes, found[0].written_bytes) == (17, 16)


def test_code_without_a_loop_has_none(tmp_path):
    assert loops.find(_instructions(tmp_path, "x86_64", "movq (%rsi), %rax\n ret\n")) == ()
