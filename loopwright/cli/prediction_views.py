"""Predictions on a terminal: tables, listings by port, timelines, sources."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from loopwright import microarchs
from loopwright.cli import output
from loopwright.cli.output import Figure
from loopwright.code.loops import offset_ranges
from loopwright.machine import hosts
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.predicting.explain import STEPS
from loopwright.predicting.model import ALIKE, BALANCED
from loopwright.predicting.models import MODELS
from loopwright.rows import Rows

if TYPE_CHECKING:
    from rich.console import Console


_HIDDEN = ("kernel", "routine")
_MODEL_COLUMNS = (
    "model", "cycles", "bottleneck", "error", "startup_cycles", "cheap", "dear", "low", "high",
    "note", "limits",
)  # fmt: skip
_ONE_MODEL_COLUMNS = ("notion", "bytes_per_iteration", "least_cycles")  # of a table of one model
_OFFSETS = 64  # code offsets
_WHOLE_CYCLES = 100  # cycles of a call from which no fraction is shown
_FEW_LINES = 6  # lines up to which limits are printed in full
_ORDER = ("ports", "dispatch", "dependencies", "op cache", "loop buffer", "decoders", "branches")
_LEAST_SHARE = 0.4  # least share of the cycles of a limit that is shown
_LIMIT_FIGURE = re.compile(r"([a-z][a-z ]*?) (\d+\.\d+)")
_ZEROS = re.compile(r"\b0x0+(?=[0-9a-f])")
_FASTEST, _SHADES = "\u00b7", "\u2591\u2592\u2593\u2588"  # of code offsets

Row = dict[str, Any]


def show_predictions(rows: Rows) -> None:
    """Print predictions; those of several models side by side."""
    models = list(dict.fromkeys(rows.column("model")))
    if len(models) > 1:
        _side_by_side(rows, models)
    elif output.on_terminal():
        _for_people(rows)
    else:
        output.show_table(rows, _HIDDEN)


def _side_by_side(rows: Rows, models: list[str]) -> None:
    """Print a column for each model, then the reasons for missing figures."""
    shared = [c for c in rows.columns if c not in _MODEL_COLUMNS]
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    subject = "variant" if "variant" in rows.columns else "id"
    for row in rows.records():
        key = {c: row[c] for c in shared}
        line = lines.setdefault(tuple(key.values()), key | dict.fromkeys(models, Figure("-")))
        if row["cycles"] is not None:
            line[row["model"]] = _cycles(row, ranged=False)
    table = Rows.of(lines.values())
    if output.on_terminal():
        heading = _heading(rows.records(), sweep=False)
        output.say(heading.replace(f" by {models[0]}", " by each model"), "dim")
        table = _for_terminal(table, models)
    output.draw(table.only(c for c in table.columns if c not in _HIDDEN))
    _say_startup(line[m] for line in lines.values() for m in models)
    for model, note in dict.fromkeys((r["model"], r["note"]) for r in rows.records() if r["note"]):
        output.say(f"note: {model}: {note}")
    _say_missing(rows.records(), models, subject)


def _say_missing(rows: Sequence[Row], models: list[str], subject: str) -> None:
    """Print each reason for missing figures once, with its cores, models and subjects.

    models are those that were asked; subject is the column of the subjects.
    """
    subject_count = len({row[subject] for row in rows})
    missing = [row for row in rows if row["cycles"] is None]
    for (error,), cells in _grouped(missing, "error").items():
        models_by_core: dict[str, dict[str, None]] = {}
        for row in cells:
            models_by_core.setdefault(row["microarch"], {})[row["model"]] = None
        places = (
            f"{'no figure' if [*lacking] == models else ', '.join(lacking)} on {core}"
            for core, lacking in models_by_core.items()
        )
        names = dict.fromkeys(row[subject] for row in cells)
        subjects = "" if len(names) == subject_count else f" ({', '.join(names)})"
        output.say(f"- {'; '.join(places)}{subjects}: {error}")


def _for_terminal(table: Rows, models: Sequence[str]) -> Rows:
    """Return the columns for a terminal, with short names of the models that have answers."""
    short = {model.id: model.short for model in MODELS}
    lines = table.records()
    silent = {m for m in models if all(line[m] == "-" for line in lines)}
    constant = {"offset"} if len(set(table.column("offset"))) == 1 else set()
    out = []
    for line in lines:
        kept = {c: v for c, v in line.items() if c not in {*_ONE_MODEL_COLUMNS, *silent, *constant}}
        kept["microarch"] = hosts.marked(kept["microarch"])
        out.append({short.get(c, c): v for c, v in kept.items()})
    return Rows.of(out)


def _for_people(rows: Rows) -> None:
    """Print one model's predictions, with equal offsets and cores merged."""
    subject = "variant" if "variant" in rows.columns else "id"
    records = rows.records()
    sweep = all(
        len({row["offset"] for row in group}) > 1
        for group in _grouped(records, subject, "microarch").values()
    )
    output.say(_heading(records, sweep=sweep), "dim")
    order = list(dict.fromkeys(row[subject] for row in records))
    records.sort(key=lambda row: order.index(row[subject]))
    full = len(records) <= _FEW_LINES
    lines = _sweeps(records, subject) if sweep else [_line(r, subject, full=full) for r in records]
    _draw(output.folded(lines))
    if sweep:
        _strips(records, subject)
    else:
        _limits(records, subject)
    output.say_notes(row["note"] for row in records)


