"""The search for a front end: giving values up early changes no answer, and saves predictions."""

import random

import pytest

from loopwright.calibrating import front_end_search
from loopwright.calibrating.front_end_search import Search, Structure

KERNELS = 120
FREE = {
    "a.width": tuple(range(8, 0, -1)),
    "a.bytes": (64, 32, 16),
    "a.joins": (False, True),
    "a.idle": (1, 2, 3),
}
TOGETHER = (("a.width", "a.bytes"), ("a.bytes", "a.joins"))


def truth(seed):
    """Return what predicts kernels, each by what binds it most, and what they took."""
    draw = random.Random(seed)
    needs = [[draw.uniform(1, 40) for _ in range(3)] for _ in range(KERNELS)]

    def cycles(values, n):
        slots, code, apart = needs[n]
        joined = apart / (8 if values["a.joins"] else 4)
        return max(slots / values["a.width"], 8 * code / values["a.bytes"], joined)

    real = {"a.width": 5, "a.bytes": 32, "a.joins": True, "a.idle": 2}
    return cycles, [cycles(real, n) * draw.uniform(0.97, 1.03) for n in range(KERNELS)]


def fit(seed, alike=()):
    predict, cycles = truth(seed)
    asked = []

    def told(values, numbers):
        asked.extend(numbers)
        return [predict(values, n) for n in numbers]

    found = Search(told, cycles, alike).fit(Structure("a", {}, FREE, TOGETHER))
    return dict(found.values), found.error, len(asked)


@pytest.mark.parametrize("seed", range(6))
def test_values_that_are_given_up_early_are_those_that_lose(seed, monkeypatch):
    groups = [list(range(first, KERNELS, 40)) for first in range(40)]
    early = [fit(seed), fit(seed, groups)]
    monkeypatch.setattr(front_end_search, "_FIRST", KERNELS)
    values, error, asked = fit(seed)
    assert values == {"a.width": 5, "a.bytes": 32, "a.joins": True, "a.idle": 1}
    for mine, off, fewer in early:
        assert mine == values
        assert off == pytest.approx(error, abs=1e-12)
        assert fewer < 0.6 * asked


MASKING = {"buffer": (True,), "copies": (1, 9)}


def hiding(values, number):
    """Return what a loop takes: a cycle more for each copy that is held, by lines if none is."""
    if values["buffer"]:
        return 10.0 + number % 3 / values["copies"]
    return 10.0 + number / values["lines"]


@pytest.mark.parametrize(("true", "lines"), [(0, 4), (1, 2)])
def test_no_kernel_tells_what_a_loop_buffer_masks(true, lines):
    """Where loops that a buffer replays take as long, nothing is known of what it hides."""
    free = {"lines": (4, 2, 1), "buffer": (False, True), "copies": (1, 9)}
    structure = Structure("a", {}, free, masking=MASKING)

    def told(values, numbers):
        return [hiding(values, 0 if true else n) for n in numbers]

    real = {"lines": lines, "buffer": False, "copies": 1}
    search = Search(told, told(real, range(30)))
    fit = search.fit(structure)
    errors = {value: error for value, error, _ in search.alternatives(fit, "lines")}
    assert fit.values["buffer"] is False
    assert fit.error == 0
    if true:
        assert fit.rivals
        assert max(errors.values()) == 0
    else:
        assert not fit.rivals
        assert min(errors.values()) > 0.01
