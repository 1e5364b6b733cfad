"""A stand-in for a checkout of uiCA: its command line and its habits, none of its model.

Like uiCA it counts an instruction without data as free and says so only in the table that -TPonly
leaves out and by the empty name of its page in -json; leaves by exit(), which closes standard
input; needs the modules xed and instrData, which its setup makes; and keeps state in globals that a
second run in the same process would find.
"""

from pathlib import Path

UICA = """\
#!/usr/bin/env python3
import argparse
import importlib
import json
import os
import sys
import time

import xed

clock = 0  # a second run that finds it moved would be off


def page(name):
    return "https://www.uops.info/html-instr/" + name + ".html"


def simulate(args, instructions, data):
    global clock
    for name in instructions:
        clock += data.get(name, 0.0)
    return clock


def main():
    parser = argparse.ArgumentParser(description="Disassembler")
    parser.add_argument("filename")
    parser.add_argument("-raw", action="store_true")
    parser.add_argument("-arch", default="all")
    parser.add_argument("-TPonly", nargs="?", const="graph.html")
    parser.add_argument("-alignmentOffset", default="0")
    parser.add_argument("-json", nargs="?", const="result.json")
    args = parser.parse_args()
    if args.arch not in ("SNB", "IVB", "HSW", "SKL"):
        print("Unsupported microarchitecture")
        exit(1)
    data = importlib.import_module("instrData." + args.arch + "_data").cycles
    instructions = xed.disas(args.filename)
    if not instructions:
        print("no instructions found")
        exit(1)
    if "warns" in instructions:
        print("something odd\\nin two lines, the second of which is longer than sixty characters, "
              "as those of uiCA are", file=sys.stderr)
    if "prints" in instructions:
        os.write(1, b"xed says something\\n")
    if "dies" in instructions:
        os.abort()
    if "hangs" in instructions:
        time.sleep(600)
    if "fails" in instructions:
        raise KeyError("no such operand")
    cycles = simulate(args, instructions, data) + int(args.alignmentOffset) / 100
    if args.json:
        listed = [
            {"asm": name, "opcode": "", "url": page(name if name in data else ""), "instrID": n}
            for n, name in enumerate(instructions)
        ]
        with open(args.json, "w") as f:
            f.write(json.dumps({"parameters": {}, "instructions": listed, "cycles": []}))
    if args.TPonly:
        print("{:.2f}".format(cycles))
        return
    print("Throughput (in cycles per iteration): {:.2f}".format(cycles))
    if any(name not in data for name in instructions):
        print("X - Instruction not supported")


if __name__ == "__main__":
    main()
"""

XED = '''\
"""Takes known code apart."""

NAMES = {
    "4801d8": "ADD_R64_R64", "480fafc3": "IMUL_R64_R64", "90": "NOP", "48ffc9": "DEC_R64",
    "75f8": "JNZ_REL8", "75fb": "JNZ_REL8",
    "0f01cb": "stac", "0f01f8": "swapgs", "f30f1efa": "endbr64", "660fae30": "clwb", "f4": "hlt",
    "0f22c0": "mov_cr", "9b": "warns", "f8": "prints", "f9": "dies", "fc": "hangs", "fd": "fails",
}


def disas(path):
    with open(path, "rb") as f:
        rest = f.read().hex()
    out = []
    while rest:
        code = max((c for c in NAMES if rest.startswith(c)), key=len, default=None)
        if code is None:
            break
        out.append(NAMES[code])
        rest = rest[len(code):]
    return out
'''

DATA = """\
cycles = {"ADD_R64_R64": 1.0, "IMUL_R64_R64": 3.0, "NOP": 0.25, "DEC_R64": 1.0, "JNZ_REL8": 0.0,
          "warns": 0.0, "prints": 0.0, "dies": 0.0, "hangs": 0.0, "fails": 0.0}
"""


def make(home: Path, *, xed: bool = True, data: bool = True) -> Path:
    """Write the stand-in, as it is before or after its setup.sh has run, and return home."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "uiCA.py").write_text(UICA)
    (home / "setup.sh").write_text("#!/usr/bin/env bash\n")
    if xed:
        (home / "xed.py").write_text(XED)
    if data:
        folder = home / "instrData"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for arch in ("SNB", "IVB", "HSW", "SKL"):
            (folder / f"{arch}_data.py").write_text(DATA)
    return home
