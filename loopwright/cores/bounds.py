"""Figures that cannot be: below what a core's loads and stores take."""

import pandas as pd

TOLERANCE = 0.02  # relative: how far below a figure may lie, as models round


def impossible(rows: pd.DataFrame) -> pd.Series:
    """Say of each row of predict or compare whether its cycles are fewer than least_cycles.

    Such a figure is marked, drawn nowhere, and counts in no verdict, patch or comparison.
    """
    return rows["cycles"] < (1 - TOLERANCE) * rows["least_cycles"]


def why(least_cycles: float) -> str:
    """Return why such a figure counts for nothing."""
    return f"below the {least_cycles:g} cycles that the core's loads and stores take"
