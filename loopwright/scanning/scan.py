"""Scan of a binary: its loops, ranked by the cost of their code offset on each core."""

import bisect
import itertools
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from math import inf, isnan
from pathlib import Path

from loopwright import files
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.predicting import core_figures
from loopwright.predicting.pipeline import Pipeline
from loopwright.rows import Rows, as_frame, counted
from loopwright.scanning import costs, fixes, images
from loopwright.scanning.binary_loops import (
    FoundLoops,
    ScannedLoop,
    SourceLines,
    find_loops,
    section_of,
)
from loopwright.scanning.costs import HURT, INDIFFERENT, CoreCosts, Progress, boundary, cost
from loopwright.scanning.fixes import NOT_NEEDED, Fix
from loopwright.scanning.images import Image

_PERF_DATA = (b"PERFILE2", b"2ELIFREP")


@dataclass(frozen=True, slots=True)
class Sample:
    """Cycles spent at one position: an address, or a routine with an offset in it.

    line is "file:line" where known instead of an address; dso is the sample's file.
    """

    weight: float
    address: int | None = None
    routine: str = ""
    into: int | None = None
    line: str = ""
    dso: str = ""


def read_samples(path: Path) -> list[Sample]:
    """Return the samples of a profile; InputError for an unknown format.

    perf script (the innermost frame of each call chain), perf report --sort symbol[,srcline],
    bpftrace maps of stacks, of routines or of addresses, and perf.data by means of perf.
    """
    content = files.content(path)
    if content.startswith(_PERF_DATA):
        content = _perf_script(path)
    lines = content.decode(errors="replace").splitlines()
    for reader in (_bpftrace, _report, _script):
        if samples := list(reader(lines)):
            return samples
    raise InputError(
        f"{path} holds no samples: give what `perf script`, `perf report --stdio --sort "
        "symbol,srcline` or bpftrace print, or a perf.data"
    )


