"""Routines of fixed size, as copy_page: checked, predicted and placed without a count."""

import re

import few_variants
import pytest
from checkout import DATA

from loopwright import kernels
from loopwright.checking.check import described_cases, run
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.measuring import readings
from loopwright.measuring.readings import Sweep
from loopwright.predicting.predict import predict

FOLDER = DATA / "kernels"
PAGE = 4096


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FOLDER))


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Return a function that loads the pages with texts of a file replaced."""
    folder = few_variants.changed(monkeypatch, tmp_path / "kernels", "x86_64/page")

    def change(file, old, new):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))
        return kernels.load("x86_64/page")

    return change


def contract(name):
    return kernels.load("x86_64/page").routines[name].contract


@pytest.mark.parametrize("kernel", ["x86_64/page", "arm64/page"])
def test_routines_of_fixed_size_hold_their_contract(kernel):
    rows = run(kernels.load(kernel).variants.values())
    assert rows["passed"].all(), rows["failure"].tolist()
    assert (rows["cases"] > 0).all()


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("copy_string.S", "$512", "$511", "dst byte 4088 is"),
        ("copy_string.S", "$512", "$513", "dst byte 4096 is written, outside"),
        ("clear_lines.S", "8(%rdi)", "(%rdi)", "dst byte 8 is"),
        ("copy_straight.S", "24(%rdi)", "23(%rdi)", "dst byte 23 is"),
    ],
)
def test_too_little_and_too_much_is_found(changed, file, old, new, why):
    kernel = changed(file, old, new)
    rows = run(kernel.variants.values()).set_index("variant")
    assert not rows.loc[file.removesuffix(".S"), "passed"]
    assert why in rows.loc[file.removesuffix(".S"), "failure"]


def test_without_an_alignment_in_the_contract_others_are_tried(changed):
    kernel = changed("kernel.toml", "align = 4096\n", "")
    [row] = run([kernel.variants["clear_lines"]]).to_dict("records")
    assert not row["passed"]


def test_a_loop_inside_moves_what_it_moves_and_not_the_whole_call():
    rows = predict("x86_64/page", microarch="zen2").set_index("variant")
    assert rows["bytes_per_iteration"].to_dict() == {
        "copy_string": 64,
        "copy_lines": 64,
        "copy_words": 8,
        "clear_lines": 64,
        "copy_straight": 32,
    }
    per_cycle = rows["bytes_per_iteration"] / rows["cycles"]
    assert (per_cycle.drop("copy_string") <= 8).all()  # Zen 2 stores a word a cycle


RECORD = 'effect = "store_fields"\nsrc_record = 4096\ndst_record = 4096\nfaulting = []\n'
RECORD += "fields = [{ dst = 0, size = 4096, src = 0 }]\n"


def test_a_record_as_large_as_a_page_says_the_same(changed):
    kernel = changed("kernel.toml", 'effect = "copy"\nbytes = 4096\n', RECORD)
    mine = kernel.of_routine("copy_page")
    assert run(mine)["passed"].all()
    rows = predict("x86_64/page", microarch="zen2").set_index("variant")
    assert rows.loc["copy_lines", "bytes_per_iteration"] == 64
    assert rows.loc["copy_words", "bytes_per_iteration"] == 8
    cases = described_cases(kernel.routines["copy_page"].contract)
    assert cases == "one record, at 16 by 16 alignments"


@pytest.mark.parametrize("variant", ["copy_lines", "copy_string"])
def test_a_call_with_a_loop_inside_is_not_predicted_as_one_pass(changed, variant):
    changed("kernel.toml", "bytes = 4096\n", 'bytes = 4096\nunit = "call"\n')
    rows = predict(f"x86_64/page/{variant}", microarch="all", model="all")
    assert rows["cycles"].isna().all()
    assert rows["error"].str.contains('unit = "iteration"').any()


def test_the_whole_call_is_measured_at_addresses_that_the_contract_allows():
    goals = {}
    for variant in kernels.load("x86_64/page").variants.values():
        code, found = assemble.user_code(variant), kernels.contract_of(variant)
        goals[variant.name] = readings.goals(variant, code, found, Sweep(sizes=(64, 128)))
    assert {g.size_bytes for g in goals["copy_lines"]} == {PAGE}
    assert {g.size_bytes for g in goals["copy_straight"]} == {32}
    assert all(g.quantity == "call" and len(g.points) == 1 for of in goals.values() for g in of)
    assert [(p.dst_align, p.skew) for g in goals["clear_lines"] for p in g.points] == [(0, 0)]
    assert len(goals["copy_lines"]) == len(readings.ALIGNMENTS)


def test_alignments_that_the_contract_forbids_are_refused():
    with pytest.raises(InputError, match="multiples of 4096; give alignments that are, as 0:0"):
        Sweep(alignments=((1, 0),)).allowed(contract("clear_page"))


def test_what_was_tried_is_said_as_it_was():
    assert described_cases(contract("copy_page")) == "4096 bytes, at 16 by 16 alignments"
    cases = described_cases(contract("clear_page"))
    assert cases == "4096 bytes, at addresses that are multiples of 4096"
    assert described_cases(contract("copy_line")) == "32 bytes, at 16 by 16 alignments"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("bytes = 4096\n", "", "say how much a call moves by 'bytes', from 1 to 4096"),
        ("bytes = 4096\n", "bytes = 8192\n", "from 1 to 4096"),
        ("bytes = 4096\n", "bytes = 0\n", "from 1 to 4096"),
        ("bytes = 4096\n", "bytes = true\n", "from 1 to 4096"),
        ('src = "rsi" }', 'src = "rsi", count = "rdx" }', "'bytes' and an input count exclude"),
        ('effect = "copy"', 'effect = "checksum"', "effect 'checksum' needs an input count"),
        ("bytes = 4096\n", 'bytes = 4096\nreturns = { uncopied = "rax" }\n', "not uncopied"),
        ("bytes = 4096\n", "bytes = 4096\nalign = 48\n", "align 48 is not a power of two"),
        ("bytes = 4096\n", "bytes = 4096\nloop = 0\n", "loop 0 is neither a label nor a number"),
        ('loop = ".Llines"', "loop = [1]", "loop [1] is neither"),
    ],
)
def test_what_makes_no_contract_is_refused_at_the_door(changed, old, new, why):
    with pytest.raises(InputError, match=re.escape(why)) as caught:
        changed("kernel.toml", old, new)
    assert "kernel.toml" in str(caught.value)


def test_a_record_routine_takes_no_bytes(changed):
    text = 'effect = "store_fields"\n'
    with pytest.raises(InputError, match="records have dst_record"):
        changed("kernel.toml", 'effect = "copy"\n', text)


def test_a_label_that_is_not_there_names_the_loops(changed):
    kernel = changed("kernel.toml", ".Llines", ".Lwords")
    variant = kernel.variants["copy_lines"]
    with pytest.raises(InputError, match=r"copy_lines\.S: there is no label \.Lwords; .*1 at 0x5"):
        assemble.main_loop(variant, assemble.variant_code(variant))


RECORDS = """
[routine.lines]
summary = "copy lines, a record each"
[routine.lines.contract]
symbol = "test_lines"
effect = "store_fields"
src_record = 64
dst_record = 64
faulting = []
fields = [{ dst = 0, size = 64, src = 0 }]
inputs = { dst = "rdi", src = "rsi", count = "rdx" }
may_change = ["rax", "rcx", "rdx", "rsi", "rdi", "flags"]

