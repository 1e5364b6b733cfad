"""Hold `calibrate` to simulated cores that were changed by hand, and to other noise.

usage: python validation/changed.py [--only NAME ...] [--keep FOLDER] [-o FILE]
Makes each core of validation/changed.toml, calibrates it quickly with noise, and compares every
parameter that was written with the one that the core has, and predictions as
validation/calibrated.py does. Writes FILE (default: validation/changed.md).
--keep: where answers and cores are kept (default: build/changed); answers there are used again.
Ends with exit code 1 where a parameter is wrong and not marked as an assumption.
"""

import argparse
import csv
import io
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import calibrated
from inputs import REPO

from loopwright import paths
from loopwright.calibrating import calibrate, core_files, passes
from loopwright.errors import InputError
from loopwright.microbench import kits, memory_timing
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import NOISE, Recorded, Simulated
from loopwright.predicting.core_figures import TABLE
from loopwright.predicting.core_figures import forms as table_of

CASES = REPO / "validation" / "changed.toml"
_DEFAULTS = REPO / "models" / "pipeline" / "src" / "core" / "params"
_DECLARED = re.compile(
    r"^    (\w+) \{$|^        (?:/\*\* .* \*/ )?(\w+): .*= Some\((.+)\),$", re.MULTILINE
)
# Parameters without a true value: names of ports are arbitrary, and queues and delays limit nothing
# here.
_ARBITRARY = re.compile(
    r"ports\..*|(rename|predecode|fetch)\.queue|front_end\.mode|predecode\.delay|"
    r"(string|serial|mispredict|host|bounds|llvm_mca)\..*"
)
_PAIRS = "macro_fusion.pairs"  # a rule, or the same by form
_LETTERS = "macro_fusion.result_ports"  # of ports, whose names are arbitrary: their number tells
# Chains that show a parameter of forwarding.
_FORWARDING_CHAINS = {
    "forward_cycles": "forwarded, 8 bits",
    "forward_update_cycles": "updated, 8 bits",
    "forward_vector_cycles": "forwarded, vector",
    "failed_forward_cycles": "forwarded, more than was stored",
}
# Where these are 0 they are as the cycles of any other forwarding.
_LIKE_OTHER_FORWARDING = {f"memory.forward_{what}_cycles" for what in ("update", "vector", "part")}
_STATED_RANGE = re.compile(r"(\d+) to (\d+), ")
EQUAL, MARKED, WRONG, UNSAID = "equal", "marked", "wrong", "not said"


@dataclass(frozen=True)
class Parameter:
    """A parameter: the core's value, the learned one, and the state of their comparison."""

    name: str
    true: str
    learned: str
    state: str


@dataclass(frozen=True)
class Result:
    """A changed core: its case, its parameters, and the checks of its predictions."""

    case: Mapping[str, Any]
    parameters: Sequence[Parameter]
    core: calibrated.Core

    def of(self, state: str) -> list[Parameter]:
        """Return the parameters of one state."""
        return [parameter for parameter in self.parameters if parameter.state == state]


def write_case(case: Mapping[str, Any], models: Path) -> None:
    """Write a changed core into a folder of models."""
    original, folder = paths.models_root() / case["of"], models / case["name"]
    folder.mkdir(parents=True, exist_ok=True)
    text = (original / "core.toml").read_text()
    for name, value in case.get("set", {}).items():
        section, _, key = name.partition(".")
        text = _with_parameter(text, section, key, value)
    (folder / "core.toml").write_text(text)
    (folder / TABLE).write_text(_with_changes((original / TABLE).read_text(), case.get("rows", ())))


def _with_parameter(text: str, section: str, key: str, value: object) -> str:
    """Replace a parameter of core.toml, or add it."""
    literal = f'"{value}"' if isinstance(value, str) else str(value).lower()
    line = f'{key} = {{ value = {literal}, source = "changed by hand", confidence = "high" }}\n'
    head = f"[{section}]"
    lines = text.splitlines(keepends=True)
    headings = [n for n, row in enumerate(lines) if row.split("#")[0].strip() == head]
    if not headings:
        return f"{text}\n{head}\n{line}"
    start = headings[0] + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("[")), len(lines))
    kept = [row for row in lines[start:end] if not row.startswith(f"{key} =")]
    return "".join([*lines[:start], line, *kept, *lines[end:]])


