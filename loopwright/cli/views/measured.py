"""Terminal view of what was measured: a line a point, with what it says against the baseline."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from loopwright.cli.views import table
from loopwright.machine import hosts
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

_OK = "ok"


def show(found: "pd.DataFrame") -> None:
    """Print measured rows, then what is the same of all of them, and why some have no number."""
    rows = Rows.of_frame(found).records()
    table.draw(_columns(rows))
    if any(row["verdict"] for row in rows):
        table.say("speed: by bytes moved, against the variant named there; 95 % interval")
    for machine, clock in dict.fromkeys((row["machine"], row["clock"]) for row in rows):
        table.say(f"measured on {machine}, clock {clock}")
    for line in _reasons(rows):
        table.say(line)
    for note in dict.fromkeys(row["note"] for row in rows if row["note"]):
        table.say(f"note: {note}")
    for tested in dict.fromkeys(row["self_test"] for row in rows if row["self_test"]):
        table.say(f"self-test, cycles an instruction: {tested}")


def blocks(found: "pd.DataFrame") -> None:
    """Print measured loops on a terminal: cycles an iteration, or why there are none."""
    rows = Rows.of_frame(found).records()
    table.draw(
        Rows.of(
            {
                "id": row["id"],
                "offset": row["offset"],
                "cycles": row["cycles"],
                "±": row["uncertainty"],
                "status": "" if row["status"] == _OK else row["status"],
            }
            for row in rows
        )
    )
    _say_each((row["id"], row["reason"]) for row in rows)
    for machine, clock in dict.fromkeys((r["machine"], r["clock"]) for r in rows if r["clock"]):
        table.say(f"cycles an iteration (a copy, unrolled), measured on {machine}, clock {clock}")
    for note in dict.fromkeys(row["note"] for row in rows if row["note"]):
        table.say(f"note: {note}")


def compared(found: "pd.DataFrame") -> None:
    """Print loops predicted and measured, a line a loop, core and offset, and why."""
    rows = Rows.of_frame(found).records()
    table.draw(
        Rows.of(
            {
                "id": row["id"],
                "microarch": hosts.marked(row["microarch"]) or "this machine",
                "offset": row["offset"],
                "predicted": _two(row["predicted"]),
                "measured": _two(row["measured"]),
                "±": _two(row["uncertainty"]),
                "error": "" if row["error_percent"] is None else f"{row['error_percent']:+.1f} %",
            }
            for row in rows
        )
    )
    _say_each(
        (f"{row['id']} on {row['microarch'] or 'this machine'}", said)
        for row in rows
        for said in (row["bottleneck"], row["error"])
    )
    for machine, clock in dict.fromkeys((r["machine"], r["clock"]) for r in rows if r["clock"]):
        table.say(f"cycles an iteration; measured on {machine}, clock {clock}")


def _say_each(said: Iterable[tuple[str, str]]) -> None:
    """Print what is said of each row, once a row."""
    for of, what in dict.fromkeys(said):
        if what:
            table.say(f"{of}: {what}")


def _two(value: float | None) -> table.Figure:
    return table.Figure("-" if value is None else f"{value:.2f}")


def _columns(rows: list[dict[str, Any]]) -> Rows:
    """Return the columns to show; those that no row departs from the usual in stay out."""
    several_caches = len({row["cache"] for row in rows}) > 1
    against = {row["against"] for row in rows if row["against"]}
    return Rows.of(
        {
            "variant": row["variant"],
            "cycles per": str(row["unit"]).removeprefix("cycles/"),
            "bytes": row["size_bytes"],
            "align": f"{row['dst_align']}:{row['src_align']}",
            "skew": row["skew_bytes"],
            "cache": row["cache"] if several_caches or row["cache"] != "hot" else "",
            "offset": row["offset"],
            "cycles": row["cycles"],
            "±": row["uncertainty"],
            f"speed, {' or '.join(sorted(against))} = 1": _speed(row),
            "status": "" if row["status"] == _OK else row["status"],
        }
        for row in rows
    )


def _speed(row: Mapping[str, Any]) -> str:
    """Return the interval of the ratio, or what is said in its place."""
    if row["ratio"] is None:
        return str(row["verdict"] or "")
    interval = f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}"
    return f"{interval}, {row['verdict']}"


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """Return why rows are not ok: each reason once, with the variants that it is said of."""
    said: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row["status"] != _OK:
            said.setdefault((row["status"], row["reason"]), {})[row["variant"]] = None
    return [f"{status} ({', '.join(who)}): {reason}" for (status, reason), who in said.items()]
