"""What a test of measurements saw: where nothing was measured it skips, and says why."""

import time

import pytest

from loopwright import toolchain
from loopwright.machine import harness

ASKED = 3  # self-tests that fail in a row before a machine counts as too loud
TOGETHER = 60  # seconds from the first quick test that measures in which others may begin


class Loudness:
    """Why tests that measure are skipped, asked before each of them; it stays once it is so."""

    def __init__(self):
        self._reason, self._first = "", None

    def of(self, *, needs_quiet, in_time):
        """Return why a test is skipped, or nothing.

        needs_quiet: it needs figures; in_time: it counts among those that have TOGETHER.
        """
        if in_time:
            self._first = self._first or time.monotonic()
            if time.monotonic() > self._first + TOGETHER:
                return f"tests that measure have had {TOGETHER} s: this machine is loud or slow"
        if needs_quiet and not self._reason:
            self._reason = self._asked()
        return self._reason if needs_quiet else ""

    def _asked(self):
        isa = toolchain.host_isa()
        for _ in range(ASKED):
            [record] = harness.run(isa, harness.clock_job("loudness"))
            if not record["refused"]:
                return ""
        return f"this machine is too loud to measure: {record['refused']}"


def measured(rows):
    """Return the rows that have a number; skip where none has."""
    found = rows[rows["status"] != "refused"]
    if found.empty:
        pytest.skip(f"nothing was measured here: {rows['reason'].iloc[0]}")
    return found


def answered(record):
    """Return an answer of the harness that has a number; skip where it has none."""
    if record["refused"]:
        pytest.skip(f"nothing was measured here: {record['refused']}")
    return record
