"""Terminal views of what happens inside a core: a chart of the timeline, a table of ports."""

from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from loopwright import microarchs
from loopwright.cli.views import table
from loopwright.microarchs import Microarch
from loopwright.predicting import core_ports
from loopwright.predicting.inside import STEPS
from loopwright.rows import Rows

if TYPE_CHECKING:
    from rich.console import Console

# Letters of the steps in the chart; of two in one cycle the later is shown.
LETTERS = dict(zip(STEPS, "FDIrXER", strict=True))
LEGEND = (
    "F fetched, D decoded (in the queue in front of rename), I issued, r operands ready, "
    "X dispatched to the port, E executed, R retired"
)
_WIDE_ENOUGH_FOR_REASONS = 120
_LINE = 64
_CELL = 4  # columns of a figure
_LEAST_UOPS = 0.005  # that are shown
_LEAST_TEXT = 16
_BEFORE = "  at     "
_WHERE = ("kernel", "routine", "variant", "id", "microarch", "notion", "offset")

Row = dict[str, Any]


def timeline(rows: Rows) -> None:
    """Print one line an uop and one column a cycle, as many cycles as the window holds."""
    console = table.console()
    reasons = console.width >= _WIDE_ENOUGH_FOR_REASONS
    for title, part in _by_block(rows):
        console.print(title, style="bold")
        cut = _chart(console, part, reasons=reasons)
        console.print(LEGEND, style="dim")
        if cut:
            console.print(cut)
        console.print()


def ports(rows: Rows) -> None:
    """Print an annotated listing of each block, and beneath the last of a core what its ports do.

    A line an instruction: where it lies, its text, whether it is on the longest chain of
    dependencies, and its uops an iteration by port. A rule stands where a 64-byte line ends.
    """
    parts = _by_block(rows)
    for n, (title, part) in enumerate(parts):
        core = microarchs.load(part[0]["microarch"])
        table.console().print(f"{title}: uops an iteration by port", style="bold")
        _listing(part, core)
        if n + 1 == len(parts) or parts[n + 1][1][0]["microarch"] != core.id:
            _legend(core)
        print()


def _listing(rows: list[Row], core: Microarch) -> None:
    called = core_ports.called(core)
    used = [p for p in dict.fromkeys(r["port"] for r in rows) if _uops(rows, p)]
    lines = [list(of_one) for _, of_one in groupby(rows, key=lambda row: row["instruction"])]
    text = max(len(str(line[0]["text"])) for line in lines)
    cells = {p: max(_CELL, len(called[p])) for p in used}
    room = table.console().width - sum(cells.values()) - len(cells) - len(_BEFORE)
    text = max(min(text, room), _LEAST_TEXT)
    heads = " ".join(called[p].rjust(cells[p]) for p in used)
    print(f"{_BEFORE}{'instruction':<{text}} {heads}")
    width = len(_BEFORE) + text + 1 + len(heads)
    print("\u2500" * width)
    for line in lines:
        first = line[0]
        uses = {row["port"]: row["uops_per_iteration"] for row in line}
        counts = " ".join(_cell(uses.get(p, 0)).rjust(cells[p]) for p in used)
        shown = " ".join(str(first["text"]).split())
        mark = "\u25cf" if first["chain"] else " "
        print(f"{first['address']:>4}  {mark}  {shown[:text]:<{text}} {counts}".rstrip())
        end = first["address"] + first["bytes"]
        over = end % _LINE
        if over < first["bytes"] and line is not lines[-1]:
            cut = f"; {over} bytes of the instruction above lie behind it" if over else ""
            print(f"{'':>4}  -- end of a line of {_LINE} bytes{cut} --")
    total = " ".join(f"{_uops(rows, p):.2f}".rjust(cells[p]) for p in used)
    print(f"{'':<{len(_BEFORE)}}{'all':<{text}} {total}")


def _uops(rows: list[Row], port: str) -> float:
    return float(sum(r["uops_per_iteration"] for r in rows if r["port"] == port))


def _cell(uops: float) -> str:
    return f"{uops:.2f}" if uops >= _LEAST_UOPS else ""


