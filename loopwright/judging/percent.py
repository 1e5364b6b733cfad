"""Percent of a speed ratio, with its sign."""


def percent(ratio: float) -> str:
    """Return a ratio of speeds as its excess over 1, in percent: 1.2 is "+20.0 %"."""
    return signed(100 * (ratio - 1))


def signed(difference: float) -> str:
    """Return a difference in percent, to a tenth, with its sign: +0.0 where it is nothing."""
    return f"{round(difference, 1) + 0.0:+.1f} %"
