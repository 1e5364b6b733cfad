"""Which boundary hurts a loop: answers that people know, and figures made up to know the answer."""

from math import nan
from pathlib import Path

import pytest
from scanned import by_name, linked

from loopwright import microarchs
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.costs import Boundary, boundary, cost

# The loop of __clear_user() with stores of immediates, as the thread about it has it: of more than
# one line's worth of bytes an iteration where it straddles a line of 64.
CLEAR = """\
	.p2align 6
	.fill {skip}, 1, 0x90
	.type	clears, @function
	.globl	clears
clears:	movq $0, (%rdi)
	addq $8, %rdi
	decl %ecx
	jnz clears
	ret
	.size	clears, .-clears
"""


def at_place(folder: Path, text: str, skip: int) -> ScannedLoop:
    (loop,) = by_name(linked(folder, text.format(skip=skip))).values()
    assert loop.offset == skip
    return loop


def on(core: str, loop: ScannedLoop) -> Boundary | None:
    (crossed_boundary,) = cost([loop], [microarchs.load(core)])
    return boundary(loop, crossed_boundary.table[0])


def test_a_loop_that_straddles_a_line_of_zen2s_op_cache(tmp_path: Path) -> None:
    assert on("zen2", at_place(tmp_path, CLEAR, 56)) == Boundary(64, "loop")
    assert on("zen2", at_place(tmp_path, CLEAR, 0)) is None


# Skylake with new microcode runs no branch from its uop cache that crosses 32 bytes or ends there
# (Intel, Mitigations for Jump Conditional Code Erratum, 2019); a pair that fuses is one branch.
ADDS = """\
	.p2align 6
	.fill {skip}, 1, 0x90
	.type	adds, @function
	.globl	adds
adds:	addq $1, %rax
	addq $2, %rdx
	addq $3, %rbx
	addq $4, %rsi
	cmpq %rcx, %rax
	jne adds
	ret
	.size	adds, .-adds
"""


@pytest.mark.parametrize(
    ("skip", "hurt"), [(10, False), (11, True), (13, True), (15, True), (17, False), (45, True)]
)
def test_a_branch_at_32_bytes_on_skylake(tmp_path: Path, skip: int, hurt: bool) -> None:
    loop = at_place(tmp_path, ADDS, skip)
    assert len(loop.code) == 21
    assert on("skylake", loop) == (Boundary(32, "branch") if hurt else None)


def loop_of(length: int, offset: int, branch: int = 2) -> ScannedLoop:
    """Return a loop of one-byte nops and a branch of two bytes."""
    code = b"\x90" * (length - branch) + bytes((0x75, 256 - length))
    return ScannedLoop("", ".text", "x86_64", 0x1000 + offset, code, ((0, length),))


def slow_where(size: int, positions: range) -> list[float]:
    """Return cycles that double where a boundary lies before one of these bytes of the loop."""
    return [2.0 if -at % size in positions else 1.0 for at in range(64)]


@pytest.mark.parametrize("size", [16, 32, 64])
def test_the_smallest_boundary_that_goes_with_the_slow_places_is_named(size: int) -> None:
    loop = loop_of(12, size - 5)
    assert boundary(loop, slow_where(size, range(1, 12))) == Boundary(size, "loop")
    assert boundary(loop, slow_where(size, range(1, 11))) == Boundary(size, "loop")
    assert boundary(loop, slow_where(size, range(4, 7))) == Boundary(size, "+0x4..+0x6")
    assert boundary(loop, slow_where(size, range(6, 9))) is None  # not where it lies
    branch = loop_of(12, size - 11)
    assert boundary(branch, slow_where(size, range(11, 13))) == Boundary(size, "branch")
    ends = loop_of(12, size - 12)
    assert boundary(ends, slow_where(size, range(11, 13))) == Boundary(size, "branch")
    starts = loop_of(12, 0)
    assert boundary(starts, slow_where(size, range(1))) == Boundary(size, "start")


def test_a_place_without_a_boundary_in_the_loop_names_none() -> None:
    loop = loop_of(6, 40)
    cycles = [2.0 if 38 <= at < 48 else 1.0 for at in range(64)]
    assert boundary(loop, cycles) == Boundary(64, "")


def test_an_instruction_is_named_where_only_it_may_not_be_crossed() -> None:
    code = bytes.fromhex("48b80102030405060708") + b"\x90\x90" + bytes((0x75, 256 - 14))
    loop = ScannedLoop("", ".text", "x86_64", 0x1000 + 32 - 5, code, ((0, 14),))
    assert boundary(loop, slow_where(32, range(1, 10))) == Boundary(32, "movabsq+0x0")


def test_places_where_no_code_can_lie_say_nothing() -> None:
    word = (0x54FFFFE1).to_bytes(4, "little")
    loop = ScannedLoop("", ".text", "arm64", 0x1000 + 12, b"\x1f\x20\x03\xd5" + word, ((0, 8),))
    cycles = [nan if at % 4 else 2.0 if at % 16 == 12 else 1.0 for at in range(64)]
    assert boundary(loop, cycles) == Boundary(16, "loop")
    assert boundary(loop, [nan] * 64) is None


@pytest.mark.parametrize(
    ("length", "offset", "slow", "at"),
    [(12, 59, range(1, 12), 5), (12, 53, range(11, 13), 11), (12, 0, range(1), 0)],
)
def test_where_the_boundary_lies_in_the_loop_is_told(
    length: int, offset: int, slow: range, at: int
) -> None:
    crossed_boundary = boundary(loop_of(length, offset), slow_where(64, slow))
    assert crossed_boundary is not None
    assert crossed_boundary.at == at
