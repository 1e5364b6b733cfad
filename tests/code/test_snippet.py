"""Assembly, listings, mails and hex that somebody pastes: their loops, and text that has none."""

import subprocess

import pytest
from checkout import LOOPWRIGHT

import loopwright as lw
from loopwright import toolchain
from loopwright.code import instructions, snippet
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
    command = [LOOPWRIGHT, "predict", "--csv", "--asm"]
    by_file = subprocess.run([*command, path], capture_output=True, text=True, check=True)
    by_pipe = subprocess.run([*command, "-"], input=X86, capture_output=True, text=True, check=True)
    assert by_file.stdout == by_pipe.stdout
    assert by_file.stdout.count(".Lclear") == by_file.stdout.count("\n") - 1
    garbage = subprocess.run([*command, "-"], input=b"\xff\x00a:", capture_output=True, check=False)
    assert garbage.returncode == 2
    assert garbage.stderr.count(b"\n") == 1


C = """\
int sum(const int *p, unsigned long n)
{ int s = 0; for (unsigned long i = 0; i < n; i++) s += p[i] * 3; return s; }
void copy(char *d, const char *s, unsigned long n) { while (n--) *d++ = *s++; }
"""
FLAGS = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns"]


@pytest.fixture(scope="module", params=["x86_64", "arm64"])
def built(request, tmp_path_factory):
    """An object of two loops, and its ISA."""
    gcc = toolchain.find(request.param).gcc
    folder = tmp_path_factory.mktemp("pasted")
    (folder / "a.c").write_text(C)
    subprocess.run([gcc, *FLAGS, "-c", "a.c", "-o", "a.o"], cwd=folder, check=True)
    return request.param, gcc, folder


def listing(built, *options):
    _, gcc, folder = built
    objdump = gcc.replace("gcc", "objdump")
    command = [objdump, "-d", *options, str(folder / "a.o")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def loops_of(found):
    return [(piece.isa, piece.offset, piece.code) for piece in found]


def test_a_listing_has_the_loops_of_its_object_where_they_lie(built):
    isa, _, folder = built
    there = lw.predict(obj=f"{folder / 'a.o'}", microarch="all", offset=None)
    pasted = snippet.pieces(listing(built))
    assert len(pasted) == 2
    assert {piece.isa for piece in pasted} == {isa}
    assert sorted(there["offset"].unique()) == sorted({piece.offset for piece in pasted})
    assert [piece.id.split(":")[0] for piece in pasted] == ["sum", "copy"]


@pytest.mark.parametrize("options", [["--no-show-raw-insn"], ["--no-show-raw-insn", "-M", "intel"]])
def test_a_listing_without_bytes_is_assembled_to_the_same_code(built, options):
    isa, _, _ = built
    if isa != "x86_64" and "intel" in options:
        pytest.skip("Intel's syntax is of x86")
    assert loops_of(snippet.pieces(listing(built, *options))) == loops_of(
        snippet.pieces(listing(built))
    )


def test_a_listing_without_addresses_is_read_by_its_bytes(built):
    whole = snippet.pieces(listing(built))
    assert loops_of(snippet.pieces(listing(built, "--no-addresses"))) == loops_of(whole)
    with pytest.raises(InputError, match="leave out --no-addresses or --no-show-raw-insn"):
        snippet.pieces(listing(built, "--no-addresses", "--no-show-raw-insn"))


@pytest.mark.parametrize("syntax", ["att", "intel"])
def test_what_a_compiler_prints_is_read_with_demangled_names(built, syntax):
    isa, gcc, folder = built
    options = [f"-masm={syntax}"] if isa == "x86_64" else []
    text = subprocess.run(
        [gcc, *FLAGS, *options, "-S", "a.c", "-o", "-"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # As Compiler Explorer shows it: no directives, names demangled.
    kept = [line for line in text.splitlines() if not line.lstrip().startswith(".") or ":" in line]
    shown = "\n".join(kept).replace("sum:", "ns::sum(int const*, unsigned long):")
    quoted = "\n".join(f"> {line}" for line in shown.splitlines())
    expected = [piece.code for piece in snippet.pieces(text)]
    for one in (shown, quoted, f"```asm\n{shown}\n```", shown.replace("\n", "\r\n")):
        assert [piece.code for piece in snippet.pieces(one)] == expected
    assert snippet.pieces(shown)[0].id.startswith(".L")


PERF_ADDRESSES = """\
 Percent |      Source code & Disassembly of a.out for cycles (1203 samples, percent: local period)
------------------------------------------------------------------------------------------------
         : 5                0000000000001139 <sum>:
         :
         : 6    int sum(const int *p, unsigned long n) {
    0.00 :   1139:       xor    %eax,%eax
    0.00 :   113b:       test   %rsi,%rsi
    0.00 :   113e:       je     114b <sum+0x12>
         : 7    for (unsigned long i = 0; i < n; i++) s += p[i];
   48.21 :   1140:       add    (%rdi),%eax
    2.10 :   1142:       add    $0x4,%rdi
   49.69 :   1146:       dec    %rsi
    0.00 :   1149:       jne    1140 <sum+0x7>
    0.00 :   114b:       ret
"""
PERF_LABELS = """\
sum  /tmp/a.out
Percent\N{BOX DRAWINGS LIGHT VERTICAL}
       \N{BOX DRAWINGS LIGHT VERTICAL}    Disassembly of section .text:
       \N{BOX DRAWINGS LIGHT VERTICAL}    sum():
       \N{BOX DRAWINGS LIGHT VERTICAL}    int sum(const int *p, unsigned long n) {
  0.10 \N{BOX DRAWINGS LIGHT VERTICAL}      xor    %eax,%eax
       \N{BOX DRAWINGS LIGHT VERTICAL}      test   %rsi,%rsi
       \N{BOX DRAWINGS LIGHT VERTICAL}    \N{DOWNWARDS ARROW} je     12
  9.09 \N{BOX DRAWINGS LIGHT VERTICAL} 7:   add    (%rdi),%eax
 45.12 \N{BOX DRAWINGS LIGHT VERTICAL}      add    $0x4,%rdi
       \N{BOX DRAWINGS LIGHT VERTICAL}      dec    %rsi
 45.69 \N{BOX DRAWINGS LIGHT VERTICAL}    \N{UPWARDS ARROW} jne    7
       \N{BOX DRAWINGS LIGHT VERTICAL}12: \N{LEFTWARDS ARROW} ret
"""
GDB = """\
Dump of assembler code for function sum:
   0x0000000000001139 <+0>:\txor    %eax,%eax
   0x000000000000113b <+2>:\ttest   %rsi,%rsi
   0x000000000000113e <+5>:\tje     0x114b <sum+18>
=> 0x0000000000001140 <+7>:\tadd    (%rdi),%eax
   0x0000000000001142 <+9>:\tadd    $0x4,%rdi
   0x0000000000001146 <+13>:\tdec    %rsi
   0x0000000000001149 <+16>:\tjne    0x1140 <sum+7>
   0x000000000000114b <+18>:\tret
End of assembler dump.
"""
SUM = "03074883c70448ffce75f5"


@pytest.mark.parametrize(
    ("text", "offset"), [(PERF_ADDRESSES, 0), (PERF_LABELS, None), (GDB, 0)], ids=["a", "b", "gdb"]
)
def test_what_perf_and_gdb_show_is_read(text, offset):
    [piece] = snippet.pieces(text)
    assert piece.code.hex() == SUM
    assert offset is None or piece.offset == offset


def test_a_loop_without_its_end_is_predicted_and_a_loop_without_its_head_is_none():
    lines = GDB.splitlines()
    [piece] = snippet.pieces("\n".join(lines[2:8]))  # the branch before the loop leaves the text
    assert piece.code.hex() == SUM
    [rest] = snippet.pieces("\n".join(lines[5:8]))
    assert rest.notion == "unrolled"


@pytest.mark.parametrize(
    "text",
    [
        "03 07 48 83 c7 04 48 ff ce 75 f5",
        "0x03,0x07,0x48,0x83,0xc7,0x04,0x48,0xff,0xce,0x75,0xf5",
        "03:07:48:83:c7:04:48:ff:ce:75:f5",
        r"\x03\x07\x48\x83\xc7\x04\x48\xff\xce\x75\xf5",
        "0x03074883c70448ffce75f5\n",
        "0307 4883 c704 48ff ce75 f5",
        '"\\x03\\x07\\x48\\x83\\xc7\\x04" "\\x48\\xff\\xce\\x75\\xf5"',
        "{ 0x03, 0x07, 0x48, 0x83, 0xc7, 0x04, 0x48, 0xff, 0xce, 0x75, 0xf5 };",
    ],
)
def test_hex_is_read_as_listings_and_debuggers_write_it(text):
    assert instructions.parse_hex(text).hex() == SUM
    [piece] = snippet.pieces(text)
    assert piece.code.hex() == SUM


@pytest.mark.parametrize("text", ["0307 4883 c7z4", "0x", ":", "03 0"])
def test_what_is_no_hex_is_one_line(text):
    with pytest.raises(InputError):
        instructions.parse_hex(text)


def test_a_mnemonic_of_hex_digits_is_no_hex():
    [piece] = snippet.pieces("l: dec %ecx\n jne l\n")
    assert piece.code.hex() == "ffc975fc"
    with pytest.raises(InputError):
        snippet.pieces("add\n")


MAIL = """\
From: Jane Doe <jane@example.org>
Subject: Re: the loop of sum()

On Mon, 2 Jun 2025, Joe Doe wrote:
> The hot loop of it, in question:
>
> 1:\taddl (%rdi), %eax
> \taddq $4, %rdi\t# this is the pointer of the array
> \tdecq %rsi
> \tjne 1b

Hi Joe,

does it do one iteration per cycle on your machine?

Regards,
Jane
"""


def test_a_loop_is_read_out_of_the_sentences_of_a_mail():
    [piece] = snippet.pieces(MAIL)
    assert piece.code.hex() == SUM


@pytest.mark.parametrize("quote", ["> ", ">> ", "> > "])
@pytest.mark.parametrize("text", [PERF_ADDRESSES, PERF_LABELS, GDB])
def test_a_quoted_listing_between_sentences_is_read(text, quote):
    quoted = "".join(f"{quote}{line}\n" for line in text.splitlines())
    [piece] = snippet.pieces(f"On Monday Joe wrote:\n{quoted}\nWhat do you get of it?\n")
    assert piece.code.hex() == SUM


def test_a_comment_in_words_leaves_its_instruction():
    text = (
        "l: add eax, [rdi] ; this is the sum of all in it\n dec rsi # and so it is the end\n jne l"
    )
    [piece] = snippet.pieces(text)
    assert [ins.mnemonic for ins in piece.instructions] == ["addl", "decq", "jne"]


@pytest.mark.parametrize("end", ["", "\n"])
def test_padding_that_ends_a_listing_without_bytes_is_read(end):
    padding = "   0x000000000000114c:\tdata16 cs nopw 0x0(%rax,%rax,1)"
    [piece] = snippet.pieces(GDB.replace("End of assembler dump.\n", padding + end))
    assert piece.code.hex() == SUM
