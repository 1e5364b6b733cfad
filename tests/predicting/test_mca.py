"""mca: llvm-mca's inputs and flags, its sections, and the code alignment beside them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import loopwright as lw
from loopwright.cli import run
from loopwright.toolchain import host_isa

LOOP = """\
\t.p2align 6
.Lloop:
\tmovq\t$0, (%rdi)
\taddq\t$8, %rdi
\tdecq\t%rcx
\tjne\t.Lloop
"""
STRAIGHT = "\timulq\t%rax, %rbx\n\taddl\t(%rsi), %ecx\n\tmovq\t%rcx, 8(%rdi)\n"
SECTIONS = [
    "Iterations:",
    "Throughput Bottlenecks:",
    "Instruction Info:",
    "Dispatch Logic",
    "Schedulers",
    "Retire Control Unit",
    "Resources:",
    "Resource pressure per iteration:",
    "Resource pressure by instruction:",
    "Timeline view:",
    "Average Wait times",
]


def mca(capfd, *arguments: str) -> tuple[int, str, str]:
    code = run(["mca", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "input.s"
        path.write_text(text)
        return str(path)

    return write


def regions(capfd, path: str, *flags: str) -> list[dict[str, Any]]:
    code, out, err = mca(capfd, "-json", *flags, path)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["CodeRegions"]
    return found


def test_sections_stand_in_the_order_of_llvm_mca(capfd, written):
    path = written(STRAIGHT)
    code, out, err = mca(capfd, "-mcpu=znver2", "-all-views", path)
    assert (code, err) == (0, "")
    ours = [out.index(section) for section in SECTIONS]
    assert ours == sorted(ours)
    assert "Code offset: 0 of 64 bytes" in out
    llvm_mca = shutil.which("llvm-mca-19") or shutil.which("llvm-mca")
    if llvm_mca is None:
        pytest.skip("no llvm-mca to compare with")
    theirs = subprocess.run(
        [llvm_mca, "-mcpu=znver2", "-all-views", path], capture_output=True, text=True, check=True
    ).stdout
    places = [theirs.index(section) for section in SECTIONS]
    assert places == sorted(places)


@pytest.mark.parametrize("cpu", ["znver2", "skylake"])
def test_instructions_read_as_llvm_mca_reads_them(capfd, written, cpu):
    llvm_mca = shutil.which("llvm-mca-19") or shutil.which("llvm-mca")
    if llvm_mca is None:
        pytest.skip("no llvm-mca to compare with")
    text = "# LLVM-MCA-BEGIN one\n" + STRAIGHT + "# LLVM-MCA-END\n"
    text += (
        "# LLVM-MCA-BEGIN two\nvfmadd231pd (%rax,%rdx,8), %ymm1, %ymm0\nshld %cl, %rax, (%rbx)\n"
    )
    text += "# LLVM-MCA-END two\n"
    path = written(text)
    command = [llvm_mca, "-json", f"-mcpu={cpu}", path]
    theirs = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    ours = regions(capfd, path, f"-mcpu={cpu}")
    assert [r["Name"] for r in ours] == [r["Name"] for r in theirs["CodeRegions"]] == ["one", "two"]
    assert [r["Instructions"] for r in ours] == [r["Instructions"] for r in theirs["CodeRegions"]]


def test_a_loop_has_the_cycles_of_predict_at_every_offset(capfd, written):
    (region,) = regions(capfd, written(LOOP), "-mcpu=zen2")
    assert region["SummaryView"]["Kind"] == "loop"
    cycles = region["CodeAlignmentView"]["CyclesByOffset"]
    code = "48c707000000004883c70848ffc975f0"
    rows = lw.predict(hex=code, microarch="zen2", model="pipeline", notion="loop", offset="all")
    assert cycles == pytest.approx(rows.sort_values("offset").cycles.tolist(), abs=0.001)
    assert len(set(cycles)) > 1
    assert region["SummaryView"]["CyclesPerIteration"] == cycles[0]


def test_an_offset_decides(capfd, written):
    slow = regions(capfd, written(LOOP), "-mcpu=zen2", "-code-offset=60")[0]
    assert slow["CodeAlignmentView"]["CrossesLine"] is True
    assert slow["SummaryView"]["CyclesPerIteration"] == 2
    assert slow["SummaryView"]["TotalCycles"] > 195  # 100 iterations


def test_a_loop_of_16_bytes_across_a_line_takes_two_cycles_on_zen_4(capfd, written):
    # As oxcaml's pull request 6682 has it; docs/mca.md has what a Zen 4 measured.
    code, out, _ = mca(capfd, "-mcpu=znver4", written("4803034883c3084883c1014839f37cf0\n"))
    assert code == 0
    assert "Cycles per iteration by code offset: 1.21 at 0-48, 2.00 at 49-63" in out


def test_iterations_count(capfd, written):
    few = regions(capfd, written(STRAIGHT), "-mcpu=skylake", "-iterations=7")[0]["SummaryView"]
    many = regions(capfd, written(STRAIGHT), "-mcpu=skylake", "-iterations=70000")[0]["SummaryView"]
    assert (few["Iterations"], few["Instructions"]) == (7, 21)
    # 70,000 iterations are not all recorded: the rest goes on at the steady state's pace.
    assert many["TotalCycles"] == pytest.approx(70000 * many["CyclesPerIteration"], rel=0.001)


def test_marker_instructions_enclose_a_region(capfd, written):
    begin = "movl $111, %ebx\n.byte 100,103,144\n"
    end = "movl $222, %ebx\n.byte 100,103,144\n"
    (region,) = regions(
        capfd, written("incq %r8\n" + begin + STRAIGHT + end + "incq %r9\n"), "-mcpu=haswell"
    )
    assert len(region["Instructions"]) == 3


def test_osaca_markers_and_aarch64(capfd, written):
    text = "// OSACA-BEGIN\n.Ll:\n ldr q0, [x1], #16\n subs x3, x3, #1\n b.ne .Ll\n"
    text += "// OSACA-END\n nop\n"
    (region,) = regions(capfd, written(text), "-mcpu=tsv110")
    assert region["SummaryView"]["Kind"] == "loop"
    assert region["Instructions"][-1] == "b.ne\t.Ll"
    offsets = region["CodeAlignmentView"]["CyclesByOffset"]
    assert [n for n, cycles in enumerate(offsets) if cycles is not None] == list(range(0, 64, 4))


def test_intel_syntax_and_the_return_of_a_function(capfd, written):
    path = written(".intel_syntax noprefix\nadd eax, dword ptr [rsi]\nret\n")
    code, out, err = mca(capfd, "-mcpu=zen4", "-output-asm-variant=1", path)
    assert code == 0
    assert "add\teax, [rsi]" in out
    assert err.startswith("note: the return")


def test_intel_syntax_without_its_directive_is_refused_with_the_flag_that_reads_it(capfd, written):
    path = written("popcnt rax, rbx\n")
    code, _, err = mca(capfd, "-mcpu=zen4", path)
    assert code == 2
    assert err.rstrip().endswith("; -x86-asm-syntax=intel reads Intel syntax")
    code, out, _ = mca(capfd, "-mcpu=zen4", "-x86-asm-syntax=intel", path)
    assert code == 0
    assert "popcnt\trax, rbx" in out


def test_what_stands_before_a_loop_is_left_out(capfd, written):
    _, out, err = mca(capfd, "-mcpu=zen2", written("xorl %eax, %eax\n" + LOOP.split("\n", 1)[1]))
    assert "xorl" not in out
    assert "the loop begins 2 bytes into the region" in err


def test_an_object_is_read(capfd, tmp_path, written):
    if host_isa() != "x86_64":
        pytest.skip("the assembler of this host is not x86-64's")
    target = tmp_path / "input.o"
    subprocess.run(["gcc", "-c", written(STRAIGHT), "-o", target], check=True)
    (region,) = regions(capfd, str(target), "-mcpu=ivybridge")
    assert region["Instructions"][1] == "addl\t(%rsi), %ecx"


HEX = "48c70700000000 4883c708\n48ffc9 # dec\n75f0\n"
OBJDUMP = """
0000000000401000 <clear>:
  401000:\t48 c7 07 00 00 00 00 \tmovq   $0x0,(%rdi)
  401007:\t48 83 c7 08          \tadd    $0x8,%rdi
  40100b:\t48 ff c9             \tdec    %rcx
  40100e:\t75 f0                \tjne    401000 <clear>
