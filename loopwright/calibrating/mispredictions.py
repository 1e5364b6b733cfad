"""Mispredicted branches and loop exits: what they cost.

Mispredictions: branches go by bits of a generator, and the same branches by bits that never change.
The generator goes on from iteration to iteration through memory, as a predictor learns all branches
of a loop that begins anew with the same bits. Any predictor mispredicts half of the branches by
random bits. Their extra cycles over half their number are the cost, with the instructions between
branch and branch included. The fit takes the cycles of `mispredict.cycles` with which the learned
core repeats that figure. Where the core lacks figures for the microbenchmark, the difference itself
is an assumption.

Loop exits: a loop of one counting instruction and its branch, of 4 to 512 iterations, inside of
the loop that is timed. The cycles beyond those of the iterations rise where a slower predictor
knows the end (`taken_branch.exit_bubble` from `taken_branch.exit_turns` iterations on) and where
none does (`mispredict.history`). Bisection finds both; what was learned has to predict all kernels
with them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from statistics import median

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel, Mispredicted
from loopwright.calibrating.evidence import SOURCE, assumed, fitted
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.microbench import forms
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Run

BRANCHES = 6
_WRONG = 0.5  # share of random branches
_SURE = 3.0  # standard deviations


def measure_mispredictions(laboratory: Laboratory) -> Mispredicted:
    """Return what a misprediction costs."""
    random, known = (laboratory.kit.gone(by, BRANCHES) for by in (True, False))
    every = tuple(product((False, True), repeat=BRANCHES))
    runs = [_run(every), _run((tuple(n % 2 == 1 for n in range(BRANCHES)),))]
    one, other = laboratory.turns([random, known], runs)
    wrong = BRANCHES * _WRONG
    error = (one.uncertainty**2 + other.uncertainty**2) ** 0.5 / wrong
    refused = one.refused or other.refused
    cost = (one.cycles - other.cycles) / wrong
    if not refused and cost <= _SURE * error:
        refused = f"random branches take no longer than others: {one.cycles:.2f} cycles"
    return Mispredicted(one, other, Figure(cost, error, refused), BRANCHES)


def _run(ways: tuple[tuple[bool, ...], ...]) -> Run:
    return Run(ways, load=forms.GENERATOR_PLACE, store=forms.GENERATOR_PLACE)


_CYCLES = "mispredict.cycles"
_AROUND = 12  # cycles more or less than the difference that are tried
_NEAR_CYCLES = 1.5  # cycles of one misprediction by which what was learned may be off


def fit_mispredictions(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the cycles of a misprediction, where they are known."""
    found = learned.special.mispredicted if learned.special else None
    if found is None or not found.cost:
        return learned
    measured = f"{found.cost.cycles:.1f} +- {found.cost.uncertainty:.1f} cycles more for each of "
    measured += "half of the branches that go by random bits"
    cycles, off = _fitted(laboratory, learned, found)
    said = fitted(f"{measured}, with what stands between them")
    if off > _NEAR_CYCLES:
        cycles = round(found.cost.cycles)
        said = assumed(f"nothing stands between them; {measured} [{SOURCE}]")
    return replace(learned, rules={**learned.rules, _CYCLES: (cycles, said)})


def _fitted(laboratory: Laboratory, learned: CoreModel, found: Mispredicted) -> tuple[int, float]:
    """Return the cycles that explain the difference best, and by how many they do not."""
    code = laboratory.kit.gone(True, BRANCHES)
    middle = round(found.cost.cycles)
    best = middle, float("inf")
    for cycles in range(max(middle - _AROUND, 1), middle + _AROUND + 1):
        settings = {_CYCLES: cycles}
        said = measure_mispredictions(
            fit.candidate_laboratory(learned, laboratory.machine, [code], settings)
        )
        if said.cost:
            best = min(
                best,
                (cycles, abs(said.cost.cycles - found.cost.cycles)),
                key=lambda one: one[1],
            )
    return best


