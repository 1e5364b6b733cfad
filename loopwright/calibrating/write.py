"""What was learned, as a core that the simulator takes, and what each figure of it rests on."""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from loopwright import files
from loopwright.calibrating import parameters
from loopwright.calibrating.delivery.front_end import AFTER
from loopwright.calibrating.experiments.latency import ALL, Latency
from loopwright.calibrating.experiments.strings import Timed
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine
from loopwright.calibrating.machines.texts import Texts
from loopwright.calibrating.parameters import SOURCE, addresses, letters
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.rule import Ports
from loopwright.predicting.forms import TABLE

MEASURED = "measured.csv"
LEFT_OUT = "left-out.csv"
STRINGS = "strings.csv"
_NOPS = {"x86_64": ("", "m16", "m32"), "arm64": ("",)}  # those whose width is measured
_WAITS = 1.04  # of the cycles that an instance waits for the one that wrote its register
_LABEL = re.compile(r"[0-7afmx*]|r[abcd]x|r[sb]p|r[sd]i")
_ONE = ("1", "1", "0", "")  # issue, mite, ms and decoder of what is one uop
_HEAD = "mnemonic,operands,issue,mite,ms,decoder,ports,latency,flags,indexed,same,source"


def texts(learned: Learned, machine: Machine) -> tuple[str, str]:
    """Return core.toml and instructions.csv."""
    return parameters.text(learned, machine), table(learned, machine)


def laboratory(learned: Learned, machine: Machine) -> Laboratory:
    """Return what times kernels on the core that would be written, in the machine's place."""
    return Laboratory(Texts(machine, *texts(learned, machine)))


def core(learned: Learned, machine: Machine, folder: Path) -> None:
    """Write a core into a folder."""
    with files.staged(folder) as scratch:
        _files(learned, machine, scratch)
    title = f"loopwright calibrate on {machine.fingerprint}"
    files.written(
        folder.parent / "sources.toml",
        f'[{SOURCE}]\ntitle = "{title}"\naddress = "{folder.name}/{MEASURED}"\ndate = ""\n',
    )


def _files(learned: Learned, machine: Machine, folder: Path) -> None:
    for name, text in zip(("core.toml", TABLE), texts(learned, machine), strict=True):
        (folder / name).write_text(text)
    with (folder / MEASURED).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["form", "figure", "value", "cycles", "uncertainty", "note"])
        rows.writerows(_measured(learned))
    with (folder / LEFT_OUT).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["form", "why"])
        rows.writerows(left_out(learned))
    if learned.special and learned.special.strings:
        _strings(learned.special.strings, folder / STRINGS)


