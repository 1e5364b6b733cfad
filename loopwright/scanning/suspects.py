"""Suspects of a scan: measured at their own and their best offset, searched for faster code."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from loopwright import microarchs, toolchain
from loopwright.code import loops
from loopwright.code.instructions import decode
from loopwright.errors import InputError
from loopwright.improving.loops import Improved, LoopsQuestion, improve_loop
from loopwright.improving.search import Progress, Settings
from loopwright.machine import hosts
from loopwright.measuring import block, measure, measure_blocks
from loopwright.measuring.block import Block
from loopwright.rows import Rows, counted
from loopwright.scanning.binary_loops import SPLIT, ScannedLoop, section_of
from loopwright.scanning.costs import CoreCosts, best_offset, cost
from loopwright.scanning.scan import Scan, ranked

OFFSET_COLUMNS = [
    "loop", "address", "function", "offset", "cycles", "uncertainty", "processes", "status",
    "reason", "clock", "microarch", "machine", "note",
]  # fmt: skip


def measure_loops(
    loops: Sequence[ScannedLoop],
    offsets: Sequence[Sequence[int]],
    *,
    progress: measure.Progress | None = None,
) -> pd.DataFrame:
    """Measure each loop at its code offsets (0 to 63): a row for each pair.

    loop is the number of the loop. cycles are those of an iteration on its likely path, with their
    uncertainty; a row with status "refused" has a reason instead, such as an exit that is taken
    whatever the initial registers and memory. note names the instructions replaced to end the loop,
    and other caveats of the figure. progress is called with the number of measurements done and of
    all. InputError if there is not a list of offsets for each loop, or one is not in 0 to 63.
    """
    if len(loops) != len(offsets):
        raise InputError(
            f"{len(loops)} loops have {len(offsets)} lists of code offsets; give one each"
        )
    placed = [(n, offset) for n, loop_offsets in enumerate(offsets) for offset in loop_offsets]
    if wrong := [offset for _, offset in placed if offset not in range(64)]:
        raise InputError(f"code offset {wrong[0]} is not in 0..63")
    blocks = [_block(n, loops[n], offset) for n, offset in placed]
    rows = measure_blocks.measure_in_turns(
        toolchain.host_isa(), blocks, measure_blocks.TURNS, progress
    )
    for (n, _), row in zip(placed, rows, strict=True):
        row.update(loop=n, address=loops[n].address, function=loops[n].where)
    return pd.DataFrame(rows, columns=OFFSET_COLUMNS)


def _block(number: int, loop: ScannedLoop, offset: int) -> Block:
    host = toolchain.host_isa()
    if loop.isa != host:
        why = f"it is code of {loop.isa}, and this machine runs {host}"
        return Block(str(number), "loop", offset, loop.code, refused=why)
    if loop.split:
        return Block(str(number), "loop", offset, b"", refused=SPLIT)
    return block.of_code(str(number), loop.code, offset, loop.isa, "loop", loop.path)


CONFIRMED = 1.2  # least measured ratio of cycles to those at the best offset of a hurt loop

MEASURED_COLUMNS = [
    "address", "function", "offset", "best_offset", "microarch", "cycles", "best", "times",
    "measured", "measured_best", "measured_times", "uncertainty", "status", "reason", "note",
]  # fmt: skip


def measure_suspects(
    scan: Scan, count: int, *, progress: measure.Progress | None = None
) -> pd.DataFrame:
    """Measure the loops of a scan that lose most on this host, at their own and their best offset.

    A row each, in the order of the rank: cycles, best and times as predicted for this host's core;
    measured and measured_best (cycles an iteration), measured_times with its uncertainty; status
    "ok", "bimodal" or "refused" with a reason; note names the instructions replaced to end the
    loop. InputError if this host cannot run the code, or its core is unknown.
    """
    if scan.image.isa != toolchain.host_isa():
        host = toolchain.host_isa()
        raise InputError(
            f"{scan.image.path} is code of {scan.image.isa}, and this machine runs {host}: measure "
            "it there"
        )
    costs = _host_costs(scan)
    hurt = [rank.loop for rank in ranked([costs]) if costs.hurt[rank.loop]][:count]
    loops = [scan.found.loops[n] for n in hurt]
    best = [best_offset(costs.table[n]) for n in hurt]
    offsets = [[loop.offset, at] for loop, at in zip(loops, best, strict=True)]
    table = measure_loops(loops, offsets, progress=progress)
    rows = []
    for n, (number, loop, at) in enumerate(zip(hurt, loops, best, strict=True)):
        own_row, best_row = table[table["loop"] == n].to_dict("records")
        cycles, best_cycles = costs.cycles[number], costs.best[number]
        rows.append(
            {
                "address": f"{loop.address:#x}",
                "function": loop.where,
                "offset": loop.offset,
                "best_offset": at,
                "microarch": costs.core.id,
                "cycles": cycles,
                "best": best_cycles,
                "times": cycles / best_cycles,
                **_joined(own_row, best_row),
            }
        )
    return pd.DataFrame(rows, columns=MEASURED_COLUMNS)


def measured_summary(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the summary of measuring: counts of hurt loops, and reasons for missing figures."""
    figures = rows[rows["measured_times"].notna()]
    confirmed = int((figures["measured_times"] >= CONFIRMED).sum())
    yield (
        f"measured here: {len(figures)} of {counted(len(rows), 'suspect')}, of which "
        f"{counted(confirmed, 'takes', 'take')} {CONFIRMED} times as long as at the best "
        "code offset, or more"
    )
    refused = rows[rows["status"] == "refused"]["reason"]
    for why, count in refused.str.split(r": | at \+").str[0].value_counts().items():
        yield f"  {count} not measured: {why}"


