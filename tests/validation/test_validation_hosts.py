"""What hosts measured is kept, and all that rests on it can be made anew."""

import re

import pandas as pd
import pytest
from checkout import ROOT, SHARED
from quick import some

import loopwright as lw

HOSTS = ROOT / "validation" / "hosts"
LOOPS = sorted(HOSTS.glob("loops/*.csv"))
BLOCKS = ["4883c001", "4801c3", "488b07"]


@pytest.fixture(scope="module")
def modules(validation):
    names = ("host", "host_kept", "host_blocks", "host_text", "record", "every_model")
    return {name: validation(name) for name in names}


@pytest.fixture
def own_answers(modules, monkeypatch, tmp_path):
    """Keep what models answer out of the checkout's build folder."""
    monkeypatch.setattr(modules["every_model"].paths, "build_dir", lambda: tmp_path / "build")


@pytest.fixture
def kept(modules, tmp_path):
    """Return a folder in which a loop, a string instruction and three blocks are kept."""
    host_kept = modules["host_kept"]
    loops = pd.DataFrame(
        [
            ["x86_64/k", "words", 6, "4889074883c7084883e90873f3", 1.0, 0.01, ""],
            ["x86_64/k", "string", 7, "f348a5", 1.0, 0.01, ""],
            ["x86_64/k", "part", 0, "0f01cb75fb", None, None, "measured without stac/clac"],
        ],
        columns=host_kept.LOOPS,
    )
    host_kept.keep_loops(tmp_path, "goldencove", loops)
    host_kept.keep_machine(tmp_path, "goldencove", {"machine": "a guest", "date": "2026-01-01"})
    rows = [
        {"sha256": modules["host_blocks"].digest(bytes.fromhex(code)), "notion": "unrolled",
         "cycles": 1.0, "uncertainty": 0.01, "status": "ok", "clock": "perf", "pipeline": 99.0}
        for code in BLOCKS
    ]  # fmt: skip
    columns = [*host_kept.BLOCKS, *modules["every_model"].MODEL_IDS]
    host_kept.keep_blocks(tmp_path, "goldencove", pd.DataFrame(rows).reindex(columns=columns))
    return tmp_path


def public():
    return pd.DataFrame({"hex": BLOCKS, "arch": "IVB", "measured": 1.0})


@pytest.mark.usefixtures("own_answers")
def test_what_is_kept_is_predicted_anew_and_stays_as_it_was_measured(modules, kept):
    before = pd.read_csv(kept / "goldencove.csv")
    modules["host"].write_both(kept, "goldencove", public())
    after = pd.read_csv(kept / "goldencove.csv")
    measured = modules["host_kept"].BLOCKS
    pd.testing.assert_frame_equal(before[measured], after[measured])
    said = [
        lw.predict(hex=code, microarch="goldencove", notion="unrolled")["cycles"][0]
        for code in BLOCKS
    ]
    assert list(after["pipeline"]) == pytest.approx(said, abs=1e-4)
    text = (kept / "goldencove.md").read_text()
    assert re.search(r"\| x86_64/k/words \| 1\.00 \+- 0\.01 \| 1\.00 \(", text)
    assert re.search(r"\| x86_64/k/string \| 1\.00 \+- 0\.01 \| 0\.94 \(-6 %\) \|", text)
    assert "refused: measured without stac/clac" in text
    assert "| machine | a guest |" in text
    again = (kept / "goldencove.md").read_bytes(), (kept / "goldencove.csv").read_bytes()
    modules["host"].write_both(kept, "goldencove", public())
    assert again == ((kept / "goldencove.md").read_bytes(), (kept / "goldencove.csv").read_bytes())


def test_without_the_blocks_nothing_is_written_and_it_is_said(modules, kept, capsys):
    before = (kept / "goldencove.csv").read_bytes()
    modules["host"].write_both(kept, "goldencove", None)
    assert "LOOPWRIGHT_SHARED" in capsys.readouterr().out
    assert (kept / "goldencove.csv").read_bytes() == before
    assert not (kept / "goldencove.md").exists()


@pytest.mark.usefixtures("own_answers")
def test_answers_of_outside_models_are_kept_and_ours_are_asked_again(modules, monkeypatch):
    every_model, asked = modules["every_model"], []
    real = every_model._predict
    monkeypatch.setattr(
        every_model, "_predict", lambda *given: asked.append(given[-1]) or real(*given)
    )
    first = every_model.predicted(["4883c001"], "skylake", "unrolled")
    assert set(asked) == set(every_model.MODEL_IDS)
    asked.clear()
    second = every_model.predicted(["4883c001"], "skylake", "unrolled")
    assert asked == ["pipeline"]
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_the_table_for_people_has_the_loops_that_are_kept(path):
    text = (HOSTS / f"{path.stem}.md").read_text()
    for row in pd.read_csv(path).to_dict("records"):
        real = f"{row['cycles']:.2f} +- {row['uncertainty']:.2f}"
        shown = "refused" if pd.isna(row["cycles"]) else real
        assert f"| {row['kernel']}/{row['variant']} | {shown} |" in text


@pytest.mark.parametrize("core", some([path.stem for path in LOOPS], {"zen3"}))
@pytest.mark.usefixtures("own_answers")
def test_accuracy_has_what_kept_loops_give(modules, core):
    table = pd.read_csv(ROOT / "models" / "accuracy.csv")
    origin = modules["record"].loops_origin(core)
    kept = table[table["origin"] == origin].set_index("model")
    for row in modules["record"].kernels_loops(core):
        if row["mape_percent"] == row["mape_percent"]:
            known = kept.loc[row["model"]]
            assert known["rows"] == row["rows"]
            # Else the table is of an older model: run validation/record.py.
            assert known["mape_percent"] == pytest.approx(row["mape_percent"], abs=1)


def test_every_source_of_measured_rows_is_in_accuracy(modules):
    table = pd.read_csv(ROOT / "models" / "accuracy.csv", keep_default_na=False)
    missing = {origin for origin, *_ in modules["record"].sources()} - set(table["origin"])
    assert not missing
    [calls] = table[table["what"] == "calls"].to_dict("records")
    assert (calls["core"], calls["model"], calls["held_out"]) == ("goldencove", "pipeline", "no")


def test_kept_blocks_are_those_of_the_suite(modules):
    path = SHARED / "data" / "bhive_public.csv"
    if not path.is_file():
        pytest.skip("bhive_public.csv is not in $LOOPWRIGHT_SHARED/data")
    known = modules["host_blocks"].codes(pd.read_csv(path)["hex"])
    for kept in HOSTS.glob("*.csv"):
        assert set(pd.read_csv(kept)["sha256"]) <= set(known)
