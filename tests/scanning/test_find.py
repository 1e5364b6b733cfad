"""Which loops a scan finds: by control flow, innermost, along the likely path."""

from pathlib import Path

from scanned import built, by_name, found, linked

SHAPES = """\
	.type	plain, @function
	.globl	plain
plain:	addq $8, %rdi
	decq %rsi
	jne plain
	ret
	.size	plain, .-plain

	.globl	left
	.type	left, @function
left:	movq (%rdi), %rax
	testq %rax, %rax
	je 9f
	addq $8, %rdi
	decq %rsi
	jne left
9:	ret
	.size	left, .-left

	.globl	nested
	.type	nested, @function
nested:	movl $10, %ecx
1:	decl %ecx
	jne 1b
	decl %edx
	jne nested
	ret
	.size	nested, .-nested

	.globl	calling
	.type	calling, @function
calling: call elsewhere
	decl %ebx
	jne calling
	ret
	.size	calling, .-calling

	.globl	warning
	.type	warning, @function
warning: cmpq $0, (%rdi)
	js 8f
7:	addq $8, %rdi
	decq %rsi
	jne warning
	ret
8:	call elsewhere
	jmp 7b
	.size	warning, .-warning

	.globl	string
	.type	string, @function
string:	rep movsb
	decl %ebx
	jne string
	ret
	.size	string, .-string

	.globl	back
	.type	back, @function
back:	decq %rsi
	je 6f
	ret
5:	ret
6:	incq %rax
	jmp 5b
	.size	back, .-back
"""


def test_loops_are_found_by_where_control_goes(tmp_path: Path) -> None:
    file = built(tmp_path, SHAPES)
    everything = found(file)
    loops = {loop.where: loop for loop in everything.loops}
    # back only jumps back: it is no loop. The call of warning is off the likely path.
    assert list(loops) == ["plain", "left", "nested+0x5", "warning"]
    assert (everything.outer, everything.calling) == (1, 1)
    assert everything.refused == {"a string instruction repeats in it": 1}
    assert everything.innermost == 6
    assert [loops[name].kind for name in loops] == ["block", "exits", "block", "exits"]
    left = loops["left"]
    assert left.exits == (left.address + 6,)
    assert left.path == ((0, len(left.code)),)
    assert left.code[-2] == 0x75  # jne, not the ret behind it


SEVERAL = """\
	.type	skips, @function
	.globl	skips
skips:	cmpb $32, (%rdi)
	jne 1f
	incl %eax
1:	incq %rdi
	decq %rsi
	jne skips
	ret
	.size	skips, .-skips

	.type	rotated, @function
	.globl	rotated
rotated: jmp 3f
	.p2align 5
2:	addq (%rdi), %rax
	addq $8, %rdi
3:	decq %rsi
	jns 2b
	ret
	.size	rotated, .-rotated

	.type	around, @function
	.globl	around
around:	movq (%rdi), %rax
	testq %rax, %rax
	jne 5f
	ret
4:	movq %rax, (%rdx)
	ret
5:	addq $8, %rdi
	cmpq %rcx, %rax
	je 4b
	jmp around
	.size	around, .-around
"""


def test_the_likely_path_takes_branches_back_and_falls_through_those_forward(
    tmp_path: Path,
) -> None:
    loops = by_name(built(tmp_path, SEVERAL))
    assert list(loops) == ["skips", "rotated+0x10", "around"]
    skips = loops["skips"]
    assert skips.path == ((0, len(skips.code)),)
    assert [at - skips.address for at in skips.exits] == [3]
    around = loops["around"]
    # jne is taken since what it falls through to leaves the loop; je leaves it when it is taken.
    first, second = around.path
    assert around.kind == "path"
    assert first == (0, 8)
    assert second[1] == len(around.code)
    assert [at - around.address for at in around.exits] == [6, around.path[1][0] + 7]
    assert around.executed == around.code[0:8] + around.code[second[0] : second[1]]


