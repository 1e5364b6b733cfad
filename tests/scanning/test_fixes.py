"""Fixes of hurt loops: each is applied to the source, assembled and scanned again."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scanned import built, by_name, found

from loopwright import microarchs, toolchain
from loopwright.rows import counted
from loopwright.scanning import costs, fixes, images
from loopwright.scanning.binary_loops import ScannedLoop, SourceLines
from loopwright.scanning.costs import HURT, INDIFFERENT, CoreCosts
from loopwright.scanning.fixes import Candidate, Fix

# A routine whose start is aligned, and a loop so many bytes behind it.
ROUTINE = """\
	.p2align {power}
	.globl {name}
	.type {name}, @function
{name}:	testq %rsi, %rsi
	je 9f
	.skip {skip}, 0x90
{before}
2:	{loop}
9:	ret
	.size {name}, .-{name}
"""
SUM = "addq (%rdi), %rax; addq $8, %rdi; decq %rsi; jne 2b"  # 12 bytes
# 16 bytes with its long displacement, 13 without.
LONG = "{disp32} addq 8(%rdi), %rax; addq $8, %rdi; decq %rsi; jne 2b"
SHIFT = 5  # bytes of the routine before what is skipped


def routine(
    name: str = "walk", skip: int = 0, loop: str = SUM, power: int = 6, before: str = ""
) -> str:
    return ROUTINE.format(name=name, skip=skip, loop=loop, power=power, before=before)


def found_fixes(path: Path, *cores: str) -> dict[str, Fix]:
    image = images.read_image(path)
    loops = found(path).loops
    cost = costs.cost(loops, [microarchs.load(core) for core in cores])
    all_fixes = fixes.find_fixes(loops, cost, costs.start_alignments(image), SourceLines(image).of)
    return {loop.where.partition("+")[0]: fix for loop, fix in zip(loops, all_fixes, strict=True)}


def _only(loops: dict[str, ScannedLoop]) -> ScannedLoop:
    (loop,) = loops.values()
    return loop


def worst(path: Path, core: str) -> tuple[float, float]:
    """Return the cycles of an object's loop: at worst where a linker may put it, and at best."""
    (section,) = [s for s in images.read_image(path).sections if s.code]
    loop = _only(by_name(path))
    (cost,) = costs.cost([loop], [microarchs.load(core)])
    offsets = [(loop.address + at) % 64 for at in range(0, 64, section.alignment)]
    return max(cost.table[0][at] for at in offsets), cost.best[0]


def test_a_loop_that_its_place_does_not_hurt_is_left_alone(tmp_path: Path) -> None:
    fix = found_fixes(built(tmp_path, routine(skip=64 - SHIFT)), "zen2")["walk"]
    assert (fix.words, fix.candidate) == (fixes.NOT_NEEDED, None)


@pytest.mark.parametrize("power", [4, 6])
def test_an_aligned_loop_is_good_wherever_its_object_is_put(tmp_path: Path, power: int) -> None:
    text = routine(skip=56 - SHIFT, power=power)
    path = built(tmp_path, text)
    fix = found_fixes(path, "zen2")["walk"]
    assert fix.candidate
    assert fix.candidate.kind == "align"
    cycles, best = worst(path, "zen2")
    assert cycles >= HURT * best
    directive = f"\t.p2align {fix.candidate.alignment.bit_length() - 1}\n2:"
    again = built(tmp_path, text.replace("2:", directive), name="again.o")
    cycles, best = worst(again, "zen2")
    assert cycles <= INDIFFERENT * best
    more = len(images.read_image(again).sections[0].code) - len(
        images.read_image(path).sections[0].code
    )
    assert more <= fix.candidate.most
    if power == 6:
        assert fix.candidate.most == more == fix.candidate.expected


def test_a_smaller_alignment_would_not_do(tmp_path: Path) -> None:
    """Of 20 bytes at 16 and at 48 mod 64 one offset crosses a line, of 12 bytes none does."""
    small = found_fixes(built(tmp_path, routine(skip=56 - SHIFT, power=4)), "zen2")["walk"]
    more = "addq 8(%rdi), %rbx; leaq 16(%rdi), %rdi; nopl 0(%rax)"
    wide = f"addq (%rdi), %rax; {more}; decq %rsi; jne 2b"
    large = found_fixes(built(tmp_path, routine(skip=52 - SHIFT, power=4, loop=wide)), "zen2")[
        "walk"
    ]
    assert small.candidate
    assert large.candidate
    assert small.candidate.alignment == 16
    assert large.candidate.alignment == 32