"""
GDB = """
   0x0000000000401000 <+0>:\t48 c7 07 00 00 00 00\tmovq $0x0,(%rdi)
   0x0000000000401007 <+7>:\t48 83 c7 08\tadd $0x8,%rdi
   0x000000000040100b <+11>:\t48 ff c9\tdec %rcx
   0x000000000040100e <+14>:\t75 f0\tjne 0x401000 <clear>
"""


@pytest.mark.parametrize("text", [HEX, OBJDUMP, GDB])
def test_code_in_hex_is_the_code_of_its_assembly(capfd, written, text):
    (assembled,) = regions(capfd, written(LOOP), "-mcpu=zen2")
    (listed,) = regions(capfd, written(text), "-mcpu=zen2")
    assert listed["SummaryView"] == assembled["SummaryView"]
    assert listed["Instructions"] == assembled["Instructions"]


def test_an_empty_line_ends_a_region_of_hex(capfd, written):
    found = regions(capfd, written("48ffc8\n\n0x48 0xff,0xc9\n"), "-mcpu=zen2")
    assert [r["Instructions"] for r in found] == [["decq\t%rax"], ["decq\t%rcx"]]


def test_words_of_a_listing_are_instructions_of_aarch64(capfd, written):
    text = "   0:\tf8408425 \tldr\tx5, [x1], #8\n   4:\tf1000442 \tsubs\tx2, x2, #0x1\n"
    (found,) = regions(capfd, written(text), "-mcpu=tsv110")
    assert found["Instructions"] == ["ldr\tx5, [x1], #8", "subs\tx2, x2, #0x1"]
    code, _, err = mca(capfd, "-mcpu=zen2", written(text))
    assert code == 2
    assert "of another instruction set" in err


def test_tables_simulate_nothing(capfd, written):
    code, out, _ = mca(capfd, "-mcpu=znver2", "-instruction-tables", written(STRAIGHT))
    assert code == 0
    assert "Iterations" not in out
    assert " 2      5     0.50    *                    addl" in out


def test_core_sizes_are_taken_from_flags(capfd, written):
    text = "\n".join(["nop"] * 12)
    wide = regions(capfd, written(text), "-mcpu=znver2")[0]["SummaryView"]["CyclesPerIteration"]
    narrow = regions(capfd, written(text), "-mcpu=znver2", "-dispatch=2")[0]["SummaryView"]
    assert narrow["CyclesPerIteration"] == 6 > wide


def test_an_instruction_without_figures_is_an_error_or_left_out(capfd, written):
    path = written("vpxord %zmm1, %zmm2, %zmm3\n" + STRAIGHT)
    code, out, err = mca(capfd, "-mcpu=znver2", path)
    assert (code, out) == (2, "")
    assert "no figures for vpxord" in err
    assert err.count("\n") == 1
    code, out, _ = mca(capfd, "-mcpu=znver2", "-skip-unsupported-instructions=lack-sched", path)
    assert code == 0
    assert "Note: left out, as it has no figures: vpxord" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-mcpu=pentium"], "-mcpu=pentium: no such core here; known: "),
        (["-mcpu=zen2", "-lqueue=4"], "-lqueue has no meaning here"),
        (["-mcpu=zen2", "-noalias=false"], "-noalias=false has no meaning here"),
        (["-mcpu=zen2", "-itertions=4"], "is -iterations meant?"),
        (["-mcpu=zen2", "-iterations=x"], "a number from 0 to 1000000"),
        (["-mcpu=zen2", "-timeline=maybe"], "true or false"),
        (["-mcpu=zen2", "-march=riscv"], "x86-64 or aarch64"),
        (["-mcpu=zen2", "-march=aarch64"], "another instruction set"),
        (["-mcpu=zen2", "/nonexistent.s"], "/nonexistent.s: No such file"),
        (["-mcpu=zen2", "-o", "/proc/none/x", "FILE"], "-o /proc/none/x: No such file"),
        (["-mcpu=zen2", "BOGUS"], "invalid instruction mnemonic|no such instruction"),
        (["-mcpu=zen2", "EMPTY"], "no instructions"),
        (["-mcpu=zen2", "HALF"], "line 1: 48f: an odd number of hex digits"),
        (["-mcpu=zen2", "END"], "line 1: a region ends that did not begin"),
        (["-mcpu=zen2", "CALL"], "`callq` at +0x1: a call, a return"),
    ],
)
def test_what_is_refused_is_one_line(capfd, written, arguments, says):
    texts = {
        "FILE": STRAIGHT,
        "BOGUS": "bogus %rax\n",
        "EMPTY": "",
        "HALF": "48f\n",
        "END": "# LLVM-MCA-END\n",
        "CALL": "nop\ncall f\nnop\n",
    }
    arguments = [written(texts[a]) if a in texts else a for a in arguments]
    code, out, err = mca(capfd, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert any(part in err for part in says.split("|")), err


def test_a_file_is_written_whole(capfd, tmp_path, written):
    path = tmp_path / "out.txt"
    code, out, _ = mca(capfd, "-mcpu=zen2", "-o", str(path), written(STRAIGHT))
    assert (code, out) == (0, "")
    assert "Code Alignment (zen2)" in path.read_text()
    assert [p.name for p in Path(tmp_path).iterdir() if p.name.endswith(".part")] == []


def test_help_names_flags_and_cores(capfd):
    code, out, _ = mca(capfd, "-help")
    assert code == 0
    assert mca(capfd, "-h")[1] == out
    assert "-timeline-max-iterations=N" in out
    assert "znver2" in out