MOVED_OUT = """\
	.type	work, @function
	.globl	work
work:	movq (%rdi), %rax
	testq %rax, %rax
	js work.cold
1:	addq $8, %rdi
	decq %rsi
	jne work
	ret
	.size	work, .-work
	.p2align 4
	.type	work.cold, @function
work.cold: negq %rax
	jmp 1b
	.size	work.cold, .-work.cold
	.type	fatal, @function
fatal:	movl $1, %edi
2:	movl $60, %eax
	syscall
	jmp 2b
	.size	fatal, .-fatal
	.type	checks, @function
checks:	decq %rsi
	je 3f
	ret
3:	call fatal
	.size	checks, .-checks
	.type	behind, @function
behind:	incq %rdi
	cmpq %rdi, %rsi
	jne behind
	jmp checks
	.size	behind, .-behind
"""


def test_what_a_compiler_moved_out_of_a_loop_does_not_hide_it(tmp_path: Path) -> None:
    everything = found(linked(tmp_path, MOVED_OUT))
    assert [loop.where for loop in everything.loops] == ["work", "behind"]
    # The call at the end of checks does not come back: behind is no part of it.
    assert not everything.refused


def test_without_symbols_loops_have_addresses(tmp_path: Path) -> None:
    whole = found(linked(tmp_path, MOVED_OUT))
    bare = found(linked(tmp_path, MOVED_OUT, "-s", name="bare"))
    assert [loop.address for loop in bare.loops] == [loop.address for loop in whole.loops]
    assert [loop.code for loop in bare.loops] == [loop.code for loop in whole.loops]
    assert {loop.function for loop in bare.loops} == {""}
    assert bare.loops[0].where == f"{bare.loops[0].address:#x}"


AMONG_DATA = """\
	.type	first, @function
	.globl	first
first:	decq %rsi
	jne first
	jmp *table(,%rdi,8)
	.size	first, .-first
	.p2align 3
table:	.quad 0x0606060606060606, 0x0606060606060606, -1
	.byte 6, 6, 6
	.p2align 4, 0xcc
	.type	second, @function
	.globl	second
second:	decq %rsi
	jne second
	ret
	.size	second, .-second
"""


def test_data_among_code_is_counted_and_hides_nothing_behind_it(tmp_path: Path) -> None:
    everything = found(built(tmp_path, AMONG_DATA))
    assert [loop.where for loop in everything.loops] == ["first", "second"]
    assert 16 <= everything.lost <= 40
    bare = found(linked(tmp_path, AMONG_DATA, "-s", "-e", "first"))
    assert len(bare.loops) == 2
    assert bare.lost


ARM64 = """\
	.type	copy, %function
	.globl	copy
copy:	ldr x3, [x1], #8
	cbz x3, 2f
	str x3, [x0], #8
	subs x2, x2, #1
	b.ne copy
2:	ret
	.word 0xffffffff, 0x54ffffe1
	.size	copy, .-copy
	.type	spins, %function
	.globl	spins
spins:	bl copy
	cbnz x0, spins
	ret
	.size	spins, .-spins
"""


def test_loops_of_arm64(tmp_path: Path) -> None:
    everything = found(built(tmp_path, ARM64, "arm64"))
    (loop,) = everything.loops
    assert (loop.where, loop.isa, len(loop.code), loop.kind) == ("copy", "arm64", 20, "exits")
    assert [at - loop.address for at in loop.exits] == [4]
    assert everything.calling == 1
    assert everything.lost == 0  # mapping symbols say what is data


SEVERAL_WAYS_IN = """\
	.type	odd, @function
	.globl	odd
odd:	testq %rdi, %rdi
	je 2f
1:	incq %rax
2:	incq %rdx
	decq %rsi
	jne 1b
	ret
	.size	odd, .-odd
"""


def test_a_loop_may_be_entered_at_several_places(tmp_path: Path) -> None:
    everything = found(built(tmp_path, SEVERAL_WAYS_IN))
    (loop,) = everything.loops
    assert (loop.where, loop.kind, len(loop.code)) == ("odd+0x5", "block", 11)
    assert everything.outer == 0
