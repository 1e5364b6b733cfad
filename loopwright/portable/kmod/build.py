"""Build the module against the headers of a kernel."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.portable.kmod import source

MODULE = "loopwright.ko"
_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_OPTIONS = {"CONFIG_X86_64": "x86_64", "CONFIG_ARM64": "arm64"}


@dataclass(frozen=True)
class Built:
    """A module, the kernel release that it is for, what is in it, and the compiler's warnings."""

    module: Path
    isa: str
    release: str
    variants: tuple[str, ...]
    left_out: tuple[str, ...]  # variants that this kernel is too old for
    warnings: tuple[str, ...]


def build(
    headers: Path, folder: Path, specs: Sequence[str] = (), offsets: Sequence[int] = (0,)
) -> Built:
    """Write the sources to folder and build them against headers, e.g. /lib/modules/.../build.

    InputError where headers is no folder to build modules in, or the module does not compile.
    """
    isa, release = _kernel(headers)
    parts = source.write(folder, isa, specs, offsets)
    warnings = compiled(headers, isa, folder)
    major, minor = (int(n) for n in release.split(".")[:2])
    late = tuple(dict.fromkeys(p.variant.id for p in parts if source.since(p) > (major, minor)))
    ids = tuple(dict.fromkeys(p.variant.id for p in parts if p.variant.id not in late))
    return Built(folder / MODULE, isa, release, ids, late, warnings)


def compiled(headers: Path, isa: str, folder: Path) -> tuple[str, ...]:
    """Build the sources in folder and return the warnings; InputError with the first error."""
    tools = toolchain.find(isa)
    command = [
        "make", f"-j{toolchain.cpus()}", "-C", str(headers.resolve()), f"M={folder.resolve()}",
        f"ARCH={_ARCH[isa]}", f"CROSS_COMPILE={tools.gcc.removesuffix('gcc')}", "modules",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode or not (folder / MODULE).is_file():
        raise InputError(
            f"the module does not build against {headers}: "
            f"{_reason(done.stderr) or f'make ended with exit code {done.returncode}'}"
        )
    return tuple(x for x in done.stderr.splitlines() if re.search(r"(?i)\bwarning:", x))


def _reason(stderr: str) -> str:
    """Return the line that says best why a build failed: make's own come behind that."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = [x for x in lines if not re.match(r"make(\[\d+\])?:", x)]
    return next((x for x in told if re.search(r"rror|not found|No such", x)), (lines or [""])[0])


def _kernel(headers: Path) -> tuple[str, str]:
    """Return the ISA and the release of the kernel that headers are of."""
    _links(headers)
    config = headers / "include/config/auto.conf"
    release = headers / "include/generated/utsrelease.h"
    missing = [x for x in (config, release, headers / "Makefile") if not x.is_file()]
    if missing:
        raise InputError(
            f"{headers} holds no kernel headers to build modules with: it has no "
            f"{missing[0].relative_to(headers)}; install linux-headers-$(uname -r) and name "
            "/lib/modules/$(uname -r)/build, or a configured build folder"
        )
    _includes(headers)
    chosen = set(re.findall(r"(?m)^(CONFIG_\w+)=y$", config.read_text()))
    isas = [isa for option, isa in _OPTIONS.items() if option in chosen]
    if not isas:
        raise InputError(f"{headers} is of an architecture that the module does not know")
    if "CONFIG_MODULES" not in chosen:
        raise InputError(f"the kernel of {headers} takes no modules: it lacks CONFIG_MODULES")
    [name] = re.findall(r'UTS_RELEASE "(\d+\.\d+.*)"', release.read_text()) or [""]
    if not name:
        raise InputError(f"{release} names no release of Linux")
    return isas[0], name


def _links(folder: Path) -> None:
    """Refuse headers with a link that leads nowhere, as where a part of them was moved alone."""
    for link in sorted(folder.iterdir() if folder.is_dir() else ()):
        if link.is_symlink() and not link.exists():
            raise InputError(
                f"{link} is a link to {link.readlink()}, which is not there: such headers are in "
                "several packages, and know each other by where they are installed; install them, "
                f"or put what is missing at {os.path.normpath(link.parent / link.readlink())}"
            )


def _includes(headers: Path) -> None:
    """Refuse headers whose Makefile goes on in a folder that is not there, as Debian's does."""
    text = (headers / "Makefile").read_text(errors="replace")
    for name in re.findall(r"(?m)^include\s+(/\S+)", text):
        folder = Path(name).parent
        _links(folder)
        if not Path(name).is_file():
            raise InputError(
                f"{headers}/Makefile includes {name}, which is not there: such headers are in two "
                f"packages, and know each other by where they are installed; install both, or put "
                f"the other one at {folder} (or a link to it)"
            )
