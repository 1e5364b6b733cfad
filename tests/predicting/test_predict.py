"""The outside models, held against answers that are known for the installed versions."""

import pandas as pd
import pytest

from loopwright.predicting.predict import predict

LOAD3 = "488b07488b4f08488b5710"
STORE3 = "48890748894f0848895710"
COPY8 = "488b064889074883c6084883c70848ffc975ed"
NOP8_ARM = "1f2003d5" * 8


def _cycles(rows: pd.DataFrame, model: str) -> float:
    row = rows[rows["model"] == model]
    assert len(row) == 1
    assert row["error"].item() == ""
    return float(row["cycles"].item())


@pytest.mark.parametrize(
    ("code", "core", "model", "cycles"),
    [
        # LLVM 19's model of Zen 2 issues three memory operations of any kind a cycle.
        (LOAD3, "zen2", "llvm-mca", 1.0),
        (STORE3, "zen2", "llvm-mca", 1.0),
        (LOAD3, "sandybridge", "llvm-mca", 1.5),
        ("90" * 6, "zen2", "llvm-mca", 1.5),
        ("90" * 6, "zen2", "llvm-mca-corrected", 1.2),
        (NOP8_ARM, "neoverse-n1", "llvm-mca", 1.0),
        (NOP8_ARM, "neoverse-n1", "llvm-mca-corrected", 2.0),
        # OSACA without size suffixes: general moves, not vector moves.
        (LOAD3, "zen2", "osaca", 1.5),
        (STORE3, "zen2", "osaca", 3.0),
        (COPY8, "zen2", "osaca", 1.0),
    ],
)
def test_models_answer_as_they_are_known_to(code, core, model, cycles):
    rows = predict(hex=code, microarch=core, model=model)
    assert _cycles(rows, model) == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize(
    ("code", "model", "word"),
    [
        ("f348a5", "llvm-mca", "rep movsq"),
        ("f348a5", "osaca", "rep movsq"),
        ("0f01cb", "llvm-mca", "stac"),
        ("0faee8", "llvm-mca", "lfence"),
        ("e800000000", "llvm-mca", "call"),
        ("90", "osaca", "nop"),
        (LOAD3, "uica", "uiCA has no model of zen2"),
    ],
)
def test_a_model_that_would_have_to_guess_gives_no_number(code, model, word):
    row = predict(hex=code, microarch="zen2", model=model).iloc[0]
    assert pd.isna(row["cycles"])
    assert word in row["error"]


@pytest.mark.parametrize(("core", "product", "quotient"), [("zen2", 5, 15), ("zen4", 7, 15)])
def test_x87_takes_what_its_chains_were_measured_to_take(core, product, quotient):
    exchanged = "d9c9d8cad9c9d8ca"  # fxch and fmul st, st(2), twice: two chains by turns
    for code, cycles in (("d8c9", product), (exchanged, product), ("d8f1", quotient)):
        rows = predict(hex=code, microarch=core, model="pipeline", notion="unrolled")
        assert _cycles(rows, "pipeline") == pytest.approx(cycles, rel=0.02), code


def test_one_bad_block_costs_only_its_own_row(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text(
        f"id,hex,offset\ngood,{LOAD3},0\nodd,488,0\nnone,,0\nrep,f348a5,0\n"
        f"stac,0f01cb,0\nalso,{STORE3},63\n"
    )
    rows = predict(blocks=blocks, microarch="sandybridge", model="llvm-mca").set_index("id")
    assert rows["cycles"].dropna().round(1).to_dict() == {"good": 1.5, "also": 3.0}
    assert rows.loc["also", "offset"] == 63
    assert (rows["error"] != "").to_dict() == {
        "good": False,
        "odd": True,
        "none": True,
        "rep": True,
        "stac": True,
        "also": False,
    }


@pytest.mark.parametrize("model", ["pipeline", "llvm-mca", "osaca"])
@pytest.mark.parametrize("core", ["neoverse-n1", "tsv110"])
def test_a_word_that_one_decoder_alone_knows_costs_only_its_own_row(tmp_path, core, model):
    """Of a later extension, not allocated, of no meaning at all; each beside an addition."""
    blocks = tmp_path / "blocks.csv"
    words = ("f2467325", "d293056a", "00ddb74d", "ffffffff", "d293056a2000018b", "2000018b")
    blocks.write_text("id,hex\n" + "".join(f"{word},{word}\n" for word in words))
    rows = predict(blocks=blocks, microarch=core, model=model).set_index("id")
    assert list(rows.index[rows["cycles"].notna()]) == ["2000018b"]
    assert "sve2p1" in rows.loc["f2467325", "error"]
    assert "starts no whole AArch64 instruction" in rows.loc["d293056a", "error"]


def test_many_blocks_in_one_process_answer_as_each_alone(tmp_path):
    codes = [LOAD3, STORE3, COPY8, "4801d8", "480fafc3", "48ffc8"]
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("id,hex\n" + "".join(f"{n},{c}\n" for n, c in enumerate(codes)))
    together = predict(blocks=blocks, microarch="haswell", model="llvm-mca")["cycles"]
    alone = [
        _cycles(predict(hex=c, microarch="haswell", model="llvm-mca"), "llvm-mca") for c in codes
    ]
    assert list(together) == alone


def test_offset_all_gives_a_row_for_each_offset():
    rows = predict(hex=COPY8, microarch="zen2", model="llvm-mca", offset="all")
    assert list(rows["offset"]) == list(range(64))


def test_a_block_without_a_branch_is_no_loop():
    row = predict(hex=LOAD3, microarch="zen2", model="llvm-mca", notion="loop").iloc[0]
    assert "ends in a branch" in row["error"]


def test_code_that_a_jump_skips_costs_nothing():
    """Divisions behind a jump leave the cycle of a second taken branch alone."""
    divisions = "48f7f1" * 16
    around = f"4801d8eb30{divisions}ffc975c7"
    assert _cycles(predict(hex=around, microarch="zen2"), "pipeline") == 2.0
    for code, least, most in ((around, 0.0, 2.0), (divisions, 16.0, 1000.0)):
        cycles = _cycles(predict(hex=code, microarch="zen2", model="llvm-mca"), "llvm-mca")
        assert least <= cycles <= most
