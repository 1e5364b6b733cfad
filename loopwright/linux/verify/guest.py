"""The first and only program of a booted kernel: compiled, and packed as an initial ramdisk."""

import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from loopwright import paths, toolchain
from loopwright.errors import InputError

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
