"""Forms whose microbenchmarks do not agree, high bytes, held-out loops and folders that travel."""

import shutil
import tomllib
from dataclasses import replace

import calibrations
import pytest

import loopwright as lw
from loopwright import microarchs
from loopwright.calibrating import doubtful_forms, self_check
from loopwright.calibrating.doubtful_forms import _Tried
from loopwright.calibrating.ports import Uops
from loopwright.errors import InputError
from loopwright.microbench.latency import Latency
from loopwright.microbench.oracle import Machine
from loopwright.portable.kit import import_core
from loopwright.predicting import core_figures, held_out
from loopwright.predicting.core_figures import Span
from loopwright.predicting.held_out import HeldOut

CORE = "simulated-zen4"


@pytest.fixture(scope="module", params=[calibrations.ZEN4])
def learned(request, tmp_path_factory):
    """Return the folder of models that a simulated Zen 4 was written to, and calibrate's rows."""
    return calibrations.learned(tmp_path_factory, request.param)


@pytest.fixture
def models(learned, monkeypatch):
    """Let cores be those that were learned."""
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(learned[0]))


def test_no_form_that_was_timed_is_left_out(learned):
    rows = calibrations.rows(learned[0] / CORE / "left-out.csv")
    left = {row["form"] for row in rows if not row["why"].startswith("no figures for")}
    table = calibrations.rows(learned[0] / CORE / "instructions.csv")
    known = {f"{r['mnemonic']} {o}".strip() for r in table for o in r["operands"].split(";")}
    assert {"shl r64,cl", "imul r64,r64", "mov r64,i64", "bt r64,r64"} <= known
    assert not left & known
    assert not {name for name in left if name.partition(" ")[0] in calibrations.DELIVERED}


def test_what_is_left_out_most_used_comes_first(learned):
    used = [row["per_million"] for row in calibrations.rows(learned[0] / CORE / "left-out.csv")]
    known = [float(one) for one in used if one]
    assert known == sorted(known, reverse=True)
    assert used[len(known) :] == [""] * (len(used) - len(known))


@pytest.mark.usefixtures("models")
def test_a_block_with_a_high_byte_is_between_two_figures():
    (low,) = lw.predict(hex="88c3", notion="unrolled", microarch=CORE).to_dict("records")
    (high,) = lw.predict(hex="00e3" * 6, notion="unrolled", microarch=CORE).to_dict("records")
    assert low["cheap"] != low["cheap"]  # mov bl, al: nothing of it is in doubt
    assert low["low"] < low["cycles"] < low["high"]  # by the errors of the self-check
    assert high["low"] <= high["cycles"] <= high["high"]  # add bl, ah
    assert high["low"] < low["low"] or high["high"] / high["cycles"] > low["high"] / low["cycles"]


def test_the_core_is_judged_by_loops_that_it_did_not_learn_from(learned):
    folder, rows = learned
    found = held_out.read(folder / CORE)
    blocks, offsets, calls = judged = held_out.judged(found)
    kinds = (held_out.BLOCKS, held_out.OFFSETS, held_out.CALLS)
    assert (blocks.kind, offsets.kind, calls.kind) == kinds
    assert blocks.answered == blocks.asked > 150
    assert blocks.error < 0.05
    assert offsets.error < 0.08
    assert calls.answered == calls.asked > 20
    assert calls.error < 0.1
    said = rows.set_index("figure")["value"]
    assert said["held-out blocks"] == f"{100 * blocks.error:.1f} %"
    note = rows.set_index("figure")["note"]["self-judgement"]
    assert note == held_out.sentence(judged)
    assert f"{100 * calls.error:.1f} % on {calls.answered} of {calls.asked} loops with" in note


