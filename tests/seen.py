"""Skips of tests that measure, where this machine is too loud or gives no figure."""

import time

import pytest

from loopwright import toolchain
from loopwright.machine import harness

ASKED = 3  # self-tests that fail in a row before a machine counts as too loud
TOGETHER = 60  # seconds from the first quick test that measures in which others may begin


class Loudness:
    """The reason to skip tests that measure, asked before each of them; once given it stays."""

    def __init__(self):
        self._reason, self._first = "", None

    def of(self, *, needs_quiet, in_time):
        """Return the reason to skip a test, or "".

        needs_quiet: it needs a quiet machine. in_time: it has to begin within TOGETHER.
        """
        if in_time:
            self._first = self._first or time.monotonic()
            if time.monotonic() > self._first + TOGETHER:
                return f"tests that measure have had {TOGETHER} s: this machine is loud or slow"
        if needs_quiet and not self._reason:
            self._reason = self._refusal()
        return self._reason if needs_quiet else ""

    def _refusal(self):
        isa = toolchain.host_isa()
        for _ in range(ASKED):
            [record] = harness.run(isa, harness.clock_job("loudness"))
            if not record["refused"]:
                return ""
        return f"this machine is too loud to measure: {record['refused']}"


def measured(rows):
    """Return the rows that are not refused; skip the test if all are."""
    figures = rows[rows["status"] != "refused"]
    if figures.empty:
        pytest.skip(f"nothing was measured here: {rows['reason'].iloc[0]}")
    return figures


def answered(record):
    """Return an answer of the harness that is not refused; skip the test if it is."""
    if record["refused"]:
        pytest.skip(f"nothing was measured here: {record['refused']}")
    return record