def _grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by their values of keys, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def _heading(rows: Sequence[Row], *, sweep: bool) -> str:
    """Return the heading of the figures: their kind, model and offset."""
    kinds = {row["notion"] for row in rows}
    kind = output.CYCLES_OF[kinds.pop()] if len(kinds) == 1 else "an iteration, or a copy"
    offsets = {row["offset"] for row in rows}
    offset = "" if sweep or len(offsets) > 1 else f", code offset {offsets.pop()}"
    kernels = " ".join(dict.fromkeys(row["kernel"] for row in rows if row.get("kernel")))
    prefix = f"{kernels}: " if kernels else ""
    ranged = any(row["low"] is not None for row in rows) and not sweep
    brackets = "; in brackets where 95 % of measurements of such code lie" if ranged else ""
    origin = f"predicted by {rows[0]['model']}, data in the L1 cache"
    return f"{prefix}cycles {kind}, {origin}{offset}{brackets}"


def _line(row: Row, subject: str, *, full: bool) -> Row:
    limits = row["bottleneck"] if full else _brief(row)
    return {
        subject: row[subject],
        "microarch": row["microarch"],
        "offset": row["offset"],
        "cycles": _cycles(row),
        "B/iter": row["bytes_per_iteration"],
        "bottleneck": limits or row["error"],
    }


def _cycles(row: Row, *, ranged: bool = True) -> Figure:
    """Return cycles, with their range if it is known, and those to start a string instruction."""
    if row["cycles"] is None:
        return Figure("-")
    low, startup = row["low"], row["startup_cycles"]
    within = f" ({low:.2f} to {row['high']:.2f})" if ranged and low is not None else ""
    once = "" if startup == 0 else " +?" if startup is None else f" +{startup:.0f}"
    return Figure(f"{row['cycles']:.2f}{within}{once}")


def _brief(row: Row) -> str:
    """Return the bottleneck of a row; of balanced limits only their names."""
    if not row["bottleneck"].startswith(BALANCED):
        return str(row["bottleneck"])
    limits = _limit_cycles(row["limits"]).items()
    names = (name for name, cycles in limits if cycles * ALIKE >= row["cycles"])
    return f"{BALANCED} {', '.join(names)}"


def _sweeps(rows: Sequence[Row], subject: str) -> list[Row]:
    """Return a line for each subject and core: its cycles by code offset."""
    out = []
    for (name, core), group in _grouped(rows, subject, "microarch").items():
        worst = max(group, key=lambda row: row["cycles"] or 0)
        out.append(
            {
                subject: name,
                "microarch": core,
                "cycles": _by_offset(group),
                "bottleneck where slowest": worst["bottleneck"] or worst["error"],
            }
        )
    return out


