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
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

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
from loopwright.predicting.core_figures import forms as table_of

CORES = ("skylake", "zen2")
WRONG = 1.0  # percent of mixtures and of chains that may be
_NEAR_SHARE, _NEAR_CYCLES = 0.10, 0.1  # what differs by no more than either is right
_MIXTURES_OF_FORM = 3  # mixtures of a form
_MOST_NAMED = 12  # forms that are named
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
        least = _NEAR_CYCLES if share >= _NEAR_SHARE else 0.0
        near = [abs(a - b) <= max(share * a, least) for a, b in self._pairs()]
        return 100 * sum(near) / len(near) if near else float("nan")

    @property
    def answered(self) -> int:
        """The number of microbenchmarks with cycles on both."""
        return len(self._pairs())

    @property
    def wrong(self) -> float:
        """The percentage that is wrong."""
        return 100 - self.within(_NEAR_SHARE)

    @property
    def mape(self) -> float:
        """The mean error in percent."""
        errors = [abs(a - b) / a for a, b in self._pairs()]
        return 100 * sum(errors) / len(errors) if errors else float("nan")

    def worst(self) -> list[tuple[str, int]]:
        """Return the forms whose own kernels are wrong most often, with their numbers."""
        wrong = Counter(
            forms[0]
            for forms, a, b in zip(self.forms, self.true, self.learned, strict=True)
            if forms and abs(a - b) > max(_NEAR_SHARE * a, _NEAR_CYCLES)
        )
        return sorted(wrong.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_NAMED]

    def _pairs(self) -> list[tuple[float, float]]:
        """Return the cycles on the core and on the learned core, where both are known."""
        pairs = zip(self.true, self.learned, strict=True)
        return [(a, b) for a, b in pairs if a == a and b == b]


@dataclass(frozen=True)
class Core:
    """A learned core: its name, counts of its forms, and its checks.

    forms counts those that the core itself has figures for, unanswered those that it refuses, so
    that nobody could learn them. known counts the learned forms, doubtful those of them whose
    figures have a range.
    """

    name: str
    forms: int
    unanswered: int
    known: int
    doubtful: int
    checks: list[Check]

    @property
    def share(self) -> float:
        """The percentage of forms that are known without doubt."""
        return 100 * (self.known - self.doubtful) / self.forms


def hold(core: str, folder: Path, *, seed: int = 1) -> Core:
    """Return the comparison of a simulated core with the core learned from it, below folder."""
    written = folder / f"simulated-{core}"
    true = Laboratory(Simulated(core, noise=0))
    forms = kits.forms(true.machine.isa, true.machine.features)[0]
    with models(folder):
        learned = Laboratory(Simulated(written.name, noise=0))
        _, *ends = (
            CandidateCore(learned.machine, *texts) for texts in self_check.texts_of(written)
        )
        doubtful = core_figures.doubtful_forms(microarchs.load(written.name))
        names = set(table_of(written.name))
    with (written / core_files.LEFT_OUT).open(newline="") as file:
        left_out = {row["form"] for row in csv.DictReader(file)}
    known = [form for form in forms if form.name in names]
    certain = [form for form in known if form.name not in doubtful]
    kernels = {
        "mixtures held out": held_out.mixtures(certain, _MIXTURES_OF_FORM, seed),
        "chains held out": held_out.chains(certain, seed),
        "chains learned from": _timed_chains(certain, written / core_files.MEASURED),
    }
    checks = [_check(name, of_kind, true, [learned]) for name, of_kind in kernels.items()]
    if len(certain) < len(known):
        mixtures = [
            kernel
            for kernel in held_out.mixtures(known, _MIXTURES_OF_FORM, seed)
            if doubtful & {*kernel.forms}
        ]
        checks.append(_check(DOUBTFUL, mixtures, true, [Laboratory(end) for end in ends]))
    listed = {form.name for form in forms} & (left_out | names)
    answered = listed & set(table_of(core))
    in_doubt = len(known) - len(certain)
    return Core(core, len(answered), len(listed - answered), len(known), in_doubt, checks)


def _timed_chains(forms: Sequence[Form], measured: Path) -> list[Kernel]:
    """Return the timed chains whose latency is known, not a bound."""
    with measured.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"].startswith("latency")]
    known_latencies = {
        (row["form"], row["figure"].partition(" ")[2]) for row in rows if not row["note"]
    }
    return [
        Kernel((form.name,), tuple(chains.chain(form, s, t).waiting))
        for form in forms
        for s, t in chains.pairs(form)
        if (form.name, f"{s.label}>{t.label}") in known_latencies and s.kind != "flags" != t.kind
    ]


def _check(
    name: str, kernels: Sequence[Kernel], true: Laboratory, learned: Sequence[Laboratory]
) -> Check:
    """Return the check of kernels.

    Of two learned cores, the ends of ranges, that figure counts which is nearest between theirs.
    """
    codes = [kernel.code for kernel in kernels]
    cycles, *bounds = (
        [figure.cycles for figure in laboratory.time(codes, "slope")]
        for laboratory in (true, *learned)
    )
    nearest = [_nearest(c, ends) for c, *ends in zip(cycles, *bounds, strict=True)]
    return Check(name, [kernel.forms for kernel in kernels], cycles, nearest)


def _nearest(cycles: float, ends: Sequence[float]) -> float:
    """Return the figure between ends that is nearest to cycles; NaN where an end is NaN."""
    if any(end != end for end in ends):
        return float("nan")
    return min(max(cycles, min(ends)), max(ends))


def models(folder: Path) -> AbstractContextManager[object]:
    """Return a context in which predictions take cores from a folder."""
    return patch.dict(os.environ, LOOPWRIGHT_MODELS=str(folder))


def page(cores: Sequence[Core], seed: int) -> str:
    """Return the page of all checks."""
    lines = [
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
        for check in core.checks:
            figures = f"{check.within(0.05):.1f} | {check.wrong:.1f} | {check.mape:.1f}"
            lines.append(
                f"| {core.name} | {check.name} | {len(check.true)} | {check.answered} | {figures} |"
            )
    lines.append("\nForms that kernels were made for and were wrong most often:\n")
    for core in cores:
        for check in core.checks:
            if worst := ", ".join(f"`{name}` {n}" for name, n in check.worst()):
                lines.append(f"- {core.name}, {check.name}: {worst}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Calibrate and check the named cores, and write the page."""
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
    checks = [check for core in cores for check in core.checks if "held out" in check.name]
    raise SystemExit(int(not all(check.wrong <= WRONG for check in checks)))


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/calibrated.py: {error}") from None