def _strings(timed: Sequence[Timed], file: Path) -> None:
    """Write what string instructions take; one that was not timed has a reason, and no cycles."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        head = "instruction,bytes,source_offset,destination_offset,cycles,uncertainty,note"
        rows.writerow(head.split(","))
        for one in timed:
            what, figure = one.what, one.figure
            shown = (f"{figure.cycles:.3f}", f"{figure.uncertainty:.3f}") if figure else ("", "")
            place = what.source, what.destination
            rows.writerow([f"rep {what.name}", what.size, *place, *shown, figure.refused])


def table(learned: Learned, machine: Machine) -> str:
    """Return instructions.csv."""
    file = io.StringIO()
    file.write(f"# Source: measured on {machine.name}; layout: models/pipeline/README.md\n")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(_HEAD.split(","))
    rows.writerows(_table(learned, machine.isa))
    return file.getvalue()


def left_out(learned: Learned) -> list[tuple[str, str]]:
    """Return the forms, and parts of the front end, that the core has no figures for, and why."""
    refused = [(n, rate.refused) for n, rate in learned.throughputs.items() if rate.refused]
    refused += [(n, one.why) for n, one in learned.uops.items() if one.ports is None]
    refused += learned.special.left.items() if learned.special else ()
    return [*refused, *learned.branches.left.items(), *learned.front_end.left.items()]


def _table(learned: Learned, isa: str) -> Iterable[list[str]]:
    """Yield the rows of the table: forms of a mnemonic with the same figures share one."""
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, uops in learned.uops.items():
        if uops.ports is None:
            continue
        mnemonic, _, operands = name.partition(" ")
        latencies = learned.latencies[name]
        flags = [f"tp={uops.busy}"] if uops.busy else []
        if name in learned.fusion:
            flags.append(f"fuse={learned.fusion[name]}")
        if not uops.ports and any(one.cycles == 0 and not one.bound for one in latencies):
            flags.append("elim")
        places = max(uops.places, 1)
        sent = learned.microcode.sent(name, places) if learned.microcode else 0
        issued = (str(places), str(places - sent), str(sent), _decoder(learned, name, places))
        ports = _stored(learned.core, uops.ports) if name in learned.stores else shown(uops.ports)
        idiom = learned.idioms.get(name)
        same = "" if idiom is None else f"1:1:{ports if idiom.port else ''}|*:0"
        figures = (*issued, ports, _latency(latencies), " ".join(flags), "", same)
        rows[mnemonic, *figures].append(operands)
    for operands in _NOPS[isa] if learned.front_end.long_nops else ("",):
        if f"nop {operands}".rstrip() not in learned.uops:
            rows["nop", *_ONE, "", "", "", "", ""].append(operands)
    for name, some in learned.branches.ports.items():
        mnemonic, _, operands = name.partition(" ")
        rows[mnemonic, *_ONE, shown([some]), "", "", "", ""].append(operands)
    for (mnemonic, *rest), named in sorted(rows.items()):
        yield [mnemonic, ";".join(named), *rest, SOURCE]


def _decoder(learned: Learned, name: str, places: int) -> str:
    """Return how many simple decoders are left to what follows an instruction, if it is known."""
    usual, _ = learned.front_end.parameters.get(f"{AFTER}.{places}", ("any", ""))
    left = learned.decoders.get(name, usual)
    return "" if left == "any" else f"c{left}"


def _stored(core: Core, ports: Sequence[Ports]) -> str:
    """Return uops as the table has them, with one for the address of each store, or its data."""
    store = core.of(core.store)
    writing = (core.written, core.data) if core.data else (store,)
    stored = sum(one in writing for one in ports)
    addressed = sum(one <= store for one in ports) if store and core.written else 0
    more = _more(max(0, stored - addressed), addresses(core))
    if not store or not core.data:
        return shown(ports) + more
    if core.written:
        return shown([*ports, *[core.data] * (addressed - stored)]) + more
    # What stores write has as many ports as their addresses: those with fewer have fewer of these.
    data = dict(zip(sorted(store), sorted(core.data), strict=True))
    written = [frozenset(data[port] for port in one) for one in ports if one <= store]
    some = [store if one <= store else one for one in ports]
    return shown([*some, *written]) + more


def _more(times: int, ports: str) -> str:
    return f"+{times}*{ports}" if times > 1 else f"+{ports}" * times


def shown(ports: Sequence[Ports]) -> str:
    """Return uops as the table has them: 2*01+5."""
    count = Counter(letters(one) for one in ports)
    return "+".join(f"{n}*{one}" if n > 1 else one for one, n in sorted(count.items()))


def _latency(latencies: Sequence[Latency]) -> str:
    known = [one for one in latencies if not one.refused]
    known = [o for o in known if _LABEL.fullmatch(o.source) and _LABEL.fullmatch(o.target)]
    return " ".join(f"{one.source}{_to(one.target)}:{one.cycles}" for one in known)


def _to(target: str) -> str:
    return "" if target == ALL else f">{target}"


def _measured(learned: Learned) -> Iterable[Sequence[object]]:
    """Yield what was measured of each form."""
    width = learned.width
    yield (
        "",
        "width",
        width.instructions,
        width.measured,
        width.uncertainty,
        f"{'nops' if width.nops else 'moves'} a cycle",
    )
    for said, window in learned.windows.found.items():
        yield "", said, f"{'>= ' * window.least}{window.value}", "", "", window.note
    for name, rate in learned.throughputs.items():
        note = rate.refused or ("" if rate.clean else "with what makes instances independent")
        if rate.cycles <= _WAITS * learned.waits.get(name, 0.0):
            note = "at most: it waits for what it wrote"
        yield name, "throughput", rate.cycles, rate.cycles, rate.uncertainty, note
        for one in learned.latencies.get(name, ()):
            figure = f"latency {one.source}>{one.target}"
            yield name, figure, one.cycles, one.measured, one.uncertainty, one.note
        uops = learned.uops.get(name)
        if uops:
            yield name, "ports", shown(uops.ports or ()), "", "", uops.why
    for name, ports in learned.branches.ports.items():
        longer = learned.branches.longer.get(name)
        note = "of branches that are not taken" + (f"; {longer}" if longer else "")
        yield name, "ports", shown([ports]), "", "", note
    for name, idiom in learned.idioms.items():
        note = "all operands one register"
        yield name, "idiom", "", idiom.figure.cycles, idiom.figure.uncertainty, note
    for name, said, timed, note in learned.special.rows() if learned.special else ():
        yield name, said, "", timed.cycles, timed.uncertainty, note
    for said, timed in learned.figures.items():
        yield "", said, "", timed.cycles, timed.uncertainty, timed.refused
    for probe, cycles, uncertainty in learned.front_end.rows():
        note = "kept aside" if probe.aside else ""
        yield "", f"{probe.part}: {probe.name}", "", cycles, uncertainty, note
    for said, access in learned.accesses.figures.items():
        seen = access.figure
        value = access.cycles if seen else ""
        yield "", said, value, seen.cycles, seen.uncertainty, seen.refused
