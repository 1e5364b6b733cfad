"""Other encodings of loops: the same instructions, and branches that still go where they went."""

import ctypes.util
from pathlib import Path

import pytest
from quick import some
from scanned import built, by_name, found

from loopwright import microarchs
from loopwright.scanning.binary_loops import shape_of_code
from loopwright.scanning.costs import cycles_by_offset
from loopwright.scanning.fixes import encodings


def _codes(path: Path, text: str) -> list[tuple[str, int, str]]:
    (loop,) = by_name(built(path, f".globl f\n.type f, @function\nf:\n{text}\n")).values()
    return [(e.code.hex(), e.longer, e.how) for e in encodings(loop.code, loop.path)]


def test_an_assembler_makes_of_each_what_it_is_said_to_be(tmp_path: Path) -> None:
    """The words go back into the source, and come out as the bytes that were meant."""
    lines = ["movq 8(%rdi), %rax", "vpaddd %ymm1, %ymm2, %ymm3", "incl %ecx", "decq %rsi"]
    loop = _codes(tmp_path, "\n".join(["1:", *lines, "jne 1b", "ret"]))
    assert {how.split()[0] for _, _, how in loop} == {"{disp32}", "{vex3}", "{rex}"}
    for code, longer, how in loop:
        word, _, rest = how.partition(" ")
        name = rest.split()[0].rstrip("ql")
        (line,) = [x for x in lines if x.split()[0].rstrip("ql") == name]
        text = "\n".join(["1:", *(f"{word} {x}" if x == line else x for x in lines), "jne 1b"])
        (again,) = by_name(built(tmp_path, f".globl f\n.type f, @function\nf:\n{text}\n")).values()
        assert again.code.hex() == code, how
        assert longer == len(bytes.fromhex(code)) - 15


def test_what_is_encoded_long_is_found_short(tmp_path: Path) -> None:
    text = "1: {disp32} movq 8(%rdi), %rax\n.byte 0x48, 0x81, 0xc7, 8, 0, 0, 0\ndecq %rsi\njne 1b"
    shorter = [(longer, how) for _, longer, how in _codes(tmp_path, text) if longer < 0]
    assert [longer for longer, _ in shorter] == [-3, -3]
    assert shorter[1][1].startswith("add $8,%rdi")


def test_a_branch_that_does_not_reach_any_more_rules_an_encoding_out(tmp_path: Path) -> None:
    body = "\n".join(["movq 8(%rdi), %rax", *["nop"] * 119, "decq %rsi"])
    reach = [longer for _, longer, _ in _codes(tmp_path, f"1: {body}\njne 1b")]
    assert reach == []


def test_a_short_branch_with_prefixes_keeps_them(tmp_path: Path) -> None:
    """Five bytes long, as a jump with a distance of four bytes is."""
    codes = _codes(tmp_path, "1: movl (%rdi), %eax\n.byte 0x2e, 0x2e, 0x2e, 0x75, 0xf9")
    assert {code: how.split()[0] for code, _, how in codes} == {
        "8b47002e2e2e75f8": "{disp8}",
        "8b87000000002e2e2e75f5": "{disp32}",
        "408b072e2e2e75f8": "{rex}",
    }


@pytest.mark.parametrize("step", some([7, 49], {49}))
def test_all_encodings_of_a_librarys_loops_do_the_same(step: int) -> None:
    """The simulator follows each path and takes it for the loop that it was."""
    name = next((p for p in Path("/usr/lib").glob("*/libc.so.6")), None)
    if name is None or ctypes.util.find_library("c") is None:
        pytest.skip("no libc.so.6 of this machine below /usr/lib")
    loops = [loop for loop in found(name).loops if loop.isa == "x86_64"][::step]
    if not loops:
        pytest.skip(f"{name} is not for x86-64")
    made = [(loop, e) for loop in loops for e in encodings(loop.code, loop.path)]
    assert len(made) > len(loops)
    for loop, one in made:
        assert shape_of_code("x86_64", one.code) == shape_of_code("x86_64", loop.code)
        assert len(one.code) == len(loop.code) + one.longer
    core = microarchs.load("zen4")
    _, before = cycles_by_offset([(loop.code, loop.path) for loop, _ in made], core)
    _, after = cycles_by_offset([(e.code, e.path) for _, e in made], core)
    assert set(after) == set(before)
