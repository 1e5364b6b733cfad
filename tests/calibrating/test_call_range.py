"""Ranges of calls, what is learned where a machine refuses some, and judgements of ranges."""

import dataclasses
import random
import statistics
from types import SimpleNamespace

import pytest

from loopwright.calibrating import calls, strings
from loopwright.calibrating.branches import Branches
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.core_model import Repeated, TimedString
from loopwright.calibrating.fit import Fit, Hypothesis
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Figure
from loopwright.predicting import core_figures, held_out
from loopwright.predicting.held_out import HeldOut
from loopwright.predicting.model import Block

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
    # The second half, of which one took less than is predicted, sets the range of the first.
    (one,) = held_out.judged([loop, loop, held, dataclasses.replace(loop, cycles=1.5), missed])
    assert one.within == 0.6
    assert one.shares == "40 % within 5 %, 60 % of the ranges hold"


def test_a_range_holds_the_next_measurement_as_often_as_it_says():
    chance = random.Random(4)

    def drawn(count):
        return [
            HeldOut("blocks", b"\x90", 0, 2.0 * chance.lognormvariate(0, 0.1), 0.001, 2.0)
            for _ in range(count)
        ]

    held = [
        statistics.fmean(one.within(held_out.span(some)) for one in drawn(200))
        for some in (drawn(200) for _ in range(20))
    ]
    assert 0.93 < statistics.fmean(held) < 0.975
    sure = held_out.span([HeldOut("blocks", b"\x90", 0, 2.0, 0.001, 2.0)] * 50)
    assert sure == (0.98, 1.02)


def test_a_range_holds_measurements_of_each_kind():
    many = [HeldOut("blocks", b"\x90", 0, 2.0, 0.001, 2.0)] * 200
    few = [HeldOut("loops with calls", b"\x90", 0, 3.0, 0.001, 2.0)] * 4
    assert held_out.span([*many, *few]).most == 1.02
    assert held_out.widest([*many, *few]) == (0.98, 1.5)


def test_a_learned_core_has_its_own_ranges_by_any_name(monkeypatch, tmp_path):
    loops = [HeldOut("blocks", b"\x90", 0, cycles, 0.001, 2.0) for cycles in (1.8, 2.0, 2.6)]
    for name, text in held_out.texts(loops, "host").items():
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(text)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path))
    asked = [Block("x86_64", bytes.fromhex("4801d8"), "loop", 0)]
    assert core_figures.spans_of_blocks("other", asked) == [(0.9, 1.3)]
    assert core_figures.span_of_calls("other") == (0.9, 1.3)
    assert core_figures.span_of_calls("host") is None


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
    monkeypatch.setattr(calls, "_time_loops", lambda *_: figures)
    monkeypatch.setattr(calls, "_with", lambda learned, *_: learned)
    monkeypatch.setattr(calls.fit, "fit", lambda _, codes, *rest: tried.append((codes, rest[-1])))
    core = SimpleNamespace(
        class_ports=lambda _: {"2"}, load="", store_uops=({"4"},), blocker_of=lambda _: None
    )
    known = Learned(
        Branches({kit.BRANCHES[0].name: {"6"}}, {}, figures[-1]),
        core,
        {},
        SimpleNamespace(parameters={}, of=lambda _: []),
    )
    found = calls._choose_call_uops(SimpleNamespace(kit=kit, isa="x86_64"), known)
    if len(asked) - refused < calls._LEAST:
        assert "of no one speed" in found.branches.left[calls.CALL]
        assert not tried
    else:
        ((codes, kept),) = tried
        assert codes[:-1] == list(asked.values())[refused:]
        assert kept == figures[refused:]
        assert not found.branches.left


def test_a_size_of_no_one_speed_lies_between_its_neighbours():
    every = [
        TimedString(Repeated("movsb", size, *place), Figure(float(size), 0.1))
        for place in strings.COPIED
        for size in strings.SIZES
    ]
    some = [one for one in every if one.case.size != 192]
    assert strings._have_needed_offsets(strings._of_whole_curves(some))
    assert strings._curves(some)[0, 0][192] == pytest.approx(192)
    # Of a place without its smallest size nothing is taken.
    cut = strings._of_whole_curves(every[: -len(strings.SIZES)] + every[1 - len(strings.SIZES) :])
    assert len(cut) == len(every) - len(strings.SIZES)
    assert strings._have_needed_offsets(cut)
    assert not strings._have_needed_offsets(strings._of_whole_curves(every[1:]))


def test_a_loop_with_calls_takes_the_middle_of_its_code_offsets():
    one, two, three = (Figure(cycles, 0.1) for cycles in (7.0, 4.0, 5.0))
    none = Figure(float("nan"), 0.0, "of no one speed")
    assert calls._median([one, two, three]) == three
    assert calls._median([one, none, two]) == two
    assert calls._median([none, two, none]) == none


def test_a_bound_exceeds_measurements_least():
    tried = [Hypothesis(SimpleNamespace(), {BUBBLE: bubble}) for bubble in range(3)]
    found = Fit(tried, [[0.3, 0.1], [0.0, 0.2], [0.2, 0.0]], 1, [2], [0.0, 0.1, 0.001])
    assert (found.best, found.bounding().best, found.bounding().rivals) == (1, 2, ())
