"""Faster code for loops of a scan that are hot or hurt by their offset, with a diff for each."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from loopwright.code import pieces
from loopwright.code.instructions import decode
from loopwright.errors import InputError
from loopwright.improving.loops import Improved, LoopsQuestion, Progress, improve_loop
from loopwright.improving.search import Settings
from loopwright.machine import hosts
from loopwright.rows import Rows, counted
from loopwright.scanning.binary_loops import ScannedLoop, section_of
from loopwright.scanning.scan import Scan

COLUMNS = (
    "file", "address", "function", "into", "line", "share", "candidate", "transformations",
    "microarch", "cycles", "improved", "gain", "saved", "bytes", "bytes_before", "status", "proof",
    "measured_gain", "uncertainty", "note", "diff",
)  # fmt: skip
_FIGURES = ("share", "cycles", "improved", "gain", "saved", "measured_gain", "uncertainty")
_TYPES = dict.fromkeys(_FIGURES, "float64")
_SHOWN = 2
_SEARCH = Settings(depth=4, tried=160)


@dataclass
class ImprovedLoops:
    """The loops searched: rows of candidates, and the reasons for loops without one.

    A row is a candidate on a core: cycles of an iteration before (cycles) and after (improved), the
    gain, and with a profile the percent of all its cycles that it saves. status is "proven",
    "measured" or "withdrawn", as in improve. diff is one of the loop's assembly, with the source
    line of each instruction, or the new assembly alone where no line is known.
    """

    rows: Rows
    looked_at: int = 0
    found: int = 0
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def summary(self) -> Iterator[str]:
        """Yield the number of improved loops, and the reasons for the others, in words."""
        looked = counted(self.looked_at, "loop")
        more = "; interrupted: the others were not looked at" if self.interrupted else ""
        yield f"{looked} looked at, {self.found} with a faster candidate{more}"
        yield from self.notes


def improve_suspects(
    scan: Scan, count: int, *, measured: bool = True, progress: Progress | None = None
) -> ImprovedLoops:
    """Search faster code for the hottest loops of a profile, else for the first of the rank.

    The two best candidates of each are shown. With measured they are measured alternately with the
    loop, if the scan includes this machine's core.
    """
    here = any(improved.core.id == hosts.microarch() for improved in scan.costs)
    asked = LoopsQuestion(measured=measured and here, settings=_SEARCH, shown=_SHOWN)
    out = ImprovedLoops(Rows(COLUMNS, [], _TYPES))
    suspects = _suspects(scan)[:count]
    for n in suspects:
        loop = scan.found.loops[n]

        def step(_done: int, _total: int | None, activity: str, where: str = loop.where) -> None:
            if progress:
                progress(out.looked_at, len(suspects), f"{where}: {activity}")

        out.looked_at += 1
        try:
            improved = _improved(scan, n, asked, step)
            if asked.measured and not improved.search.interrupted:
                improved.measure(step)
        except InputError as error:
            out.notes.append(f"{loop.where}: left alone: {_without(str(error), loop.where)}")
            continue
        kept = [label for label in improved.named if improved.status[label] != "withdrawn"]
        out.found += bool(kept)
        out.rows.values.extend(_rows(scan, n, improved))
        out.notes += [
            f"{loop.where}: withdrawn: {improved.notes[x]}" for x in improved.named if x not in kept
        ]
        if not improved.named:
            out.notes.append(f"{loop.where}: {_nothing(improved)}")
        out.interrupted = improved.search.interrupted
        if out.interrupted:
            break
    return out


def _suspects(scan: Scan) -> list[int]:
    """Return the numbers of loops by their share of a profile, else by the scan's rank."""
    if scan.weights:
        shares = scan.weights.shares
        return sorted((n for n, share in enumerate(shares) if share), key=lambda n: -shares[n])
    return list(dict.fromkeys(one.loop for one in scan.ranking))


def _improved(scan: Scan, number: int, asked: LoopsQuestion, progress: Progress) -> Improved:
    """Return the candidates for a loop on the cores that have figures for it."""
    loop = scan.found.loops[number]
    cores = [costs.core for costs in scan.costs if number not in costs.errors]
    if not cores:
        raise InputError(next(costs.errors[number] for costs in scan.costs))
    if loop.split:
        raise InputError("its parts lie more than 64 KiB apart")
    section = section_of(scan.image.sections, loop)
    first = loop.address - section.address
    piece = pieces.of_path(section, [(first + start, first + end) for start, end in loop.path])
    if piece.error and len(loop.path) > 1:
        raise InputError(f"its likely path runs through {len(loop.path)} pieces of code")
    return improve_loop(section, replace(piece, id=loop.where), cores, asked, progress)


def _without(text: str, where: str) -> str:
    return text.removeprefix(f"{where}: ").removeprefix(where).strip()


def _nothing(improved: Improved) -> str:
    """Return the reason why a loop has no candidate."""
    if improved.refused:
        return f"no candidate: {improved.refused[0]}"
    core = improved.comparison.cores[0]
    return (
        f"nothing better found; on {core.id} bound by {improved.bound(improved.search.base, core)}"
    )


def _rows(scan: Scan, number: int, improved: Improved) -> Iterator[tuple[Any, ...]]:
    loop = scan.found.loops[number]
    share = scan.weights.shares[number] if scan.weights else None
    line = scan.source.of(loop)
    before = improved.search.base
    for n, (label, candidate) in enumerate(improved.named.items(), 1):
        ratio, error = improved.measured.get(label, (None, None))
        diff = _diff(scan, loop, improved, label)
        for core in improved.comparison.cores:
            old, new = before.costs[core.id].mean, candidate.costs[core.id].mean
            yield (
                loop.file,
                f"{loop.address:#x}",
                loop.function,
                loop.into,
                line,
                None if share is None else round(share, 4),
                n,
                "; ".join(candidate.listing.steps),
                core.id,
                round(old, 3),
                round(new, 3),
                round(old / new, 3),
                None if share is None else round(share * (1 - new / old), 4),
                candidate.bytes,
                before.bytes,
                improved.status[label],
                str(improved.proofs[label]),
                ratio,
                error,
                improved.notes[label],
                diff,
            )


def _diff(scan: Scan, loop: ScannedLoop, improved: Improved, label: str) -> str:
    """Return a candidate as a diff where the loop's source lines are known, else as text."""
    code = decode(loop.isa, improved.comparison.bare.code, loop.address)
    lines = [scan.source.at(loop, ins.address) for ins in code]
    if not any(lines):
        return improved.text(label)
    return improved.diff(label, f"a/{lines[0]} {loop.where}", f"b/{lines[0]}", lines)
