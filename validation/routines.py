"""Rows for public_loops.py from source trees: the routines of routines.csv, with published cycles.

usage: python validation/routines.py TREE [TREE ...] > loops.csv
TREE: unpacked sources of OpenSSL 4.0.3 or of AWS-LC (crate aws-lc-sys 0.47.0). Each row of
routines.csv whose file is there becomes a line with the instructions that the routine executes:
inner loops as often as `loops` says, called functions in place, no branches. On x86-64 the code
closes as a loop, on AArch64 it ends before its return. OpenSSL's files are perl programs that print
assembly, named in `prints`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import derive_path  # noqa: F401
import pandas as pd

from loopwright import microarchs

FILE = Path(__file__).parent / "routines.csv"
BRANCH = re.compile(r"(?:j\w+|b|b\.\w+|bne|cbn?z\s+\w+,)\s+(\S+)$")
CALL = re.compile(r"(?:call|bl)\s+(\S+)$")
LABEL = re.compile(r"(\S+):$")
RETURN = re.compile(r"(?:repz?\s+)?ret$|\.byte\s+0xf3,0xc3$")
COMPILERS = {"arm64": "aarch64-linux-gnu-gcc", "x86_64": "gcc"}
# What the sources' headers define.
MACROS = (
    "AARCH64_VALID_CALL_TARGET=",
    "S2N_BN_SYMBOL(name)=name",
    "S2N_BN_SYM_VISIBILITY_DIRECTIVE(name)=",
    "S2N_BN_SYM_PRIVACY_DIRECTIVE(name)=",
    "S2N_BN_SIZE_DIRECTIVE(name)=",
)


def executed(lines: list[str], start: str, times: dict[str, int]) -> list[str]:
    """Return the instructions from a label to the branch back to it, or to a return."""
    return _walk(lines, lines.index(f"{start}:") + 1, start, times)[0]


def _walk(lines: list[str], at: int, start: str, times: dict[str, int]) -> tuple[list[str], int]:
    instructions: list[str] = []
    while True:
        line, at = lines[at], at + 1
        label = LABEL.match(line)
        if branch := BRANCH.match(line):
            if re.sub(r"^(\d+)b$", r"\1", branch[1]) == start:
                return instructions, at
        elif RETURN.match(line):
            return instructions, at
        elif call := CALL.match(line):
            instructions += executed(lines, call[1], times)
        elif label and label[1] in times:
            body, at = _walk(lines, at, label[1], times)
            instructions += body * times[label[1]]
        elif not label and (line.startswith(".byte") or line[:1] not in (".", "")):
            instructions.append(line)


def assembly(path: Path, prints: str, isa: str) -> list[str]:
    """Return the lines of a source: what its perl prints, preprocessed, without comments."""
    with tempfile.TemporaryDirectory() as folder:
        source = path
        if path.suffix == ".pl":
            source = Path(folder, prints)
            flavour = {"arm64": "linux64", "x86_64": "elf"}[isa]
            environment = {**os.environ, "CC": "gcc"}  # whose assembler it asks for AVX
            subprocess.run(["perl", path, flavour, source], check=True, env=environment)
        text = "".join(
            line for line in source.open() if not line.startswith(("#include", "# ", "#if defined"))
        )
        # Comments of C++ go with C's preprocessor; the last #endif may close a dropped #if.
        command = [COMPILERS[isa], "-E", "-P", "-x", "c", "-", *(f"-D{macro}" for macro in MACROS)]
        done = subprocess.run(command, text=True, input=text, capture_output=True, check=False)
    return [line.strip() for line in done.stdout.split("\n")]


def machine_code(instructions: list[str], isa: str) -> bytes:
    """Return assembled instructions."""
    closing = "jne 1b\n" if isa == "x86_64" else ""
    objcopy = COMPILERS[isa].replace("gcc", "objcopy")
    with tempfile.TemporaryDirectory() as folder:
        object_file, binary = Path(folder, "made.o"), Path(folder, "code")
        march = ["-march=armv8.2-a+crypto"] if isa == "arm64" else []
        text = "1:\n" + "\n".join(instructions) + f"\n{closing}"
        command = [COMPILERS[isa], *march, "-c", "-x", "assembler", "-", "-o", str(object_file)]
        subprocess.run(command, check=True, text=True, input=text)
        subprocess.run([objcopy, "-O", "binary", "-j", ".text", object_file, binary], check=True)
        return binary.read_bytes()


def rows(trees: list[Path], listed: pd.DataFrame) -> pd.DataFrame:
    """Return loops.csv's rows of the listed routines whose files are in a tree."""
    table = []
    for row in listed.fillna("").to_dict("records"):
        paths = [tree / row["file"] for tree in trees if (tree / row["file"]).is_file()]
        if not paths:
            print(f"not here: {row['file']} ({row['id']})", file=sys.stderr)
            continue
        isa = microarchs.load(row["core"]).isa
        times = {name: int(n) for name, n in (pair.split(":") for pair in row["loops"].split())}
        steps = executed(assembly(paths[0], row["prints"], isa), row["start"], times)
        code = machine_code(steps, isa).hex()
        kept = {name: row[name] for name in ("id", "core", "cycles", "source")}
        table.append({**kept, "hex": code, "offset": 0})
    return pd.DataFrame(table)


def main() -> None:
    """Print the rows as CSV."""
    parser = argparse.ArgumentParser(description="Published routines as rows of public_loops.py.")
    parser.add_argument("tree", type=Path, nargs="+", metavar="TREE")
    rows(parser.parse_args().tree, pd.read_csv(FILE)).to_csv(sys.stdout, index=False)


if __name__ == "__main__":
    main()