def _perf_script(path: Path) -> bytes:
    perf = shutil.which("perf")
    if perf is None:
        raise InputError(f"{path} is a perf.data, and perf is not here: give what perf script says")
    command = [perf, "script", "-i", str(path), "--hide-call-graph", "--show-mmap-events"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise InputError(f"perf script cannot read {path}: {errors[-1]}")
    return done.stdout


# A frame: address, routine with an offset, and the file.
_FRAME = re.compile(r"\s*([0-9a-f]{4,16})\s+(\S.*?)\s+\((\S+)\)\s*$")
# A mapping: start, size and offset in a file, and the file.
_MAPPED = re.compile(
    r".*PERF_RECORD_MMAP2? .*?\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+).*\]: \S+ (.+)$"
)
# The text before a frame, or on a line above a chain: the event's period, and the event.
_EVENT = re.compile(r".*?(?:^|\s)(\d+)\s+[A-Za-z_{][\w:/.\-=,{}]*:(?=\s|$)")


def _script(lines: Iterable[str]) -> Iterator[Sample]:
    weight: float | None = None
    mappings: dict[str, list[tuple[int, int, int]]] = {}
    for line in lines:
        if match := _MAPPED.match(line):
            start, size, offset = (int(n, 16) for n in match.groups()[:3])
            if not match[4].startswith("["):
                mappings.setdefault(match[4], []).append((start, size, offset))
            continue
        if not line.strip() or line.startswith("#"):
            weight = None
            continue
        event = _EVENT.match(line)
        if event is None and not line[:1].isspace():
            # An event without a period counts once.
            weight = 1.0 if line.rstrip().endswith(":") else weight
        text = line[event.end() :] if event else line
        if event:
            weight = float(event[1])
        frame = _FRAME.match(text)
        if frame and weight is not None:
            address = _file_offset(int(frame[1], 16), mappings.get(frame[3], ()))
            yield _frame_sample(weight, address, frame[2], frame[3])
            weight = None  # the next frames are its callers


def _file_offset(address: int, mappings: Iterable[tuple[int, int, int]]) -> int:
    """Return the file offset of a mapped address, else the address itself."""
    for start, size, offset in mappings:
        if start <= address < start + size:
            return address - start + offset
    return address


def _frame_sample(weight: float, address: int, routine: str, dso: str) -> Sample:
    name, plus, into = routine.rpartition("+0x")
    has_offset = bool(plus) and re.fullmatch(r"[0-9a-f]+", into) is not None
    name = name if has_offset else routine
    known_name = "" if name == "[unknown]" else name
    return Sample(weight, address, known_name, int(into, 16) if has_offset else None, dso=dso)


# A share, further columns, [k] or [.], the routine, and possibly its line.
_SHARE = re.compile(r"\s*(\d+\.\d+)%\s+(.*?\s)?\[[.kguH]\]\s+(\S+)(?:\s+(\S+))?")


def _report(lines: Iterable[str]) -> Iterator[Sample]:
    for line in lines:
        if match := _SHARE.match(line):
            share, routine, where = float(match[1]), match[3], match[4] or ""
            dso = (match[2] or "").split()[-1:]
            if re.fullmatch(r"0x[0-9a-f]+", routine):  # without a name
                yield Sample(share, int(routine, 16), dso="".join(dso))
                continue
            name, plus, into = where.rpartition("+")
            # Without a source line, perf shows the offset in the routine.
            has_offset = bool(plus) and name == routine and into.isdecimal()
            has_line = re.fullmatch(r"\S+:[1-9]\d*", where) is not None
            yield Sample(
                share,
                routine=routine,
                into=int(into) if has_offset else None,
                line=where if has_line else "",
                dso="".join(dso),
            )


_KEY_START = re.compile(r"@\w*\[\s*(.*)$")
_KEY_END = re.compile(r"^(.*?)\s*\]\s*:\s*(\d+)\s*$")


def _bpftrace(lines: Iterable[str]) -> Iterator[Sample]:
    """Yield the samples of maps: a key on one line, or a stack on several, innermost first."""
    key: list[str] | None = None
    for line in lines:
        rest = line
        if key is None:
            start = _KEY_START.match(line.strip())
            if start is None:
                continue
            key, rest = [], start[1]
        end = _KEY_END.match(rest.strip())
        text = (end[1] if end else rest).strip()
        if text:
            key.append(text)
        if end:
            if key and (sample := _key_sample(float(end[2]), key[0].split(",")[0].strip())):
                yield sample
            key = None


def _key_sample(weight: float, text: str) -> Sample | None:
    if re.fullmatch(r"0x[0-9a-f]+|\d{5,}", text):
        return Sample(weight, int(text, 0))
    name, plus, into = text.rpartition("+")
    if plus and re.fullmatch(r"0x[0-9a-f]+|\d+", into):
        return Sample(weight, routine=name, into=int(into, 0))
    return Sample(weight, routine=text) if re.fullmatch(r"[\w.]+", text) else None


_KERNEL_FILES = ("[kernel", "vmlinux", "[guest.kernel", "[unknown]")


@dataclass(frozen=True)
class Weights:
    """Shares of all cycles that loops take, in percent.

    whole holds the loops with the share of their whole routine, an upper bound, since the profile
    has no position in it.
    """

    shares: list[float]
    whole: frozenset[int]

    def of(self, number: int) -> str:
        """Return the scope of a loop's share: "loop", "routine", or "" if it is 0."""
        if number in self.whole:
            return "routine"
        return "loop" if self.shares[number] else ""


def read_weights(path: Path, image: Image, loops: Sequence[ScannedLoop]) -> Weights:
    """Return the loops' shares of a profile; InputError if it has no sample in this file."""
    samples = read_samples(path)
    total = sum(sample.weight for sample in samples)
    own_samples = [sample for sample in samples if _may_be_of(sample, image)]
    starts = {s.name: s.address for part in image.sections for s in part.symbols}
    by_address: dict[int, float] = defaultdict(float)
    by_line: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    by_routine: dict[str, float] = defaultdict(float)
    for sample in own_samples:
        if sample.routine in starts and sample.into is not None:
            by_address[starts[sample.routine] + sample.into] += sample.weight
        elif sample.routine in starts and sample.line:
            by_line[sample.routine][sample.line] += sample.weight
        elif sample.routine in starts:
            by_routine[sample.routine] += sample.weight
        elif sample.address is not None and any(
            part.address <= sample.address < part.end for part in image.sections
        ):
            by_address[sample.address] += sample.weight
    if not (by_address or by_line or by_routine) or not total:
        raise InputError(
            f"none of the samples of {path} lies in {image.path}: give one of the same build, or "
            "its names with --symbols"
        )
    shares, whole = _shares(image, loops, by_address, by_line, by_routine)
    return Weights([100 * share / total for share in shares], frozenset(whole))


def _may_be_of(sample: Sample, image: Image) -> bool:
    """True if a sample may be in an image, by the name of the sample's file."""
    if not sample.dso:
        return True
    kernel = image.content[:4] != b"\x7fELF" or image.path.name.startswith(("vmlin", "Image"))
    if sample.dso.startswith(_KERNEL_FILES):
        return kernel
    return Path(sample.dso).name.strip("[]") in (image.path.name, image.path.name.partition(".")[0])


def _shares(
    image: Image,
    loops: Sequence[ScannedLoop],
    by_address: Mapping[int, float],
    by_line: Mapping[str, Mapping[str, float]],
    by_routine: Mapping[str, float],
) -> tuple[list[float], set[int]]:
    """Return the weight of each loop, and the loops with the weight of their whole routine.

    Weights are given by address, by routine and source line, and by routine. Those of a line count
    for each loop that has it.
    """
    addresses = sorted(by_address)
    sums = [0.0, *itertools.accumulate(by_address[address] for address in addresses)]

    def within(start: int, end: int) -> float:
        return sums[bisect.bisect_left(addresses, end)] - sums[bisect.bisect_left(addresses, start)]

    source = SourceLines(image) if by_line else None
    shares, whole = [], set()
    for number, loop in enumerate(loops):
        share = sum(within(loop.address + start, loop.address + end) for start, end in loop.path)
        share += (of_routine := by_routine.get(loop.function, 0.0))
        own_lines: set[str] = set()
        if (routine_lines := by_line.get(loop.function, {})) and source:
            own_lines = {_base(line) for line in source.all_of(loop)}
            counted_lines = (x for x in routine_lines if not own_lines or _base(x) in own_lines)
            share += sum(routine_lines[line] for line in counted_lines)
        if of_routine or (routine_lines and not own_lines):
            whole.add(number)
        shares.append(share)
    return shares, whole


def _base(line: str) -> str:
    """Return "file:line" without the folder."""
    return line.rpartition("/")[2]


COLUMNS = (
    "file", "section", "address", "function", "into", "line", "offset", "microarch", "cycles",
    "best", "worst", "lost", "times", "share", "saved", "share_of", "limit", "boundary", "crossed",
    "fix", "how", "bytes", "path", "exits", "error",
)  # fmt: skip
TYPES = dict.fromkeys(("cycles", "best", "worst", "lost", "times", "share", "saved"), "float64") | {
    "boundary": "Int64"
}


@dataclass(frozen=True, order=True)
class Ranked:
    """A loop on a core, by the numbers of both."""

    loop: int
    core: int


def ranked(
    costs: Sequence[CoreCosts], weights: Weights | None = None, *, hurt_first: bool = True
) -> list[Ranked]:
    """Return all loops on all cores, those with the largest loss of cycles an iteration first.

    With hurt_first loops that their offset hurts go before all others. With weights, the order is
    by the share of all cycles that the best offset would save, then by share. Among equal losses
    the larger relative loss is first; loops without a figure are last.
    """
    keyed = []
    for number, on_core in enumerate(costs):
        for loop, (cycles, best) in enumerate(zip(on_core.cycles, on_core.best, strict=True)):
            share = weights.shares[loop] if weights else 0.0
            lost = cycles - best
            saved = share * lost / cycles
            after = hurt_first and not weights and not on_core.hurt[loop]
            losses = (-saved, -share, -lost, -lost / best)
            order = tuple(inf if isnan(loss) else loss for loss in losses)
            keyed.append((after, order, Ranked(loop, number)))
    return [rank for *_, rank in sorted(keyed)]


def _rounded(value: float) -> float | None:
    return None if isnan(value) else round(value, 3)


def limits(
    loops: Sequence[ScannedLoop], costs: Sequence[CoreCosts], shown: Sequence[Ranked]
) -> dict[Ranked, str]:
    """Return the limits of loops on cores, at their own offset.

    A dependency chain names instructions by their number in the order of execution.
    """
    out = {}
    for number, on_core in enumerate(costs):
        ranks = [r for r in shown if r.core == number and r.loop not in on_core.errors]
        blocks = [(loop.code, loop.offset, loop.path) for loop in (loops[r.loop] for r in ranks)]
        vendor_names = core_figures.vendor_port_names(on_core.core)
        for rank, row in zip(ranks, Pipeline().along(blocks, on_core.core), strict=True):
            renamed = partial(_with_vendor_names, vendor_names)
            out[rank] = _PORTS.sub(renamed, str(row["bottleneck"]))
    return out


_PORTS = re.compile(r"\bports? \w(?:, \w)*(?: and \w\b)?")  # of the simulator, by their letters


def _with_vendor_names(vendor_names: Mapping[str, str], ports: re.Match[str]) -> str:
    return re.sub(r"\b\w\b", lambda letter: vendor_names.get(letter[0], letter[0]), ports[0])


def scan_summary(costs: Sequence[CoreCosts]) -> list[dict[str, int]]:
    """Return for each core the numbers of loops with figures, dependent on offset, and hurt."""
    return [
        {
            "loops": sum(not isnan(best) for best in on_core.best),
            "depends": sum(on_core.depends),
            "hurt": sum(on_core.hurt),
        }
        for on_core in costs
    ]


@dataclass
class Question:
    """The subject of a scan; loopwright.scan describes each field."""

    file: Path | str
    _: KW_ONLY
    microarch: str | None = None
    symbols: Path | str | None = None
    features: str | None = None
    profile: Path | str | None = None
    top: int | None = None
    hurt: bool = True
    progress: Progress | None = None


@dataclass(frozen=True)
class Scan:
    """A file, its loops, and their costs on each core."""

    image: Image
    found: FoundLoops
    costs: list[CoreCosts]
    weights: Weights | None = None
    hurt_first: bool = True
    _fixes: dict[int, Fix] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def ranking(self) -> list[Ranked]:
        """Each loop on each core, ranked."""
        return ranked(self.costs, self.weights, hurt_first=self.hurt_first)

    @cached_property
    def source(self) -> SourceLines:
        """The source lines of the file."""
        return SourceLines(self.image)

    @cached_property
    def found_fixes(self) -> list[Fix]:
        """The fix of each loop, for all cores together."""
        numbers = range(len(self.found.loops))
        by_number = self._fixes_of(numbers)
        return [by_number[n] for n in numbers]

    def _fixes_of(self, numbers: Collection[int]) -> Mapping[int, Fix]:
        """Return the fixes of at least these loops, by their numbers."""
        if missing := frozenset(numbers) - self._fixes.keys():
            alignments = costs.start_alignments(self.image)
            all_fixes = fixes.find_fixes(
                self.found.loops, self.costs, alignments, self.source.of, only=missing
            )
            self._fixes.update((n, all_fixes[n]) for n in missing)
        return self._fixes

    def how(self, number: int, fix: Fix) -> str:
        """Return a description of a loop's fix, "" if it needs none."""
        loop = self.found.loops[number]
        if fix.words in ("", NOT_NEEDED):
            return ""
        loop_count = self._loop_counts[loop.file, loop.section, loop.address - loop.into]
        loop = replace(loop, line=self.source.of(loop))
        return fixes.fix_text(fix, loop, loop_count, self._before(loop))

    @cached_property
    def _loop_counts(self) -> Counter[tuple[str, str, int]]:
        """The number of loops of each routine, by the routine's address."""
        return Counter((x.file, x.section, x.address - x.into) for x in self.found.loops)

    def _before(self, loop: ScannedLoop) -> bytes:
        """Return the code of a loop's routine before the loop."""
        section = section_of(self.image.sections, loop)
        return section.bytes_of(max(loop.address - loop.into, section.address), loop.address)

    def rows(self, top: int | None = None) -> Rows:
        """Return the first rows of the rank, or all of them.

        Limits are named for all of the first rows, but where all rows are asked for, only for hurt
        loops.
        """
        ranks = self.ranking[:top]
        with_limit = [r for r in ranks if top is not None or self.costs[r.core].hurt[r.loop]]
        limit_of = limits(self.found.loops, self.costs, with_limit)
        fix_of = self._fixes_of({rank.loop for rank in ranks})
        values = [self._row(r, limit_of.get(r, ""), fix_of[r.loop]) for r in ranks]
        return Rows(COLUMNS, values, TYPES)

    def _row(self, rank: Ranked, limit: str, fix: Fix) -> tuple[object, ...]:
        """Return the values of COLUMNS for a loop on a core."""
        loop, on_core = self.found.loops[rank.loop], self.costs[rank.core]
        columns = on_core.cycles, on_core.best, on_core.worst
        here, best, worst = (_rounded(column[rank.loop]) for column in columns)
        crossed_boundary = boundary(loop, on_core.table[rank.loop]) if here is not None else None
        lost = None if here is None or best is None else round(here - best, 3)
        share = self.weights.shares[rank.loop] if self.weights else None
        saved = None if share is None or lost is None or not here else share * lost / here
        return (
            loop.file,
            loop.section,
            f"{loop.address:#x}",
            loop.function,
            loop.into,
            self.source.of(loop),
            loop.offset,
            on_core.core.id,
            here,
            best,
            worst,
            lost,
            None if here is None or not best else round(here / best, 3),
            None if share is None else round(share, 4),
            None if saved is None else round(saved, 4),
            self.weights.of(rank.loop) if self.weights else "",
            limit,
            crossed_boundary.size if crossed_boundary else None,
            crossed_boundary.crossed if crossed_boundary else "",
            fix.words,
            self.how(rank.loop, fix),
            loop.length,
            " ".join(f"{start:#x}-{end:#x}" for start, end in loop.path),
            " ".join(f"{at:#x}" for at in loop.exits),
            on_core.errors.get(rank.loop, ""),
        )

    def summary(self) -> Iterator[str]:
        """Yield lines of text on the loops found, those left out, and their costs on each core."""
        found, image = self.found, self.image
        code = sum(len(section.code) for section in image.sections)
        names = f"names from {image.named}" if image.named else "no names: it has no symbols"
        yield f"{image.path}: {code:,} bytes of code for {image.isa}, {names}"
        yield (
            f"{counted(found.innermost, 'innermost loop')}: {len(found.loops):,} without calls, "
            f"{counted(found.calling, 'that calls', 'that call')} (left out)"
        )
        for why, count in found.refused.most_common():
            yield f"  {count:,} left out: {why}"
        if found.outer:
            hold = counted(found.outer, "loop holds others and is", "loops hold others and are")
            yield f"{hold} left out"
        if found.lost:
            lost = "byte of code is not an instruction", "bytes of code are no instructions"
            yield counted(found.lost, *lost)
        yield image.alternatives.summary
        if self.weights:
            loops = [s for n, s in enumerate(self.weights.shares) if n not in self.weights.whole]
            yield f"{sum(loops):.1f} % of all cycles of the profile are spent in these loops"
        for on_core, counts in zip(self.costs, scan_summary(self.costs), strict=True):
            hurt = "is hurt by its" if counts["hurt"] == 1 else "are hurt by their"
            yield (
                f"{hosts.marked(on_core.core.id)}: "
                f"{counts['hurt']:,} of {counts['loops']:,} {hurt} "
                f"code offset ({HURT} times the best or more), "
                f"{counted(counts['depends'], 'depends', 'depend')} on it "
                f"({INDIFFERENT} times from best to worst)"
            )
            yield from _refused(on_core)


def _refused(on_core: CoreCosts) -> Iterator[str]:
    """Yield a line with the most frequent reasons for missing figures on a core, if any."""
    most = 4
    reasons = Counter(on_core.errors.values()).most_common()
    if reasons:
        listed = [f"{count} {why}" for why, count in reasons[:most]]
        others = [counted(len(reasons) - most, "other reason")] if len(reasons) > most else []
        none = counted(len(on_core.errors), "has no figures", "have no figures")
        yield f"  {none}: {'; '.join((*listed, *others))}"


def scanned(question: Question) -> Scan:
    """Return the scan that a question asks for."""
    features = _feature_names(question.features)
    symbols = Path(question.symbols) if question.symbols is not None else None
    image = images.read_image(Path(question.file), symbols, features)
    cores = hosts.cores(question.microarch, image.isa)
    found = find_loops(image)
    weights = None
    if question.profile is not None:
        weights = read_weights(Path(question.profile), image, found.loops)
    return Scan(image, found, cost(found.loops, cores, question.progress), weights, question.hurt)


def answer(question: Question) -> Rows:
    """Find all innermost loops of a binary, and predict each at every code offset.

    file is a kernel (vmlinux, vmlinuz, an arm64 Image), a module, an object or an archive of them,
    a shared library or a program, also packed; symbols a System.map or the text of /proc/kallsyms,
    for its names. features, "erms,smap", have those alternatives of a kernel applied that it would
    patch into its text on a CPU with just these; left out, text is as linked. microarch is
    "ID[,ID]" or "all", with "host" for this machine's core; left out, the targets of the code's ISA
    and this machine's core. profile is the output of perf script, perf report --sort symbol,srcline
    or bpftrace for this build, or a perf.data: rows are then ranked by the share of all cycles that
    the best offset would save. top is the number of rows; left out, all. hurt puts loops that their
    offset hurts first, else the order is by lost cycles alone.

    Returns a row for each loop and core, those with the largest loss of cycles first: file (in an
    archive), section, address, function, into (offset in it), line, offset (bytes mod 64),
    microarch, cycles (an iteration along the likely path, data in the L1 cache), best and worst
    (over all offsets in a line), lost (cycles - best), times (cycles / best); share (of all cycles
    of a profile, in percent), saved (at its best offset, in percent of all cycles) and share_of
    ("loop", or "routine" where the profile has only the routine: an upper bound); limit (its limit
    at its own offset, for hurt loops, and for all where top is given), boundary (bytes, if one
    hurts it) and crossed (the part of the loop that crosses it), fix (the smallest change that
    helps on all cores and slows none of them by more than 1 %: "not needed" where none is hurt,
    "none" where none helps), how (the fix in full: the text to write, or the compiler's option,
    with its cost and gain), bytes (from its first to its last), path (the stretches of it that an
    iteration executes), exits (addresses of conditional branches that stay on the path) and error
    (the reason for no figure).

    >>> import sys
    >>> import loopwright as lw
    >>> loops = lw.scan(sys.executable, top=1)
    >>> bool((loops["worst"] >= loops["best"]).all())
    True
    """
    return scanned(question).rows(question.top)


scan = as_frame("scan", Question, answer)


def _feature_names(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    names = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    if not names:
        raise InputError("--features names none; give them as erms,smap or leave it out")
    return names
