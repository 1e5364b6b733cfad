"""Summaries of Zen 1, whose vector units have 128 bits, from its records and Zen 2's summaries.

uops.info counted uops and latencies of Zen+, and ports of its vector instructions of one uop. The
throughput of an integer instruction is Zen 2's, which has the same ALUs; that of a vector
instruction is Zen 2's for each of its uops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inputs import Record, Summary

VECTOR = re.compile(r"\b(XMM|YMM|MM)\b")


def summaries(records: Iterable[Record], later: dict[str, Summary]) -> dict[str, Summary]:
    """Return the summary of each record; `later` holds those of Zen 2."""
    return {r["string"]: _of(r, later.get(r["string"], Summary())) for r in records}


def _of(record: Record, later: Summary) -> Summary:
    uops = int(record["uops"] or 1)
    times = 1.0
    if VECTOR.search(record["string"]) and later.uops:
        times = max(uops / float(later.uops), 1.0)
    ports = "+".join(f"{n}*{name}" for name, n in (record["ports"] or {}).items())
    cycles = later.cycles()
    return Summary(
        throughput="" if cycles is None else f"{cycles * times:.2f}",
        uops=str(uops),
        ports=ports or _repeated(later.ports, round(times)),
        family=later.family,
    )


def _repeated(ports: str, times: int) -> str:
    """Return counted ports with each count times a factor."""
    return re.sub(r"(\d+)\*", lambda found: f"{int(found.group(1)) * times}*", ports)
