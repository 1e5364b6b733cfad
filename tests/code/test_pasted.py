"""Assembly as people paste it: listings, compilers' output, mails, hex."""

import subprocess

import pytest

import loopwright as lw
from loopwright import toolchain
from loopwright.code import instructions, snippet
from loopwright.errors import InputError

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
