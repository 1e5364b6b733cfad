"""Size histograms in the format of bpftrace (hist and lhist), as weights of sizes."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError

_ROW = re.compile(
    r"^\s*(?:\[|\()\s*(?P<low>\.\.\.|\d+[KMG]?)\s*(?:,\s*(?P<high>\.\.\.|\d+[KMG]?)\s*)?[\])]\s+"
    r"(?P<count>\d+)\s*\|"
)
_MAP = re.compile(r"^\s*(@[\w\[\]:,. -]*?)\s*:\s*$")
_SCALE = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Sizes sampled in each bucket, since bpftrace gives no distribution in it: one in each eighth,
# each at another position there, with various remainders by 8 and by 64, which copies and clears
# process byte by byte. The mean of the sampled sizes is the bucket's middle.
_POSITIONS = (3, 6, 0, 5, 2, 7, 1, 4)
_SHIFTS = (-4, 0, 4, 0, 3, -3, -1, 1)  # bytes
_POINTS = len(_POSITIONS)


@dataclass(frozen=True)
class Bucket:
    """Sizes from low to below high (bytes; None: no bound) seen count times."""

    low: int
    high: int | None
    count: int


@dataclass(frozen=True)
class Histogram:
    """Counts of sizes."""

    name: str
    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> int:
        """The number of calls counted."""
        return sum(b.count for b in self.buckets)

    @property
    def open_from(self) -> int | None:
        """The start of the bucket without a high end, None if none has calls."""
        return next((b.low for b in self.buckets if b.high is None and b.count), None)

    @property
    def open_bucket_note(self) -> str:
        """The share of calls in the bucket without a high end, in words; "" if it has none."""
        if (low := self.open_from) is None:
            return ""
        count = sum(b.count for b in self.buckets if b.high is None)
        share = f"{100 * count / self.total:.2g} %"
        return f"{share} of the calls are of {low} B or more, and counted as {low} B"

    def share_from(self, size: int) -> float:
        """Return the share of calls, from 0 to 1, of size bytes or more, counted as in mean."""
        return sum(count for point, count in self.points() if point >= size) / self.total

    def mean(self, cost: Callable[[float], float]) -> float:
        """Return the mean cost of a call; cost is a function of its size in bytes.

        Sizes are assumed to be spread evenly in a bucket; an unbounded one counts at its low end.
        """
        return sum(count * cost(size) for size, count in self.points()) / self.total

    def points(self) -> Iterator[tuple[float, float]]:
        """Yield the sizes of mean, each with the number of calls that it represents."""
        for bucket in self.buckets:
            if bucket.count:
                sizes = _sizes(bucket)
                yield from ((size, bucket.count / len(sizes)) for size in sizes)


def _sizes(bucket: Bucket) -> list[float]:
    if bucket.high is None:
        return [bucket.low]
    width = bucket.high - bucket.low
    if width < 16 * _POINTS:
        points = min(_POINTS, max(width, 1))
        return [bucket.low + (n + 0.5) * width / points for n in range(points)]
    return [
        bucket.low + (n + (2 * position + 1) / (2 * _POINTS)) * width / _POINTS + shift
        for n, (position, shift) in enumerate(zip(_POSITIONS, _SHIFTS, strict=True))
    ]


def read(spec: str) -> Histogram:
    """Read FILE or FILE:MAP, where MAP is (part of) the name of one of several maps in it.

    InputError if the file holds no histogram, or several and MAP does not select a single one.
    """
    path, text = _read_spec(spec)
    return parse(text, spec[len(str(path)) + 1 :], str(path))


def parse(text: str, wanted: str = "", where: str = "the text") -> Histogram:
    """Parse output of bpftrace: the map whose name contains wanted. InputError as read."""
    maps = _maps(text)
    if not maps:
        raise InputError(
            f"{where}: no bpftrace histogram in it; its rows look like [64, 576) 9 |@|"
        )
    matching = [h for h in maps if wanted in h.name]
    if len(matching) != 1:
        names = ", ".join(h.name or "(no name)" for h in maps)
        raise InputError(f"{where}: name one of its histograms as FILE:NAME; it holds {names}")
    if not matching[0].total:
        raise InputError(f"{where}: histogram {matching[0].name} counts no calls")
    return matching[0]


def _read_spec(spec: str) -> tuple[Path, str]:
    candidates = [spec]
    candidates += [spec[:n] for n, char in enumerate(spec) if char == ":"]
    for name in candidates:
        path = Path(name)
        if path.is_file():
            return path, path.read_text(errors="replace")
    raise InputError(f"{spec}: no such file; give a file with a bpftrace histogram")


def _maps(text: str) -> list[Histogram]:
    out: list[Histogram] = []
    name, rows = "", list[Bucket]()
    for line in text.splitlines():
        row = _ROW.match(line)
        if row:
            rows.append(_bucket(row))
            continue
        if rows:
            out.append(Histogram(name, tuple(rows)))
            name, rows = "", []
        heading = _MAP.match(line)
        if heading:
            name = heading.group(1)
    if rows:
        out.append(Histogram(name, tuple(rows)))
    return out


def _bucket(row: re.Match[str]) -> Bucket:
    low, high, count = row.group("low"), row.group("high"), int(row.group("count"))
    start = 0 if low == "..." else _number(low)
    if high is None:
        return Bucket(start, start + 1, count)
    return Bucket(start, None if high == "..." else _number(high), count)


def _number(text: str) -> int:
    return int(text[:-1]) * _SCALE[text[-1]] if text[-1] in _SCALE else int(text)
