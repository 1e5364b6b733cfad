"""Mispredicted branches and loop exits: their cost in cycles.

Mispredictions. Microbenchmark: branches that go by bits of a random generator, and the same
branches by bits that never change. The generator's state persists in memory from iteration to
iteration, as a predictor would learn a repeated sequence. Any predictor mispredicts half of the
random branches. The cost is the difference in cycles over half the number of branches, and includes
the instructions between branches. The fit finds the value of `mispredict.cycles` with which the
learned core reproduces that difference. Where the core lacks figures for the microbenchmark, the
difference itself is an assumption.

Loop exits. Microbenchmark: a loop of a counting instruction and its branch, of 4 to 512 iterations,
within the timed loop. The cycles beyond those of the iterations rise where a slower predictor takes
over (`taken_branch.exit_bubble`, from `taken_branch.exit_turns` iterations on), and where no
predictor knows the exit (`mispredict.history`). Bisection finds both. The learned core then has to
predict all kernels.
"""

from collections.abc import Sequence
from itertools import pairwise, product
from statistics import median

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import SOURCE, CoreModel, Mispredicted, assumed, fitted
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.microbench import forms
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Run

BRANCHES = 6
_WRONG = 0.5  # share of random branches that are mispredicted
_SURE = 3.0  # standard deviations of a significant difference


def measure_mispredictions(laboratory: Laboratory) -> Mispredicted:
    """Measure the cost of a misprediction."""
    random, known = (laboratory.kit.branches_by_bits(by, BRANCHES) for by in (True, False))
    all_ways = tuple(product((False, True), repeat=BRANCHES))
    runs = [_run(all_ways), _run((tuple(n % 2 == 1 for n in range(BRANCHES)),))]
    by_random, by_constant = laboratory.iterations([random, known], runs)
    mispredicted = BRANCHES * _WRONG
    error = (by_random.uncertainty**2 + by_constant.uncertainty**2) ** 0.5 / mispredicted
    refused = by_random.refused or by_constant.refused
    cost = (by_random.cycles - by_constant.cycles) / mispredicted
    if not refused and cost <= _SURE * error:
        refused = f"random branches take no longer than others: {by_random.cycles:.2f} cycles"
    return Mispredicted(by_random, by_constant, Figure(cost, error, refused), BRANCHES)


def _run(ways: tuple[tuple[bool, ...], ...]) -> Run:
    return Run(ways, load=forms.GENERATOR_PLACE, store=forms.GENERATOR_PLACE)


_CYCLES = "mispredict.cycles"
_AROUND = 12  # cycles around the measured difference that are tried
_NEAR_CYCLES = 1.5  # tolerance of the simulated difference, cycles per misprediction