[[variant]]
name = "nested"
routine = "lines"
summary = "eight words a record"
"""
NESTED = """#include <linux/linkage.h>

SYM_FUNC_START(test_lines)
	testq %rdx, %rdx
	je 3f
1:	movl $8, %ecx
2:	movq (%rsi), %rax
	movq %rax, (%rdi)
	addq $8, %rsi
	addq $8, %rdi
	decl %ecx
	jnz 2b
	decq %rdx
	jnz 1b
3:	RET
SYM_FUNC_END(test_lines)
"""


def test_a_loop_inside_of_the_one_over_records_moves_part_of_a_record(changed, tmp_path):
    folder = tmp_path / "kernels" / "x86_64" / "page"
    (folder / "nested.S").write_text(NESTED)
    kernel = changed("kernel.toml", "[[variant]]", f"{RECORDS}\n[[variant]]")
    assert run([kernel.variants["nested"]])["passed"].all()
    [row] = predict("x86_64/page/nested", microarch="zen2").to_dict("records")
    assert row["bytes_per_iteration"] == 8
    variant = kernel.variants["nested"]
    code, found = assemble.user_code(variant), kernels.contract_of(variant)
    goals = readings.goals(variant, code, found, Sweep())
    assert {g.quantity for g in goals} == {"call"}


def test_a_nested_loop_that_calls_hides_what_it_moves(changed, tmp_path):
    folder = tmp_path / "kernels" / "x86_64" / "page"
    calling = NESTED.replace("movq %rax, (%rdi)", "call 4f") + "4:\tmovq %rax, (%rdi)\n\tRET\n"
    (folder / "nested.S").write_text(calling)
    changed("kernel.toml", "[[variant]]", f"{RECORDS}\n[[variant]]")
    with pytest.raises(InputError, match="stands in another and calls"):
        predict("x86_64/page/nested", microarch="zen2")