def _by_offset(rows: Sequence[Row]) -> str:
    """Return "1.00 at 0-36, 2.00 at 37-63"; offsets without an answer are left out."""
    offsets_by_cycles: dict[str, list[int]] = {}
    for row in rows:
        if row["cycles"] is not None:
            offsets_by_cycles.setdefault(f"{row['cycles']:.2f}", []).append(row["offset"])
    ordered = sorted(offsets_by_cycles.items(), key=lambda item: float(item[0]))
    return (
        ", ".join(f"{cycles} at {offset_ranges(offsets, ' ')}" for cycles, offsets in ordered)
        or "-"
    )


def _strips(rows: Sequence[Row], subject: str) -> None:
    """Print a character for each code offset of each subject and core that depends on it."""
    console = output.console()
    by_strip: dict[tuple[str, str], list[str]] = {}
    for (name, core), group in _grouped(rows, subject, "microarch").items():
        cycles_at = {row["offset"]: row["cycles"] for row in group if row["cycles"] is not None}
        if len(set(cycles_at.values())) > 1:
            by_strip.setdefault((name, _strip(cycles_at)), []).append(hosts.marked(core))
    drawn = [(f"{name} on {', '.join(cores)}", strip) for (name, strip), cores in by_strip.items()]
    if not drawn:
        return
    print()
    ruler = "".join(f"{offset:<8}" for offset in range(0, _OFFSETS, 8))
    beside = max(len(title) for title, _ in drawn) + 2 + _OFFSETS <= console.width
    indent = max(len(title) for title, _ in drawn) + 2 if beside else 0
    console.print(f"{'':<{indent}}{ruler}".rstrip(), style="dim", highlight=False)
    for title, strip in drawn:
        if beside:
            print(f"{title:<{indent}}{strip}")
        else:
            print(f"{strip}\n  {title}")
    console.print(
        "\u00b7 fastest, \u2588 slowest offset of the loop's first byte, mod 64", style="dim"
    )


def _strip(cycles_at: Mapping[int, float]) -> str:
    """Return a character for each offset, darker where slower."""
    least, most = min(cycles_at.values()), max(cycles_at.values())
    shades = {
        offset: _FASTEST
        if cycles == least
        else _SHADES[round(3 * (cycles - least) / (most - least))]
        for offset, cycles in cycles_at.items()
    }
    return "".join(shades.get(offset, " ") for offset in range(_OFFSETS))


def _draw(lines: Sequence[Row]) -> None:
    table = Rows.of(lines)
    constant = [
        column
        for column in ("offset", "B/iter")
        if column in table.columns and len(set(table.column(column))) == 1
    ]
    output.draw(table.only(c for c in table.columns if c not in constant))
    _say_startup(line["cycles"] for line in lines)


def _say_startup(cells: Iterable[object]) -> None:
    if any("+" in str(cell) for cell in cells):
        print("+N: cycles once, to start a string instruction; +? where that is not known")


def _limits(rows: Sequence[Row], subject: str) -> None:
    """Print each limit with its own figure, where there are few rows and several limits."""
    with_limits = [row for row in rows if row["limits"]]
    if not with_limits or len(with_limits) > _FEW_LINES:
        return
    parsed = [_limit_cycles(row["limits"]) for row in with_limits]
    names = [
        name
        for name in dict.fromkeys(n for figures in parsed for n in figures)
        if any(figures.get(name, 0) >= _LEAST_SHARE * row["cycles"]
               for figures, row in zip(parsed, with_limits, strict=True))
    ]  # fmt: skip
    if len(names) < 2:
        return
    subjects, cores = (
        len({row[column] for row in with_limits}) for column in (subject, "microarch")
    )
    names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    lines: list[Row] = [{"cycles by this limit alone": name} for name in names]
    for row, figures in zip(with_limits, parsed, strict=True):
        core = hosts.marked(row["microarch"])
        column = core if subjects == 1 else row[subject] if cores == 1 else f"{row[subject]} {core}"
        for line, name in zip(lines, names, strict=True):
            line[column] = Figure(f"{figures[name]:.2f}" if name in figures else "-")
    print()
    output.draw(Rows.of(lines))


def _limit_cycles(figures: str) -> dict[str, float]:
    """Return the figures of a row's limits by name."""
    return {name: float(figure) for name, figure in _LIMIT_FIGURE.findall(figures)}