def test_a_folder_is_imported_whole_or_not_at_all(learned, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    sent = tmp_path / CORE
    shutil.copytree(learned[0] / CORE, sent)
    rows = import_core(sent)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", rows.attrs["models"])
    assert microarchs.load(CORE).name == "calibrated on simulated:zen4"
    sheet = lw.core(CORE)
    assert (sheet["part"] == "held out").sum() == len(rows)
    toml = sent / "core.toml"
    toml.write_text(toml.read_text() + "\n")
    with pytest.raises(InputError, match=r"core.toml is not as calibrate wrote it"):
        import_core(sent)


def test_a_core_that_predicts_something_else_than_it_says_is_refused(learned, tmp_path):
    sent = tmp_path / CORE
    shutil.copytree(learned[0] / CORE, sent)
    file = sent / "held-out.csv"
    first, *rest = held_out.read(sent)
    file.write_text(held_out.text([replace(first, predicted=first.predicted + 1), *rest]))
    machine = Machine("x86_64", "sent", "sent", frozenset(), {})
    with pytest.raises(InputError, match="a file was changed"):
        self_check.check(machine, sent)


@pytest.mark.parametrize(
    "row", ["blocks,zz,0,1,0,1,,,", "blocks,90,0,-1,0,1,,,", "others,90,0,1,0,1,,,"]
)
def test_rows_that_cannot_be_true_are_refused(tmp_path, row):
    head = ",".join(held_out.COLUMNS)
    (tmp_path / "held-out.csv").write_text(f"{head}\n{row}\n")
    with pytest.raises(InputError, match="line 2 is no held-out loop"):
        held_out.read(tmp_path)


def test_a_measurement_outside_of_a_range_is_told():
    one = HeldOut("blocks", b"\x90", 0, 2.0, 0.001, 1.0, 0.9, 1.5)
    assert not one.within(Span(1.0, 1.2))
    assert replace(one, high=2.0).within(Span(1.0, 1.2))
    assert one.off == 0.5


def test_the_range_of_a_form_holds_all_its_kernels():
    wide, narrow = Uops(1, (frozenset({0, 1}),)), Uops(1, (frozenset({0}),))

    class Known:
        all_arithmetic, width = frozenset({0, 1, 2}), 4

        @staticmethod
        def computing(uops):
            return list(uops)

    under = _Tried(wide, [(2.0, 1.0), (2.0, 2.0)])
    over = _Tried(narrow, [(2.0, 2.1), (2.0, 2.2)])
    chosen, doubt = doubtful_forms._choose(Known(), [under, over], "why")
    assert (doubt.least, doubt.most) == (wide, narrow)
    assert chosen.ports == narrow.ports
    _, doubt = doubtful_forms._choose(Known(), [under], "why")
    assert doubt.most.busy >= 2  # no candidate takes as long: its unit is taken to be busy


def test_rows_of_an_end_come_before_those_of_the_table():
    table = "# source\nmnemonic,operands\nadd,r8\n"
    doubtful = "end,mnemonic,operands\nleast,add,r8\nmost,add,r8h\n"
    assert core_figures.with_doubtful_rows(table, doubtful, "most").splitlines()[1:3] == [
        "mnemonic,operands",
        "add,r8h",
    ]


@pytest.mark.parametrize(
    ("name", "twins"),
    [
        ("punpcklqdq x,x", ["vpunpcklqdq x,x,x", "vpunpcklqdq x,x"]),
        ("vaddps x,x,m128", ["addps x,m128", "addps x,x,m128"]),
        ("add r64,r64", []),
    ],
)
def test_a_vector_form_has_a_twin_with_or_without_a_prefix(name, twins):
    assert [twin for twin, _ in doubtful_forms.vex_twins(name)] == twins


def test_latencies_of_a_twin_are_of_the_same_operands():
    known = [Latency(source, "0", n, n, 0.0) for n, source in enumerate(("1", "2", "a"))]
    assert [one.source for one in doubtful_forms._shifted(known, 1)] == ["0", "1", "a"]
    assert [one.source for one in doubtful_forms._shifted(known, -1)] == ["2", "3", "a"]


def test_calls_and_what_is_made_of_the_same_uops_have_figures(learned):
    table = calibrations.rows(learned[0] / CORE / "instructions.csv")
    known = {f"{r['mnemonic']} {o}".strip(): r for r in table for o in r["operands"].split(";")}
    assert {"call rel", "ret", "push i8", "jp rel", "leave", "call m64"} <= known.keys()
    assert known["push i8"]["ports"] == known["push r64"]["ports"]
    assert known["push i8"]["source"] == "calibrated-doubtful"
    found = calibrations.parameters(learned[0] / CORE)
    # As of the core that was simulated.
    bubble = tomllib.loads((learned[0] / CORE / "core.toml").read_text())["taken_branch"]
    print(bubble)
    assert bubble["return_bubble"]["value"] == 2
    assert bubble["jump_pairs"]["value"]
    assert bubble["next_line"]["value"]
    assert found["memory.commit_parts"]
    assert found["taken_branch.exit_turns"] == 25
    assert found["taken_branch.exit_bubble"] == 3
    assert found["mispredict.history"] == 312
