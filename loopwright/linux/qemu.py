"""Machines that QEMU interprets: their features, the guest's first program, a log of what ran."""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from loopwright import paths, toolchain
from loopwright.errors import InputError
from loopwright.linux.verification import CheckError

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


def qemu_program(isa: str) -> str:
    """Return QEMU for an ISA; InputError that names its package where it is missing."""
    name, package = _PROGRAMS[isa]
    found = shutil.which(name)
    if not found:
        raise InputError(f"{name} is missing, which boots kernels: `apt install {package}`")
    return found


def qemu_version(isa: str) -> str:
    """Return the version of QEMU for an ISA, e.g. "QEMU 7.2.22"."""
    done = subprocess.run(
        [qemu_program(isa), "--version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"version (\S+)", done.stdout)
    return f"QEMU {found[1]}" if found else "QEMU"


def qemu_command(machine: Machine, kernel: Path, initrd: Path, words: list[str]) -> list[str]:
    """Return the command that boots a kernel; words go to it, and on to its first program."""
    board = ["-M", "virt"] if machine.isa == "arm64" else []
    console = "ttyAMA0" if machine.isa == "arm64" else "ttyS0"
    line = ["console=" + console, "panic=-1", "nokaslr", *words, machine.append]
    return [
        qemu_program(machine.isa), *board, *_COMMON, "-cpu", machine.cpu,
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


_SOURCE = paths.HARNESS / "guest" / "init.c"
KMOD = paths.HARNESS / "guest" / "kmod.c"
_FLAGS = ["-O2", "-static", "-std=gnu11", "-Wall", "-Wextra"]


def initrd(
    isa: str, source: Path = _SOURCE, files: Mapping[str, bytes] = MappingProxyType({})
) -> Path:
    """Return the ramdisk for an ISA, made now if it is not there yet.

    source is the C program that the kernel runs; files (name to content) lie beside it.
    """
    tools = toolchain.find(isa)
    parts = (source.read_bytes(), repr(_FLAGS).encode(), *(repr(x).encode() for x in files.items()))
    key = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    path = paths.build_dir() / "verify" / f"initrd-{isa}-{key}.cpio"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        program, part = Path(folder, "init"), Path(folder, "initrd")
        command = [tools.gcc, *_FLAGS, str(source), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
            raise InputError(f"the guest's program does not compile for {isa}: {reason}")
        entries = [("dev", 0o040755, b""), ("init", 0o100755, program.read_bytes())]
        entries += [(name, 0o100755, content) for name, content in files.items()]
        part.write_bytes(_newc(entries))
        part.replace(path)
    return path


def _newc(files: list[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive of files (name, mode, content), in the form that the kernel reads.

    See Documentation/driver-api/early-userspace/buffer-format.rst. The console is a device node,
    which takes no root to make this way.
    """
    out = b""
    entries = [(name, mode, content, (0, 0)) for name, mode, content in files]
    entries.insert(1, ("dev/console", 0o020600, b"", (5, 1)))
    for number, (name, mode, content, device) in enumerate(
        [*entries, ("TRAILER!!!", 0, b"", (0, 0))]
    ):
        fields = [
            number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0,
        ]  # fmt: skip
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)
    return out


# Blocks must not be chained to each other, or one would be entered without a word.
_LOGGED = "nochain,exec"
_ENTERED = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/")


def log_options(log: Path, addresses: Iterable[int]) -> list[str]:
    """Return options of QEMU that log each time one of the addresses is jumped to.

    A block begins at what a jump leads to, and nowhere else in code that falls through to it.
    """
    ranges = ",".join(f"{address:#x}+1" for address in sorted(addresses))
    return ["-d", _LOGGED, "-dfilter", ranges, "-D", str(log)]


def entered_counts(log: Path) -> Counter[int]:
    """Return the jumps to each address in such a log; all 0 without one."""
    counts: Counter[int] = Counter()
    if log.exists():
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if entered := _ENTERED.match(line):
                    counts[int(entered[1], 16)] += 1
    return counts
