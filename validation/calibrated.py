"""Hold cores that `calibrate` learned to the simulated cores that it learned them from.

usage: python validation/calibrated.py [--core ID ...] [--seed N] [--keep FOLDER] [-o FILE]
Calibrates each core (default: skylake, zen2) with noise, then predicts with what was written and
with the core itself, no noise on either side: random mixtures and chains of forms, which no
experiment timed, and the chains that latencies were learned from. Forms in doubt, whose figures
have a range, have their own mixtures, and of those the range is held to the core. Writes FILE
(default: validation/calibrated.md). What differs by more than 10 % and 0.1 cycle is wrong. Ends
with exit code 1 where more than 1 % of the mixtures or chains of a core are.
--keep: where answers and cores are kept (default: build/calibrated); what is there is used again.
"""

import argparse
import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import derive_path  # noqa: F401
import held_out
from held_out import Kernel
from inputs import REPO

import loopwright as lw
from loopwright import microarchs, paths
from loopwright.calibrating import core_files, self_check
from loopwright.errors import InputError
from loopwright.microbench import chains, kits
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import CandidateCore, Simulated
from loopwright.predicting import core_figures
from loopwright.predicting.core_figures import forms as table

CORES = ("skylake", "zen2")
WRONG = 1.0  # percent of mixtures and of chains that may be
_NEAR, _CYCLES = 0.10, 0.1  # what differs by no more than either is right
_EACH = 3  # mixtures of a form
_WORST = 12  # forms that are named
DOUBTFUL = "mixtures in doubt, by their ranges"


@dataclass(frozen=True)
class Check:
    """Cycles of microbenchmarks on the core and on the learned core, with their forms."""

    name: str
    forms: list[tuple[str, ...]]
    true: list[float]
    learned: list[float]

    def within(self, share: float) -> float:
        """Return the percentage that differs by no more than a share of the core's cycles."""
        near = [abs(a - b) <= max(share * a, _CYCLES * (share >= _NEAR)) for a, b in self._both()]
        return 100 * sum(near) / len(near) if near else float("nan")

    @property
    def answered(self) -> int:
        """Return how many have cycles on both."""
        return len(self._both())

    @property
    def wrong(self) -> float:
        """Return the percentage that is wrong."""
        return 100 - self.within(_NEAR)

    @property
    def mape(self) -> float:
        """Return the mean error in percent."""
        errors = [abs(a - b) / a for a, b in self._both()]
        return 100 * sum(errors) / len(errors) if errors else float("nan")

    def worst(self) -> list[tuple[str, int]]:
        """Return the forms that kernels were made for and were wrong most often."""
        rows = zip(self.forms, self.true, self.learned, strict=True)
        wrong = Counter(f[0] for f, a, b in rows if f and abs(a - b) > max(_NEAR * a, _CYCLES))
        return sorted(wrong.items(), key=lambda pair: (-pair[1], pair[0]))[:_WORST]

    def _both(self) -> list[tuple[float, float]]:
        pairs = zip(self.true, self.learned, strict=True)
        return [(a, b) for a, b in pairs if a == a and b == b]


@dataclass(frozen=True)
class Core:
    """A core's name, how many of the forms that it has figures for are known, and its checks.

    unanswered are the forms that the core itself refuses, so that nobody could learn them; doubtful
    are known forms whose figures have a range.
    """

    name: str
    forms: int
    unanswered: int
    known: int
    doubtful: int
    checks: list[Check]

    @property
    def share(self) -> float:
        """Return the percentage of forms that are known without doubt."""
        return 100 * (self.known - self.doubtful) / self.forms


def hold(core: str, folder: Path, *, seed: int = 1) -> Core:
    """Hold what calibrating a simulated core wrote into a folder to that core."""
    written = folder / f"simulated-{core}"
    true = Laboratory(Simulated(core, noise=0))
    forms = kits.forms(true.machine.isa, true.machine.features)[0]
    with models(folder):
        mine = Laboratory(Simulated(written.name, noise=0))
        _, *ends = (CandidateCore(mine.machine, *one) for one in self_check.texts_of(written))
        doubtful = core_figures.doubtful_forms(microarchs.load(written.name))
        names = set(table(written.name))
    with (written / core_files.LEFT_OUT).open(newline="") as file:
        left = {row["form"] for row in csv.DictReader(file)}
    known = [form for form in forms if form.name in names]
    sure = [form for form in known if form.name not in doubtful]
    kernels = {
        "mixtures held out": held_out.mixtures(sure, _EACH, seed),
        "chains held out": held_out.chains(sure, seed),
        "chains learned from": _timed_chains(sure, written / core_files.MEASURED),
    }
    checks = [_check(name, some, true, [mine]) for name, some in kernels.items()]
    if len(sure) < len(known):
        some = [one for one in held_out.mixtures(known, _EACH, seed) if doubtful & {*one.forms}]
        checks.append(_check(DOUBTFUL, some, true, [Laboratory(one) for one in ends]))
    asked = {form.name for form in forms} & (left | names)
    own = asked & set(table(core))
    return Core(core, len(own), len(asked - own), len(known), len(known) - len(sure), checks)


