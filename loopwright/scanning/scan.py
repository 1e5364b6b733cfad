"""Scan a binary: its loops, what each costs where it lies, and which of them their place hurts."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.rows import Rows, as_frame
from loopwright.scanning import images, mend_text, mends, rank, starts
from loopwright.scanning.costs import HURT, INDIFFERENT, CoreCosts, Progress, cost
from loopwright.scanning.find import find
from loopwright.scanning.found import Found, ScannedLoop
from loopwright.scanning.images import Image
from loopwright.scanning.mends import NEVER_MIND, Mend
from loopwright.scanning.source_lines import SourceLines
from loopwright.scanning.weights import Weights, read
from loopwright.scanning.words import counted


@dataclass
class Question:
    """What is scanned; loopwright.scan says what each field is."""

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
    """A file, the loops in it, and what they cost on each core."""

    image: Image
    found: Found
    costs: list[CoreCosts]
    weights: Weights | None = None
    hurt_first: bool = True
    _mends: dict[int, Mend] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def places(self) -> list[rank.Place]:
        """Return each loop on each core, ranked."""
        return rank.ranked(self.costs, self.weights, hurt_first=self.hurt_first)

    @cached_property
    def source(self) -> SourceLines:
        """Return what says where in the source a loop is."""
        return SourceLines(self.image)

    @cached_property
    def mends(self) -> list[Mend]:
        """Return what is to be done about each loop, for all cores together."""
        numbers = range(len(self.found.loops))
        made = self._mended(numbers)
        return [made[n] for n in numbers]

    def _mended(self, numbers: Collection[int]) -> Mapping[int, Mend]:
        """Return by their numbers at least those of some loops."""
        if missing := frozenset(numbers) - self._mends.keys():
            known = starts.of_image(self.image)
            found = mends.mends(self.found.loops, self.costs, known, self.source.of, only=missing)
            self._mends.update((n, found[n]) for n in missing)
        return self._mends

    def how(self, number: int, mend: Mend) -> str:
        """Say at length what is to be done about a loop by its mend, "" where nothing is."""
        loop = self.found.loops[number]
        if mend.words in ("", NEVER_MIND):
            return ""
        alike = self._routines[loop.file, loop.section, loop.address - loop.into]
        loop = replace(loop, line=self.source.of(loop))
        return mend_text.text(mend, loop, alike, self._before(loop))

    @cached_property
    def _routines(self) -> Counter[tuple[str, str, int]]:
        """Count the loops of each routine, by where it begins."""
        return Counter((x.file, x.section, x.address - x.into) for x in self.found.loops)

    def _before(self, loop: ScannedLoop) -> bytes:
        """Return the code of a loop's routine that stands before it."""
        start = loop.address - loop.into
        for section in self.image.sections:
            inside = section.address <= start and loop.end <= section.end
            if inside and (section.file, section.name) == (loop.file, loop.section):
                return section.bytes_of(start, loop.address)
        return b""

    def rows(self, top: int | None = None) -> Rows:
        """Return the first rows of the rank, or all of them.

        What limits a loop is named where only some are asked for, and else of those that are hurt.
        """
        chosen = self.places[:top]
        hurt = [core.hurt for core in self.costs]
        made = self._mended({place.loop for place in chosen})
        return rank.rows(
            self.found.loops,
            self.costs,
            chosen,
            limited=lambda p: top is not None or bool(hurt[p.core][p.loop]),
            lines=self.source.of,
            mend=lambda n: (made[n].words, self.how(n, made[n])),
            weights=self.weights,
        )

    def summary(self) -> Iterator[str]:
        """Yield sentences that say what was found and what was left out."""
        found, image = self.found, self.image
        code = sum(len(section.code) for section in image.sections)
        names = f"names from {image.named}" if image.named else "no names: it has no symbols"
        yield f"{image.path}: {code / 1e6:.2f} MB of code for {image.isa}, {names}"
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
            lost = "byte of code is no instruction", "bytes of code are no instructions"
            yield counted(found.lost, *lost)
        yield image.alternatives.said
        if self.weights:
            loops = [s for n, s in enumerate(self.weights.shares) if n not in self.weights.whole]
            yield f"{sum(loops):.1f} % of all cycles of the profile are spent in these loops"
        for core, counts in zip(self.costs, rank.summary(self.costs), strict=True):
            hurt = "is hurt by its" if counts["hurt"] == 1 else "are hurt by their"
            yield (
                f"{core.core.id}: {counts['hurt']:,} of {counts['loops']:,} {hurt} code offset "
                f"({HURT} times the best or more), "
                f"{counted(counts['depends'], 'depends', 'depend')} on it "
                f"({INDIFFERENT} times from best to worst)"
            )
            yield from _refused(core)