def test_a_long_encoding_is_made_shorter(tmp_path: Path) -> None:
    text = routine(skip=50 - SHIFT, loop=LONG)
    path = built(tmp_path, text)
    assert len(_only(by_name(path)).code) == 16
    fix = found_fixes(path, "zen2")["walk"]
    cycles, best = worst(path, "zen2")
    assert cycles >= HURT * best
    assert fix.words == "shorter encoding, -3 B"
    again = built(tmp_path, text.replace("{disp32} ", ""), name="again.o")
    assert worst(again, "zen2")[0] == fix.effects["zen2"].after


def test_the_words_for_padding_name_an_instruction_that_takes_it() -> None:
    from loopwright.scanning.fixes import lengthened

    before = bytes.fromhex("488b0731c0")  # mov (%rdi),%rax; xor %eax,%eax
    assert lengthened(before, 1) == "{rex} xor %eax,%eax"
    assert lengthened(before, 4) == "{disp32} mov (%rdi),%rax"
    assert lengthened(before, 7) == ""


def _costs(core: str, table: np.ndarray) -> CoreCosts:
    return CoreCosts(microarchs.load(core), [table.tolist()], {}, [56])


def _loop(isa: str = "x86_64") -> ScannedLoop:
    code = bytes.fromhex("48030748 83c70848 ffce75f4".replace(" ", ""))
    if isa == "arm64":
        code = bytes.fromhex("00840091 3f0401f1 c1ffff54".replace(" ", ""))
    return ScannedLoop("", ".text", isa, 56, code, ((0, len(code)),), "walk", 56)


def test_a_fix_that_costs_another_core_more_than_one_percent_is_none() -> None:
    """zen2 is good at 0 mod 16 alone, where zen3 is not."""
    aligned = np.arange(64) % 16 == 0
    zen2 = _costs("zen2", np.where(aligned, 1.0, 2.0))
    starts_ = {("", ".text"): 16}
    good = fixes.find_fixes([_loop()], [zen2, _costs("zen3", np.ones(64))], starts_)
    (refused_fix,) = fixes.find_fixes(
        [_loop()], [zen2, _costs("zen3", np.where(aligned, 1.02, 1.0))], starts_
    )
    assert good[0].words == "align 16, +8 B"
    assert (refused_fix.words, refused_fix.candidate) == (fixes.NONE, None)
    assert refused_fix.note == "align 16, +8 B would do, but for zen3 +2 %"
    (allowed_fix,) = fixes.find_fixes(
        [_loop()], [zen2, _costs("zen3", np.where(aligned, 1.009, 1.0))], starts_
    )
    assert allowed_fix.words == "align 16, +8 B"


def test_cores_without_a_figure_have_no_say() -> None:
    zen2 = _costs("zen2", np.where(np.arange(64) % 16 == 0, 1.0, 2.0))
    nothing = _costs("zen3", np.full(64, np.nan))
    assert fixes.find_fixes([_loop()], [zen2, nothing], {})[0].words == "align 16, +15 B at most"
    assert fixes.find_fixes([_loop()], [nothing], {})[0].words == ""


def test_what_is_known_of_the_routine_decides_what_a_fix_costs() -> None:
    """56 bytes behind a start that is aligned to 64 the loop wants exactly 8 bytes."""
    zen2 = _costs("zen2", np.where(np.arange(64) % 32 == 0, 1.0, 2.0))
    words = {
        n: fixes.find_fixes([_loop()], [zen2], {("", ".text"): n})[0].words for n in (1, 16, 64)
    }
    assert words == {
        1: "align 32, +31 B at most",
        16: "align 32, +24 B at most",
        64: "align 32, +8 B",
    }


def test_padding_is_taken_where_it_is_less() -> None:
    """A routine aligned to 64, and offsets from 60 on that are good: 4 bytes, where 16 wants 8."""
    zen2 = _costs("zen2", np.where((np.arange(64) >= 60) | (np.arange(64) < 16), 1.0, 2.0))
    (fix,) = fixes.find_fixes([_loop()], [zen2], {("", ".text"): 64}, kinds=("pad", "align"))
    assert fix.words == "pad 4 B"


def test_arm64_has_alignments_and_whole_instructions_alone() -> None:
    table = np.where(np.arange(64) >= 60, 1.0, np.where(np.arange(64) % 4 == 0, 2.0, np.nan))
    candidate = _costs("neoverse-n1", table)
    (fix,) = fixes.find_fixes([_loop("arm64")], [candidate], {("", ".text"): 64})
    assert fix.words == "pad 4 B"


C = """\
{attribute} long sum(const long *p, long n)
{{
	long s = 0;
	if (n < 3)
		return 7;
	for (long i = 0; i < n; i++)
		s += p[i] ^ i;
	return s;
}}
"""


