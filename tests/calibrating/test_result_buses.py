"""Choice of the ports of moves from vectors, by the errors of loops."""

import pytest

from loopwright.calibrating import result_buses

VECTOR, ONE, OTHER = (frozenset({number}) for number in (4, 14, 15))
LEARNED = ()


@pytest.mark.parametrize(
    ("errors", "slots", "chosen"),
    [
        ({LEARNED: 1.0, (ONE,): 0.03, (OTHER,): 0.2, (VECTOR, ONE): 0.03}, 0, (ONE,)),
        ({LEARNED: 1.0, (ONE,): 0.03, (OTHER,): 0.01, (VECTOR, ONE): 0.02}, 0, (OTHER,)),
        ({LEARNED: 1.0, (ONE,): 0.06, (VECTOR, ONE): 0.03}, 0, (VECTOR, ONE)),
        ({LEARNED: 1.0, (ONE,): 0.06, (VECTOR, ONE): 0.03}, 1, (ONE,)),
        ({LEARNED: 0.01, (ONE,): 0.0, (VECTOR, ONE): 0.0}, 1, LEARNED),
        ({LEARNED: 0.15, (ONE,): 0.09, (VECTOR, ONE): 0.2}, 2, LEARNED),
    ],
    ids=["one uop", "a bus", "two uops", "one slot", "learned", "not explained"],
)
def test_a_bus_is_taken_where_it_explains_more(errors, slots, chosen):
    assert result_buses._best(errors, slots) == chosen
