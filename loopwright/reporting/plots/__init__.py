"""Figures, in plain matplotlib: each function takes a table and returns a Figure.

The tables come from the verbs of the package and from the modules beside this one: alignment,
sizes, accuracy. A figure is not pyplot's any more: in a notebook it is shown where it is the last
value of a cell, or by display(figure).
"""

from loopwright.reporting.plots.bars import cycles
from loopwright.reporting.plots.heat_map import heat_map
from loopwright.reporting.plots.port_map import port_map
from loopwright.reporting.plots.ports import ports
from loopwright.reporting.plots.published import published_over_size
from loopwright.reporting.plots.scatter import scatter
from loopwright.reporting.plots.size_curves import size_curves
from loopwright.reporting.plots.strip import strip
from loopwright.reporting.plots.timeline import timeline

__all__ = [
    "cycles",
    "heat_map",
    "port_map",
    "ports",
    "published_over_size",
    "scatter",
    "size_curves",
    "strip",
    "timeline",
]
