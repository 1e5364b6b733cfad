"""The loops of predict --obj are those of scan."""

import subprocess

from loopwright import toolchain
from loopwright.code import loops
from loopwright.scanning import binary_loops, images

# A loop with two paths, nested loops, a loop with two backward branches, one that calls, and two
# whose likely path is not that of a block alone.
TEXT = """\
	.type	paths, @function
paths:	testb $1, %al
	je 2f
	addq $3, %rbx
	jmp 3f
2:	subq $5, %rbx
3:	decq %rcx
	jne paths
	ret
	.size	paths, .-paths
	.type	nested, @function
nested:	movq %rdx, %rcx
1:	addq $8, %rdi
	decq %rcx
	jne 1b
	decq %rsi
	jne nested
	ret
	.size	nested, .-nested
	.type	twice, @function
twice:	addq $8, %rdi
	testb $1, (%rdi)
	jne twice
	decq %rsi
	jne twice
	ret
	.size	twice, .-twice
	.type	calling, @function
calling:
	call elsewhere
	decq %rsi
	jne calling
	ret
	.size	calling, .-calling
	.type	back, @function
back:	addq $8, %rdi
	jmp 2f
1:	decq %rsi
	jne back
	ret
2:	incq %rax
	jmp 1b
	.size	back, .-back
	.type	over, @function
over:	testb $1, (%rdi)
	jne 2f
	xorl %eax, %eax
	ret
2:	addq $8, %rdi
	decq %rsi
	jne over
	ret
	.size	over, .-over
"""


def test_predict_and_scan_find_the_same_loops(tmp_path):
    (tmp_path / "code.s").write_text(TEXT)
    file = tmp_path / "code.o"
    command = [toolchain.find("x86_64").gcc, "-c", str(tmp_path / "code.s"), "-o", str(file)]
    subprocess.run(command, check=True)
    named = {piece.id: piece for piece in loops.of_file(str(file))}
    found_loops = binary_loops.find_loops(images.read_image(file))
    places = {loop.where for loop in found_loops.loops}
    assert places == {"paths", "nested+0x3", "twice", "back", "over"}
    assert named.keys() == places | {"calling"}
    assert (found_loops.calling, found_loops.outer) == (1, 1)
    for loop in found_loops.loops:
        assert named[loop.where].address == loop.address
        if not named[loop.where].error:
            assert len(named[loop.where].code) == loop.length
    assert [name for name, piece in named.items() if piece.error] == ["back", "over"]
