"""Errors of models: known values, and nothing where too little is known."""

import math

import pandas as pd
import pytest

from loopwright import microarchs, paths
from loopwright.judging.model_accuracy import Accuracy
from loopwright.judging.study import COLUMNS, MEASURED
from loopwright.reporting.text import by_core

NAN = float("nan")


def test_a_core_is_marked_unvalidated_where_no_measurement_was_held_against_it():
    known = pd.read_csv(paths.models_root() / "accuracy.csv")
    held = set(known[known["model"] == "pipeline"]["core"])
    marked = {i for i in microarchs.ids() if "unvalidated" in microarchs.load(i).parameters}
    assert marked
    assert not marked & held


def test_known_values():
    found = Accuracy.of([1.0, 2.0, 6.0, NAN], [1.0, 4.0, 4.0, 9.0])
    assert found.count == 3
    assert found.mape == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)
    assert found.tau == pytest.approx(2 / math.sqrt(3 * 2))  # two pairs agree, one is tied


def test_a_reversed_order_is_minus_one():
    assert Accuracy.of([3, 2, 1], [1, 2, 3]).tau == pytest.approx(-1)


def test_two_pairs_and_equal_ones_have_no_order():
    few = Accuracy.of([1, 2, NAN], [1, NAN, 3])
    assert (few.count, math.isnan(few.mape), math.isnan(few.tau)) == (1, True, True)
    equal = Accuracy.of([1, 1, 1], [2, 2, 2])
    assert (equal.mape, math.isnan(equal.tau)) == (50, True)


def _rows(measured, predicted):
    sides = {MEASURED: measured, "osaca": predicted}
    rows = [
        {"variant": f"v{n}", "microarch": "zen4", "source": source, "notion": "loop", "cycles": c}
        for source, cycles in sides.items()
        for n, c in enumerate(cycles)
    ]
    said = dict.fromkeys(("error", "excluded", "note", "main_loop"), "")
    table = pd.DataFrame(rows).assign(cycles_per_unit=lambda t: t["cycles"], unit="64 bytes")
    return table.reindex(columns=COLUMNS).assign(**said)


def test_comparisons_say_how_far_models_are_off():
    text = by_core(_rows([1.0, 2.0, 4.0], [1.0, 3.0, 4.0]))
    assert "osaca: MAPE 17 %, Kendall's tau 1.00 over 3 variants" in text
    assert "MAPE" not in by_core(_rows([1.0, 2.0], [1.0, 3.0]))
