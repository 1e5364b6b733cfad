"""Loops are found from backward branches that close a cycle."""

import re
import subprocess
from dataclasses import replace

import pytest

from loopwright import kernels, toolchain
from loopwright.code import instructions, loops
from loopwright.errors import InputError


def _instructions(tmp_path, isa, source):
    path, obj, raw = (tmp_path / name for name in ("a.s", "a.o", "a.bin"))
    path.write_text(source)
    gcc = toolchain.find(isa).gcc
    subprocess.run([gcc, "-c", path, "-o", obj], check=True)
    subprocess.run(
        [gcc.replace("gcc", "objcopy"), "-O", "binary", "-j", ".text", obj, raw], check=True
    )
    return instructions.decode(isa, raw.read_bytes())


COPY = kernels.load("x86_64/copy_user").routines["copy_user"].contract
CLEAR = kernels.load("x86_64/clear_user").routines["clear_user"].contract

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
    innermost = loops.find(_instructions(tmp_path, "x86_64", NESTED))
    assert [len(loop.instructions) for loop in innermost] == [4]


def test_a_fixup_that_jumps_back_to_an_exit_is_no_loop(tmp_path):
    innermost = loops.find(_instructions(tmp_path, "x86_64", FIXUP))
    assert [loop.instructions[0].mnemonic for loop in innermost] == ["movb"]
    assert len(innermost) == 1


def test_a_loop_may_leave_in_its_middle(tmp_path):
    innermost = loops.find(_instructions(tmp_path, "x86_64", CARRIED))
    assert [loop.instructions[-1].mnemonic for loop in innermost] == ["jmp"]
    assert innermost[0].read_bytes == 8


@pytest.mark.parametrize(("tail", "kind"), [("rep movsb", "branch"), ("nop", "branch")])
def test_a_wide_branch_loop_goes_before_a_string_tail(tmp_path, tail, kind):
    source = f"1: movups (%rsi), %xmm0\n movups %xmm0, (%rdi)\n dec %edx\n jnz 1b\n {tail}\n ret\n"
    innermost = loops.find(_instructions(tmp_path, "x86_64", source))
    assert loops.choose(innermost, COPY).loop.kind == kind


def test_a_string_instruction_goes_before_a_word_loop(tmp_path):
    source = "1: movq (%rsi), %rax\n movq %rax, (%rdi)\n dec %edx\n jnz 1b\n rep movsq\n ret\n"
    innermost = loops.find(_instructions(tmp_path, "x86_64", source))
    main = loops.choose(innermost, COPY).loop
    assert (main.kind, main.written_bytes) == ("string", 8)


def test_arm64_pairs_count_both_registers(tmp_path):
    source = (
        "1: ldp x7, x8, [x1], #16\n sttr x7, [x6]\n sttr x8, [x6, #8]\n ldrb w3, [x1]\n"
        " subs x2, x2, #64\n b.ge 1b\n ret\n"
    )
    innermost = loops.find(_instructions(tmp_path, "arm64", source))
    assert (innermost[0].read_bytes, innermost[0].written_bytes) == (17, 16)


def test_code_without_a_loop_has_none(tmp_path):
    assert loops.find(_instructions(tmp_path, "x86_64", "movq (%rsi), %rax\n ret\n")) == ()


# Bytes up to a block, blocks by dc zva, what is left by words: the clear of arm64.
ZVA = """
1:  strb w3, [x0], #1
    subs x4, x4, #1
    b.ne 1b
2:  dc zva, x0
    add x0, x0, x5
    subs x1, x1, x5
    b.ge 2b
3:  str x3, [x0], #8
    subs x1, x1, #8
    b.ge 3b
    ret
"""


def test_dc_zva_counts_a_line_and_so_says_the_rule(tmp_path):
    innermost = loops.find(_instructions(tmp_path, "arm64", ZVA))
    choice = loops.choose(innermost, CLEAR)
    assert choice.loop.instructions[0].text.split() == ["dc", "zva,", "x0"]
    assert choice.loop.written_bytes == 64
    assert "of 3 loops: moves most, 64 bytes an iteration" in str(choice)
    assert "DCZID_EL0" in str(choice)


@pytest.mark.parametrize(("name", "first"), [(1, "strb"), (2, "dc"), (3, "str"), (".L", "str")])
def test_a_contract_can_name_its_loop_by_number_or_label(tmp_path, name, first):
    innermost = loops.find(_instructions(tmp_path, "arm64", ZVA))
    labels = {".L": innermost[2].start}
    choice = loops.choose(innermost, replace(CLEAR, loop=name), labels)
    assert choice.loop.instructions[0].mnemonic == first
    assert str(choice).endswith(f"kernel.toml names it, {name}")


@pytest.mark.parametrize(
    ("name", "labels", "why"),
    [
        (4, {}, "there is no loop 4; loops by number: 1 at 0x0, 2 at 0xc, 3 at 0x1c"),
        (".Lwords", {}, "there is no label .Lwords"),
        (".Lexit", {".Lexit": 0x28}, "no loop is at .Lexit, 0x28"),
    ],
)
def test_a_loop_that_is_not_there_is_refused_with_those_that_are(tmp_path, name, labels, why):
    innermost = loops.find(_instructions(tmp_path, "arm64", ZVA))
    with pytest.raises(InputError, match=re.escape(why)):
        loops.choose(innermost, replace(CLEAR, loop=name), labels)


def test_of_loops_that_move_as_much_it_is_the_first_and_said_so(tmp_path):
    source = "".join(f"{n}: movq %rax, (%rdi)\n dec %rcx\n jnz {n}b\n" for n in (1, 2)) + " ret\n"
    choice = loops.choose(loops.find(_instructions(tmp_path, "x86_64", source)), CLEAR)
    assert choice.loop.start == 0
    assert "the first of 2 that do" in str(choice)


def test_lists_of_vectors_count_every_register(tmp_path):
    source = "1: ld1 {v0.16b-v3.16b}, [x1], #64\n st1 {v0.8h, v1.8h}, [x0]\n b.ne 1b\n ret\n"
    [loop] = loops.find(_instructions(tmp_path, "arm64", source))
    assert (loop.read_bytes, loop.written_bytes) == (64, 32)


def test_clzero_writes_a_line(tmp_path):
    source = "1: movq %rax, (%rsi)\n dec %rcx\n jnz 1b\n2: clzero\n dec %rdx\n jnz 2b\n ret\n"
    choice = loops.choose(loops.find(_instructions(tmp_path, "x86_64", source)), CLEAR)
    assert (choice.loop.instructions[0].mnemonic, choice.loop.written_bytes) == ("clzero", 64)
