"""Plausibility of the harness's readings: figures, clocks and samples agree with each other.

Each function raises ValueError (KeyError for a missing key) for a line that cannot be. What stays
open: a reading whose figures, percentiles and samples, and the clock of its process, were all
changed alike looks like one of a slower or a faster core.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from loopwright.machine import hosts

MOST_SAMPLES = 4096
_MOST_CPUS = 1 << 20
_HZ = (50_000_000, 20_000_000_000)  # least and most of a core's clock
_MOST_HZ = 1 << 40  # of a timer
_LEFT_OUT = ("taken", "accepted", "slow")
_TELLING = 8  # so many different samples make no second reading by chance
_QUANTILES = {"p10": 10, "cycles": 50, "p90": 90}
# No code takes less than an eighth of this, whatever the core.
_LEAST_CALL = 1.5  # cycles: three taken branches, two a cycle
_MOST_RATE = 64  # bytes or records a cycle
_LEAST_BLOCK = 0.125  # cycles: one instruction, eight a cycle
_MARGIN = 8


def process(line: Mapping[str, Any]) -> None:
    """Hold what a process says of its clock to itself."""
    name, refused = line["clock"], line["refused"]
    if not isinstance(name, str) or not isinstance(refused, str):
        raise ValueError
    integer(line, "cpu", -1 if refused else 0, _MOST_CPUS)
    if refused:  # there is no clock, or no CPU to stay on
        return
    ticks = integer(line, "ticks_a_second", 0, _MOST_HZ)
    if (name == hosts.PMU) != (ticks == 0):  # a counter of cycles needs no calibration
        raise ValueError


def clock(line: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Hold a reading to what its process said of the clock and the CPU."""
    if any(line[key] != said[key] for key in ("clock", "cpu")):
        raise ValueError
    core_hz = integer(line, "core_hz", 0, _HZ[1])
    if line["refused"]:
        return
    if line["clock"] == hosts.PMU:
        if core_hz:
            raise ValueError
    elif core_hz < _HZ[0]:
        raise ValueError


def call(line: Mapping[str, Any], most: float) -> None:
    """Hold the figures of calls to their samples, and to what a core can do."""
    least = max(_LEAST_CALL, line["count"] / _MOST_RATE) / _MARGIN
    samples = line["samples"]
    if not isinstance(samples, list) or not 0 < len(samples) <= MOST_SAMPLES:
        raise ValueError
    ordered = sorted(number(sample, least, most) for sample in samples)
    for key, percent in _QUANTILES.items():
        given = number(line[key], least, most)
        # Samples and figures are rounded by themselves.
        if abs(_quantile(ordered, percent) - given) > 2e-6 + 1e-6 * given:
            raise ValueError


def block(line: Mapping[str, Any], most: float) -> None:
    """Hold the figures of a block to each other, and to what a core can do."""
    low, middle, high = (
        number(line[key], _LEAST_BLOCK / _MARGIN, most) for key in ("p10", "cycles", "p90")
    )
    if not low <= middle <= high or not 0 < line["short"] < line["long"]:
        raise ValueError


def left_out(line: Mapping[str, Any], samples: int) -> None:
    """Hold the numbers of samples that were taken, accepted and slow to those that are there."""
    taken, accepted, slow = (integer(line, key, 0, MOST_SAMPLES) for key in _LEFT_OUT)
    if samples + slow != accepted or accepted > taken or not isinstance(line["two_speeds"], str):
        raise ValueError
    low, high = (number(line[key], 0, 1e12) for key in ("slow_from", "slow_to"))
    if low > high:
        raise ValueError


def content(line: Mapping[str, Any]) -> str:
    """Return what two readings share only where one is a copy of the other.

    These are the samples in the order in which they were taken; all that is said, where they are
    too few or too alike to tell readings apart.
    """
    samples = line.get("samples")
    telling = isinstance(samples, list) and len(set(map(str, samples))) >= _TELLING
    text = json.dumps(samples if telling else line, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def number(value: object, least: float, most: float) -> float:
    """Return a finite number within bounds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    if not math.isfinite(value) or not least <= value <= most:
        raise ValueError
    return float(value)


def integer(line: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """Return the integer that a line has under a key, within bounds."""
    value = line[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError
    return value


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """Return a quantile as the harness interpolates it (harness/common/integers.c)."""
    low, rest = divmod(percent * (len(ordered) - 1), 100)
    if low + 1 >= len(ordered):
        return ordered[-1]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * rest / 100
