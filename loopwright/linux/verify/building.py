"""Kernel builds out of an overlay: configured, kept, and thrown away where cut short."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.linux.verify.overlay import Overlay

_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_TOOLS = {"make": "make", "flex": "flex", "bison": "bison", "bc": "bc"}


@dataclass(frozen=True)
class Build:
    """A build folder of an overlay for one ISA and configuration."""

    overlay: Overlay
    isa: str
    folder: Path

    def command(self, *targets: str, jobs: int = 1) -> list[str]:
        """Return the make command of targets, as one would type it."""
        return [
            "make", "-s", f"-j{jobs}", "-C", str(self.overlay.source), f"O={self.folder}",
            f"ARCH={_ARCH[self.isa]}", f"CROSS_COMPILE={_prefix(self.isa)}", *targets,
        ]  # fmt: skip

    def make(self, *targets: str, jobs: int = 1) -> subprocess.CompletedProcess[str]:
        """Run make; while it runs a mark says that the folder may be half-written."""
        mark = self.folder / ".loopwright-building"
        mark.touch()
        done = self.run(self.command(*targets, jobs=jobs))
        mark.unlink()
        return done

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program politely; stdout and stderr come together."""
        kept = {
            k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
        }
        return subprocess.run(
            ["nice", "-n", "5", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=(self.overlay.lock,),
            env=kept | {"LC_ALL": "C", "KBUILD_BUILD_TIMESTAMP": "1970-01-01"},
        )


class BuildError(Exception):
    """make failed: what it was to make, its command and its output."""

    def __init__(self, what: str, command: Sequence[str], output: str) -> None:
        super().__init__(what)
        self.command, self.output = list(command), output


def require_tools(isa: str) -> None:
    """InputError that names the package of the first tool missing for a kernel build."""
    toolchain.find(isa)
    for tool, package in _TOOLS.items():
        if not shutil.which(tool):
            raise InputError(
                f"{tool} is missing, which kernel builds need: `apt install {package}`"
            )
    if not any(Path(p, "libelf.h").is_file() for p in ("/usr/include", "/usr/local/include")):
        raise InputError("libelf is missing, which kernel builds need: `apt install libelf-dev`")


def configured(
    overlay: Overlay, isa: str, name: str, base: str, options: Sequence[str], *targets: str
) -> Build:
    """Return the build folder `name`, configured from base (a make target) with options.

    options are as scripts/config takes them: "-e KUNIT", "-d X86_KERNEL_IBT". targets are made
    once after that. A build with other options is configured anew where it lies: make knows what
    hangs on an option. BuildError where make fails; nothing is kept then.
    """
    require_tools(isa)
    build = Build(overlay, isa, overlay.folder / name)
    wanted = "\n".join([isa, base, *options])
    stamp = build.folder / ".loopwright-configured"
    whole = not (build.folder / ".loopwright-building").exists()
    had = stamp.read_text() if whole and stamp.exists() else ""
    if had == wanted:
        return build
    if had.splitlines()[:2] == [isa, base]:
        stamp.unlink()
    else:
        shutil.rmtree(build.folder, ignore_errors=True)
    build.folder.mkdir(parents=True, exist_ok=True)
    _must(build, build.command(base))
    if options:
        script = str(overlay.source / "scripts/config")
        words = [word for option in options for word in option.split()]
        _must(build, ["bash", script, "--file", str(build.folder / ".config"), *words])
    for target in ("olddefconfig", *targets):
        _must(build, build.command(target, jobs=toolchain.cpus()))
    stamp.write_text(wanted)
    return build


def _must(build: Build, command: Sequence[str]) -> None:
    done = build.run(command)
    if done.returncode:
        shutil.rmtree(build.folder, ignore_errors=True)
        raise BuildError(f"`{command[0]} {command[-1]}` failed", command, done.stdout)


def _prefix(isa: str) -> str:
    return toolchain.find(isa).gcc.removesuffix("gcc")