def fit_mispredictions(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the cycles of a misprediction, where they are known."""
    measurement = learned.special.mispredicted if learned.special else None
    if measurement is None or not measurement.cost:
        return learned
    cost = measurement.cost
    basis = f"{cost.cycles:.1f} +- {cost.uncertainty:.1f} cycles more for each of "
    basis += "half of the branches that go by random bits"
    cycles, error = _fit_cycles(laboratory, learned, measurement)
    why = fitted(f"{basis}, with what stands between them")
    if error > _NEAR_CYCLES:
        cycles = round(cost.cycles)
        why = assumed(f"nothing stands between them; {basis} [{SOURCE}]")
    return fit.with_rules(learned, {_CYCLES: cycles}, why)


def _fit_cycles(
    laboratory: Laboratory, learned: CoreModel, measurement: Mispredicted
) -> tuple[int, float]:
    """Return the parameter that reproduces the measured difference best, and the error left."""
    code = laboratory.kit.branches_by_bits(True, BRANCHES)
    cost = measurement.cost.cycles
    middle = round(cost)
    best, least = middle, float("inf")
    for cycles in range(max(middle - _AROUND, 1), middle + _AROUND + 1):
        simulated = measure_mispredictions(
            fit.candidate_laboratory(learned, laboratory.machine, [code], {_CYCLES: cycles})
        )
        error = abs(simulated.cost.cycles - cost)
        if simulated.cost and error < least:
            best, least = cycles, error
    return best, least


EXIT, TURNS, HISTORY = (
    "taken_branch.exit_bubble",
    "taken_branch.exit_turns",
    "mispredict.history",
)
_COUNTS = (4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
_GAIN = 0.8  # share of the error without late exits that a poor rule leaves, at most
_MOST_LATE = 100  # cycles that the simulator takes, at most
_SHORT = 4  # of these counts: loops whose exit any predictor knows
_LATE_COST = 1.5  # cycles that a late exit costs, at least
_LOOP_EXITS_SURE = 2.0  # uncertainties of a significant cost
# cycles around the step that are tried, as it includes other waits of the exit
_LOOP_EXITS_AROUND = 1
_FIRST_TURNS, _EARLY = 3, range(1, 7)  # iterations from which on any exit may be late, and its cost
_STEP_LENGTH = 2  # expensive counts up to the largest that make a step, at least


def fit_exits(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the costs of loop exits; unchanged where kernels do not tell."""
    exits = _ExitCosts(laboratory)
    if not exits.known:
        return learned
    misprediction = learned.special.mispredicted.cost if learned.special else None
    half_misprediction = misprediction.cycles / 2 if misprediction else float("inf")
    forgotten = exits.first_expensive(half_misprediction)
    late = exits.first_expensive(_LATE_COST, below=forgotten)
    # The branch that closes the outer loop takes part in the history, too.
    rules: Rules = {HISTORY: (forgotten or 2 * _COUNTS[-1]) - 2}
    steps = exits.steps(late, forgotten) if late else ()
    tried = [rules, *({**rules, TURNS: late, EXIT: step} for step in steps if late)]
    tried += [{**rules, TURNS: _FIRST_TURNS, EXIT: step} for step in _EARLY]
    best_fit = _fit_exit_rules(laboratory, learned, tried, exits)
    if best_fit is None:
        return learned
    counts = f"{_COUNTS[0]} to {_COUNTS[-1]} iterations"
    basis = f"{len(exits.figures)} loops in a loop, of {counts}, {best_fit.error_note}"
    if not best_fit.explained:
        # Where late exits have no single cost, the best approximation is better than none.
        if not forgotten or best_fit.error > _GAIN * best_fit.error_of(0):
            return learned
        why = assumed(f"no rule explains {basis}")
        return fit.with_rules(learned, best_fit.hypothesis.rules, why)
    learned = fit.with_chosen_rules(learned, best_fit, basis)
    if forgotten:
        return learned
    why = assumed(f"at least as long as the longest loop that was timed; {basis}")
    return fit.with_rules(learned, {HISTORY: rules[HISTORY]}, why)


class _ExitCosts:
    """Cycles of inner loops by their iterations, and the cost of their exits.

    known says whether all loops were timed; without that there are no costs.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self.figures: dict[int, Figure] = {}
        self.known = self._time(_COUNTS)
        if self.known:
            # The counting instruction is a chain, and a taken branch takes a whole cycle.
            self._turn = round(median(self._rate(a, b) for a, b in pairwise(_COUNTS)))
            self._base = median(self.extra(count) for count in _COUNTS[:_SHORT])

    def _rate(self, few: int, many: int) -> float:
        """Return the cycles of an iteration, by the slope between two loops."""
        return (self.figures[many].cycles - self.figures[few].cycles) / (many - few)

    def _time(self, counts: Sequence[int]) -> bool:
        """Time loops of so many iterations; True if all have a figure."""
        figures = _time_loops(self._laboratory, counts)
        if not all(figures):
            return False
        self.figures |= dict(zip(counts, figures, strict=True))
        return True

    def extra(self, count: int) -> float:
        """Return the cycles of a loop beyond those of its iterations."""
        return self.figures[count].cycles - count * self._turn

    def first_expensive(self, cost: float, below: int | None = None) -> int | None:
        """Return the iterations from which on exits cost so much more than in short loops."""
        counts = [count for count in _COUNTS if below is None or count < below]
        expensive = [self._is_expensive(count, cost) for count in counts]
        start = len(expensive)
        while start and expensive[start - 1]:
            start -= 1
        if not start or len(expensive) - start < _STEP_LENGTH:
            return None
        low, high = counts[start - 1], counts[start]
        while high - low > 1:
            middle = (low + high) // 2
            # Exits that are predicted at times have no stable speed.
            if not self._time([middle]) or self._is_expensive(middle, cost):
                high = middle
            else:
                low = middle
        return high

    def _is_expensive(self, count: int, cost: float) -> bool:
        """True if an exit costs so much more than one of short loops, beyond noise."""
        noise = _LOOP_EXITS_SURE * self.figures[count].uncertainty
        return self.extra(count) - self._base >= max(cost, noise)

    def steps(self, late: int, forgotten: int | None) -> Sequence[int]:
        """Return the costs of a late exit to try.

        Short loops may take less than a cycle an iteration: on Redwood Cove half a cycle up to 16
        iterations, and a whole one beyond.
        """
        late_counts = [n for n in self.figures if late <= n < (forgotten or n + 1)]
        first, *_, last = _COUNTS[:_SHORT]
        saved_cycles = self._turn - min(self._rate(first, last), self._turn)
        least, most = (
            round(choose(self.extra(n) + share * n for n in late_counts) - self._base)
            for choose, share in ((median, 0.0), (max, saved_cycles))
        )
        most = min(most + _LOOP_EXITS_AROUND, _MOST_LATE)
        return range(min(max(least - _LOOP_EXITS_AROUND, 1), most), most + 1)


def _fit_exit_rules(
    laboratory: Laboratory, learned: CoreModel, tried: Sequence[Rules], exits: _ExitCosts
) -> fit.Fit | None:
    """Fit rules to the loops of which the costs of exits were taken."""
    counts = sorted(exits.figures)
    codes = [laboratory.kit.counting_loop(count) for count in counts]
    measured = [exits.figures[count] for count in counts]
    hypotheses = [Hypothesis(learned, rules) for rules in tried]
    return fit.fit(laboratory, codes, lambda core: _time_loops(core, counts), hypotheses, measured)


def _time_loops(laboratory: Laboratory, counts: Sequence[int]) -> list[Figure]:
    codes = [laboratory.kit.counting_loop(count) for count in counts]
    return laboratory.iterations(codes, [Run(inner_iterations=count) for count in counts])
