"""What was learned, as a core that the simulator takes, and what each figure of it rests on."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine
from loopwright.calibrating.ports.rule import Ports
from loopwright.predicting.forms import TABLE

SOURCE = "calibrated"
MEASURED = "measured.csv"
LEFT_OUT = "left-out.csv"
_NAMES = "0123456789abcdefghijklmnopqrstuvwxyz"
_MEMORY = "LSD"  # ports that nothing here is known to use
_LABEL = re.compile(r"[0-7f]|r[abcd]x|r[sb]p|r[sd]i")
_HEAD = "mnemonic,operands,issue,mite,ms,decoder,ports,latency,flags,indexed,same,source"


def core(learned: Learned, machine: Machine, folder: Path) -> None:
    """Write a core into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.toml").write_text(_toml(learned, machine))
    with (folder / TABLE).open("w", newline="") as file:
        file.write(f"# Source: measured on {machine.name}; layout: models/pipeline/README.md\n")
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_HEAD.split(","))
        rows.writerows(_table(learned))
    with (folder / MEASURED).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["form", "figure", "value", "cycles", "uncertainty", "note"])
        rows.writerows(_measured(learned))
    with (folder / LEFT_OUT).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["form", "why"])
        rows.writerows(left_out(learned))
    (folder.parent / "sources.toml").write_text(
        f'[{SOURCE}]\ntitle = "loopwright calibrate on {machine.fingerprint}"\n'
        f'address = "{folder.name}/{MEASURED}"\ndate = ""\n'
    )


def left_out(learned: Learned) -> list[tuple[str, str]]:
    """Return the forms that the core has no figures for, and why."""
    refused = [(n, rate.refused) for n, rate in learned.throughputs.items() if rate.refused]
    return refused + [(n, one.why) for n, one in learned.uops.items() if one.ports is None]


def _table(learned: Learned) -> Iterable[list[str]]:
    """Yield the rows of the table: forms of a mnemonic with the same figures share one."""
    rows: dict[tuple[str, str, str, str, str], list[str]] = defaultdict(list)
    for name, uops in learned.uops.items():
        if uops.ports is None:
            continue
        mnemonic, _, operands = name.partition(" ")
        latencies = learned.latencies[name]
        flags = [f"tp={uops.busy}"] if uops.busy else []
        if not uops.ports and any(one.cycles == 0 and not one.bound for one in latencies):
            flags.append("elim")
        places = str(max(uops.places, 1))
        figures = (places, shown(uops.ports), _latency(latencies), " ".join(flags))
        rows[mnemonic, *figures].append(operands)
    for (mnemonic, issue, ports, cycles, said), named in sorted(rows.items()):
        cells = [mnemonic, ";".join(named), issue, issue, "0", "", ports, cycles, said]
        yield [*cells, "", "", SOURCE]


def shown(ports: Sequence[Ports]) -> str:
    """Return uops as the table has them: 2*01+5."""
    count = Counter("".join(_NAMES[port] for port in sorted(one)) for one in ports)
    return "+".join(f"{n}*{one}" if n > 1 else one for one, n in sorted(count.items()))


def _latency(latencies: Sequence[Latency]) -> str:
    known = [one for one in latencies if not one.refused]
    known = [o for o in known if _LABEL.fullmatch(o.source) and _LABEL.fullmatch(o.target)]
    return " ".join(f"{one.source}>{one.target}:{one.cycles}" for one in known)


def _measured(learned: Learned) -> Iterable[Sequence[object]]:
    """Yield what was measured of each form."""
    width = learned.width
    yield "", "width", width.instructions, width.measured, width.uncertainty, "nops a cycle"
    for name, rate in learned.throughputs.items():
        note = rate.refused or ("" if rate.clean else "with what makes instances independent")
        yield name, "throughput", rate.cycles, rate.cycles, rate.uncertainty, note
        for one in learned.latencies.get(name, ()):
            figure = f"latency {one.source}>{one.target}"
            note = one.refused or ("at most: the chain does not bind" if one.bound else "")
            yield name, figure, one.cycles, one.measured, one.uncertainty, note
        uops = learned.uops.get(name)
        if uops:
            yield name, "ports", shown(uops.ports or ()), "", "", uops.why


def _toml(learned: Learned, machine: Machine) -> str:
    """Return core.toml; what no experiment told is an assumption, and says so."""
    width = learned.width
    every = sorted(frozenset().union(*learned.ports))
    names = "".join(_NAMES[port] for port in every)
    nops = f"{width.measured:.3f} +- {width.uncertainty:.3f} nops a cycle [{SOURCE}]"
    unknown = "assumption: not measured"
    entries: Mapping[str, tuple[tuple[str, object, str], ...]] = {
        "front_end": (
            ("mode", "ideal", "assumption: not measured; it never binds here"),
            ("fetch", "blocks", unknown),
        ),
        "uop_cache": (("rule", "none", unknown),),
        "rename": (
            ("width", width.instructions, nops),
            ("queue", 64, unknown),
            ("move_slots_gpr", "unlimited", unknown),
            ("move_slots_vec", "unlimited", unknown),
        ),
        "scheduler": (("entries", 97, unknown),),
        "ports": (
            ("names", names + _MEMORY, f"as many as explain what mixtures take [{SOURCE}]"),
            ("assign", "least_loaded", unknown),
            ("load", _MEMORY[0], "assumption: memory is not measured, and no form here uses it"),
            ("store_address", _MEMORY[1], "assumption: as load"),
            ("store_data", _MEMORY[2], "assumption: as load"),
            ("alu", names, unknown),
        ),
        "retire": (
            ("width", width.instructions, "assumption: as many as are dispatched"),
            ("reorder_buffer", 224, unknown),
        ),
        "macro_fusion": (("pairs", "none", unknown),),
    }
    features = ", ".join(f'"{name}"' for name in sorted(machine.features))
    lines = [
        f'name = "calibrated on {machine.name}"',
        f'isa = "{machine.isa}"',
        'role = "validation"',
        f"features = [{features}]",
    ]
    for table, rows in entries.items():
        lines += ["", f"[{table}]"]
        for key, value, source in rows:
            sure = "low" if source.startswith("assumption") else "high"
            spelled = f'"{value}"' if isinstance(value, str) else value
            lines.append(
                f'{key} = {{ value = {spelled}, source = "{source}", confidence = "{sure}" }}'
            )
    return "\n".join(lines) + "\n"
