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
from loopwright.predicting.core_figures import forms as table

CASES = REPO / "validation" / "changed.toml"
_DEFAULTS = REPO / "models" / "pipeline" / "src" / "core" / "params"
_DECLARED = re.compile(
    r"^    (\w+) \{$|^        (?:/\*\* .* \*/ )?(\w+): .*= Some\((.+)\),$", re.MULTILINE
)
# What has no true value: names of ports are arbitrary, and queues and delays bind nothing here.
_ARBITRARY = re.compile(
    r"ports\..*|(rename|predecode|fetch)\.queue|front_end\.mode|predecode\.delay|"
    r"(string|serial|mispredict|host|bounds|llvm_mca)\..*"
)
_PAIRS = "macro_fusion.pairs"  # a rule, or the same by form
_LETTERS = "macro_fusion.result_ports"  # of ports, whose names are arbitrary: their number tells
# Chains that show a parameter of forwarding.
_CHAINS = {
    "forward_cycles": "forwarded, 8 bits",
    "forward_update_cycles": "updated, 8 bits",
    "forward_vector_cycles": "forwarded, vector",
    "failed_forward_cycles": "forwarded, more than was stored",
}
# Where these are 0 they are as the cycles of any other forwarding.
_AS_OTHERS = {f"memory.forward_{what}_cycles" for what in ("update", "vector", "part")}
_RANGE = re.compile(r"(\d+) to (\d+), ")
EQUAL, MARKED, WRONG, UNSAID = "equal", "marked", "wrong", "not said"


@dataclass(frozen=True)
class Found:
    """A parameter: what the core has, what was learned, and which of the four that is."""

    name: str
    true: str
    learned: str
    state: str


@dataclass(frozen=True)
class Result:
    """A changed core: its case, its parameters, and what predictions come to."""

    case: Mapping[str, Any]
    found: Sequence[Found]
    held: calibrated.Core

    def of(self, state: str) -> list[Found]:
        """Return the parameters of one state."""
        return [one for one in self.found if one.state == state]


def made(case: Mapping[str, Any], models: Path) -> None:
    """Write a changed core into a folder of models."""
    of, folder = paths.models_root() / case["of"], models / case["name"]
    folder.mkdir(parents=True, exist_ok=True)
    text = (of / "core.toml").read_text()
    for name, value in case.get("set", {}).items():
        part, _, key = name.partition(".")
        text = _set(text, part, key, value)
    (folder / "core.toml").write_text(text)
    (folder / TABLE).write_text(_rows((of / TABLE).read_text(), case.get("rows", ())))


def _set(text: str, part: str, key: str, value: object) -> str:
    """Replace a parameter of core.toml, or add it."""
    spelled = f'"{value}"' if isinstance(value, str) else str(value).lower()
    line = f'{key} = {{ value = {spelled}, source = "changed by hand", confidence = "high" }}\n'
    head = f"[{part}]"
    lines = text.splitlines(keepends=True)
    starts = [n for n, one in enumerate(lines) if one.split("#")[0].strip() == head]
    if not starts:
        return f"{text}\n{head}\n{line}"
    start = starts[0] + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("[")), len(lines))
    rest = [one for one in lines[start:end] if not one.startswith(f"{key} =")]
    return "".join([*lines[:start], line, *rest, *lines[end:]])


def _rows(text: str, changes: Sequence[Mapping[str, str]]) -> str:
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
    """Calibrate a changed core, and hold what was learned to it."""
    models = keep / "models"
    made(case, models)
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
        held = calibrated.hold(case["name"], keep)
        listed = _listed(case["name"], machine.isa)
        exact = Laboratory(Simulated(case["name"], noise=0))
    true, mine = (
        tomllib.loads((one / "core.toml").read_text()) for one in (models / case["name"], folder)
    )
    for name, cycles in listed.items():
        true["memory"][name]["value"] = cycles
    with calibrated.models(keep):
        same = _same(exact, Laboratory(Simulated(folder.name, noise=0)))
    return Result(case, list(compared(true, mine, same)), held)


def _listed(core: str, isa: str) -> dict[str, int]:
    """Return the latencies of loads that the table has: those of core.toml are for the others."""
    known = kits.of(isa).LOADS
    every = table(core)
    listed = {
        key: re.search(r"\ba:(\d+)", every[name]["latency"])
        for key, name in known.items()
        if name in every
    }
    return {key: int(found[1]) for key, found in listed.items() if found}


