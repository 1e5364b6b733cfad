"""What a test of measurements saw: where nothing was measured it skips, and says why."""

import pytest


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
