"""Small objects for pages of scans, and readers of the pages' data."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from scanned import built

LOOPS = """\
	.p2align 6
	.fill {skip}, 1, 0x90
	.type	clears, @function
	.globl	clears
clears:	movq $0, (%rdi)
	addq $8, %rdi
	decq %rsi
	jne clears
	ret
	.size	clears, .-clears
	.p2align 6
	.type	far, @function
	.globl	far
far:	imulq %rbx, %rax
	testq %rax, %rax
	je 2f
	jmp 1f
	.skip 40, 0x90
1:	imulq %rbx, %rax
	decq %rsi
	jne far
2:	ret
	.size	far, .-far
	.type	halts, @function
	.globl	halts
halts:	hlt
	decq %rsi
	jne halts
	ret
	.size	halts, .-halts
	.type	"a</script>b", @function
"a</script>b":	addq $1, %rax
	decq %rsi
	jne "a</script>b"
	ret
	.size	"a</script>b", .-"a</script>b"
"""


def loops(folder: Path, skip: int = 57, name: str = "code.o") -> Path:
    """Return an object of four loops; the first is skip bytes behind the start of a line."""
    return built(folder, LOOPS.format(skip=skip), name=name)


def data_of(page: Path) -> Any:
    """Return the data of a page, its details unpacked: by kind and loop, with their texts."""
    text = page.read_text()
    (data,) = re.findall(r'<script type="application/json" id="scan">(.*?)<', text)
    page_data = json.loads(data)
    for side in page_data["sides"]:
        for kind in ("code", "timelines"):
            packs = [unpacked(pack) for pack in side[kind]["packs"]]
            details = [(loop, pack["words"]) for pack in packs for loop in pack["loops"]]
            side[kind] = dict(zip(side[kind]["held"], details, strict=True))
    return page_data


def unpacked(pack: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(pack)))


def cycles(side: dict[str, Any], core: int, loop: int) -> list[float] | None:
    """Return the cycles of a loop on a core at each code offset, None if it has none."""
    number = side["costs"][core]["strip"][loop]
    if number < 0:
        return None
    strip = side["strips"][number]
    return [c for c, times in zip(strip[::2], strip[1::2], strict=True) for _ in range(times)]


def many(folder: Path, pairs: int) -> Path:
    """Return an object of pairs of loops at many code offsets, each in its own routine."""
    plain = (
        "\t.type f\\@, @function\nf\\@:\tmovq $0, (%rdi)\n\taddq $8, %rdi\n\tdecq %rsi\n"
        "\tjne f\\@\n\tret\n\t.size f\\@, .-f\\@\n"
    )
    with_exit = (
        "\t.type g\\@, @function\ng\\@:\taddq (%rdi), %rax\n\tadcq 8(%rdi), %rdx\n"
        "\ttestq %rax, %rax\n\tje 1f\n\tleaq 16(%rdi), %rdi\n\tdecq %rsi\n\tjne g\\@\n1:\tret\n"
        "\t.size g\\@, .-g\\@\n"
    )
    text = f"\t.macro both\n{plain}{with_exit}\t.endm\n\t.rept {pairs}\n\tboth\n\t.endr\n"
    return built(folder, text, name="many.o")
