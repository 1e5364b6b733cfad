"""Read where a machine spends its cycles: texts of perf and bpftrace, and perf.data."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError

_PERF_DATA = (b"PERFILE2", b"2ELIFREP")


@dataclass(frozen=True, slots=True)
class Sample:
    """Cycles spent at one place: an address, and where names are known a routine and how far in.

    line is "file:line" where that is known and an address is not; dso what the sample lies in.
    """

    weight: float
    address: int | None = None
    routine: str = ""
    into: int | None = None
    line: str = ""
    dso: str = ""


def read(path: Path) -> list[Sample]:
    """Return the samples of a profile; InputError where it is none that is known.

    perf script (the innermost frame of each call chain), perf report --sort symbol[,srcline],
    bpftrace maps of stacks, of routines or of addresses, and perf.data by way of perf.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if content.startswith(_PERF_DATA):
        content = _of_perf(path)
    lines = content.decode(errors="replace").splitlines()
    for reader in (_bpftrace, _report, _script):
        if found := list(reader(lines)):
            return found
    raise InputError(
        f"{path} holds no samples: give what `perf script`, `perf report --stdio --sort "
        "symbol,srcline` or bpftrace print, or a perf.data"
    )


def _of_perf(path: Path) -> bytes:
    perf = shutil.which("perf")
    if perf is None:
        raise InputError(f"{path} is a perf.data, and perf is not here: give what perf script says")
    command = [perf, "script", "-i", str(path), "--hide-call-graph", "--show-mmap-events"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise InputError(f"perf script cannot read {path}: {said[-1]}")
    return done.stdout


# A frame: address, routine with how far in, and what it lies in.
_FRAME = re.compile(r"\s*([0-9a-f]{4,16})\s+(\S.*?)\s+\((\S+)\)\s*$")
# What was mapped where: start, size and offset in a file, and the file.
_MAPPED = re.compile(
    r".*PERF_RECORD_MMAP2? .*?\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+).*\]: \S+ (.+)$"
)
# What stands before it, or alone above a chain: the period of the event, and the event.
_EVENT = re.compile(r".*?(?:^|\s)(\d+)\s+[A-Za-z_{][\w:/.\-=,{}]*:(?=\s|$)")


def _script(lines: Iterable[str]) -> Iterator[Sample]:
    weight: float | None = None
    mapped: dict[str, list[tuple[int, int, int]]] = {}
    for line in lines:
        if found := _MAPPED.match(line):
            start, size, offset = (int(n, 16) for n in found.groups()[:3])
            if not found[4].startswith("["):
                mapped.setdefault(found[4], []).append((start, size, offset))
            continue
        if not line.strip() or line.startswith("#"):
            weight = None
            continue
        head = _EVENT.match(line)
        if head is None and not line[:1].isspace():
            # Without its period an event counts once.
            weight = 1.0 if line.rstrip().endswith(":") else weight
        rest = line[head.end() :] if head else line
        if head:
            weight = float(head[1])
        frame = _FRAME.match(rest)
        if frame and weight is not None:
            address = _in_file(int(frame[1], 16), mapped.get(frame[3], ()))
            yield _of_frame(weight, address, frame[2], frame[3])
            weight = None  # what follows are its callers


def _in_file(address: int, mapped: Iterable[tuple[int, int, int]]) -> int:
    """Return where in a file an address lies that it was mapped to, else the address itself."""
    for start, size, offset in mapped:
        if start <= address < start + size:
            return address - start + offset
    return address


def _of_frame(weight: float, address: int, routine: str, dso: str) -> Sample:
    name, plus, into = routine.rpartition("+0x")
    known = bool(plus) and re.fullmatch(r"[0-9a-f]+", into) is not None
    name = name if known else routine
    named = "" if name == "[unknown]" else name
    return Sample(weight, address, named, int(into, 16) if known else None, dso=dso)


# A share, columns of commands and the like, [k] or [.], the routine, and perhaps its line.
_SHARE = re.compile(r"\s*(\d+\.\d+)%\s+(.*?\s)?\[[.kguH]\]\s+(\S+)(?:\s+(\S+))?")


def _report(lines: Iterable[str]) -> Iterator[Sample]:
    for line in lines:
        if found := _SHARE.match(line):
            share, routine, where = float(found[1]), found[3], found[4] or ""
            dso = (found[2] or "").split()[-1:]
            if re.fullmatch(r"0x[0-9a-f]+", routine):  # without a name
                yield Sample(share, int(routine, 16), dso="".join(dso))
                continue
            name, plus, into = where.rpartition("+")
            known = bool(plus) and name == routine and into.isdecimal()  # without a source line
            line_known = re.fullmatch(r"\S+:[1-9]\d*", where) is not None
            yield Sample(
                share,
                routine=routine,
                into=int(into) if known else None,
                line=where if line_known else "",
                dso="".join(dso),
            )


_OPENS = re.compile(r"@\w*\[\s*(.*)$")
_COUNT = re.compile(r"^(.*?)\s*\]\s*:\s*(\d+)\s*$")


def _bpftrace(lines: Iterable[str]) -> Iterator[Sample]:
    """Read maps: of a key on one line, or of a stack on several, the innermost frame first."""
    key: list[str] | None = None
    for line in lines:
        rest = line
        if key is None:
            opens = _OPENS.match(line.strip())
            if opens is None:
                continue
            key, rest = [], opens[1]
        closes = _COUNT.match(rest.strip())
        text = (closes[1] if closes else rest).strip()
        if text:
            key.append(text)
        if closes:
            if key and (sample := _of_key(float(closes[2]), key[0].split(",")[0].strip())):
                yield sample
            key = None


def _of_key(weight: float, text: str) -> Sample | None:
    if re.fullmatch(r"0x[0-9a-f]+|\d{5,}", text):
        return Sample(weight, int(text, 0))
    name, plus, into = text.rpartition("+")
    if plus and re.fullmatch(r"0x[0-9a-f]+|\d+", into):
        return Sample(weight, routine=name, into=int(into, 0))
    return Sample(weight, routine=text) if re.fullmatch(r"[\w.]+", text) else None
