"""Figures, in plain matplotlib: each function takes a table and returns a Figure.

The tables come from the verbs of the package and from the modules beside this one: alignment,
sizes, accuracy. A figure is not pyplot's any more: in a notebook it is shown where it is the last
value of a cell, or by display(figure).
"""

from loopwright.report.plots.accuracy import scatter
from loopwright.report.plots.alignment import heat_map
from loopwright.report.plots.bars import cycles
from loopwright.report.plots.ports import ports
from loopwright.report.plots.published import published_over_size
from loopwright.report.plots.sizes import size_curves
from loopwright.report.plots.timeline import timeline

__all__ = [
    "cycles",
    "heat_map",
    "ports",
    "published_over_size",
    "scatter",
    "size_curves",
    "timeline",
]
