"""A scan, or what changed between two builds, as one HTML page that needs no network."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import origin
from loopwright.reporting.page.grid import Grid
from loopwright.reporting.page.made import made
from loopwright.reporting.scan_page import details
from loopwright.reporting.scan_page.asked import command
from loopwright.reporting.scan_page.between import changes
from loopwright.reporting.scan_page.first import grid
from loopwright.reporting.scan_page.side import Side
from loopwright.reporting.scan_page.words import Words
from loopwright.scanning import builds
from loopwright.scanning.builds import CHANGES, Between
from loopwright.scanning.costs import HURT, INDIFFERENT
from loopwright.scanning.scan import Scan
from loopwright.version import VERSION

__all__ = ["command", "of_builds", "of_scan"]

_LOOKS = {
    builds.HURT: "loud", builds.SLOWER: "loud", builds.MENDED: "good", builds.FASTER: "good",
    builds.SAME: "faint", builds.UNKNOWN: "none",
}  # fmt: skip
MOST = 60_000  # loops that a page lists
_FIRST = 20  # rows that are there without scripts
# The states of rows: how data and users call them, and how they look on the map.
STATES = {
    "scan": (
        ("h", "hurt", "loud"), ("d", "depends", "middle"), ("i", "indifferent", "faint"),
        ("-", "no figure", "none"),
    ),
    "builds": tuple(
        (str(n), change, _LOOKS.get(change, "middle")) for n, change in enumerate(CHANGES)
    ),
}  # fmt: skip
_SCRIPTS = (
    "timeline.js", "data.js", "view.js", "strip.js", "code.js", "loop.js", "table.js", "map.js",
    "start.js",
)  # fmt: skip


def of_scan(scan: Scan, again: str) -> str:
    """Return the page of a scan; again is the command that writes it again.

    All loops are in its table and on its map, with their strips of places; as many as fit, those
    that lose most first, also have their instructions and timelines.
    """
    ranked = list(dict.fromkeys(place.loop for place in scan.places))[:MOST]
    words, numbers = Words(), sorted(ranked)
    side = Side(scan, numbers, words).data() | _details(scan, ranked, numbers)
    left_out = len(scan.found.loops) - len(numbers)
    first = grid(scan.rows(_FIRST), "The loops that lose most")
    summary = list(scan.summary())
    return _page("scan", [scan], [side], None, words, left_out, again, first, summary)


def of_builds(builds: Between, again: str) -> str:
    """Return the page of what changed between two builds; again is as for of_scan."""
    words, found = Words(), changes(builds, MOST)
    sides, scans = [], [builds.b, builds.a]
    for side, scan in zip("ba", scans, strict=True):
        numbers = found.listed(side)
        own = _details(scan, found.changed(side), numbers, share=0.5)
        sides.append(Side(scan, numbers, words).data() | own)
    rows = builds.rows(changed=True)
    first = grid(replace(rows, values=rows.values[:_FIRST]), "What changed most")
    pairs, summary = found.data(), list(builds.summary())
    return _page("builds", scans, sides, pairs, words, found.left_out, again, first, summary)


def _details(
    scan: Scan, chosen: Sequence[int], listed: Sequence[int], share: float = 1.0
) -> dict[str, Any]:
    """Return packs of details, and which of the loops listed they hold, in their order."""
    at = {n: m for m, n in enumerate(listed)}
    out: dict[str, Any] = {"together": details.TOGETHER}
    for name, pack in (("code", details.code), ("timelines", details.timelines)):
        packs, held = pack(scan, chosen, share)
        out[name] = {"packs": packs, "held": [at[n] for n in held]}
    return out


def _page(
    kind: str,
    scans: Sequence[Scan],
    sides: Sequence[dict[str, Any]],
    pairs: dict[str, Any] | None,
    words: Words,
    left_out: int,
    again: str,
    first: Grid,
    summary: Sequence[str],
) -> str:
    cores = [costs.core for costs in scans[0].costs]
    data = {
        "kind": kind,
        "isa": scans[0].image.isa,
        "cores": [core.id for core in cores],
        "origin": origin.versions()[SIMULATOR],
        "command": again,
        "states": STATES[kind],
        "words": words.all,
        "sides": sides,
        "pairs": pairs,
    }
    texts = words.all
    return made(
        "scan.html.j2",
        package="loopwright.reporting.scan_page",
        style="scan.css",
        scripts=_SCRIPTS,
        kind=kind,
        version=VERSION,
        origin=origin.versions()[SIMULATOR],
        scans=scans,
        cores=cores,
        states=STATES[kind],
        fixes=sorted({texts[n] for n in sides[0]["kind"]} - {""}),
        sections=sorted({texts[name] for _, name, *_ in sides[0]["sections"]}),
        files=sorted({texts[file] for file, *_ in sides[0]["sections"]} - {""}),
        loops=len(sides[0]["at"]),
        held=len(sides[0]["code"]["held"]),
        timed=len(sides[0]["timelines"]["held"]),
        left_out=left_out,
        hurt=HURT,
        indifferent=INDIFFERENT,
        command=again,
        summary=summary,
        first=first,
        # "</script>" in a name must not end the element.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )
