"""Build the C harness for an ISA, and run jobs with it."""

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from loopwright import paths, toolchain
from loopwright.errors import InputError

_FLAGS = [
    *["-O2", "-g", "-static-pie", "-fPIE", "-std=gnu11", "-Wall", "-Wextra"],
    "-Wl,--build-id=none",
]
_LIBRARIES = ["-lm"]
_PARTS = ("*.c", "*.h", "*.S")


def _sources(isa: str) -> list[Path]:
    folders = (paths.HARNESS, *(paths.HARNESS / name for name in ("common", isa, "kit")))
    return sorted(p for folder in folders for part in _PARTS for p in folder.glob(part))


@cache
def version(isa: str) -> str:
    """Return a hash of the harness for an ISA: its sources and how they are compiled."""
    digest = hashlib.sha256(repr((_FLAGS, _LIBRARIES)).encode())
    for source in _sources(isa):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:16]


@cache
def protocol() -> int:
    """Return the version of the protocol by which cycles are measured (common/protocol.h)."""
    text = (paths.HARNESS / "common" / "protocol.h").read_text()
    return int(text.split("#define PROTOCOL ")[1].split()[0])


def build(isa: str) -> Path:
    """Return the harness for an ISA, compiled now if it is not there yet."""
    program = paths.build_dir() / "harness" / f"{isa}-{version(isa)}"

    def make(path: Path) -> None:
        compile_to(isa, path)
        path.chmod(0o755)

    return paths.made_once(program, make)


def compile_to(isa: str, program: Path, *options: str) -> None:
    """Compile the harness; InputError with the first complaint of compiler or linker."""
    units = [str(p) for p in _sources(isa) if p.suffix in (".c", ".S")]
    gcc = toolchain.find(isa).gcc
    same = f"-ffile-prefix-map={paths.HOME}=."  # the same bytes from every checkout
    command = [gcc, *_FLAGS, same, *options, *units, "-o", str(program), *_LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [x for x in done.stderr.splitlines() if "error" in x or "cannot find" in x]
        reason = (lines or [f"{gcc} ended with exit code {done.returncode}"])[0]
        raise InputError(f"the harness does not compile for {isa}: {reason.strip()}")


def emulator(isa: str) -> str:
    """Return the name of the program that emulates an ISA here, or nothing where it runs."""
    run_by = toolchain.find(isa).run
    return Path(run_by[0]).name if run_by else ""


def run(isa: str, jobs: str) -> Iterator[dict[str, Any]]:
    """Run jobs (see harness/README.md) and yield what the harness says, as it says it.

    InputError where the harness does not run or calls a job wrong.
    """
    command = [*toolchain.find(isa).run, str(build(isa))]
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as complaints:
        given.write(jobs)
        given.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=given, stdout=subprocess.PIPE, stderr=complaints, text=True
            )
        except FileNotFoundError:
            raise InputError(
                f"{command[0]} is missing, which runs {isa} code here: "
                "install it with `apt install qemu-user`"
            ) from None
        output = process.stdout
        assert output
        try:
            for line in output:
                record: dict[str, Any] = json.loads(line)
                if "error" in record:
                    raise InputError(f"{record['id'] or 'a job'}: {record['error']}")
                yield record
            if process.wait():
                complaints.seek(0)
                said = complaints.read().strip().splitlines()
                reason = (said or [f"it ended with {process.returncode}"])[-1]
                raise InputError(f"the harness for {isa} does not run here: {reason}")
        finally:
            process.kill()
            process.wait()
            output.close()
