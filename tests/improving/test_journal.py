"""State of a search: one that was interrupted goes on, and finds what it would have found."""

import json

import pytest
from test_bare import COPY, ROUTINE
from test_search import FEW, PLAIN, base, question  # noqa: F401

from loopwright import microarchs
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.improving import equality, improve, loops
from loopwright.improving.loops import LoopsQuestion, answer_loops
from loopwright.improving.search import Cost, Journal, Settings, digest_of, search

SETTINGS = Settings(tried=24, depth=3)


def steps(found):
    return [(one.listing.steps, one.costs, one.bytes) for one in found.ordered()]


@pytest.mark.slow
def test_an_interrupted_search_goes_on_and_finds_the_same(question, base, tmp_path, monkeypatch):  # noqa: F811
    path = tmp_path / "state" / "plain.jsonl"
    whole = search(question, base, FEW, SETTINGS)

    def stop(*_):
        raise KeyboardInterrupt

    half = search(question, base, FEW, SETTINGS, stop, Journal(path, "a"))
    assert half.interrupted
    assert 0 < half.tried < whole.tried
    simulated = []
    ask = improve.of_variants

    def counted(asked):
        simulated.append({one.variant.name for one in asked})
        return ask(asked)

    monkeypatch.setattr(improve, "of_variants", counted)
    again = search(question, base, FEW, SETTINGS, journal=Journal(path, "a"))
    assert steps(again) == steps(whole)
    assert again.tried == whole.tried
    assert len(set().union(*simulated)) == whole.tried - half.tried
    simulated.clear()
    assert steps(search(question, base, FEW, SETTINGS, journal=Journal(path, "a"))) == steps(whole)
    assert not set().union(*simulated)


def test_a_line_that_an_interrupt_cut_off_is_left_out(tmp_path):
    path = tmp_path / "x.jsonl"
    cost = {"zen2": Cost(1.5, 2.0, {64: 1.5})}
    Journal(path, "a").add({"one": cost, "two": InputError("no figures")})
    path.write_text(path.read_text() + '{"text": "ab')
    found = Journal(path, "a")
    known = found.known(["one", "two", "three"])
    assert known["one"] == cost
    assert str(known["two"]) == "no figures"
    assert "three" not in known
    found.add({"three": cost})
    assert Journal(path, "a").known(["three"]) == {"three": cost}
    assert all(map(json.loads, path.read_text().splitlines()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"about": "other"}\n', "is of a search of other code"),
        ("some notes\n", "is not a state of a search"),
        ('["about"]\n', "is not a state of a search"),
        ('{"about": "a"}\n{"text": "x"}\n', "is not a state of a search"),
    ],
)
def test_a_file_of_something_else_is_refused(text, said, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Journal(path, "a")
    assert path.read_text() == text


def test_what_costs_follow_from_tells_searches_apart():
    zen2, zen3 = (microarchs.load(name) for name in ("zen2", "zen3"))
    ways = [
        digest_of([zen2], {}),
        digest_of([zen3], {}),
        digest_of([zen2], {"rename.width": "5"}),
        digest_of([zen2], {}, "code"),
    ]
    assert len(set(ways)) == len(ways)
    assert digest_of([zen2], {}) == ways[0]


def test_loops_have_a_file_each_and_are_not_simulated_again(tmp_path, monkeypatch):
    monkeypatch.setattr(equality, "_RANDOM_CASES", 24)
    asked = LoopsQuestion(
        asm=ROUTINE.format(COPY),
        microarch="zen3",
        measured=False,
        settings=Settings(depth=1, tried=12),
        state=tmp_path / "state",
    )
    first = str(answer_loops(asked).rows.records())
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["L1.jsonl"]
    several = []
    ask = loops.LoopComparison._costed

    def counted(self, made):
        several.append(len(made))
        return ask(self, made)

    monkeypatch.setattr(loops.LoopComparison, "_costed", counted)
    assert str(answer_loops(asked).rows.records()) == first
    assert sum(several) == 1  # the loop itself


def test_a_state_of_another_search_is_one_line(tmp_path, capsys):
    path = tmp_path / "x86_64_clear_user_plain.jsonl"
    path.write_text('{"about": "other"}\n')
    command = ["improve", PLAIN, "--microarch", "zen2", "--state", str(tmp_path), "--no-measure"]
    assert run(command) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "is of a search of other code" in line