def _refused(core: CoreCosts) -> Iterator[str]:
    """Yield why loops have no figures on a core, the most frequent reasons first."""
    most = 4
    reasons = Counter(core.errors.values()).most_common()
    if reasons:
        shown = [f"{count} {why}" for why, count in reasons[:most]]
        more = [counted(len(reasons) - most, "other reason")] if len(reasons) > most else []
        none = counted(len(core.errors), "has no figures", "have no figures")
        yield f"  {none}: {'; '.join((*shown, *more))}"


def scanned(asked: Question) -> Scan:
    """Return what answer makes rows of."""
    chosen = _features(asked.features)
    symbols = Path(asked.symbols) if asked.symbols is not None else None
    image = images.read(Path(asked.file), symbols, chosen)
    cores = hosts.cores(asked.microarch, image.isa)
    found = find(image)
    weights = read(Path(asked.profile), image, found.loops) if asked.profile is not None else None
    return Scan(image, found, cost(found.loops, cores, asked.progress), weights, asked.hurt)


def answer(asked: Question) -> Rows:
    """Find all innermost loops of a binary, and predict each at its code offset and at all others.

    file is a kernel (vmlinux, vmlinuz, an arm64 Image), a module, an object or an archive of them,
    a shared library or a program, also packed; symbols a System.map or what /proc/kallsyms shows,
    for its names. features, "erms,smap", have those alternatives of a kernel applied that it would
    patch into its text on a CPU with just these; left out, text is as it was linked. microarch is
    "ID[,ID]" or "all", with "host" for this machine's core; left out, the targets of the code's ISA
    and this machine's core. profile is what perf script, perf report --sort symbol,srcline or
    bpftrace print of this build, or a perf.data: rows are then ranked by the share of all cycles
    that the best offset would save. top is how many rows; left out, all. hurt puts loops that their
    offset hurts first, else the order is by lost cycles alone.

    Returns a row for each loop and core, those first that lose most cycles an iteration: file (in
    an archive), section, address, function, into (bytes behind its start), line, offset (bytes mod
    64), microarch, cycles (an iteration along the likely path, data in the L1 cache), best and
    worst (at any other offset in a line), lost (cycles - best), times (cycles / best); share (of
    all cycles of a profile, in percent), saved (at its best offset, in percent of all cycles) and
    share_of ("loop", or "routine" where the profile knows no more: at most so much); limit (what
    limits it here, named of hurt loops, and of all where top is given), boundary (bytes, where one
    hurts it) and crossed (what of the loop crosses it), fix (the smallest change that helps on all
    cores asked for and costs none of them more than 1 %: "not needed" where none is hurt, "none"
    where none helps), how (that at length: what to write, or to tell a compiler, and what it costs
    and brings), bytes (from its first to its last), path
    (the stretches of it that an iteration executes), exits (addresses of conditional branches that
    are taken to stay on it) and error (why there is no figure).
    """
    return scanned(asked).rows(asked.top)


scan = as_frame("scan", Question, answer)


def _features(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    names = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    if not names:
        raise InputError("--features names none; give them as erms,smap or leave it out")
    return names
