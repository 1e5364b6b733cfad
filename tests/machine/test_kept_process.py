"""A process of the harness that is kept: answers in order, however many, and what ends it."""

import os
import signal

import pytest
from test_series import HOST, many, series

from loopwright.errors import InputError
from loopwright.machine import harness


def job(name):
    """A job that needs no measuring, of more than 3 KiB."""
    return f"job judge\nid {name}\n{series(many(48))}end\n"


@pytest.fixture
def kept():
    process = harness.Kept(HOST)
    yield process
    process.close()


def running(process):
    return process._running.process


def test_answers_come_in_the_order_of_jobs_though_no_pipe_holds_all(kept):
    for count in (1, 200, 0, 3):
        names = [f"{count}-{n}" for n in range(count)]
        assert [a["id"] for a in kept.answers([job(n) for n in names])] == names
    assert running(kept).poll() is None


def test_a_job_larger_than_what_is_given_ahead_is_answered(kept, monkeypatch):
    monkeypatch.setattr(harness, "_UNDER_WAY", 1000)
    assert len(job("a")) > 1000
    assert [answer["id"] for answer in kept.answers([job("a"), job("b")])] == ["a", "b"]


def test_a_wrong_job_is_an_error_that_names_it(kept):
    with pytest.raises(InputError, match="odd: "):
        list(kept.answers([job("a"), "job judge\nid odd\nend\n"]))


def test_a_process_that_is_killed_is_an_error(kept):
    assert len(list(kept.answers([job("a")]))) == 1
    os.kill(running(kept).pid, signal.SIGKILL)
    with pytest.raises(InputError, match="does not run here"):
        list(kept.answers([job("a"), job("b")]))


def test_it_is_gone_behind_its_owner():
    process = harness.Kept(HOST)
    child = running(process)
    del process
    assert child.poll() is not None