def _with_changes(text: str, changes: Sequence[Mapping[str, str]]) -> str:
    """Replace cells of instructions.csv; InputError where a change changes none."""
    head, _, body = text.partition("\n")
    rows = list(csv.DictReader(io.StringIO(body)))
    for change in changes:
        changed = 0
        for row in rows:
            if re.fullmatch(change["mnemonic"], row["mnemonic"]):
                cell = re.sub(change["from"], change["to"], row[change["column"]])
                changed += cell != row[change["column"]]
                row[change["column"]] = cell
        if not changed:
            raise InputError(f"{CASES.name}: {change} changes nothing")
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return f"{head}\n{out.getvalue()}"


def learn(case: Mapping[str, Any], keep: Path) -> Result:
    """Calibrate a changed core, and compare the learned core with it."""
    models = keep / "models"
    write_case(case, models)
    with calibrated.models(models):
        machine = Simulated(case["name"], noise=case.get("noise", NOISE), seed=case.get("seed", 1))
        forms = kits.forms(machine.isa, machine.features)[0]
        folder = keep / calibrate.folder(machine.name)
        folder.mkdir(exist_ok=True)
        recorded = Recorded(machine, folder / calibrate.ANSWERS)
        quick = calibrate.chosen(forms, quick=True, mnemonics=None)
        core_files.write_core(
            passes.learn_core(Laboratory(recorded), quick, lambda _: None), machine, folder
        )
        recorded.close()
        core = calibrated.hold(case["name"], keep)
        table_latencies = _table_latencies(case["name"], machine.isa)
        exact = Laboratory(Simulated(case["name"], noise=0))
    true, learned = (
        tomllib.loads((core_folder / "core.toml").read_text())
        for core_folder in (models / case["name"], folder)
    )
    for name, cycles in table_latencies.items():
        true["memory"][name]["value"] = cycles
    with calibrated.models(keep):
        equal_chains = _equal_chains(exact, Laboratory(Simulated(folder.name, noise=0)))
    return Result(case, list(compared(true, learned, equal_chains)), core)


def _table_latencies(core: str, isa: str) -> dict[str, int]:
    """Return the latencies of loads by parameter, where instructions.csv has them.

    Those of core.toml are for the other loads.
    """
    load_forms = kits.of(isa).LOADS
    table_rows = table_of(core)
    listed = {
        key: re.search(r"\ba:(\d+)", table_rows[name]["latency"])
        for key, name in load_forms.items()
        if name in table_rows
    }
    return {key: int(match[1]) for key, match in listed.items() if match}


def _equal_chains(true: Laboratory, learned: Laboratory) -> dict[str, bool]:
    """Return for each parameter of forwarding whether its chain takes as long on both cores."""
    forms = {form.name: form for form in kits.forms(true.isa, true.machine.features)[0]}
    timings = [memory_timing.measure(laboratory, forms, {}) for laboratory in (true, learned)]
    cycles_of_chain = {
        name: [laboratory.known(chain) for laboratory in timings]
        for name, chain in _FORWARDING_CHAINS.items()
    }
    return {
        f"memory.{name}": None not in cycles and len(set(cycles)) == 1
        for name, cycles in cycles_of_chain.items()
    }


def compared(
    true: Mapping[str, Any], learned: Mapping[str, Any], equal_chains: Mapping[str, bool]
) -> Iterator[Parameter]:
    """Yield the parameters of the learned core, then those that only the true core states.

    Of the latter, those with the simulator's own value are left out. equal_chains says of
    parameters of forwarding whether their chains take as long on both cores: such a parameter is
    equal whatever its value.
    """
    entries, learned_entries, defaults = _entries(true), _entries(learned), _defaults()
    if "rename.instructions" not in entries and "rename.width" in entries:
        entries["rename.instructions"] = entries["rename.width"]  # no more can be renamed
        defaults["rename.instructions"] = str(entries["rename.width"]["value"])
    if "scheduler.pool_entries" in entries:
        entries.pop("scheduler.entries", None)  # those of each pool fill first
        learned_entries.pop("scheduler.entries", None)
    if not true.get("loop_buffer", {}).get("enabled", {}).get("value"):
        entries.pop("loop_buffer.uops", None)
    for name, entry in learned_entries.items():
        value = str(entries[name]["value"] if name in entries else defaults.get(name, "")).lower()
        if name in _LIKE_OTHER_FORWARDING and value == "0" and "memory.forward_cycles" in entries:
            value = str(entries["memory.forward_cycles"]["value"])
        found, source = str(entry["value"]).lower(), entry["source"]
        marked = source.startswith("assumption") or _in_stated_range(source, value)
        both_fuse = name == _PAIRS and "none" not in (found, value)
        as_many_ports = name == _LETTERS and len(found) == len(value)
        equal = found == value or equal_chains.get(name) or both_fuse or as_many_ports
        state = EQUAL if equal else MARKED if marked else WRONG
        yield Parameter(name, value, found, state)
    for name in entries.keys() - learned_entries.keys():
        value = str(entries[name]["value"]).lower()
        if value != defaults.get(name):
            yield Parameter(name, value, "", UNSAID)


