"""Assembly that somebody pastes: which loops it holds, and what is said of text that is none."""

import subprocess
import sys
from pathlib import Path

import pytest

import loopwright as lw
from loopwright import toolchain
from loopwright.errors import InputError

X86 = """\
.Lclear:
	movq %rax, (%rdi)
	movq %rax, 8(%rdi)
	addq $16, %rdi
	decq %rcx
	jnz .Lclear
	ret
"""
ARM64 = """\
1:	ldp x6, x7, [x1], #16
	stp x6, x7, [x0], #16
	subs x2, x2, #16
	b.ne 1b
"""


def test_the_loop_is_what_stands_between_its_label_and_its_branch():
    (row,) = lw.read_assembly(X86).to_dict("records")
    assert row["id"] == ".Lclear"
    assert row["isa"] == "x86_64"
    assert row["notion"] == "loop"
    assert row["bytes_per_iteration"] == 16
    assert "ret" not in row["listing"]
    rows = lw.predict(asm=X86, microarch="sandybridge,zen2")
    assert (rows["cycles"] == 2).all()  # one store a cycle


def test_assembly_and_its_machine_code_have_the_same_prediction():
    (row,) = lw.read_assembly(ARM64).to_dict("records")
    by_text = lw.predict(asm=ARM64, microarch="neoverse-n1,tsv110")
    by_code = lw.predict(hex=row["hex"], microarch="neoverse-n1,tsv110")
    assert list(by_text["cycles"]) == list(by_code["cycles"])


def test_every_innermost_loop_is_a_row_with_its_place():
    text = "a:\tincq %rax\nb:\tdecq %rcx\n\tjnz b\n\tdecq %rdx\n\tjnz a\n2:\tdecq %rsi\n\tjnz 2b\n"
    rows = lw.read_assembly(text)
    assert list(rows["id"]) == ["b", "2"]
    assert list(rows["offset"]) == [3, 13]


SEVERAL = """\
	.globl	first
	.type	first, @function
first:
.L2:	addq (%rdi), %rax
	addq $8, %rdi
	decq %rsi
	jne .L2
	jmp second
	.size	first, .-first
	.type	second, @function
second:
	testq %rsi, %rsi
	je .L5
.L6:	movq %rax, (%rdi,%rsi,8)
	decq %rsi
	jne .L6
.L5:	ret
	.size	second, .-second
	.section	.text.apart, "ax", @progbits
	.globl	third
third:
	call elsewhere
1:	imulq %rax, %rax
	decq %rsi
	jne 1b
	ret
	.text
	.globl	fourth
fourth:
	movq other(%rip), %rax
1:	call elsewhere
	decq %rbx
	jne 1b
	ret
"""


def test_every_routine_is_looked_at_and_names_its_loops():
    rows = lw.predict(asm=SEVERAL, microarch="zen2").set_index("id")
    assert list(rows.index) == ["first", "second:.L6", "fourth:1", "third:1"]
    assert rows.loc[["first", "second:.L6", "third:1"], "cycles"].notna().all()
    assert "callq" in rows.loc["fourth:1", "error"]


def test_what_a_compiler_writes_has_a_row_for_each_of_its_loops(tmp_path):
    source = "\n".join(
        f"long f{n}(long *a, long n) {{ long s = {n}; "
        f"for (long i = 0; i < n; i++) s = (s ^ a[i]) * {n + 3}; return s; }}"
        for n in range(4)
    )
    (tmp_path / "f.c").write_text(source)
    for options in (["-O1"], ["-O1", "-g"], ["-O1", "-ffunction-sections"]):
        subprocess.run(
            [toolchain.find("x86_64").gcc, *options, "-S", "f.c", "-o", "f.s"],
            cwd=tmp_path,
            check=True,
        )
        rows = lw.predict(asm=(tmp_path / "f.s").read_text(), microarch="zen2")
        assert [name.partition(":")[0] for name in rows["id"]] == ["f0", "f1", "f2", "f3"]
        assert rows["cycles"].gt(1.9).all()  # a chain of two instructions at the least


def test_labels_that_stand_twice_are_told_apart():
    text = "1:\tdecq %rcx\n\tjnz 1b\n1:\tdecq %rdx\n\tjnz 1b\n\tdecq %rdx\n2: .p2align 4\n"
    rows = lw.read_assembly(text)
    assert list(rows["id"]) == ["1 at 0", "1 at 5"]


def test_routines_without_a_loop_are_calls():
    text = "\t.globl f\nf:\ttestq %rdi, %rdi\n\tje 1f\n\tleaq (%rdi,%rsi), %rax\n1:\tret\n"
    (row,) = lw.predict(asm=text, microarch="zen2").to_dict("records")
    assert (row["id"], row["notion"], row["error"]) == ("f", "unrolled", "")
    assert row["cycles"] == pytest.approx(1, abs=0.5)


def test_text_without_a_loop_is_a_block():
    (row,) = lw.predict(asm="addq %rax, %rbx\nimulq %rbx, %rax\n", microarch="zen2").to_dict(
        "records"
    )
    assert row["notion"] == "unrolled"
    assert row["cycles"] == pytest.approx(4)  # a chain of 1 and 3


def test_intel_syntax_by_its_directive():
    text = ".intel_syntax noprefix\nl:\tmov rax, [rsi]\n\tadd rsi, 8\n\tdec rcx\n\tjnz l\n"
    assert list(lw.read_assembly(text)["bytes_per_iteration"]) == [8]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nop\n\tmovq %rax\n", ["line 2", "movq", "x86_64"]),
        ("nop\n\tadd x0, x0, x33\nb.ne 1f\n1:\n", ["line 2", "arm64"]),
        ("mov rax, [rsi]\nmov rax, [rsi\n", ["line 2"]),
        ("# nothing\n", ["no instruction"]),
        ("one fine day\n", ["line 1"]),
    ],
)
def test_what_does_not_assemble_is_one_line_that_names_the_line(text, words):
    with pytest.raises(InputError) as caught:
        lw.predict(asm=text)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_isa_can_be_named_and_has_to_fit():
    with pytest.raises(InputError, match="unknown ISA 'arm'"):
        lw.read_assembly("nop", "arm")
    with pytest.raises(InputError, match="line 2"):
        lw.predict(asm=X86, microarch="tsv110")
    with pytest.raises(InputError, match="--isa"):
        lw.predict(hex="90", isa="arm64")


def test_the_command_line_reads_a_file_or_standard_input(tmp_path):
    path = tmp_path / "loop.s"
    path.write_text(X86)
    command = [Path(sys.executable).parent / "loopwright", "predict", "--csv", "--asm"]
    by_file = subprocess.run([*command, path], capture_output=True, text=True, check=True)
    by_pipe = subprocess.run([*command, "-"], input=X86, capture_output=True, text=True, check=True)
    assert by_file.stdout == by_pipe.stdout
    assert by_file.stdout.count(".Lclear") == by_file.stdout.count("\n") - 1
    garbage = subprocess.run([*command, "-"], input=b"\xff\x00a:", capture_output=True, check=False)
    assert garbage.returncode == 2
    assert garbage.stderr.count(b"\n") == 1
