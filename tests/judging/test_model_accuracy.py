"""How right models have been on cores: the table, and what follows from it."""

import pandas as pd
import pytest

from loopwright import microarchs
from loopwright.errors import InputError
from loopwright.judging import model_accuracy
from loopwright.predicting import held_out
from loopwright.predicting.models import MODELS

HEAD = ",".join(model_accuracy.COLUMNS)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return what writes a table of its own into models/ and reads it."""
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path))

    def write(*lines, head=HEAD):
        (tmp_path / model_accuracy.FILE).write_text("\n".join([head, *lines, ""]))
        return model_accuracy.records()

    return write


def of(known, model="pipeline", core="zen2", notion="loop"):
    return model_accuracy.accuracy_of(model, core, notion, known)


def test_the_committed_table_is_of_models_and_cores_that_there_are():
    known = model_accuracy.records()
    assert set(known["model"]) <= {m.id for m in MODELS}
    assert set(known["core"]) <= set(microarchs.ids())
    kinds = {"loops", "unrolled", "calls", "strings", "instructions", "speed-ups"}
    assert set(known["what"]) <= kinds
    assert set(known["against"]) <= {model_accuracy.MEASUREMENT, "uica"}
    assert (known["mape_percent"] >= 0).all()
    assert known["tau"].dropna().between(-1, 1).all()
    assert (known["origin"].str.len() > 20).all()
    assert not known.duplicated(["core", "model", "what", "against", "origin"]).any()


def test_llvm_mca_is_known_to_be_wrong_on_skylake_and_uica_to_be_right():
    known = model_accuracy.records()
    assert of(known, "llvm-mca", "skylake").wrong
    assert of(known, "uica", "skylake").validated
    assert of(known, "uica", "sandybridge").validated


def test_a_core_without_a_record_is_not_validated(table):
    found = of(table())
    assert (found.validated, found.wrong, found.error_percent) == (False, False, None)
    assert found.described == "not validated there"


def test_records_of_loops_go_before_those_of_unrolled_code_and_add_up(table):
    known = table(
        "zen2,pipeline,loops,measurement,100,4.0,0.9,yes,somebody's loops",
        "zen2,pipeline,loops,measurement,300,8.0,0.9,yes,others",
        "zen2,pipeline,unrolled,measurement,900,50.0,0.5,yes,blocks",
    )
    assert of(known).error_percent == pytest.approx(7.0)
    assert of(known).described == "off by 7 % over 400 loops there"
    assert of(known).validated
    assert of(known, notion="unrolled").wrong


def test_rows_that_set_parameters_never_show_that_a_model_is_right(table):
    fitted = "zen2,pipeline,loops,measurement,1000,1.0,0.99,no,fitted to these"
    found = of(table(fitted))
    assert not found.validated
    assert not found.wrong
    assert "but some of these set its parameters" in found.described
    assert of(table(fitted.replace(",1.0,", ",40.0,"))).wrong


def test_another_models_cycles_count_as_far_as_that_one_is_right(table):
    against = "zen2,pipeline,loops,uica,500,3.0,0.9,yes,uiCA's cycles"
    assert not of(table(against)).validated
    own = "zen2,uica,loops,measurement,,{},0.9,yes,its authors"
    assert of(table(against, own.format("2.0"))).error_percent == pytest.approx(5.0)
    assert of(table(against, own.format("30.0"))).wrong


@pytest.mark.parametrize(
    ("what", "rows"),
    [("loops", model_accuracy.LEAST_ROWS - 1), ("instructions", 900), ("speed-ups", 4)],
)
def test_too_few_rows_and_other_things_than_code_validate_nothing(table, what, rows):
    found = of(table(f"zen2,pipeline,{what},measurement,{rows},1.0,0.9,yes,somebody"))
    assert not found.validated
    assert found.described.startswith("not validated there: 1 % over")


@pytest.mark.parametrize(
    ("line", "head", "why"),
    [
        ("zen2,pipeline,loops,measurement,100,4.0,0.9,maybe,x", HEAD, "neither yes nor no"),
        ("zen2,pipeline,loops,measurement,many,4.0,0.9,yes,x", HEAD, "many"),
        ("zen2,pipeline,loops,measurement,100,much,0.9,yes,x", HEAD, "much"),
        ("zen2", "core", "the header lacks model, what"),
    ],
)
def test_a_table_that_is_none_is_refused_by_its_name(table, line, head, why):
    with pytest.raises(InputError, match=why) as caught:
        table(line, head=head)
    assert model_accuracy.FILE in str(caught.value)


@pytest.fixture(scope="module")
def record(validation):
    return validation("record")


@pytest.mark.slow
def test_the_table_is_made_anew_where_data_is_here_and_kept_where_not(
    record, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "accuracy.csv"
    path.write_text(f'{HEAD}\nzen4,osaca,loops,measurement,9,6.0,,yes,"{record.BHIVE_ORIGIN}"\n')
    monkeypatch.setattr(record, "TABLE", path)
    monkeypatch.setattr(record, "ROOT", tmp_path)
    monkeypatch.setattr(record, "DATA", tmp_path / "nothing")
    record.main()
    rows = pd.read_csv(path)
    assert "set LOOPWRIGHT_SHARED" in capsys.readouterr().out
    assert (rows["origin"] == record.BHIVE_ORIGIN).sum() == 1
    assert len(rows[rows["origin"] == record.LITERATURE_ORIGIN]) == len(record.UICA)
    loops = rows[rows["origin"].str.startswith("the kernels' loops")].set_index(["core", "model"])
    assert loops.loc[("zen4", "llvm-mca"), ["rows", "mape_percent"]].tolist() == [14, 36.2]
    speed = rows[rows["what"] == "speed-ups"].set_index(["core", "model"])["mape_percent"]
    assert speed["tsv110", "pipeline"] < speed["tsv110", "llvm-mca"]
    assert "zen2" not in speed.index.get_level_values("core"), "a Zen 1 was timed, not a Zen 2"


def test_blocks_measured_as_loops_are_found_by_the_code_that_was_measured(validation):
    blocks = validation("host_blocks")
    block = bytes.fromhex("4801d8")
    plain, loop = (bytes.fromhex(code) for code, _ in blocks.codes([block.hex()]).values())
    assert plain == block
    assert loop.startswith(block)
    assert len(loop) == len(block) + 5  # dec and jnz
    assert set(blocks.codes([block.hex()])) == {blocks.digest(plain), blocks.digest(loop)}


@pytest.mark.parametrize(("predicted", "right"), [(105.0, True), (150.0, False)])
def test_a_learned_core_ranks_by_its_own_self_check(table, tmp_path, predicted, right):
    rows = [f"blocks,90,0,100.0,0.1,{predicted},,,"] * 40 + ["blocks,90,0,100.0,0.1,,,,refused"]
    (tmp_path / "host").mkdir()
    head = "kind,hex,offset,cycles,uncertainty,predicted,low,high,error"
    (tmp_path / "host" / held_out.FILE).write_text("\n".join([head, *rows, ""]))
    known = of(table(), core="host")
    assert known.error_percent == pytest.approx(predicted - 100)
    assert known.validated is right
    assert known.wrong is not right
