"""Ranges of calls, and judgements that count ranges."""

from types import SimpleNamespace

import pytest

from loopwright.calibrating import calls, self_check
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.fit import Fit, Hypothesis
from loopwright.calibrating.self_check import HeldOut

BUBBLE = "taken_branch.return_bubble"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([[0.2, 0.2], [0.0, 0.01], [0.2, 0.0]], (1, 1)),  # less than loops can tell
        ([[0.2, 0.2], [0.0, 0.16], [0.2, 0.0]], (1, 2)),
        ([[0.1, 0.0], [0.0, 0.16], [0.2, 0.2]], (0, 1)),
    ],
)
def test_the_range_of_a_bubble_is_what_single_loops_ask_for(errors, expected):
    learned = SimpleNamespace()
    tried = [Hypothesis(learned, {BUBBLE: bubble}) for bubble in range(3)]
    others = [Hypothesis(SimpleNamespace(), {BUBBLE: 3})]
    found = calls._bubble(Fit([*tried, *others], [*errors, [0.0, 0.0]], 1, []))
    ends = (found.low, found.high) if isinstance(found, Between) else (found, found)
    assert (found, ends) == (1, expected)


def test_a_judgement_counts_the_ranges_that_hold():
    loop = HeldOut("blocks", b"\x90", 0, 2.0, 0.001, 2.0)
    held, missed = (
        HeldOut("blocks", b"\x90", 0, cycles, 0.001, 2.0, 1.5, 2.5) for cycles in (2.4, 3.0)
    )
    (plain,) = self_check.judged([loop])
    assert (plain.ranged, plain.shares) == (0, "100 % within 5 %")
    (one,) = self_check.judged([loop, loop, held, missed])
    assert (one.ranged, one.within) == (2, 0.5)
    assert one.shares == "50 % within 5 %, 50 % of 2 ranges hold"
