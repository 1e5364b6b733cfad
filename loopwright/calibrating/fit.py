"""Fit of hypotheses to microbenchmarks on the simulated learned core: one error, one rule for ties.

A hypothesis is what was learned with some parameters or uops replaced. Its error is the mean over
microbenchmarks of |predicted - measured| / measured, each 1 at most, and 1 where the core has no
answer. Of hypotheses whose errors differ by no more than noise the first one holds, so the plainest
ones come first. One that leaves less error than EXPLAINED is fitted; another one is an assumption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from loopwright.calibrating import core_files
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.evidence import TRIED, Evidence, assumed, fitted
from loopwright.code import binding
from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import COUNTER, Oracle
from loopwright.microbench.simulated import CandidateCore

EXPLAINED = 0.08  # mean relative error of microbenchmarks that a hypothesis explains
TIE = 0.002  # of the mean error: what noise makes of it where the figures are sure

Rules = Mapping[str, object]
# Times the same microbenchmarks on any machine, in order.
Time = Callable[[Laboratory], Sequence[Figure]]


@dataclass(frozen=True)
class Hypothesis:
    """A candidate of the core: what was learned, with parameters that replace its own."""

    learned: CoreModel
    rules: Rules = field(default_factory=dict)

    def chosen(self, why: Evidence) -> CoreModel:
        """Return what was learned with these parameters; why is what they rest on."""
        return with_rules(self.learned, self.rules, why)


@dataclass(frozen=True)
class Fit:
    """Errors of hypotheses, by hypothesis and microbenchmark, and the number of the one that holds.

    alike are the numbers of others that explain as much; over has the mean by which hypotheses
    predict more than was measured.
    """

    hypotheses: Sequence[Hypothesis]
    off: Sequence[Sequence[float]]
    best: int
    alike: Sequence[int]
    over: Sequence[float] = ()

    @property
    def error(self) -> float:
        """Return the mean relative error of the hypothesis that holds."""
        return self.error_of(self.best)

    def error_of(self, number: int) -> float:
        """Return the mean relative error of a hypothesis."""
        return fmean(self.off[number])

    @property
    def hypothesis(self) -> Hypothesis:
        """Return the hypothesis that holds."""
        return self.hypotheses[self.best]

    @property
    def explained(self) -> bool:
        """Say whether the hypothesis that holds explains the microbenchmarks."""
        return self.error <= EXPLAINED

    def bounding(self) -> "Fit":
        """Return the fit with the hypothesis that holds as a bound: what is not known costs more.

        Of those that exceed measurements least, it is the one with the least error.
        """
        least = min(self.over) + TIE
        some = (n for n, over in enumerate(self.over) if over <= least)
        return replace(self, best=min(some, key=self.error_of), alike=())


def fit(
    laboratory: Laboratory,
    codes: Sequence[bytes],
    time: Time,
    hypotheses: Sequence[Hypothesis],
    figures: Sequence[Figure] | None = None,
) -> Fit | None:
    """Return how hypotheses, the plainest first, explain microbenchmarks made of these codes.

    figures are those of the machine, where it was asked before. None where it refused them all.
    Microbenchmarks that no hypothesis answers tell nothing.
    """
    took = time(laboratory) if figures is None else figures
    known = [n for n, one in enumerate(took) if one]
    if not known or not hypotheses:
        return None
    said = [time(core) for core in _candidates(laboratory.machine, codes, hypotheses)]
    told = [n for n in known if any(some[n] for some in said)] or known
    measured = [took[n] for n in told]
    off = [errors([some[n] for n in told], measured) for some in said]
    over = [fmean(_over(some[n], took[n]) for n in told) for some in said]
    means = [fmean(one) for one in off]
    most = min(means) + noise(measured)
    best = next(n for n, error in enumerate(means) if error <= most)
    alike = [n for n, error in enumerate(means) if n != best and error <= means[best] + TIE]
    return Fit(hypotheses, off, best, alike, over)


def _over(said: Figure, took: Figure) -> float:
    """Return by how much a prediction exceeds a measurement; nothing where there is none."""
    return max(said.cycles / took.cycles - 1, 0.0) if said and took.cycles > 0 else 0.0


def _candidates(
    machine: Oracle, codes: Sequence[bytes], hypotheses: Sequence[Hypothesis]
) -> Iterator[Laboratory]:
    """Yield the core of each hypothesis; its table is written once for what was learned alike."""
    known: dict[int, tuple[CoreModel, str]] = {}
    for one in hypotheses:
        if id(one.learned) not in known:
            small = within(one.learned, machine.isa, codes)
            known[id(one.learned)] = small, core_files.instruction_table(small, machine)
        small, table = known[id(one.learned)]
        toml = core_files.core_toml(with_rules(small, one.rules, TRIED), machine)
        yield Laboratory(CandidateCore(machine, toml, table))


def errors(said: Sequence[Figure], took: Sequence[Figure]) -> list[float]:
    """Return the relative error of each prediction, 1 at most; 1 where there is none."""
    return [
        min(abs(a.cycles - b.cycles) / b.cycles, 1.0) if a and b.cycles > 0 else 1.0
        for a, b in zip(said, took, strict=True)
    ]


def mean_error(said: Sequence[Figure], took: Sequence[Figure]) -> float:
    """Return the mean relative error of predictions, each 1 at most; 1 where there is none."""
    return fmean(errors(said, took))


def noise(took: Sequence[Figure]) -> float:
    """Return what the uncertainties of figures make of a mean error."""
    some = [one.uncertainty / one.cycles for one in took if one.cycles > 0]
    spread: float = sum(error**2 for error in some) ** 0.5
    return max(TIE, spread / len(took))


def candidate_laboratory(
    learned: CoreModel, machine: Oracle, codes: Iterable[bytes], rules: Rules | None = None
) -> Laboratory:
    """Return what times kernels of these codes on the core that would be written, and some rules.

    The core holds no other forms, as it is made for each hypothesis that is tried.
    """
    small = with_rules(within(learned, machine.isa, codes), rules or {}, TRIED)
    return Laboratory(CandidateCore(machine, *core_files.core_texts(small, machine)))


def within(learned: CoreModel, isa: str, codes: Iterable[bytes]) -> CoreModel:
    """Return what was learned of the forms of codes and of the end of a loop alone.

    Branches of which nothing is known use any port here: of the loops of microbenchmarks they are
    no great part.
    """
    closing = block.closing(isa, COUNTER[isa], 0)
    some = {
        name
        for names in binding.forms(isa, [closing, *dict.fromkeys(codes)])
        for name in names or ()
    }
    every = (name for branch in kits.of(isa).BRANCHES for name in (branch.name, branch.opposite))
    ports = {**dict.fromkeys(every, learned.core.all_arithmetic), **learned.branches.ports}
    return replace(
        learned,
        uops={n: one for n, one in learned.uops.items() if n in some},
        branches=replace(learned.branches, ports=ports),
    )


def with_rules(learned: CoreModel, rules: Rules, why: Evidence) -> CoreModel:
    """Return what was learned with parameters; why is what they rest on."""
    more = {name: (value, why) for name, value in rules.items()}
    return replace(learned, rules={**learned.rules, **more})


def settled(learned: CoreModel, found: Fit, said: str) -> CoreModel:
    """Return what was learned with the parameters that hold, each with what it rests on.

    A value that another hypothesis of as few parameters has otherwise, and explains as much, is an
    assumption; so is all of what explains little.
    """
    rules = found.hypothesis.rules
    rivals = [found.hypotheses[n].rules for n in found.alike]
    rivals = [one for one in rivals if len(one) <= len(rules)]
    out = dict(learned.rules)
    for name, value in rules.items():
        other = next((one for one in rivals if one.get(name) != value), None)
        if not found.explained:
            why = assumed(f"no rule explains them, and this one leaves least; {said}")
        elif other is not None:
            rule = " and ".join(f"{key} {one}" for key, one in other.items()) or "none"
            why = assumed(f"another rule explains them as well, {rule}; {said}")
        else:
            why = fitted(said)
        out[name] = value, why
    return replace(learned, rules=out)