def _compiled(folder: Path, attribute: str = "", *options: str) -> Path:
    source, target = folder / "sum.c", folder / "sum.o"
    source.write_text(C.format(attribute=attribute))
    command = [
        toolchain.find("x86_64").gcc,
        "-O2",
        "-g",
        "-c",
        *options,
        str(source),
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def test_of_a_compiler_only_alignments_are_asked() -> None:
    """The same loop as above, which 4 bytes of padding fix in assembly."""
    zen2 = _costs("zen2", np.where((np.arange(64) >= 60) | (np.arange(64) < 16), 1.0, 2.0))

    def words(line: str) -> str:
        return fixes.find_fixes([_loop()], [zen2], {("", ".text"): 64}, lambda _: line)[0].words

    assert words("lib/sum.S:7") == "pad 4 B"
    assert words("lib/sum.c:7") == "align 64, +8 B"


def test_the_flags_that_are_named_work(tmp_path: Path) -> None:
    loop = _loop()
    zen2 = _costs("zen2", np.where(np.arange(64) % 32 == 0, 1.0, 2.0))
    line = "lib/sum.c:7"
    (fix,) = fixes.find_fixes([loop], [zen2], {("", ".text"): 16}, lambda _: line)
    loop = ScannedLoop("", ".text", "x86_64", 56, loop.code, loop.path, "sum", 56, line)
    text = fixes.fix_text(fix, loop, 2)
    assert "+62 B at most for all 2" in text
    (attribute,) = re.findall(r"`(__attribute__\S+)`", text)
    (flag,) = re.findall(r"`(-falign\S+)`", text)
    assert "CFLAGS_sum.o" in text
    plain = _only(by_name(_compiled(tmp_path)))
    assert plain.address % 32
    assert _only(by_name(_compiled(tmp_path, attribute))).address % 32 == 0
    assert _only(by_name(_compiled(tmp_path, "", flag))).address % 32 == 0


def told(function: str, line: str, alike: int) -> str:
    """Say how a loop 8 bytes before a line is fixed that wants a multiple of 32."""
    loop = _loop()
    into = 56 if function else 0
    loop = ScannedLoop("", ".text", "x86_64", 56, loop.code, loop.path, function, into, line)
    zen2 = _costs("zen2", np.where(np.arange(64) % 32 == 0, 1.0, 2.0))
    alignments = {("", ".text"): 16 if function else 1}
    (fix,) = fixes.find_fixes([loop], [zen2], alignments, lambda _: line, kinds=["align"])
    assert fix.words.startswith("align 32")
    return fixes.fix_text(fix, loop, alike)


def test_a_loop_of_a_function_without_a_name_is_told_as_such() -> None:
    text = told("", "", 1)
    assert "it()" not in text
    assert "`.p2align 5` before the label at 0x38" in text
    assert "on its function, " in text
    assert "and up to 31 B for each other one of that function" in text
    assert "in the flags of its file" in text


def test_one_loop_of_a_function_is_not_told_as_several() -> None:
    candidate, two = told("sum", "lib/sum.c:7", 1), told("sum", "lib/sum.c:7", 2)
    assert "on sum(), " in candidate
    assert " all " not in candidate
    assert "for this loop" not in candidate
    assert "for this loop, +62 B at most for all 2 of the function" in two


def test_an_attribute_is_for_the_function_that_was_written() -> None:
    assert "on sum(), " in told("sum.constprop.0.isra.0", "lib/sum.c:7", 1)


def test_a_header_is_compiled_with_what_includes_it() -> None:
    text = told("sum", "include/linux/list.h:70", 1)
    assert "CFLAGS_list.o" not in text
    assert "in the flags of the file that includes include/linux/list.h" in text


def test_of_rust_no_attribute_of_c_is_asked() -> None:
    text = told("sum", "rust/kernel/sum.rs:7", 2)
    assert "__attribute__" not in text
    assert "CFLAGS" not in text
    assert "`-Cllvm-args=--align-loops=32` for its crate" in text


def test_padding_of_arm64_is_made_of_its_instructions() -> None:
    code = _loop("arm64").code
    loop = ScannedLoop("", ".text", "arm64", 56, code, ((0, len(code)),), "sum", 56)
    for pad, nops in ((4, "`nop`"), (12, "`.rept 3; nop; .endr`")):
        candidate = Candidate("align, pad", (pad,), pad, pad, "", 64, pad)
        text = fixes.fix_text(Fix("", candidate), loop, 1)
        assert f"`.p2align 6` and {nops} before the label at sum+0x38" in text


def test_numbers_in_sentences_agree_with_what_they_count() -> None:
    assert counted(1, "loop") == "1 loop"
    assert counted(0, "loop") == "0 loops"
    assert counted(1234, "that calls", "that call") == "1,234 that call"
