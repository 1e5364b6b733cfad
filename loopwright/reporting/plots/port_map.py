"""The map of what runs on which port of a core."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas


@canvas.drawn
def port_map(core: Microarch, kinds: Sequence[str] | None = None) -> Figure:
    """Draw a row for each kind of uops and a column for each port: a square where it runs.

    kinds are the rows, those of the core where left out; one that it has no figures of stays empty.
    """
    uses = {use.kind: use.ports for use in core_figures.port_uses(core)}
    rows = list(uses) if kinds is None else list(kinds)
    ports = core_figures.port_names(core)
    if not ports or not rows:
        return canvas.nothing(f"{core.id}: the simulator has no figures for it")
    figure, axes = canvas.axes(1.9 + 0.27 * len(ports), 0.75 + 0.24 * len(rows))
    style = palette.OKABE_ITO[0]
    for y, kind in enumerate(rows):
        taken = [x for x, port in enumerate(ports) if port in uses.get(kind, "")]
        axes.scatter(taken, [y] * len(taken), marker="s", s=95, color=style)
        axes.axhline(y - 0.5, color=palette.FAINT, linewidth=0.6)
    axes.set_xticks(range(len(ports)), list(ports))
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlim(-0.7, len(ports) - 0.3)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{core.id}: ports")
    return figure
