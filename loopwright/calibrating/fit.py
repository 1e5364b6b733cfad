"""Fit of hypotheses to microbenchmarks on the simulated learned core.

A hypothesis is the learned core with some parameters or uops replaced. Its error is the mean over
microbenchmarks of |predicted - measured| / measured, each capped at 1, and 1 where the core has no
answer. Of hypotheses whose errors differ by no more than noise the first one is chosen, so the
plainest ones come first. A choice with an error up to EXPLAINED is fitted; any other one is an
assumption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from loopwright.calibrating import core_files
from loopwright.calibrating.core_model import TRIED, CoreModel, Evidence, assumed, fitted
from loopwright.code import binding
from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import COUNTER, CandidateCore, Oracle

EXPLAINED = 0.08  # mean relative error up to which a hypothesis explains microbenchmarks
_APART = 0.01  # relative difference of predictions from which measurements tell them apart
TIE = 0.002  # of the mean error: the effect of noise on it where measurements are precise

Rules = Mapping[str, object]
# Times the same microbenchmarks on any machine, in order.
Time = Callable[[Laboratory], Sequence[Figure]]


@dataclass(frozen=True)
class Hypothesis:
    """A candidate core: the learned core, with parameters that replace its own."""

    learned: CoreModel
    rules: Rules = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """Relative errors by hypothesis and microbenchmark, and the number of the chosen hypothesis.

    rivals are the numbers of hypotheses that explain as much. overestimates has, for each
    hypothesis, the mean relative error of predictions that exceed the measurement.
    """

    hypotheses: Sequence[Hypothesis]
    errors: Sequence[Sequence[float]]
    best: int
    rivals: Sequence[int]
    overestimates: Sequence[float] = ()

    @property
    def error(self) -> float:
        """Return the mean relative error of the chosen hypothesis."""
        return self.error_of(self.best)

    def error_of(self, number: int) -> float:
        """Return the mean relative error of a hypothesis."""
        return fmean(self.errors[number])

    @property
    def error_note(self) -> str:
        """Return the mean relative error of the chosen hypothesis, in words."""
        return f"mean error {100 * self.error:.1f} %"

    @property
    def gain_note(self) -> str:
        """Return the error of the chosen hypothesis and of the first one, in words."""
        return f"{self.error_note}, {100 * self.error_of(0):.1f} % without"

    @property
    def hypothesis(self) -> Hypothesis:
        """Return the chosen hypothesis."""
        return self.hypotheses[self.best]

    @property
    def explained(self) -> bool:
        """True if the chosen hypothesis explains the microbenchmarks."""
        return self.error <= EXPLAINED

    def bounding(self) -> "Fit":
        """Return the fit with a lower bound as its choice, for code with unknown further costs.

        Of the hypotheses that overestimate least, it is the one with the least error.
        """
        least = min(self.overestimates) + TIE
        numbers = [n for n, overestimate in enumerate(self.overestimates) if overestimate <= least]
        return replace(self, best=min(numbers, key=self.error_of), rivals=())


def fit(
    laboratory: Laboratory,
    codes: Sequence[bytes],
    time: Time,
    hypotheses: Sequence[Hypothesis],
    figures: Sequence[Figure] | None = None,
    *,
    apart: bool = False,
) -> Fit | None:
    """Fit hypotheses, the plainest first, to microbenchmarks made of these codes.

    figures are the machine's measurements, if they exist already. None if the machine refused
    all. Microbenchmarks that no hypothesis answers do not count. With apart, nor do those that all
    hypotheses predict alike, so that many of them do not hide the few that decide.
    """
    measured = time(laboratory) if figures is None else figures
    answered = [n for n, figure in enumerate(measured) if figure]
    if not answered or not hypotheses:
        return None
    refusal = [Figure(0.0, 0.0, "the simulator refuses this core")] * len(measured)
    predictions = [
        refusal if core is None else time(core)
        for core in _candidates(laboratory.machine, codes, hypotheses)
    ]
    counting = [n for n in answered if any(predicted[n] for predicted in predictions)]
    deciding = [n for n in counting if apart and _differ([one[n] for one in predictions])]
    counting = deciding or counting or answered
    counted = [measured[n] for n in counting]
    error_rows = [errors([predicted[n] for n in counting], counted) for predicted in predictions]
    overestimates = [
        fmean(_overestimate(predicted[n], measured[n]) for n in counting)
        for predicted in predictions
    ]
    means = [fmean(row) for row in error_rows]
    tolerance = min(means) + noise(counted)
    best = next(n for n, error in enumerate(means) if error <= tolerance)
    rivals = [n for n, error in enumerate(means) if n != best and error <= means[best] + TIE]
    return Fit(hypotheses, error_rows, best, rivals, overestimates)


def _differ(predictions: Sequence[Figure]) -> bool:
    """True if predictions of a microbenchmark can be told apart by measuring it."""
    cycles = [figure.cycles for figure in predictions if figure]
    return max(cycles) > (1 + _APART) * min(cycles)


def _overestimate(predicted: Figure, measured: Figure) -> float:
    """Return by how much a prediction exceeds a measurement, relative; 0 where one is missing."""
    return (
        max(predicted.cycles / measured.cycles - 1, 0.0)
        if predicted and measured.cycles > 0
        else 0.0
    )


def _candidates(
    machine: Oracle, codes: Sequence[bytes], hypotheses: Sequence[Hypothesis]
) -> Iterator[Laboratory | None]:
    """Yield a laboratory for each hypothesis; None where the simulator refuses the core.

    Tables of the same learned core are written once.
    """
    tables: dict[int, tuple[CoreModel, str]] = {}
    for hypothesis in hypotheses:
        learned = hypothesis.learned
        if id(learned) not in tables:
            small = only_forms_of(learned, machine.isa, codes)
            tables[id(learned)] = small, core_files.instruction_table(small, machine)
        small, table = tables[id(learned)]
        toml = core_files.core_toml(with_rules(small, hypothesis.rules, TRIED), machine)
        try:
            candidate = CandidateCore(machine, toml, table)
        except ValueError:
            yield None
        else:
            yield Laboratory(candidate)


def errors(predicted: Sequence[Figure], measured: Sequence[Figure]) -> list[float]:
    """Return the relative error of each prediction, capped at 1; 1 where there is none."""
    return [
        min(abs(prediction.cycles - measurement.cycles) / measurement.cycles, 1.0)
        if prediction and measurement.cycles > 0
        else 1.0
        for prediction, measurement in zip(predicted, measured, strict=True)
    ]


def mean_error(predicted: Sequence[Figure], measured: Sequence[Figure]) -> float:
    """Return the mean relative error of predictions, each capped at 1; 1 where there is none."""
    return fmean(errors(predicted, measured))


def noise(measured: Sequence[Figure]) -> float:
    """Return the effect of the measurements' uncertainties on a mean error."""
    relative = [one.uncertainty / one.cycles for one in measured if one.cycles > 0]
    spread: float = sum(error**2 for error in relative) ** 0.5
    return max(TIE, spread / len(measured))