EXIT, TURNS, HISTORY = (
    "taken_branch.exit_bubble",
    "taken_branch.exit_turns",
    "mispredict.history",
)
_COUNTS = (4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
_GAIN = 0.8  # of the error without late ends that one which explains little leaves at most
_MOST_LATE = 100  # cycles that the simulator takes
_SHORT = 4  # of these counts, loops whose end any predictor knows
_LATE = 1.5  # cycles that a late end costs at least
_LOOP_EXITS_SURE = 2.0  # uncertainties
_LOOP_EXITS_AROUND = 1  # cycles around the step that are tried: what else an end waits for is in it
_FIRST_TURNS, _EARLY = 3, range(1, 7)  # iterations from which on any end may be late; its cycles
_RISES = 2  # of adjacent counts that are dear, where a step and not a single count is meant


def fit_exits(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the costs of loop exits; the same where they are not told."""
    lost = _Lost(laboratory)
    if not lost.known:
        return learned
    dear = learned.special.mispredicted.cost if learned.special else None
    wrong = dear.cycles / 2 if dear else float("inf")
    forgotten = lost.first(wrong)
    late = lost.first(_LATE, below=forgotten)
    # The branch that closes the outer loop is remembered, too.
    rules: Rules = {HISTORY: (forgotten or 2 * _COUNTS[-1]) - 2}
    steps = lost.steps(late, forgotten) if late else ()
    tried = [rules, *({**rules, TURNS: late, EXIT: step} for step in steps if late)]
    tried += [{**rules, TURNS: _FIRST_TURNS, EXIT: step} for step in _EARLY]
    found = _fitted_exits(laboratory, learned, tried, lost)
    if found is None:
        return learned
    said = f"{len(lost.figures)} loops in a loop, of {_COUNTS[0]} to {_COUNTS[-1]} iterations, "
    said += f"mean error {100 * found.error:.1f} %"
    if not found.explained:
        # Where ends are late by no one number of cycles, the best one is better than none.
        if not forgotten or found.error > _GAIN * found.error_of(0):
            return learned
        why = assumed(f"no rule explains {said}")
        return fit.with_rules(learned, found.hypothesis.rules, why)
    learned = fit.settled(learned, found, said)
    if forgotten:
        return learned
    why = assumed(f"at least as long as the longest loop that was timed; {said}")
    return fit.with_rules(learned, {HISTORY: rules[HISTORY]}, why)


class _Lost:
    """Cycles of loops by their iterations, and what their ends cost."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self.figures: dict[int, Figure] = {}
        self.known = self._time(_COUNTS)
        pairs = list(pairwise(_COUNTS))
        if self.known:
            # The count is a chain of one instruction, and a taken branch a whole cycle.
            self._turn = round(
                median(
                    (self.figures[b].cycles - self.figures[a].cycles) / (b - a) for a, b in pairs
                )
            )
            self._base = median(self.extra(count) for count in _COUNTS[:_SHORT])

    def _time(self, counts: Sequence[int]) -> bool:
        found = _timed(self._laboratory, counts)
        if not all(found):
            return False
        self.figures |= dict(zip(counts, found, strict=True))
        return True

    def extra(self, count: int) -> float:
        """Return the cycles of a loop beyond those of its iterations."""
        return self.figures[count].cycles - count * self._turn

    def first(self, most: float, below: int | None = None) -> int | None:
        """Return the fewest iterations whose end costs so many cycles more than short ones."""
        counts = [count for count in _COUNTS if below is None or count < below]
        dear = [self._dear(count, most) for count in counts]
        if dear[-_RISES:] != [True] * len(dear[-_RISES:]):
            return None
        start = len(dear) - next((n for n, one in enumerate(reversed(dear)) if not one), len(dear))
        if start == 0:
            return None
        low, high = counts[start - 1], counts[start]
        while high - low > 1:
            middle = (low + high) // 2
            # What ends in time by turns has no one speed.
            if not self._time([middle]) or self._dear(middle, most):
                high = middle
            else:
                low = middle
        return high

    def _dear(self, count: int, most: float) -> bool:
        noise = _LOOP_EXITS_SURE * self.figures[count].uncertainty
        return self.extra(count) - self._base >= max(most, noise)

    def steps(self, late: int, forgotten: int | None) -> Sequence[int]:
        """Return cycles that a late end may cost more than an early one.

        Short loops may take less than a cycle an iteration: Redwood Cove's up to 16 take half of
        one, and longer ones a whole one.
        """
        some = [n for n in self.figures if late <= n < (forgotten or n + 1)]
        first, *_, last = _COUNTS[:_SHORT]
        rate = (self.figures[last].cycles - self.figures[first].cycles) / (last - first)
        quick = self._turn - min(rate, self._turn)
        least, most = (
            round(choose(self.extra(n) + share * n for n in some) - self._base)
            for choose, share in ((median, 0.0), (max, quick))
        )
        most = min(most + _LOOP_EXITS_AROUND, _MOST_LATE)
        return range(min(max(least - _LOOP_EXITS_AROUND, 1), most), most + 1)


def _fitted_exits(
    laboratory: Laboratory, learned: CoreModel, rules: Sequence[Rules], lost: _Lost
) -> fit.Fit | None:
    """Return how rules explain the loops."""
    counts = sorted(lost.figures)
    codes = [laboratory.kit.counting(count) for count in counts]
    took = [lost.figures[count] for count in counts]
    tried = [Hypothesis(learned, one) for one in rules]
    return fit.fit(laboratory, codes, lambda core: _timed(core, counts), tried, took)


def _timed(laboratory: Laboratory, counts: Sequence[int]) -> list[Figure]:
    codes = [laboratory.kit.counting(count) for count in counts]
    return laboratory.turns(codes, [Run(turns=count) for count in counts])
