"""Make a page that needs no network: its template, and what it and others have in common."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from loopwright import files
from loopwright.errors import InputError
from loopwright.reporting import palette

_HERE = "loopwright.reporting.page"


def made(
    template: str, *, scripts: Sequence[str], package: str = _HERE, style: str = "", **values: Any
) -> str:
    """Return a page by the name of its template, with the names of its scripts in their order.

    package holds below templates/ what is its own, among it a further style sheet. values are the
    template's.
    """
    packages = dict.fromkeys((package, _HERE))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(one, "templates") for one in packages]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    def text(name: str) -> str:
        found = (resources.files(one) / "templates" / name for one in packages)
        return next(file for file in found if file.is_file()).read_text()

    return environment.get_template(template).render(
        css="\n".join(text(name) for name in ("page.css", style) if name),
        js=[text(name) for name in scripts],
        on_dark=palette.ON_DARK,
        **values,
    )


def check(out: Path) -> None:
    """Refuse a page's name before there is a page; InputError where it cannot be written there."""
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"{out} does not end in .html; name the page so")
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file for the page")
    there = next(folder for folder in out.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"{out} cannot be written: {there} is no folder to write to")


def write(page: str, out: Path) -> None:
    """Write a page, whole or not at all; InputError where it cannot be written."""
    check(out)
    files.written(out, page)
