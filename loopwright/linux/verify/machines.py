"""The machines that QEMU plays, and running one until it is done or out of time."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError
from loopwright.linux.verify.outcomes import CheckError

TIMEOUT = 300  # seconds; a boot takes 2 to 10, beside other work many times that
_PROGRAMS = {
    "x86_64": ("qemu-system-x86_64", "qemu-system-x86"),
    "arm64": ("qemu-system-aarch64", "qemu-system-arm"),
}
_COMMON = ("-accel", "tcg", "-m", "256", "-nodefaults", "-no-reboot", "-display", "none",
           "-serial", "stdio")  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """One CPU to boot on: with and without are words of its feature list, and of its console."""

    name: str
    isa: str
    cpu: str
    append: str = ""
    flags: tuple[str, ...] = ()
    no_flags: tuple[str, ...] = ()
    console: str = ""
    no_console: str = ""
    cpus: int = 1
    needs: str = ""  # a word that the patched kernel's command line must know


_PAN = "detected: Privileged Access Never"
MACHINES = (
    Machine("SMAP, neither ERMS nor FSRM", "x86_64", "EPYC-Rome,-erms,-fsrm",
            flags=("smap",), no_flags=("erms", "fsrm")),
    Machine("SMAP and ERMS, no FSRM", "x86_64", "EPYC-Rome,+erms,-fsrm",
            flags=("smap", "erms"), no_flags=("fsrm",)),
    Machine("SMAP, ERMS and FSRM", "x86_64", "EPYC-Rome,+erms,+fsrm",
            flags=("smap", "erms", "fsrm")),
    Machine("no SMAP, ERMS, FSRM", "x86_64", "EPYC-Rome,-smap,-erms,-fsrm",
            no_flags=("smap", "erms", "fsrm")),
    Machine("PAN", "arm64", "max,pauth-impdef=on", console=_PAN),
    Machine("PAN, as Neoverse N1", "arm64", "neoverse-n1", console=_PAN),
    Machine("no PAN, as Cortex-A72", "arm64", "cortex-a72", no_console=_PAN),
    Machine("PAN off by arm64.nopan", "arm64", "max,pauth-impdef=on", append="arm64.nopan",
            no_console=_PAN, needs="arm64.nopan"),
)  # fmt: skip


def program(isa: str) -> str:
    """Return QEMU for an ISA; InputError that names its package where it is missing."""
    name, package = _PROGRAMS[isa]
    found = shutil.which(name)
    if not found:
        raise InputError(f"{name} is missing, which boots kernels: `apt install {package}`")
    return found


def version(isa: str) -> str:
    """Return what QEMU for an ISA calls itself, e.g. "QEMU 7.2.22"."""
    done = subprocess.run([program(isa), "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\S+)", done.stdout)
    return f"QEMU {found[1]}" if found else "QEMU"


def command(machine: Machine, kernel: Path, initrd: Path, words: list[str]) -> list[str]:
    """Return the command that boots a kernel; words go to it, and on to its first program."""
    board = ["-M", "virt"] if machine.isa == "arm64" else []
    console = "ttyAMA0" if machine.isa == "arm64" else "ttyS0"
    line = ["console=" + console, "panic=-1", "nokaslr", *words, machine.append]
    return [
        program(machine.isa), *board, *_COMMON, "-cpu", machine.cpu,
        "-smp", f"{machine.cpus},sockets={machine.cpus}", "-kernel", str(kernel),
        "-initrd", str(initrd), "-append", " ".join(filter(None, line)),
    ]  # fmt: skip


def boot(given: list[str], timeout: float = TIMEOUT) -> str:
    """Run the command of a boot and return its console; CheckError where it takes too long."""
    try:
        done = subprocess.run(
            given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        raise CheckError(f"it is not done after {timeout} s", given, said) from None
    console = done.stdout.replace("\r", "")
    if "loopwright: done" not in console:
        raise CheckError(f"it did not get through: {_last(console)}", given, console)
    return console


def _last(console: str) -> str:
    """Return the line of a console that says best why it ended."""
    lines = [x.strip() for x in console.splitlines() if x.strip()] or ["nothing on the console"]
    told = [x for x in lines if re.search(r"BUG:|Oops|Kernel panic|general protection|rror", x)]
    return (told or lines[-1:])[0]
