"""docs/architecture.md describes the tree that there is, and the imports that lint allows."""

import importlib
import pkgutil
import re
import tomllib
from itertools import pairwise

from checkout import ROOT

import loopwright as lw

DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()


def rows():
    """Return the packages of each row of the first table, and those that they import from."""
    table = DOCUMENT.partition("| package |")[2].partition("```")[0]
    found = re.findall(r"^\| (`.*?) \| .* \| (.*) \|$", table, re.M)
    return [(re.findall(r"`(\w+)`", names), taken) for names, taken in found]


def layers():
    """Return the order of packages that lint holds imports to, the first at the bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [set(layer.split(" | ")) for layer in reversed(packages)]


def test_every_package_has_a_row_and_every_row_a_package():
    named = [name for names, _ in rows() for name in names]
    assert sorted(named) == sorted(module.name for module in pkgutil.iter_modules(lw.__path__))


def test_the_rows_stand_in_the_order_that_imports_are_held_to():
    order = layers()
    level = {name: number for number, names in enumerate(order) for name in names}
    at = [max(level[name] for name in names) for names, _ in rows()]
    assert len(at) > 10
    assert at == sorted(at)
    for names, taken in rows():
        for one in re.findall(r"\w+", taken):
            if one in level:
                assert level[one] < min(level[name] for name in names), (names, one)


def test_the_picture_shows_every_package_and_points_forwards():
    picture = DOCUMENT.partition("flowchart")[2].partition("```")[0]
    level = {name: number for number, names in enumerate(layers()) for name in names}
    drawn = set()
    for line in picture.splitlines()[1:]:
        packages = line.split("-->")
        for before, behind in pairwise(packages):
            assert level[before.strip()] < level[behind.strip()], line
            drawn |= {before.strip(), behind.strip()}
    assert drawn == {name for names, _ in rows()[1:] for name in names}


def test_every_path_that_is_named_is_there():
    named = re.findall(r"`((?:loopwright|kernels|models|harness)/[\w./-]*)`", DOCUMENT)
    assert len(named) > 25
    in_wheels = {"loopwright/shipped"}
    assert not [path for path in named if not (ROOT / path).exists() and path not in in_wheels]


def test_every_verb_is_where_the_package_says():
    for name, module in lw._VERBS.items():
        verb = getattr(importlib.import_module(f"loopwright.{module}"), name)
        assert verb is getattr(lw, name)
    assert set(lw._VERBS) == set(lw.__all__)