def _in_stated_range(source: str, value: str) -> bool:
    """True if a source states a range, and a value lies in it."""
    stated = _STATED_RANGE.match(source)
    return bool(stated and value.isdigit() and int(stated[1]) <= int(value) <= int(stated[2]))


def _entries(core: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = {
        f"{part}.{key}": entry
        for part, rows in core.items()
        if isinstance(rows, dict)
        for key, entry in rows.items()
        if isinstance(entry, dict)
    }
    return {name: entry for name, entry in entries.items() if not _ARBITRARY.fullmatch(name)}


def _defaults() -> dict[str, str]:
    """Return the simulator's own values of parameters, by dotted name."""
    defaults, section = {}, ""
    text = "\n".join(file.read_text() for file in sorted(_DEFAULTS.glob("*.rs")))
    for head, key, value in _DECLARED.findall(text):
        section = head or section
        if key:
            defaults[f"{section}.{key}"] = value.rpartition("::")[2].lstrip("&").strip('"').lower()
    return defaults


def page(results: Sequence[Result]) -> str:
    """Return the page of all results."""
    lines = [
        "# Cores with changed parameters as calibrate learned them\n",
        "Made by `validation/changed.py` from the cores of `validation/changed.toml`, calibrated",
        "with `--quick`. Marked: another value than the core's, said to be an assumption, or a",
        "range with the core's in it. Not said: the core has it, and nothing was written of it.",
        "Mixtures and chains are those that `validation/calibrated.py` keeps aside: of forms",
        "without doubt, and mixtures with others by the range that is stated. nan stands where",
        "none is predicted, as no branch of a loop is known. Cores without a row were not asked",
        "for.\n",
        "| core | parameters equal | marked | not said | wrong | forms without doubt % | mixtures "
        "wrong % | chains wrong % | in doubt, outside the range % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        checks = {check.name: check.wrong for check in result.core.checks}
        counts = " | ".join(str(len(result.of(s))) for s in (EQUAL, MARKED, UNSAID, WRONG))
        lines.append(
            f"| {result.case['name']} | {counts} | {result.core.share:.1f} | "
            f"{checks['mixtures held out']:.1f} | {checks['chains held out']:.1f} | "
            f"{checks.get(calibrated.DOUBTFUL, float('nan')):.1f} |"
        )
    for title, state in (("Wrong", WRONG), ("Marked", MARKED), ("Not said", UNSAID)):
        lines.append(f"\n{title} (the core's, what was learned):\n")
        for result in results:
            parameters = ", ".join(
                f"{f.name} {f.true}" + (f" {f.learned}" if f.learned else "")
                for f in result.of(state)
            )
            lines.append(f"- {result.case['name']}: {parameters or 'none'}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Learn the named cores, or all, and write the page."""
    parser = argparse.ArgumentParser(description="Hold calibrate to cores changed by hand.")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--keep", type=Path, default=paths.build_dir() / "changed")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "changed.md")
    options = parser.parse_args()
    cases = tomllib.loads(CASES.read_text())["core"]
    results = []
    for case in cases:
        if not options.only or case["name"] in options.only:
            results.append(learn(case, options.keep))
            print(f"{case['name']}: {len(results[-1].of(WRONG))} wrong", flush=True)
    options.o.write_text(page(results))
    print(f"wrote {options.o}")
    raise SystemExit(int(any(result.of(WRONG) for result in results)))


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/changed.py: {error}") from None
