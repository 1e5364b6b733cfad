"""The C harness: its build for an ISA, its jobs and answers."""

import hashlib
import json
import subprocess
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from loopwright import files, paths, toolchain
from loopwright.errors import InputError

if TYPE_CHECKING:
    from loopwright.code.instructions import Code
    from loopwright.kernels import Contract

# Words of messages that give the reason of a failure.
_ERROR_WORDS = ("error", "cannot find", "No space left", "Read-only file system")
_FLAGS = [
    *["-O2", "-g", "-static-pie", "-fPIE", "-std=gnu11", "-Wall", "-Wextra"],
    "-Wl,--build-id=none",
]
_LIBRARIES = ["-lm"]
_MOST_PENDING = 1 << 14  # characters of jobs written ahead: less than a pipe's buffer
_PATTERNS = ("*.c", "*.h", "*.S")  # of the harness's sources


def _sources(isa: str) -> list[Path]:
    folders = (paths.HARNESS, *(paths.HARNESS / name for name in ("common", isa, "kit")))
    return sorted(p for folder in folders for pattern in _PATTERNS for p in folder.glob(pattern))


@cache
def version(isa: str) -> str:
    """Return a hash of the harness for an ISA: its sources and compiler flags."""
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
    """Return the harness for an ISA, compiled now if it does not exist yet."""
    program = paths.build_dir() / "harness" / f"{isa}-{version(isa)}"

    def make(path: Path) -> None:
        compile_to(isa, path)
        path.chmod(0o755)

    return files.made_once(program, make, paths.BUILD_FIX)