def _legend(core: Microarch) -> None:
    """Print what the marks mean and what runs on which port of a core."""
    called = core_ports.called(core)
    print("\u25cf on the longest dependency chain from one iteration to the next")
    uses = (
        f"{use.kind} {' '.join(called[letter] for letter in use.ports)}"
        for use in core_ports.uses(core)
    )
    for line in wrap(f"ports of {core.name}: {'; '.join(uses)}", min(table.console().width, 100)):
        print(line)


def sources(rows: Rows) -> None:
    """Print for each block what its instructions' figures rest on, then what is assumed."""
    console = table.console()
    for title, part in _by_block(rows):
        console.print(f"{title}: what it rests on", style="bold")
        measured = [row for row in part if row["least_cycles"] is None]
        for source, group in groupby(sorted(measured, key=_source), key=_source):
            console.print(f"  {source}", markup=False)
            for row in group:
                console.print(f"      {row['of']}   ({row['figure']})", markup=False)
        for row in part:
            if row["least_cycles"] is not None:
                console.print(
                    f"  assumed: {row['of']} = {row['figure']}: {row['least_cycles']:g} to "
                    f"{row['most_cycles']:g} cycles as it varies; {row['source']}",
                    markup=False,
                )
        console.print()


def _source(row: Row) -> str:
    return str(row["source"])


def _by_block(rows: Rows) -> list[tuple[str, list[Row]]]:
    """Return each block's rows with a title; a block without an answer has its error printed."""
    keys = [k for k in _WHERE if k in rows.columns]
    found = []
    for values, group in groupby(rows.records(), key=lambda row: tuple(row[k] for k in keys)):
        part = list(group)
        named = dict(zip(keys, values, strict=True))
        subject = "/".join(str(named[k]) for k in ("kernel", "variant", "id") if named.get(k))
        title = f"{subject} on {named['microarch']}, {named['notion']}, offset {named['offset']}"
        if part[0]["error"]:
            table.console().print(f"{title}: {part[0]['error']}\n")
        else:
            found.append((title, part))
    return found


def _chart(console: "Console", rows: list[Row], *, reasons: bool) -> str:
    """Print the lines; return what is cut off and how to see it, or nothing."""
    from rich.text import Text

    labels = [_label(row) for row in rows]
    label_width = min(max(len(label) for label in labels), max(console.width // 2, 20))
    waits = [(row["waited_for"] or "") if reasons else "" for row in rows]
    room = console.width - label_width - 2 - (max(map(len, waits)) + 1 if reasons else 0)
    last = max(row["retired_cycle"] or 0 for row in rows)
    shown = min(last + 1, max(room, 10))
    console.print(Text(" " * (label_width + 1) + _ruler(shown)))
    for label, wait, row in zip(labels, waits, rows, strict=True):
        line = f"{label[:label_width]:<{label_width}} {_track(row, shown)} {wait}"
        console.print(Text(line.rstrip()), no_wrap=True, overflow="crop")
    if shown > last:
        return ""
    return (
        f"cycles 0-{shown - 1} of 0-{last} are shown: give fewer iterations or a wider window, "
        "or --csv for all"
    )


def _label(row: Row) -> str:
    port = f"p{row['port']}" if row["port"] else ""
    what = row["how"] if not port and row["how"] else row["role"]
    return f"{row['iteration']}.{row['instruction']:<2} {row['text']!s:<28.28} {port:<3} {what!s}"


def _ruler(cycles: int) -> str:
    """Return the tens of cycles, each where its cycle stands."""
    return "".join(f"{cycle:<10}" for cycle in range(0, cycles, 10))[:cycles].rstrip()


def _track(row: Row, cycles: int) -> str:
    """Return an uop's letters, dots in between."""
    steps = ((letter, row[f"{step}_cycle"]) for step, letter in LETTERS.items())
    at = {cycle: letter for letter, cycle in steps if isinstance(cycle, int)}
    if not at:
        return " " * cycles
    first, last = min(at), max(at)
    return "".join(at.get(c, "." if first < c < last else " ") for c in range(cycles))
