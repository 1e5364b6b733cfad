"""Small files to scan, made by the compiler and the linker."""

import subprocess
from pathlib import Path

from loopwright import toolchain
from loopwright.scanning import binary_loops, images
from loopwright.scanning.binary_loops import FoundLoops, ScannedLoop


def built(folder: Path, text: str, isa: str = "x86_64", name: str = "code.o") -> Path:
    """Return an object of assembly text."""
    (folder / f"{name}.s").write_text(text)
    target = folder / name
    command = [toolchain.find(isa).gcc, "-c", str(folder / f"{name}.s"), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def linked(folder: Path, text: str, *options: str, name: str = "program") -> Path:
    """Return a program of assembly text, without a library."""
    target = folder / name
    obj = built(folder, text, name=f"{name}.o")
    tools = toolchain.find("x86_64")
    subprocess.run([tools.ld, obj, "-o", target, "-e", "0", *options], check=True)
    return target


def found(path: Path) -> FoundLoops:
    """Return the loops of a file as the scanner finds them."""
    return binary_loops.find_loops(images.read_image(path))


def by_name(path: Path) -> dict[str, ScannedLoop]:
    """Return the loops of a file by their places, such as "copies+0x3"."""
    return {loop.where: loop for loop in found(path).loops}