def compile_to(isa: str, program: Path, *options: str) -> None:
    """Compile the harness; InputError with the first error of compiler or linker."""
    units = [str(p) for p in _sources(isa) if p.suffix in (".c", ".S")]
    gcc = toolchain.find(isa).gcc
    prefix_map = f"-ffile-prefix-map={paths.HOME}=."  # equal programs from every checkout
    command = [gcc, *_FLAGS, prefix_map, *options, *units, "-o", str(program), *_LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [x for x in done.stderr.splitlines() if any(word in x for word in _ERROR_WORDS)]
        reason = (lines or [f"{gcc} ended with exit code {done.returncode}"])[0]
        raise InputError(f"the harness does not compile for {isa}: {reason.strip()}")


def emulator(isa: str) -> str:
    """Return the name of the program that emulates an ISA here, "" if it runs natively."""
    run_by = toolchain.find(isa).run
    return Path(run_by[0]).name if run_by else ""


def run(isa: str, jobs: str) -> Iterator[dict[str, Any]]:
    """Run jobs (see harness/README.md) and yield the harness's answers as they come.

    InputError if the harness does not run or rejects a job.
    """
    with tempfile.TemporaryFile("w+") as job_file:
        job_file.write(jobs)
        job_file.seek(0)
        with _running_process(isa, job_file) as process:
            for line in process.stdout:
                yield _record(line)
            process.end()


class Session:
    """A harness process that gets jobs one by one, so that it tests itself only once."""

    def __init__(self, isa: str) -> None:
        """Start the process for an ISA; InputError if it does not run."""
        self._isa = isa
        resources = ExitStack()
        self._running = resources.enter_context(_running_process(isa, subprocess.PIPE))
        # Ends the process, at the latest with self.
        self.close = weakref.finalize(self, resources.close)

    def answers(self, jobs: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the answer to each job, in order; all have to be consumed.

        InputError if the process ends or rejects a job.
        """
        pending: deque[int] = deque()
        unsent = deque(jobs)
        while unsent or pending:
            # The pending jobs fit into a pipe's buffer, so that neither side waits for the other.
            while unsent and (not pending or sum(pending) + len(unsent[0]) <= _MOST_PENDING):
                pending.append(len(unsent[0]))
                self._running.write(unsent.popleft())
            line = self._running.stdout.readline()
            if not line:
                self._running.end()
                raise InputError(f"the harness for {self._isa} ended without an answer")
            pending.popleft()
            yield _record(line)


@dataclass(frozen=True)
class _Process:
    """A running harness; stderr is the file of its messages."""

    isa: str
    process: subprocess.Popen[str]
    stderr: IO[str]

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout
        return self.process.stdout

    def write(self, text: str) -> None:
        """Write to the process; reading shows whether it has ended."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.write(text)
            self.process.stdin.flush()

    def end(self) -> None:
        """Wait for the process to end; InputError if it failed."""
        if self.process.wait():
            self.stderr.seek(0)
            lines = self.stderr.read().strip().splitlines()
            reason = (lines or [f"it ended with {self.process.returncode}"])[-1]
            raise InputError(f"the harness for {self.isa} does not run here: {reason}")


@contextmanager
def _running_process(isa: str, stdin: IO[str] | int) -> Iterator[_Process]:
    """Run the harness with its jobs from a file or a pipe, and end it with the block."""
    command = [*toolchain.find(isa).run, str(build(isa))]
    with tempfile.TemporaryFile("w+") as stderr:
        try:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        except FileNotFoundError:
            raise InputError(
                f"{command[0]} is missing, which runs {isa} code here: "
                "install it with `apt install qemu-user`"
            ) from None
        try:
            yield _Process(isa, process, stderr)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    if pipe:
                        pipe.close()


def _record(line: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    if "error" in record:
        raise InputError(f"{record['id'] or 'a job'}: {record['error']}")
    return record


@dataclass(frozen=True)
class Point:
    """One measurement: count in bytes or records, alignments in bytes from a page start.

    skew is (dst - src) mod 4096; it places the source, in agreement with the alignments mod 64.
    cold: the buffers are in no cache.
    """

    count: int
    dst_align: int
    src_align: int
    skew: int
    cold: bool = False

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Return the point of an answer of the harness."""
        cold = answer.get("cache") == "cold"
        return cls(answer["count"], answer["dst_align"], answer["src_align"], answer["skew"], cold)


def check_job(
    job_id: str,
    code: "Code",
    contract: "Contract",
    *,
    values: Sequence[int] = (),
    gated: bool = False,
) -> str:
    """Return the job that checks code against its contract.

    values are tried as sizes and as both alignments, each with each and with their neighbours.
    gated code contains stac and clac: they are emulated, slowly, so that only small calls are made.
    """
    lines = ["job check", *_code_lines(job_id, code, contract)]
    lines += [f"value {value}" for value in values]
    if gated:
        lines += ["gated", f"max_size {4 if contract.effect == 'store_fields' else 64}"]
    return "\n".join([*lines, "end", ""])


def measure_job(
    job_id: str, code: "Code", contract: "Contract", points: Sequence[Point], offset: int
) -> str:
    """Return the job that measures calls; offset is that of the code from a 64-byte boundary."""
    lines = ["job measure", *_code_lines(job_id, code, contract), f"offset {offset}"]
    lines += [
        f"point {p.count} {p.dst_align} {p.src_align} {p.skew} {'cold' if p.cold else 'hot'}"
        for p in points
    ]
    return "\n".join([*lines, "end", ""])


def clock_job(job_id: str) -> str:
    """Return the job that describes the clock, with the self-test of measurements."""
    return f"job clock\nid {job_id}\nend\n"


def quiet_job(job_id: str) -> str:
    """Return the job that waits up to half a second for a core that is often quiet."""
    return f"job quiet\nid {job_id}\nend\n"


def facts_job(job_id: str, files: Sequence[str]) -> str:
    """Return the job that reports the facts of the machine."""
    return "\n".join(["job facts", f"id {job_id}", *(f"file {f}" for f in files), "end", ""])


def self_test_job(job_id: str) -> str:
    """Return the job that measures every loop of known cost."""
    return f"job self_test\nid {job_id}\nend\n"


def _code_lines(job_id: str, code: "Code", contract: "Contract") -> list[str]:
    """Return the lines of a job that describe code and contract."""
    lines = [
        f"id {job_id}",
        f"object {code.sha256}",
        f"isa {code.isa}",
        f"code {code.text.hex()}",
        f"entry {code.entry}",
    ]
    lines += [f"exception {e.insn} {e.fixup}" for e in code.exceptions]
    lines += [f"effect {contract.effect}"]
    lines += [f"in {role} {register}" for role, register in contract.inputs.items()]
    lines += [f"out {role} {register}" for role, register in contract.returns.items()]
    lines += [f"zeroed {register}" for register in contract.zeroed]
    lines += [f"may_change {register}" for register in contract.may_change]
    lines += [f"faulting {side}" for side in contract.faulting]
    lines += [f"overread {contract.overread}"]
    lines += [f"uncopied {contract.uncopied}"]
    lines += ["guards"] if contract.guards else []
    if contract.align > 1:
        lines += [f"align {contract.align}"]
    if contract.dst_record:
        lines += [f"record {contract.dst_record} {contract.src_record}"]
    lines += [f"field {f.dst} {f.size} {'-' if f.src is None else f.src}" for f in contract.fields]
    return lines
