"""Weights of loops: each one's share of all cycles by perf or bpftrace samples."""

import bisect
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import files
from loopwright.errors import InputError
from loopwright.scanning.binary_loops import ScannedLoop, SourceLines
from loopwright.scanning.images import Image

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


def read_samples(path: Path) -> list[Sample]:
    """Return the samples of a profile; InputError where it is none that is known.

    perf script (the innermost frame of each call chain), perf report --sort symbol[,srcline],
    bpftrace maps of stacks, of routines or of addresses, and perf.data by way of perf.
    """
    content = files.content(path)
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
    """Return the place in a file of a mapped address, else the address itself."""
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


_KERNEL = ("[kernel", "vmlinux", "[guest.kernel", "[unknown]")


@dataclass(frozen=True)
class Weights:
    """Shares of all cycles that loops take, in percent.

    whole holds the loops whose share is that of their routine, since the profile does not say where
    in it: at most so much.
    """

    shares: list[float]
    whole: frozenset[int]

    def of(self, number: int) -> str:
        """Return the scope of a loop's share: "loop", "routine", or nothing where it is 0."""
        if number in self.whole:
            return "routine"
        return "loop" if self.shares[number] else ""


def read_weights(path: Path, image: Image, loops: Sequence[ScannedLoop]) -> Weights:
    """Return the loops' shares of a profile; InputError if it has nothing of this file."""
    given = read_samples(path)
    total = sum(sample.weight for sample in given)
    known = [sample for sample in given if _of(sample, image)]
    starts = {s.name: s.address for part in image.sections for s in part.symbols}
    at: dict[int, float] = defaultdict(float)
    lines: dict[tuple[str, str], float] = defaultdict(float)
    routines: dict[str, float] = defaultdict(float)
    for sample in known:
        if sample.routine in starts and sample.into is not None:
            at[starts[sample.routine] + sample.into] += sample.weight
        elif sample.routine in starts and sample.line:
            lines[sample.routine, sample.line] += sample.weight
        elif sample.routine in starts:
            routines[sample.routine] += sample.weight
        elif sample.address is not None and _inside(image, sample.address):
            at[sample.address] += sample.weight
    if not (at or lines or routines) or not total:
        raise InputError(
            f"none of the samples of {path} lies in {image.path}: give one of the same build, or "
            "its names with --symbols"
        )
    shares, whole = _spread(loops, at, routines)
    _by_lines(image, loops, lines, shares, whole)
    return Weights([100 * share / total for share in shares], frozenset(whole))


def _of(sample: Sample, image: Image) -> bool:
    """Say whether a sample may lie in this file, by what it says of where it lies."""
    if not sample.dso:
        return True
    kernel = image.content[:4] != b"\x7fELF" or image.path.name.startswith(("vmlin", "Image"))
    if sample.dso.startswith(_KERNEL):
        return kernel
    return Path(sample.dso).name.strip("[]") in (image.path.name, image.path.name.partition(".")[0])


def _inside(image: Image, address: int) -> bool:
    return any(section.address <= address < section.end for section in image.sections)


def _spread(
    loops: Sequence[ScannedLoop], at: dict[int, float], routines: dict[str, float]
) -> tuple[list[float], set[int]]:
    places = sorted(at)
    sums = [0.0]
    for place in places:
        sums.append(sums[-1] + at[place])

    def within(start: int, end: int) -> float:
        return sums[bisect.bisect_left(places, end)] - sums[bisect.bisect_left(places, start)]

    shares, whole = [], set()
    for number, loop in enumerate(loops):
        parts = ((loop.address + start, loop.address + end) for start, end in loop.path)
        share = sum(within(start, end) for start, end in parts)
        if extra := routines.get(loop.function, 0.0):
            whole.add(number)
        shares.append(share + extra)
    return shares, whole


def _by_lines(
    image: Image,
    loops: Sequence[ScannedLoop],
    lines: dict[tuple[str, str], float],
    shares: list[float],
    whole: set[int],
) -> None:
    """Give loops the shares of the source lines that they are of, or of all of their routine."""
    named = {routine for routine, _ in lines}
    source = SourceLines(image) if named else None
    for number, loop in enumerate(loops):
        if source is None or loop.function not in named:
            continue
        of_routine = {line: w for (r, line), w in lines.items() if r == loop.function}
        if own := {_base(line) for line in source.all_of(loop)}:
            shares[number] += sum(w for line, w in of_routine.items() if _base(line) in own)
        else:
            shares[number] += sum(of_routine.values())
            whole.add(number)


def _base(line: str) -> str:
    return line.rpartition("/")[2]
