"""Figures as SVG inside of a page, in colours that follow the page's scheme."""

import io
import re

import matplotlib as mpl
from matplotlib.figure import Figure

from loopwright.reporting.palette import ON_DARK

_THEMED = (*ON_DARK, "#ffffff")  # white is the page, behind bars and between cells


def inline(figure: Figure, name: str, label: str) -> str:
    """Return a figure as an svg element.

    name keeps its ids apart from those of other figures of the page; label is its text for who
    cannot see it. Its fixed colours become CSS variables, --p- and their six digits.
    """
    out = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "axes.unicode_minus": False}
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        figure.savefig(
            out,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.S)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r'\bid="([^"]*)"', lambda m: f'id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = re.sub(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--sans)", text)
    text = re.sub("|".join(_THEMED), lambda m: f"var(--p-{m[0][1:]})", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    text = re.sub(r"<defs>\s*</defs>", "", re.sub(r"\s*\n\s*", "\n", text))
    # Width and height in CSS; the view box keeps the shape.
    head, tail = text.split(">", 1)
    width = figure.get_size_inches()[0] * 96
    head = re.sub(r'\s(?:width|height|version|xmlns(?::xlink)?)="[^"]*"', "", head)
    safe = label.replace("&", "and").replace('"', "'").replace("<", "less than ")
    style = f'style="width:{width:.0f}px"'
    return f'{head} role="img" aria-label="{safe}" {style}>{tail}'.replace("xlink:href", "href")
