"""AArch64 instructions as text, as bytes and as the forms of the simulator."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from inputs import REPO
from table import Form

FEATURES = "+v8.2a,+fullfp16,+dotprod,+rdm,+crypto,+aes,+sha2,+crc,+lse"
CRATE = REPO / "models" / "pipeline" / "Cargo.toml"


def encodings(lines: list[str]) -> list[str]:
    """Return the bytes of each line as hex."""
    with tempfile.TemporaryDirectory() as folder:
        built, flat = f"{folder}/samples.o", f"{folder}/samples.bin"
        assembler = ["llvm-mc-19", "-triple=aarch64", f"-mattr={FEATURES}", "-filetype=obj"]
        subprocess.run([*assembler, "-o", built], input="\n".join(lines), text=True, check=True)
        subprocess.run(["llvm-objcopy", "-O", "binary", "-j", ".text", built, flat], check=True)
        code = Path(flat).read_bytes()
    assert len(code) == 4 * len(lines), (len(code), len(lines))
    return [code[at : at + 4].hex() for at in range(0, len(code), 4)]


def forms(lines: list[str]) -> list[Form]:
    """Return the form of each line, as the simulator names it."""
    program = ["cargo", "run", "--quiet", "--release", "--example", "forms"]
    done = subprocess.run(
        [*program, "--manifest-path", str(CRATE)],
        input="\n".join(encodings(lines)),
        text=True,
        capture_output=True,
        check=True,
    )
    out = []
    for line, name in zip(lines, done.stdout.splitlines(), strict=True):
        if name.startswith("error"):
            raise ValueError(f"{line}: {name}")
        mnemonic, _, operands = name.partition(" ")
        out.append(Form(mnemonic, operands))
    return out
