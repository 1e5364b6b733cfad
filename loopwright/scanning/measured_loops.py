"""Measurements of a scan's loops on this host, at their own and at their best offset."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright import microarchs, toolchain
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import block, measure_blocks
from loopwright.measuring.block import Block
from loopwright.measuring.measure import Progress
from loopwright.rows import counted
from loopwright.scanning import scan as scan_module
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.costs import CoreCosts, best_offset, cost
from loopwright.scanning.scan import Scan

OFFSET_COLUMNS = [
    "loop", "address", "function", "offset", "cycles", "uncertainty", "processes", "status",
    "reason", "clock", "microarch", "machine", "note",
]  # fmt: skip


def measure_loops(
    loops: Sequence[ScannedLoop],
    offsets: Sequence[Sequence[int]],
    *,
    progress: Progress | None = None,
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
    wanted = [(n, offset) for n, several in enumerate(offsets) for offset in several]
    if wrong := [offset for _, offset in wanted if offset not in range(64)]:
        raise InputError(f"code offset {wrong[0]} is not in 0..63")
    blocks = [_block(n, loops[n], offset) for n, offset in wanted]
    rows = measure_blocks.measure_in_turns(
        toolchain.host_isa(), blocks, measure_blocks.TURNS, progress
    )
    for (n, _), row in zip(wanted, rows, strict=True):
        row.update(loop=n, address=loops[n].address, function=loops[n].where)
    return pd.DataFrame(rows, columns=OFFSET_COLUMNS)


def _block(number: int, loop: ScannedLoop, offset: int) -> Block:
    host = toolchain.host_isa()
    if loop.isa != host:
        why = f"it is code of {loop.isa}, and this machine runs {host}"
        return Block(str(number), "loop", offset, loop.code, refused=why)
    if loop.split:
        why = "its parts lie more than 64 KiB apart"
        return Block(str(number), "loop", offset, b"", refused=why)
    return block.of_code(str(number), loop.code, offset, loop.isa, "loop", loop.path)


CONFIRMED = 1.2  # least measured ratio of cycles to those at the best offset of a hurt loop

COLUMNS = [
    "address", "function", "offset", "best_offset", "microarch", "cycles", "best", "times",
    "measured", "measured_best", "measured_times", "uncertainty", "status", "reason", "note",
]  # fmt: skip


def measure_suspects(scan: Scan, count: int, *, progress: Progress | None = None) -> pd.DataFrame:
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
    costs = _costs(scan)
    hurt = [one.loop for one in scan_module.ranked([costs]) if costs.hurt[one.loop]][:count]
    loops = [scan.found.loops[n] for n in hurt]
    best = [best_offset(costs.table[n]) for n in hurt]
    offsets = [[loop.offset, at] for loop, at in zip(loops, best, strict=True)]
    table = measure_loops(loops, offsets, progress=progress)
    rows = []
    for n, (number, loop, at) in enumerate(zip(hurt, loops, best, strict=True)):
        here, there = table[table["loop"] == n].to_dict("records")
        cycles, least = costs.cycles[number], costs.best[number]
        rows.append(
            {
                "address": f"{loop.address:#x}",
                "function": loop.where,
                "offset": loop.offset,
                "best_offset": at,
                "microarch": costs.core.id,
                "cycles": cycles,
                "best": least,
                "times": cycles / least,
                **_both(here, there),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


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


def _costs(scan: Scan) -> CoreCosts:
    """Return the cycles of loops on this host's core, which the scan may have left out."""
    host = hosts.microarch()
    if host is None:
        raise InputError("this machine's core is none of `loopwright list microarchs`")
    for costs in scan.costs:
        if costs.core.id == host:
            return costs
    return cost(scan.found.loops, [microarchs.load(host)])[0]


def _both(own: Mapping[Any, Any], best: Mapping[Any, Any]) -> dict[str, Any]:
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