def show_calls(rows: Rows) -> None:
    """Print predictions of whole calls, and the mean cost of a histogram."""
    if output.on_terminal():
        _calls_for_people(rows.records())
    else:
        output.show_table(rows, (*_HIDDEN, "notion"))
    for line in _means(rows.records()):
        output.say(line)


def _calls_for_people(rows: Sequence[Row]) -> None:
    """Print a line for each call with a figure or a range, and the reasons of the others."""
    asked_models = list(dict.fromkeys(row["model"] for row in rows))
    answering = dict.fromkeys(row["model"] for row in rows if row["cycles"] or row["low"])
    models = " and ".join(answering or asked_models)
    kernels = " ".join(dict.fromkeys(row["kernel"] for row in rows))
    ranged = any(row["low"] is not None for row in rows)
    brackets = "; in brackets where 95 % of measurements of such calls lie" if ranged else ""
    output.say(
        f"{kernels}: cycles a call, predicted by {models}, data in the L1 cache{brackets}", "dim"
    )
    lines = [_call_line(row) for row in rows if row["cycles"] is not None or row["low"] is not None]
    if lines:
        table = Rows.of(lines)
        constant = {c for c in ("offset", "align") if len(set(table.column(c))) == 1}
        if all(_cell(row["mispredicted"]) == _cell(row["cycles"]) for row in rows):
            constant.add("exits mispredicted")
        output.draw(table.only(c for c in table.columns if c not in constant))
        titles = {"offset": "code offset", "align": "data alignment (destination:source)"}
        shared = [f"{name} {lines[0][c]}" for c, name in titles.items() if c in constant]
        if shared:
            output.say("; ".join(shared), "dim")
    _say_missing(rows, asked_models, "variant")
    output.say_notes(row["note"] for row in rows)


def _call_line(row: Row) -> Row:
    likely = "" if row["low"] is None else f" ({_cell(row['low'])} to {_cell(row['high'])})"
    unmeasured = "" if row["cheap"] is None else f"{_cell(row['cheap'])} to {_cell(row['dear'])}"
    return {
        "variant": row["variant"],
        "microarch": hosts.marked(row["microarch"]),
        "offset": row["offset"],
        "bytes": row["size_bytes"],
        "align": f"{row['dst_align']}:{row['src_align']}",
        "cycles": Figure(f"{_cell(row['cycles'])}{likely}"),
        "by unmeasured parameters": Figure(unmeasured),
        "exits mispredicted": Figure(_cell(row["mispredicted"])),
        "one call alone": Figure(_cell(row["alone"])),
    }


def _cell(cycles: float | None) -> str:
    """Return the cycles of a call with at least three digits, or a dash."""
    if cycles is None:
        return "-"
    whole = cycles >= _WHOLE_CYCLES or cycles == round(cycles)
    return f"{cycles:.0f}" if whole else f"{cycles:.1f}"