def _timed_chains(forms: Sequence[Form], measured: Path) -> list[Kernel]:
    """Return the chains whose latency is known, not a bound."""
    with measured.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"].startswith("latency")]
    sure = {(row["form"], row["figure"].partition(" ")[2]) for row in rows if not row["note"]}
    return [
        Kernel((form.name,), tuple(chains.chain(form, s, t).waiting))
        for form in forms
        for s, t in chains.pairs(form)
        if (form.name, f"{s.label}>{t.label}") in sure and s.kind != "flags" != t.kind
    ]


def _check(
    name: str, some: Sequence[Kernel], true: Laboratory, learned: Sequence[Laboratory]
) -> Check:
    """Return the check of kernels; of two learned cores, of what is nearest between theirs."""
    codes = [one.code for one in some]
    cycles, *found = [[f.cycles for f in one.time(codes, "slope")] for one in (true, *learned)]
    between = [_nearest(c, both) for c, both in zip(cycles, zip(*found, strict=True), strict=True)]
    return Check(name, [one.forms for one in some], cycles, between)


def _nearest(cycles: float, ends: Sequence[float]) -> float:
    """Return what is nearest to cycles between ends; nan where an end is."""
    return sum(ends) if any(one != one for one in ends) else min(max(cycles, min(ends)), max(ends))


@contextmanager
def models(folder: Path) -> Iterator[None]:
    """Have predictions take cores from a folder."""
    before = os.environ.get("LOOPWRIGHT_MODELS")
    os.environ["LOOPWRIGHT_MODELS"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LOOPWRIGHT_MODELS"]
        else:
            os.environ["LOOPWRIGHT_MODELS"] = before


def page(cores: Sequence[Core], seed: int) -> str:
    """Return the table for people."""
    out = [
        "# Simulated cores as calibrate learned them\n",
        f"Made by `validation/calibrated.py`, seed {seed}. Each core is calibrated with noise of",
        "0.3 % and then predicted without, by itself and by what was learned of it. What differs",
        "by more than 10 % and 0.1 cycle is wrong. Figures of forms in doubt have a range, and",
        "mixtures with such forms are wrong where they lie outside of it.\n",
        "| core | forms | known | in doubt | without doubt % | not on the core itself |",
        "|---|---|---|---|---|---|",
        *(
            f"| {c.name} | {c.forms} | {c.known} | {c.doubtful} | {c.share:.1f} | {c.unanswered} |"
            for c in cores
        ),
        "\n| core | kernels | asked | answered | within 5 % | wrong % | mean error % |",
        "|---|---|---|---|---|---|---|",
    ]
    for core in cores:
        for one in core.checks:
            figures = f"{one.within(0.05):.1f} | {one.wrong:.1f} | {one.mape:.1f}"
            out.append(
                f"| {core.name} | {one.name} | {len(one.true)} | {one.answered} | {figures} |"
            )
    out.append("\nForms that kernels were made for and were wrong most often:\n")
    for core in cores:
        for one in core.checks:
            if said := ", ".join(f"`{name}` {n}" for name, n in one.worst()):
                out.append(f"- {core.name}, {one.name}: {said}")
    return "\n".join(out) + "\n"


def main() -> None:
    """Hold the cores asked for, and write the table."""
    parser = argparse.ArgumentParser(description="Hold learned cores to those learned from.")
    parser.add_argument("--core", action="append", metavar="ID")
    parser.add_argument("--seed", type=int, default=1, help="of mixtures and chains")
    parser.add_argument("--keep", type=Path, default=paths.build_dir() / "calibrated")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "calibrated.md")
    options = parser.parse_args()
    cores = []
    for core in options.core or CORES:
        lw.calibrate(options.keep, machine=f"simulated:{core}")
        cores.append(hold(core, options.keep, seed=options.seed))
    options.o.write_text(page(cores, options.seed))
    print(f"wrote {options.o}")
    held = [one for core in cores for one in core.checks if "held out" in one.name]
    raise SystemExit(int(not all(one.wrong <= WRONG for one in held)))


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/calibrated.py: {error}") from None
