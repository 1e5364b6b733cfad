"""Scan thousands of damaged files: each has to end in an answer or in one line.

Small files of every kind that a scan reads are damaged at random (bytes changed, cut off, set to
zero, moved) and scanned, with a limit on time. Exit code 1 where one ends in anything else: another
error than of input, an error of several lines, or none at all in time.
"""

import argparse
import gzip
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.scanning.scan import Question, answer

_SECONDS = 20  # limit of a scan of a small file, on a busy machine
_TEXT = {
    "x86_64": """
	.globl	copies
	.type	copies, @function
copies:	movq (%rsi), %rax
	testq %rax, %rax
	je 2f
	movq %rax, (%rdi)
	addq $8, %rsi
	addq $8, %rdi
	decq %rdx
	jne copies
	call elsewhere
2:	ret
	.size	copies, .-copies
	.quad	0x0606060606060606, table
	.section .rodata
table:	.quad	copies
	.section .altinstr_replacement, "ax"
3:	lfence
4:	.section .altinstructions, "a"
	.long	copies - ., 3b - .
	.word	297
	.byte	3, 3
""",
    "arm64": """
	.globl	copies
	.type	copies, %function
copies:	ldr x3, [x1], #8
	cbz x3, 2f
	str x3, [x0], #8
	subs x2, x2, #1
	b.ne copies
	bl elsewhere
2:	ret
	.size	copies, .-copies
	.word	0xffffffff
""",
}


def samples(folder: Path) -> dict[str, bytes]:
    """Return small files of the kinds that are read, by name."""
    out = {}
    for isa, text in _TEXT.items():
        tools = toolchain.find(isa)
        source, obj = folder / f"{isa}.s", folder / f"{isa}.o"
        source.write_text(text)
        subprocess.run([tools.gcc, "-c", "-g", str(source), "-o", str(obj)], check=True)
        out[f"{isa}.o"] = obj.read_bytes()
        program = folder / f"{isa}-program"
        link = [tools.ld, "-e", "0", "--unresolved-symbols=ignore-all"]
        subprocess.run([*link, str(obj), "-o", str(program)], check=True)
        out[program.name] = program.read_bytes()
        archive = folder / f"{isa}.a"
        subprocess.run(["ar", "rcs", str(archive), str(obj)], check=True)
        out[f"{isa}.a"] = archive.read_bytes()
    out["module.ko.gz"] = gzip.compress(out["x86_64.o"])
    header = bytearray(5 * 512)
    header[0x1F1], header[0x202:0x206], header[0x206:0x208] = 4, b"HdrS", b"\x0f\x02"
    payload = gzip.compress(out["x86_64-program"])
    header[0x248:0x250] = bytes(4) + len(payload).to_bytes(4, "little")
    out["vmlinuz"] = bytes(header) + payload
    return out


def damaged(original: bytes, draw: random.Random) -> bytes:
    """Return content with random damage, most often in the headers, which readers follow."""
    content = bytearray(original)
    reaches = [len(content), 64, 512]
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        position = draw.randrange(min(len(content), draw.choice(reaches)) or 1)
        kind = draw.randrange(6)
        if not content:
            break
        if kind == 0:
            content[position] = draw.randrange(256)
        elif kind == 1:
            content[position] ^= 1 << draw.randrange(8)
        elif kind == 2:
            size = draw.choice((2, 4, 8))
            value = draw.choice((0, 1, (1 << 8 * size) - 1, 1 << (8 * size - 1), len(content)))
            content[position : position + size] = value.to_bytes(size, "little")
        elif kind == 3:
            size = draw.randrange(1, 200)
            content[position : position + size] = bytes(min(size, len(content) - position))
        elif kind == 4:
            other = draw.randrange(len(content))
            content[position : position + 64] = content[other : other + 64]
        else:
            del content[draw.randrange(len(content)) :]
    return bytes(content)


class _LateError(Exception):
    """A scan did not end in time."""


def _late(number: int, frame: object) -> None:
    del number, frame
    raise _LateError


def ends(file: Path, say: Callable[[str], None]) -> str:
    """Scan a file and return how that ended; say gets the message of a wrong end."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(_SECONDS)
    try:
        rows = answer(Question(file))
        return "no loop" if not rows.values else "loops"
    except InputError as error:
        if "\n" in str(error) or not str(error).strip():
            say(f"several lines: {error}")
            return "wrong"
        return "refused"
    except _LateError:
        say(f"no end after {_SECONDS} s")
        return "wrong"
    except Exception as error:
        say(f"{type(error).__name__}: {error}")
        return "wrong"
    finally:
        signal.alarm(0)


def run(tries: int, seed: str, keep: Path | None) -> Counter[str]:
    """Scan damaged files and return the number of each end; keep gets files with a wrong one."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = samples(folder)
        for number in range(tries):
            draw = random.Random(f"{seed}/{number}")
            kind = draw.choice(sorted(files))
            file = folder / f"damaged-{kind}"
            file.write_bytes(damaged(files[kind], draw))

            def say(text: str, number: int = number, kind: str = kind) -> None:
                print(f"try {number}, {kind}: {text}", file=sys.stderr)

            end = ends(file, say)
            if end == "wrong" and keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{number}-{kind}").write_bytes(file.read_bytes())
            counts[end] += 1
    return counts


def main() -> int:
    """Scan damaged files and print the number of each end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", default="1", help="another word, other damage")
    parser.add_argument("--keep", type=Path, help="a folder for files that end in anything else")
    options = parser.parse_args()
    start = time.monotonic()
    counts = run(options.tries, options.seed, options.keep)
    seconds = time.monotonic() - start
    summary = ", ".join(
        f"{counts[end]:,} {end}" for end in ("loops", "no loop", "refused", "wrong")
    )
    print(f"{options.tries:,} damaged files in {seconds:.0f} s: {summary}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
