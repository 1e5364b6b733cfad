"""Ranges of calls, what is learned where a machine refuses some, and judgements of ranges."""

import dataclasses
from types import SimpleNamespace

import pytest

from loopwright.calibrating import calls, self_check, strings
from loopwright.calibrating.branches import Branches
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.fit import Fit, Hypothesis
from loopwright.calibrating.self_check import HeldOut
from loopwright.calibrating.strings import Repeated, Timed
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Figure

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


@dataclasses.dataclass(frozen=True)
class Learned:
    """What calls need to know of a core."""

    branches: Branches
    core: object
    figures: dict[str, object]
    front_end: object


@pytest.mark.parametrize("refused", [1, 8])
def test_loops_with_calls_that_have_no_speed_are_left_out_while_enough_have(refused, monkeypatch):
    kit = kits.of("x86_64")
    asked = calls.kernels(kit)
    figures = [Figure(4.0, 0.01, "of no one speed" * (n < refused)) for n in range(len(asked))]
    tried = []
    monkeypatch.setattr(calls, "_time", lambda *_: figures)
    monkeypatch.setattr(calls, "_with", lambda learned, *_: learned)
    monkeypatch.setattr(calls.fit, "fit", lambda _, codes, *rest: tried.append((codes, rest[-1])))
    core = SimpleNamespace(of=lambda _: {"2"}, load="", stored=({"4"},), classes=[], ports=[])
    known = Learned(
        Branches({kit.JUMP: {"6"}}, {}, figures[-1]), core, {}, SimpleNamespace(parameters={})
    )
    found = calls._called(SimpleNamespace(kit=kit, isa="x86_64"), known)
    if len(asked) - refused < calls._LEAST:
        assert "of no one speed" in found.branches.left[calls.CALL]
        assert not tried
    else:
        ((codes, kept),) = tried
        assert codes[:-1] == list(asked.values())[refused:]
        assert kept == figures[refused:]
        assert not found.branches.left


def test_a_size_of_no_one_speed_lies_between_its_neighbours():
    def timed(size, refused=""):
        return Timed(Repeated("movsb", size, 0, 0), Figure(float(size), 0.1, refused))

    every = [timed(size) for size in strings.SIZES]
    some = [one for one in every if one.what.size != 192]
    assert strings._are_curves(some)
    assert not strings._are_curves(every[1:])
    assert strings._curves(some)[0, 0][192] == pytest.approx(192)