def candidate_laboratory(
    learned: CoreModel, machine: Oracle, codes: Iterable[bytes], rules: Rules | None = None
) -> Laboratory:
    """Return a laboratory that times kernels of these codes on the simulated learned core.

    The core holds the forms of these codes alone, as one is made for each hypothesis. rules are
    parameters that replace its own.
    """
    small = with_rules(only_forms_of(learned, machine.isa, codes), rules or {}, TRIED)
    return Laboratory(CandidateCore(machine, *core_files.core_texts(small, machine)))


def only_forms_of(learned: CoreModel, isa: str, codes: Iterable[bytes]) -> CoreModel:
    """Return the learned core with the forms of these codes and of a loop's end alone.

    Branches without known ports may use any port here; they matter little in these microbenchmarks.
    """
    closing = block.closing(isa, COUNTER[isa], 0)
    names_used = {
        name
        for names in binding.forms(isa, [closing, *dict.fromkeys(codes)])
        for name in names or ()
    }
    branch_names = (
        name for branch in kits.of(isa).BRANCHES for name in (branch.name, branch.opposite)
    )
    ports = {**dict.fromkeys(branch_names, learned.core.all_arithmetic), **learned.branches.ports}
    return replace(
        learned,
        uops={name: uops for name, uops in learned.uops.items() if name in names_used},
        branches=replace(learned.branches, ports=ports),
    )


def with_rules(learned: CoreModel, rules: Rules, why: Evidence) -> CoreModel:
    """Return the learned core with these parameters; why is their evidence."""
    parameters = {name: (value, why) for name, value in rules.items()}
    return replace(learned, rules={**learned.rules, **parameters})


def with_chosen_rules(learned: CoreModel, best_fit: Fit, basis: str) -> CoreModel:
    """Return the learned core with the parameters of a fit, each with its evidence.

    basis describes the microbenchmarks and the error. A value is an assumption where a rival
    hypothesis with no more parameters has another value and explains as much. All values are
    assumptions where the fit does not explain the microbenchmarks.
    """
    rules = best_fit.hypothesis.rules
    rivals = [best_fit.hypotheses[n].rules for n in best_fit.rivals]
    rivals = [rival for rival in rivals if len(rival) <= len(rules)]
    parameters = dict(learned.rules)
    for name, value in rules.items():
        rival = next((rival for rival in rivals if rival.get(name) != value), None)
        if not best_fit.explained:
            why = assumed(f"no rule explains them, and this one leaves least; {basis}")
        elif rival is not None:
            rule = " and ".join(f"{key} {other}" for key, other in rival.items()) or "none"
            why = assumed(f"another rule explains them as well, {rule}; {basis}")
        else:
            why = fitted(basis)
        parameters[name] = value, why
    return replace(learned, rules=parameters)


def with_less_error(
    laboratory: Laboratory,
    learned: CoreModel,
    codes: Sequence[bytes],
    time: Time,
    tried: Sequence[Rules],
    kind: str,
    share: float,
    figures: Sequence[Figure] | None = None,
    *,
    apart: bool = True,
) -> CoreModel:
    """Return the learned core with the rules that leave at most a share of the error of the first.

    Without such rules it stays as it is. tried begins with no rules. kind names the microbenchmarks
    in the plural; codes, time, figures and apart are those of fit.
    """
    hypotheses = [Hypothesis(learned, rules) for rules in tried]
    best_fit = fit(laboratory, codes, time, hypotheses, figures, apart=apart)
    if best_fit is None or not best_fit.hypothesis.rules:
        return learned
    if best_fit.error > share * best_fit.error_of(0):
        return learned
    return with_chosen_rules(
        learned, best_fit, f"{len(best_fit.errors[0])} {kind}, {best_fit.gain_note}"
    )