def _means(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the mean cost of a histogram's calls, by variant, core and alignments."""
    keys = ("variant", "microarch", "offset", "dst_align", "src_align")
    groups = _grouped((row for row in rows if row["weight"] is not None), *keys)
    for (variant, core, offset, dst, src), calls in groups.items():
        subject = f"{variant} on {core} at offset {offset}, {dst}:{src}"
        limits = _mean_range(calls)
        if all(row["cycles"] is not None for row in calls):
            mean = sum(row["weight"] * row["cycles"] for row in calls)
            yield f"mean call of the histogram, {subject}: {mean:.1f} cycles{limits}"
        elif all(row["low"] is not None or row["cycles"] is not None for row in calls):
            yield f"mean call of the histogram, {subject}:{limits.removeprefix(',')} cycles"


def _mean_range(rows: list[dict[str, Any]]) -> str:
    """Return the range of the mean by the ranges of its calls, or ""."""
    if all(row["low"] is None for row in rows):
        return ""
    low, high = (
        sum(r["weight"] * (r["cycles"] if r[end] is None else r[end]) for r in rows)
        for end in ("low", "high")
    )
    return f", {low:.1f} to {high:.1f}"


# Letters of the steps in the chart. Of two steps in one cycle the later one is shown.
LETTERS = dict(zip(STEPS, "FQDrIER", strict=True))
LEGEND = (
    "F fetched, Q queued in front of rename, D dispatched, r operands ready, "
    "I issued to the port, E executed, R retired"
)
_WIDE_ENOUGH_FOR_REASONS = 120
_LINE_BYTES = 64
_LEAST_CELL = 4  # columns of a figure
_LEAST_UOPS = 0.005  # least number that is shown
_LEAST_TEXT = 16
_LISTING_HEAD = "  at     "
_BLOCK_KEYS = ("kernel", "routine", "variant", "id", "microarch", "notion", "offset")


def show_timeline(rows: Rows) -> None:
    """Print one line for each uop and one column for each cycle, cut at the window's width."""
    console = output.console()
    reasons = console.width >= _WIDE_ENOUGH_FOR_REASONS
    for title, part in _by_block(rows):
        console.print(title, style="bold", markup=False)
        cut = _chart(console, part, reasons=reasons)
        console.print(LEGEND, style="dim")
        if cut:
            console.print(cut)
        console.print()


def show_ports(rows: Rows) -> None:
    """Print an annotated listing of each block, and after the last of a core the uses of its ports.

    A line for each instruction: its address, its text, a mark if it is on the longest chain of
    dependencies, and its uops an iteration by port. A rule marks the end of a 64-byte line.
    """
    parts = _by_block(rows)
    for n, (title, part) in enumerate(parts):
        core = microarchs.load(part[0]["microarch"])
        output.console().print(f"{title}: uops an iteration by port", style="bold")
        _listing(part, core)
        if n + 1 == len(parts) or parts[n + 1][1][0]["microarch"] != core.id:
            _legend(core)
        print()


def _listing(rows: list[Row], core: Microarch) -> None:
    vendor_names = core_figures.vendor_port_names(core)
    used = [p for p in dict.fromkeys(r["port"] for r in rows) if _uops(rows, p)]
    lines = [list(group) for _, group in groupby(rows, key=itemgetter("instruction"))]
    text_width = max(len(str(line[0]["text"])) for line in lines)
    widths = {p: max(_LEAST_CELL, len(vendor_names[p])) for p in used}
    room = output.console().width - sum(widths.values()) - len(widths) - len(_LISTING_HEAD)
    text_width = max(min(text_width, room), _LEAST_TEXT)
    heads = " ".join(vendor_names[p].rjust(widths[p]) for p in used)
    print(f"{_LISTING_HEAD}{'instruction':<{text_width}} {heads}")
    width = len(_LISTING_HEAD) + text_width + 1 + len(heads)
    print("\u2500" * width)
    for line in lines:
        first = line[0]
        uses = {row["port"]: row["uops_per_iteration"] for row in line}
        counts = " ".join(_uops_cell(uses.get(p, 0)).rjust(widths[p]) for p in used)
        mark = "\u25cf" if first["chain"] else " "
        text = f"{plain(first['text'])[:text_width]:<{text_width}}"
        print(f"{first['address']:>4}  {mark}  {text} {counts}".rstrip())
        end = first["address"] + first["bytes"]
        behind = end % _LINE_BYTES
        if behind < first["bytes"] and line is not lines[-1]:
            split = f"; {behind} bytes of the instruction above lie behind it" if behind else ""
            print(f"{'':>4}  -- end of a line of {_LINE_BYTES} bytes{split} --")
    total = " ".join(f"{_uops(rows, p):.2f}".rjust(widths[p]) for p in used)
    print(f"{'':<{len(_LISTING_HEAD)}}{'all':<{text_width}} {total}")


def _uops(rows: list[Row], port: str) -> float:
    return float(sum(r["uops_per_iteration"] for r in rows if r["port"] == port))


def _uops_cell(uops: float) -> str:
    return f"{uops:.2f}" if uops >= _LEAST_UOPS else ""


def _legend(core: Microarch) -> None:
    """Print the meaning of the marks, and the kinds of uops on each port of a core."""
    vendor_names = core_figures.vendor_port_names(core)
    print("\u25cf on the longest dependency chain from one iteration to the next")
    uses = (
        f"{use.kind} {' '.join(vendor_names[letter] for letter in use.ports)}"
        for use in core_figures.port_uses(core)
    )
    for line in wrap(f"ports of {core.name}: {'; '.join(uses)}", min(output.console().width, 100)):
        print(line)


def show_sources(rows: Rows) -> None:
    """Print for each block the sources of its instructions' figures, then its assumptions."""
    from rich.padding import Padding
    from rich.text import Text

    console = output.console()

    def below(depth: int, text: str) -> None:
        console.print(Padding.indent(Text(text), depth))

    for title, part in _by_block(rows):
        console.print(f"{title}: what it rests on", style="bold")
        measured = [row for row in part if row["least_cycles"] is None]
        by_source = itemgetter("source")
        for source, group in groupby(sorted(measured, key=by_source), key=by_source):
            below(2, str(source))
            for row in group:
                below(6, f"{row['of']}   ({row['figure']})")
        for row in part:
            if row["least_cycles"] is not None:
                below(
                    2,
                    f"assumed: {row['of']} = {row['figure']}: {row['least_cycles']:g} to "
                    f"{row['most_cycles']:g} cycles as it varies; {row['source']}",
                )
        console.print()


def _by_block(rows: Rows) -> list[tuple[str, list[Row]]]:
    """Return each block's rows with a title; print the error of a block without an answer."""
    keys = [k for k in _BLOCK_KEYS if k in rows.columns]
    blocks = []
    for values, group in groupby(rows.records(), key=lambda row: tuple(row[k] for k in keys)):
        part = list(group)
        block = dict(zip(keys, values, strict=True))
        subject = "/".join(str(block[k]) for k in ("kernel", "variant", "id") if block.get(k))
        core = hosts.marked(block["microarch"])
        title = f"{subject} on {core}, {block['notion']}, offset {block['offset']}"
        if part[0]["error"]:
            output.console().print(f"{title}: {part[0]['error']}\n")
        else:
            blocks.append((title, part))
    return blocks


def _chart(console: "Console", rows: list[Row], *, reasons: bool) -> str:
    """Print the lines; return a message if cycles are cut off, or ""."""
    from rich.text import Text

    vendor_names = core_figures.vendor_port_names(microarchs.load(rows[0]["microarch"]))
    ports = [vendor_names.get(row["port"], "") for row in rows]
    widest = max(map(len, ports))
    labels = [_label(row, port, widest) for row, port in zip(rows, ports, strict=True)]
    waits = [(row["waited_for"] or "") if reasons else "" for row in rows]
    whole = console.width - 2 - (max(map(len, waits)) + 1 if reasons else 0)
    last = max(row["retired_cycle"] or 0 for row in rows)
    # Labels are cut where all cycles would not stand beside them otherwise, to half of the window.
    least = max(console.width // 2, 20)
    label_width = min(max(len(label) for label in labels), max(least, whole - last - 1))
    room = whole - label_width
    shown = min(last + 1, max(room, 10))
    tens = "".join(f"{cycle:<10}" for cycle in range(0, shown, 10))[:shown].rstrip()
    console.print(Text(" " * (label_width + 1) + tens))
    for label, wait, row in zip(labels, waits, rows, strict=True):
        line = f"{label[:label_width]:<{label_width}} {_track(row, shown)} {wait}"
        console.print(Text(line.rstrip()), no_wrap=True, overflow="crop")
    if shown > last:
        return ""
    return (
        f"cycles 0-{shown - 1} of 0-{last} are shown: give fewer iterations or a wider window, "
        "or --csv for all"
    )


def _label(row: Row, port: str, widest: int) -> str:
    role = row["how"] if not port and row["how"] else row["role"]
    number = f"{row['iteration']}.{row['instruction']:<2}"
    return f"{number} {plain(row['text']):<28.28} {port:<{widest}} {role!s}"


def plain(text: object) -> str:
    """Return an instruction with single spaces, and its target without leading zeros."""
    return _ZEROS.sub("0x", " ".join(str(text).split()))


def _track(row: Row, cycles: int) -> str:
    """Return the letters of a uop by cycle, with dots in between."""
    steps = ((letter, row[f"{step}_cycle"]) for step, letter in LETTERS.items())
    letter_at = {cycle: letter for letter, cycle in steps if isinstance(cycle, int)}
    if not letter_at:
        return " " * cycles
    first, last = min(letter_at), max(letter_at)
    return "".join(letter_at.get(c, "." if first < c < last else " ") for c in range(cycles))
