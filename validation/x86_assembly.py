"""Code of many short x86 blocks at once, by llvm-mc; what it refuses has none."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

_FEATURES = (
    "avx2", "fma", "bmi", "bmi2", "lzcnt", "popcnt", "adx", "aes", "pclmul", "sha", "movbe", "f16c",
    "sse4a", "gfni", "vaes", "vpclmulqdq", "avx512f", "avx512bw", "avx512dq", "avx512vl",
    "avx512cd", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512ifma", "avx512bitalg",
    "avx512vpopcntdq", "avx512bf16", "rdrnd", "rdseed", "prfchw", "clflushopt", "clwb", "clzero",
    "rdpid",
)  # fmt: skip


def blocks(texts: Sequence[Sequence[str]]) -> list[bytes]:
    """Return the code of each list of instructions in Intel syntax, empty where one is no code."""
    lines = [".intel_syntax noprefix"]
    for n, text in enumerate(texts):
        lines.append(f"block_{n}:")
        lines += text
    features = ",".join(f"+{name}" for name in _FEATURES)
    command = ["llvm-mc-19", "-triple=x86_64", f"-mattr={features}", "--show-encoding"]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", text=True, capture_output=True, check=False
    )
    code: list[list[str]] = [[] for _ in texts]
    block = -1
    for line in done.stdout.splitlines():
        label = re.match(r"block_(\d+):", line)
        encoding = re.search(r"# encoding: \[(.*)\]", line)
        if label:
            block = int(label[1])
        elif encoding:
            # A branch's distance is put in later: to itself.
            code[block].append(re.sub(r"A|B", "0", encoding[1].replace("0x", "")).replace(",", ""))
    return [
        bytes.fromhex("".join(parts)) if len(parts) == len(text) else b""
        for parts, text in zip(code, texts, strict=True)
    ]
