"""AArch64 instructions as text, as bytes and as the forms of the simulator."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import loopwright_pipeline
from table import Form

FEATURES = "+fullfp16,+dotprod,+rdm,+crypto,+aes,+sha2,+crc,+lse"
LATER = f"+v8.4a,{FEATURES},+fp16fml,+sha3,+sm4"
VERSIONS = {
    "neoverse-n1": f"+v8.2a,{FEATURES}",
    "tsv110": f"+v8.2a,{FEATURES}",
    "neoverse-v1": LATER,
}


def features(core: str = "") -> str:
    """Return LLVM's features of a core; without one those of all cores here together."""
    return VERSIONS.get(core, f"{LATER},+v8.5a")


def _target(core: str = "") -> list[str]:
    return ["-triple=aarch64", f"-mattr={features(core)}"]


def encodings(lines: list[str]) -> list[str]:
    """Return the bytes of each line as hex."""
    with tempfile.TemporaryDirectory() as folder:
        built, flat = f"{folder}/samples.o", f"{folder}/samples.bin"
        assembler = ["llvm-mc-19", *_target(), "-filetype=obj"]
        subprocess.run([*assembler, "-o", built], input="\n".join(lines), text=True, check=True)
        subprocess.run(["llvm-objcopy", "-O", "binary", "-j", ".text", built, flat], check=True)
        code = Path(flat).read_bytes()
    assert len(code) == 4 * len(lines), (len(code), len(lines))
    return [code[at : at + 4].hex() for at in range(0, len(code), 4)]


def forms(lines: list[str]) -> list[Form]:
    """Return the form of each line, as the simulator names it."""
    names = loopwright_pipeline.forms("arm64", [bytes.fromhex(code) for code in encodings(lines)])
    out = []
    for line, found in zip(lines, names, strict=True):
        if found is None:
            raise ValueError(f"{line}: the simulator has no form for it")
        mnemonic, _, operands = found[0].partition(" ")
        out.append(Form(mnemonic, operands))
    return out


def every_form(core: str) -> list[str]:
    """Return one line for each form that the simulator and LLVM both know on a core.

    A form whose base moves on by a register has no word in the simulator's list: its line is that
    of the form whose base moves on by a constant.
    """
    allocated = _disassembled(core, _offered())
    found, _ = loopwright_pipeline.arm64_forms(lambda word: word in allocated)
    lines = list(_disassembled(core, [word for _, word, *_ in found]).values())
    by_constant = re.compile(r"^((?:ld|st)[1-4]r?\t.*\[\w+\]), #\d+$")
    moved = (by_constant.sub(r"\1, x3", line) for line in lines)
    return [*lines, *(line for line in moved if line.endswith(", x3"))]


def _offered() -> list[int]:
    """Return the words that the simulator's list of forms asks about."""
    asked: dict[int, None] = {}

    def keep(word: int) -> bool:
        asked[word] = None
        return False

    loopwright_pipeline.arm64_forms(keep)
    return list(asked)


def _disassembled(core: str, words: list[int]) -> dict[int, str]:
    """Return the text of each word that LLVM knows with a core's features."""
    text = "\n".join(", ".join(f"{b:#x}" for b in word.to_bytes(4, "little")) for word in words)
    done = subprocess.run(
        ["llvm-mc-19", *_target(core), "--disassemble", "--show-encoding"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    found = {}
    for line in done.stdout.splitlines():
        said = re.match(r"\s*(\S.*?)\s*// encoding: \[([^\]]*)\]", line)
        if said:
            code = bytes(int(b, 16) for b in said[2].split(","))
            found[int.from_bytes(code, "little")] = said[1]
    return found
