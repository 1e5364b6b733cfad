"""The tests' own verdict that a machine is too loud to measure."""

import pytest
import seen


@pytest.fixture
def asked(monkeypatch):
    """Answers of the self-test, the next one first; what is taken is gone."""
    answers = []
    monkeypatch.setattr(seen.harness, "run", lambda *_: iter([{"refused": answers.pop(0)}]))
    return answers


def test_a_machine_is_too_loud_once_it_failed_thrice_in_a_row(asked):
    loudness = seen.Loudness()
    asked += ["disturbed", "disturbed", "", "disturbed", "disturbed", "one that disturbs"]
    assert loudness.of(needs_quiet=True, in_time=True) == ""
    assert len(asked) == 3
    said = loudness.of(needs_quiet=True, in_time=True)
    assert said.endswith("too loud to measure: one that disturbs")
    # It is not asked again, and what holds on a loud machine goes on.
    assert loudness.of(needs_quiet=True, in_time=False) == said
    assert loudness.of(needs_quiet=False, in_time=True) == ""


def test_tests_that_measure_have_a_time_together(asked, monkeypatch):
    now = [5.0]
    monkeypatch.setattr(seen.time, "monotonic", lambda: now[0])
    loudness = seen.Loudness()
    asked += [""] * 3
    assert loudness.of(needs_quiet=True, in_time=True) == ""
    now[0] += seen.TOGETHER
    assert loudness.of(needs_quiet=True, in_time=True) == ""
    now[0] += 1
    assert "loud or slow" in loudness.of(needs_quiet=False, in_time=True)
    assert loudness.of(needs_quiet=True, in_time=False) == ""