def _same(true: Laboratory, mine: Laboratory) -> dict[str, bool]:
    """Say by parameters of forwarding whether chains through memory take as long on both cores."""
    forms = {form.name: form for form in kits.forms(true.isa, true.machine.features)[0]}
    found = [memory_timing.measure(one, forms, {}) for one in (true, mine)]
    known = {name: [one.known(chain) for one in found] for name, chain in _CHAINS.items()}
    return {
        f"memory.{name}": None not in cycles and len(set(cycles)) == 1
        for name, cycles in known.items()
    }


def compared(
    true: Mapping[str, Any], mine: Mapping[str, Any], same: Mapping[str, bool]
) -> Iterator[Found]:
    """Yield the parameters that were written, or that a core has and the simulator does not.

    same says of parameters of forwarding whether chains take as long, whatever they are made of.
    """
    has, said, usual = _entries(true), _entries(mine), _defaults()
    if "rename.instructions" not in has and "rename.width" in has:
        has["rename.instructions"] = has["rename.width"]  # no more can be renamed
        usual["rename.instructions"] = str(has["rename.width"]["value"])
    if "scheduler.pool_entries" in has:
        has.pop("scheduler.entries", None)  # those of each pool fill first
        said.pop("scheduler.entries", None)
    if not true.get("loop_buffer", {}).get("enabled", {}).get("value"):
        has.pop("loop_buffer.uops", None)
    for name, entry in said.items():
        value = str(has[name]["value"] if name in has else usual.get(name, "")).lower()
        if name in _AS_OTHERS and value == "0" and "memory.forward_cycles" in has:
            value = str(has["memory.forward_cycles"]["value"])
        learned = str(entry["value"]).lower()
        marked = entry["source"].startswith("assumption") or _within(entry["source"], value)
        fused = name == _PAIRS and "none" not in (learned, value)
        named = name == _LETTERS and len(learned) == len(value)
        equal = learned == value or same.get(name) or fused or named
        state = EQUAL if equal else MARKED if marked else WRONG
        yield Found(name, value, learned, state)
    for name in has.keys() - said.keys():
        value = str(has[name]["value"]).lower()
        if value != usual.get(name):
            yield Found(name, value, "", UNSAID)


def _within(source: str, value: str) -> bool:
    """Say whether a source gives a range that a value lies in."""
    given = _RANGE.match(source)
    return bool(given and value.isdigit() and int(given[1]) <= int(value) <= int(given[2]))


def _entries(core: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    every = {
        f"{part}.{key}": entry
        for part, rows in core.items()
        if isinstance(rows, dict)
        for key, entry in rows.items()
        if isinstance(entry, dict)
    }
    return {name: one for name, one in every.items() if not _ARBITRARY.fullmatch(name)}


def _defaults() -> dict[str, str]:
    """Return what the simulator takes where core.toml says nothing."""
    out, part = {}, ""
    text = "\n".join(file.read_text() for file in sorted(_DEFAULTS.glob("*.rs")))
    for head, key, value in _DECLARED.findall(text):
        part = head or part
        if key:
            out[f"{part}.{key}"] = value.rpartition("::")[2].lstrip("&").strip('"').lower()
    return out


def page(results: Sequence[Result]) -> str:
    """Return the table for people."""
    out = [
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
    for one in results:
        checks = {check.name: check.wrong for check in one.held.checks}
        counts = " | ".join(str(len(one.of(s))) for s in (EQUAL, MARKED, UNSAID, WRONG))
        out.append(
            f"| {one.case['name']} | {counts} | {one.held.share:.1f} | "
            f"{checks['mixtures held out']:.1f} | {checks['chains held out']:.1f} | "
            f"{checks.get(calibrated.DOUBTFUL, float('nan')):.1f} |"
        )
    for title, state in (("Wrong", WRONG), ("Marked", MARKED), ("Not said", UNSAID)):
        out.append(f"\n{title} (the core's, what was learned):\n")
        for one in results:
            said = ", ".join(
                f"{f.name} {f.true}" + (f" {f.learned}" if f.learned else "") for f in one.of(state)
            )
            out.append(f"- {one.case['name']}: {said or 'none'}")
    return "\n".join(out) + "\n"


def main() -> None:
    """Learn the cores asked for, and write the table."""
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
    raise SystemExit(int(any(one.of(WRONG) for one in results)))


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/changed.py: {error}") from None
