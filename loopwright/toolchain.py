"""Find the compilers, linkers and emulators of each ISA."""

import os
import platform
import shutil
from dataclasses import dataclass
from functools import cache

from loopwright.errors import InputError

_TRIPLES = {
    "x86_64": ("x86_64-linux-gnu", "x86_64-conda-linux-gnu"),
    "arm64": ("aarch64-linux-gnu", "aarch64-conda-linux-gnu"),
}
_PACKAGES = {"x86_64": "gcc-x86-64-linux-gnu", "arm64": "gcc-aarch64-linux-gnu"}
ISA_NAMES = {
    "x86_64": "x86_64", "x86-64": "x86_64", "amd64": "x86_64", "arm64": "arm64", "aarch64": "arm64",
}  # fmt: skip
"""The ISAs by the names that uname, Debian and LLVM give them."""


@dataclass(frozen=True)
class Toolchain:
    """The programs that build for one ISA; run is the prefix that runs its programs here."""

    isa: str
    gcc: str
    ld: str
    run: tuple[str, ...]

    @property
    def native(self) -> bool:
        """True if this machine runs the ISA itself."""
        return not self.run


def host_isa() -> str:
    """Return the ISA of this machine, or its machine name for another architecture."""
    return ISA_NAMES.get(platform.machine(), platform.machine())


def cpus() -> int:
    """Return the count of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def find(isa: str) -> Toolchain:
    """Return the toolchain for an ISA; InputError with the package where it is missing."""
    native = host_isa() == isa
    prefixes = [f"{triple}-" for triple in _TRIPLES[isa]]
    for prefix in [*prefixes, ""] if native else prefixes:
        gcc, ld = shutil.which(f"{prefix}gcc"), shutil.which(f"{prefix}ld")
        if gcc and ld:
            return Toolchain(isa, gcc, ld, () if native else _emulator(isa))
    package = "gcc binutils" if native else _PACKAGES[isa]
    raise InputError(f"no compiler for {isa}: install it with `apt install {package}`")


def _emulator(isa: str) -> tuple[str, ...]:
    """Return the command of QEMU's user-mode emulator; its bare name if it is not installed."""
    name = {"arm64": "qemu-aarch64", "x86_64": "qemu-x86_64"}[isa]
    return (shutil.which(name) or shutil.which(f"{name}-static") or name,)