def _host_costs(scan: Scan) -> CoreCosts:
    """Return the cycles of loops on this host's core, which the scan may have left out."""
    host = hosts.microarch()
    if host is None:
        raise InputError("this machine's core is none of `loopwright list microarchs`")
    for costs in scan.costs:
        if costs.core.id == host:
            return costs
    return cost(scan.found.loops, [microarchs.load(host)])[0]


def _joined(own: Mapping[Any, Any], best: Mapping[Any, Any]) -> dict[str, Any]:
    """Join the measurements at both offsets."""
    pair = (own, best)
    times = own["cycles"] / best["cycles"]
    share = sum(row["uncertainty"] / row["cycles"] for row in pair)
    states = [row["status"] for row in pair]
    return {
        "measured": own["cycles"],
        "measured_best": best["cycles"],
        "measured_times": times,
        "uncertainty": times * share,
        "status": next((s for s in ("refused", "bimodal") if s in states), "ok"),
        "reason": own["reason"] or best["reason"],
        "note": own["note"] or best["note"],
    }


IMPROVED_COLUMNS = (
    "file", "address", "function", "into", "line", "share", "candidate", "transformations",
    "microarch", "cycles", "improved", "gain", "saved", "bytes", "bytes_before", "status", "proof",
    "measured_gain", "uncertainty", "note", "diff",
)  # fmt: skip
_FLOAT_COLUMNS = ("share", "cycles", "improved", "gain", "saved", "measured_gain", "uncertainty")
_TYPES = dict.fromkeys(_FLOAT_COLUMNS, "float64")
_SHOWN_CANDIDATES = 2
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
    here = any(on_core.core.id == hosts.microarch() for on_core in scan.costs)
    question = LoopsQuestion(measured=measured and here, settings=_SEARCH, shown=_SHOWN_CANDIDATES)
    out = ImprovedLoops(Rows(IMPROVED_COLUMNS, [], _TYPES))
    suspects = _suspects(scan)[:count]
    for n in suspects:
        loop = scan.found.loops[n]

        def step(_done: int, _total: int | None, activity: str, where: str = loop.where) -> None:
            if progress:
                progress(out.looked_at, len(suspects), f"{where}: {activity}")

        out.looked_at += 1
        try:
            improved = _improved(scan, n, question, step)
            if question.measured and not improved.search.interrupted:
                improved.measure(step)
        except InputError as error:
            reason = str(error).removeprefix(loop.where).removeprefix(": ")
            out.notes.append(f"{loop.where}: left alone: {reason.strip()}")
            continue
        kept = [label for label in improved.named if improved.status[label] != "withdrawn"]
        out.found += bool(kept)
        out.rows.values.extend(_rows(scan, n, improved))
        out.notes += [
            f"{loop.where}: withdrawn: {improved.notes[x]}" for x in improved.named if x not in kept
        ]
        if not improved.named:
            out.notes.append(f"{loop.where}: {_why_nothing(improved)}")
        out.interrupted = improved.search.interrupted
        if out.interrupted:
            break
    return out


def _suspects(scan: Scan) -> list[int]:
    """Return the numbers of loops by their share of a profile, else by the scan's rank."""
    if scan.weights:
        shares = scan.weights.shares
        return sorted((n for n, share in enumerate(shares) if share), key=lambda n: -shares[n])
    return list(dict.fromkeys(rank.loop for rank in scan.ranking))


def _improved(scan: Scan, number: int, question: LoopsQuestion, progress: Progress) -> Improved:
    """Return the candidates for a loop on the cores that have figures for it."""
    loop = scan.found.loops[number]
    cores = [costs.core for costs in scan.costs if number not in costs.errors]
    if not cores:
        raise InputError(next(costs.errors[number] for costs in scan.costs))
    if loop.split:
        raise InputError(SPLIT)
    section = section_of(scan.image.sections, loop)
    first = loop.address - section.address
    piece = loops.of_path(section, [(first + start, first + end) for start, end in loop.path])
    if piece.error and len(loop.path) > 1:
        raise InputError(f"its likely path runs through {len(loop.path)} pieces of code")
    return improve_loop(section, replace(piece, id=loop.where), cores, question, progress)


def _why_nothing(improved: Improved) -> str:
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
