"""What make validate says of the machine that it runs on."""

import pandas as pd
import pytest

NAN = float("nan")


@pytest.fixture(scope="module")
def accuracy(validation):
    return validation("accuracy")


def _loops(measured, pipeline) -> pd.DataFrame:
    rows = pd.DataFrame({"measured": measured, "pipeline": pipeline}, dtype="float64")
    names = [f"v{n}" for n in range(len(rows))]
    return rows.assign(kernel="x86_64/k", variant=names, uncertainty=0.01)


def test_loops_measured_and_predicted_are_counted_by_how_close_they_are(accuracy):
    found, summary = accuracy.against_this_machine(
        _loops([1.0, 2.0, 4.0, 5.0, NAN, 3.0], [1.02, 2.16, 3.0, 5.0, 1.0, NAN])
    )
    assert list(found["error %"]) == pytest.approx([2.0, 8.0, -25.0, 0.0])
    assert "4 of 6" in summary
    assert summary.endswith("50 % within 3 %, 75 % within 10 %")


def test_a_machine_that_could_not_be_measured_has_no_share(accuracy):
    found, summary = accuracy.against_this_machine(_loops([NAN], [1.0]))
    assert found.empty
    assert summary == "0 of 1 loops have a measurement and a prediction"


def test_a_core_without_tables_is_named(accuracy, capsys, monkeypatch):
    monkeypatch.setattr(accuracy.hosts, "microarch", lambda: "zen5")
    accuracy.show_this_machine()
    assert "skipped: this machine is zen5" in capsys.readouterr().out
