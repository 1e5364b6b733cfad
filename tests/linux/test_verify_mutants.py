"""Errors put into patches on purpose: each is found by a tier, and not by comparison alone."""

import importlib.util

import pytest
from checkout import ROOT
from linux_trees import whole_tree

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "validation" / "mutants" / "run.py"


def test_every_mutant_is_caught(capsys, monkeypatch):
    tree = whole_tree("6.12")
    monkeypatch.syspath_prepend(SCRIPT.parent)  # it imports its neighbours
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rows = script.run(tree, "object", script.mutants())
    with capsys.disabled():
        print("\n" + script.table(rows, tree))
    found = rows[rows["tier"] == "object"].set_index(["variant", "kind"])["checks"]
    assert len(found) == len(script.mutants())
    # What cannot be built at all says nothing about the checks.
    assert not [key for key, checks in found.items() if not checks or "build" in checks]
