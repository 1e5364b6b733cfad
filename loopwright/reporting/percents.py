"""Speed-ups in percent as text."""

from collections.abc import Sequence


def span(percents: Sequence[float]) -> str:
    """Return one text for speed-ups: "+3 %", "-2 to +14 %", "no difference"."""
    low, high = (f"{round(end):+d}" for end in (min(percents), max(percents)))
    if low == high:
        return "no difference" if low == "+0" else f"{low} %"
    return f"{low} to {high} %".replace("+0 ", "0 ")
