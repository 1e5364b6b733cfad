"""Ranges of predictions: by core, kind of prediction and memory accesses of the code."""

import csv

import pytest

from loopwright import microarchs, paths, predict
from loopwright.predicting.core_figures import CALL, MEMORY, RANGES, WHOLE_CALLS, memory_of
from loopwright.predicting.model import Block

_CODES = {
    "none": "4801c8",  # add rax, rcx
    "loads": "480306",  # add rax, [rsi]
    "stores": "488907",  # mov [rdi], rax
    "both": "488b06488907",  # mov rax, [rsi]; mov [rdi], rax
    "forwarding": "48010f",  # add [rdi], rcx
}


@pytest.mark.parametrize(("memory", "code"), _CODES.items())
def test_code_is_classed_by_its_memory_accesses(memory, code):
    assert memory_of(Block("x86_64", bytes.fromhex(code), "unrolled", 0)) == memory


@pytest.mark.parametrize(("code", "memory"), [("010040f9010000f9", "forwarding"),
                                              ("010040f9610000f9", "both")])  # fmt: skip
def test_so_it_is_on_aarch64(code, memory):
    assert memory_of(Block("arm64", bytes.fromhex(code), "unrolled", 0)) == memory


def test_each_core_has_a_range_of_each_kind():
    with (paths.models_root() / RANGES).open(newline="") as file:
        rows = list(csv.DictReader(file))
    classes = {(kind, memory) for kind in ("loop", "unrolled") for memory in MEMORY}
    classes.add((CALL, WHOLE_CALLS))
    known = {(row["core"], row["kind"], row["memory"]) for row in rows}
    assert known == {(core, *one) for core in microarchs.ids() for one in classes}
    assert len(rows) == len(known)
    assert all(float(row["least"]) < 1 < float(row["most"]) for row in rows)
    assert all(int(row["rows"]) >= 40 for row in rows)


def test_a_prediction_has_the_range_of_its_class():
    rows = predict(hex=_CODES["both"], microarch="zen4,goldencove").set_index("microarch")
    assert (rows["low"] < rows["cycles"]).all()
    assert (rows["cycles"] < rows["high"]).all()
    relative = rows["high"] / rows["cycles"]
    assert relative["zen4"] != pytest.approx(relative["goldencove"], rel=0.01)
    assert rows["cheap"].isna().all()


def test_other_models_give_no_range():
    rows = predict(hex=_CODES["both"], microarch="zen4", model="llvm-mca")
    assert rows["cycles"].notna().all()
    assert rows["low"].isna().all()
