"""Compile the parts of the emulated side that are in C, once for each state of their sources."""

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from unicorn.unicorn_py3 import unicorn as binding

from loopwright import files, paths, toolchain
from loopwright.errors import InputError

_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")


def unicorn_library() -> Path:
    """Return the shared library that the Python module of Unicorn has loaded."""
    return Path(binding.uclib._name)


def library(sources: Sequence[Path], headers: Sequence[Path] = ()) -> ctypes.CDLL:
    """Return C sources as a library that calls Unicorn, compiled if it is not there yet.

    headers are what they include, for their changes to be seen. InputError where they do not
    compile.
    """
    gcc, own = toolchain.find(toolchain.host_isa()).gcc, unicorn_library()
    include = own.parents[1] / "include"
    digest = hashlib.sha256(repr((gcc, _FLAGS, str(own))).encode())
    for path in (*sources, *headers):
        digest.update(path.read_bytes())
    made = paths.build_dir() / "tracing" / f"{sources[0].stem}-{digest.hexdigest()[:16]}.so"

    def compile_to(path: Path) -> None:
        command = [gcc, *_FLAGS, f"-I{include}", *map(str, sources), str(own), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            lines.append(f"{gcc} ended with exit code {done.returncode}")
            raise InputError(f"{sources[0].name} does not compile: {lines[0].strip()}")

    return ctypes.CDLL(str(files.made_once(made, compile_to, paths.BUILD_FIX)))
