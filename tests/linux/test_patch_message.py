"""What a patch says of itself: its subject, its tables, and what it leaves unsaid."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from made_up import CALL

from loopwright import kernels
from loopwright.checking.check import run
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.judging import call_costs
from loopwright.linux import mail, message
from loopwright.linux.message import Evidence, Judged
from loopwright.linux.trees import user_identity

KERNEL = "x86_64/copy_user"
NAMES = {"copy_user": "rep_movs_alternative"}


def variant(name: str = "loop32") -> kernels.Variant:
    return kernels.load(KERNEL).variants[name]


BYTES = {"movsq_aligned": 64, "loop32": 32}


def compared(*rows: tuple[str, str, str, float | None, str]) -> pd.DataFrame:
    """Rows of compare: variant, core, source, cycles an iteration, and why they do not count."""
    columns = ["variant", "microarch", "source", "cycles", "excluded"]
    table = pd.DataFrame(rows, columns=columns).astype({"cycles": "float64"})
    moved = table["variant"].map(BYTES)
    return table.assign(
        kernel=KERNEL,
        cycles_per_unit=64 * table["cycles"] / moved,
        uncertainty=0.012,
        startup_cycles=0.0,
        machine="Some CPU (guest)",
        clock="tsc-calibrated",
        note="",
    )


def measured(name: str, rows: list[tuple[int, int, float]], note: str = "") -> pd.DataFrame:
    """Measured calls: size, alignment of the destination, cycles."""
    table = pd.DataFrame(rows, columns=["size_bytes", "dst_align", "cycles"])
    shared = {**CALL, "kernel": KERNEL, "variant": name, "src_align": 0, "uncertainty": 0.012}
    return table.assign(
        **shared | {"machine": "Some CPU (guest)", "microarch": "zen4", "note": note}
    )


PLACES = [(size, dst) for size in call_costs.SIZES for dst, _ in call_costs.ALIGNMENTS]


def everywhere(name: str, cycles: float, **more: str) -> pd.DataFrame:
    return measured(name, [(size, dst, cycles) for size, dst in PLACES], **more)


def checks(passed: bool = True, over: tuple[int, int] = (0, 0), unhit: str = "") -> pd.DataFrame:
    columns = ["variant", "over_report_bytes"]
    pairs = list(zip(("movsq_aligned", "loop32"), over, strict=True))
    rows = pd.DataFrame(pairs, columns=columns)
    hit = 8 - len(unhit.split())
    return rows.assign(
        kernel=KERNEL, passed=passed, cases=1234, failure="rbx", entries=8, entries_hit=hit,
        unhit=unhit,
    )  # fmt: skip


def written(evidence: Evidence, name: str = "loop32") -> str:
    return message.Writer(variant(name), NAMES, evidence).body([])


def table_of(body: str) -> list[list[str]]:
    return [line.split() for line in body.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("kernel_id", kernels.ids())
def test_every_patch_of_the_repository_has_a_subject_that_fits_and_a_reason(kernel_id):
    for one in kernels.load(kernel_id).variants.values():
        routine = kernels.load(kernel_id).routines[one.routine]
        if one.unpatchable or not routine.upstream or one.name == routine.baseline:
            continue
        line = message.subject(one)
        assert line.startswith(f"{routine.upstream.prefix}: ")
        assert len(line) <= message.WIDTH
        if not one.merged:
            assert one.why.strip(), one.id


def test_a_subject_too_wide_is_refused_where_it_was_chosen_and_cut_where_not():
    with pytest.raises(InputError, match="columns wide"):
        message.subject(replace(variant(), subject="Copy " + 20 * "words "))
    cut = message.subject(replace(variant(), subject="", summary=20 * "many words "))
    assert cut.startswith("x86/uaccess: Many words")
    assert len(cut) <= message.WIDTH


def test_predictions_are_for_the_same_bytes_with_how_right_the_model_was():
    rows = compared(
        ("movsq_aligned", "zen2", "llvm-mca", 8.0, ""),
        ("loop32", "zen2", "llvm-mca", 3.2, ""),
        ("movsq_aligned", "zen2", "pipeline", 8.0, ""),
        ("loop32", "zen2", "pipeline", 4.0, ""),
        ("loop32", "sandybridge", "osaca", 4.0, ""),
        ("movsq_aligned", "sandybridge", "osaca", None, ""),
        ("movsq_aligned", "sandybridge", "uica", 8.0, ""),
        ("loop32", "sandybridge", "uica", 2.0, "below what it can be"),
    )
    judged = {"loop32": Judged(off_by={("zen2", "llvm-mca"): 41.2})}
    body = written(Evidence(table=rows, judged=judged))
    assert table_of(body) == [
        ["core", "model", "off", "by", "now", "patched", "change"],
        ["zen2", "llvm-mca", "41", "%", "8.00", "6.40", "-20.0", "%"],
        ["zen2", "pipeline", "?", "8.00", "8.00", "+0.0", "%"],
    ]
    words = " ".join(body.split())
    assert "Predicted, not measured: cycles for 64 bytes in the main loop" in words
    assert "now (rep movsq behind one unaligned word, so that its stores are aligned)" in words
    assert "patched (four words an iteration)" in words


def test_what_a_string_instruction_takes_to_start_is_told():
    rows = compared(
        ("movsq_aligned", "zen2", "pipeline", 2.0, ""),
        ("loop32", "zen2", "pipeline", 4.0, ""),
        ("movsq_aligned", "sandybridge", "pipeline", 4.0, ""),
        ("loop32", "sandybridge", "pipeline", 4.0, ""),
    )
    mine = rows["variant"] == "movsq_aligned"
    rows.loc[mine & (rows["microarch"] == "zen2"), "startup_cycles"] = float("nan")
    rows.loc[mine & (rows["microarch"] == "sandybridge"), "startup_cycles"] = 40.0
    body = written(Evidence(table=rows))
    assert ["zen2", "pipeline", "?", "2.00", "+?", "8.00", "+300.0", "%"] in table_of(body)
    assert ["sandybridge", "pipeline", "?", "4.00", "+40", "8.00", "+100.0", "%"] in table_of(body)
    assert "+N: cycles to start a string instruction, ? not known:" in " ".join(body.split())


def test_no_name_of_ours_is_in_the_message():
    rows = compared(
        ("movsq_aligned", "zen2", "llvm-mca", 8.0, ""), ("loop32", "zen2", "llvm-mca", 3.2, "")
    )
    calls = pd.concat([everywhere("movsq_aligned", 20.0), everywhere("loop32", 10.0)])
    body = written(Evidence(table=rows, measurements=calls, checks=checks()))
    for name in (*kernels.load(KERNEL).variants, "baseline"):
        if name not in ("movsq", "movsb", "overlapped"):  # words of their own
            assert name not in body


def test_what_speaks_against_it_comes_first_and_marks_it_as_a_request_for_comments():
    doubt = "This is slower on zen2. Speed against what is there: zen2 -12.3 % (measured)."
    writer = message.Writer(variant(), NAMES, Evidence(judged={"loop32": Judged(doubt=doubt)}))
    assert writer.doubtful
    assert " ".join(writer.body([]).split("\n\n")[0].split()) == doubt
    good = Evidence(judged={"loop32": Judged(proof="Against what is there: +10.0 %.")})
    writer = message.Writer(variant(), NAMES, good)
    assert not writer.doubtful
    assert writer.body([]).endswith("Against what is there: +10.0 %.")


def test_what_models_do_not_know_stands_below_the_cut_in_one_sentence():
    rows = compared(
        ("movsq_aligned", "zen2", "osaca", 1.0, ""),
        ("loop32", "zen2", "osaca", None, ""),
        ("movsq_aligned", "zen2", "uica", None, ""),
        ("loop32", "zen2", "uica", None, ""),
    )
    writer = message.Writer(variant(), NAMES, Evidence(table=rows, checks=checks(unhit="+0x3a")))
    assert "No model has a figure for rep_movs_alternative() before and after." in writer.body([])
    below = writer.below("Made.").split("\n\n")
    assert len(below) == 2
    assert " ".join(below[1].split()) == (
        "Not shown: its speed on hardware; figures before and after of osaca and uica (zen2); "
        "1 exception table entry of rep_movs_alternative(), which no case hit."
    )


def test_measurements_name_machine_clock_and_uncertainty_and_the_worst_alignment():
    calls = pd.concat([everywhere("movsq_aligned", 20.0), everywhere("loop32", 10.0)])
    mine = (calls["variant"] == "loop32") & (calls["size_bytes"] == 64)
    calls.loc[mine & (calls["dst_align"] == 1), "cycles"] = 25.0
    rows = compared(
        ("movsq_aligned", "zen4", "measured", 2.0, ""), ("loop32", "zen4", "measured", 4.0, "")
    )
    body = " ".join(written(Evidence(table=rows, measurements=calls)).split())
    where = "Measured on Some CPU (guest) (zen4), clock tsc-calibrated"
    assert f"{where}: cycles for 64 bytes in the main loop" in body
    assert "2.00 +- 0.02 8.00 +- 0.03 +300.0 %" in body
    assert f"{where}: cycles a call of rep_movs_alternative() over the alignments" in body
    assert "64 20.0 +- 0.02 10.0..25.0 +- 0.02 -50.0..+25.0 %" in body
    assert "4096 20.0 +- 0.02 10.0 +- 0.02 -50.0 %" in body
    assert "refused" not in body


def test_sizes_that_one_side_lacks_have_no_figures_and_are_counted():
    calls = pd.concat([everywhere("movsq_aligned", 20.0), everywhere("loop32", 10.0)])
    mine = calls["variant"] == "loop32"
    gone = mine & (calls["size_bytes"] >= 256) & (calls["dst_align"] == 1)
    calls.loc[gone, "status"] = "refused"
    body = written(Evidence(measurements=calls))
    lines = {line[0]: line[1:] for line in table_of(body)}
    assert lines["64"] == ["20.0", "+-", "0.02", "10.0", "+-", "0.02", "-50.0", "%"]
    for size in ("256", "512", "1024", "2048", "4096"):
        assert lines[size] == ["-", "-", "-"]
    message_text = "5 of 27 points that a comparison rests on were refused or not measured on zen4"
    assert message_text in " ".join(body.split())


def test_machines_and_clocks_have_tables_of_their_own():
    here = [everywhere("movsq_aligned", 20.0), everywhere("loop32", 10.0)]
    there = [f.assign(microarch="zen2", clock="perf-rdpmc", cycles=7.0) for f in here]
    alone = everywhere("loop32", 1.0).assign(machine="Other", microarch="zen3")
    body = " ".join(written(Evidence(measurements=pd.concat([*here, *there, alone]))).split())
    assert "(zen4), clock tsc-calibrated: cycles a call" in body
    assert "(zen2), clock perf-rdpmc: cycles a call" in body
    assert "64 20.0 +- 0.02 10.0 +- 0.02 -50.0 %" in body
    assert "64 7.0 +- 0.02 7.0 +- 0.02 +0.0 %" in body
    assert "Other" not in body


def test_what_was_left_out_of_a_measurement_is_said_where_its_figures_are():
    note = "without stac/clac: user space cannot execute them; a loop's exit may mispredict"
    calls = pd.concat([everywhere("movsq_aligned", 20.0, note=note), everywhere("loop32", 10.0)])
    body = " ".join(written(Evidence(measurements=calls)).split())
    assert (
        "clock tsc-calibrated, without stac/clac: user space cannot execute them, so that these "
        "figures are of the rest and no measure of the patch: cycles a call"
    ) in body


def test_nothing_measured_and_nothing_checked_is_said():
    body = written(Evidence(unmeasured="this host is no arm64"))
    assert "Not measured on hardware: this host is no arm64." in body
    assert "rep_movs_alternative() was not run against its contract." in body


def test_the_contracts_result_carries_counts_and_the_over_report():
    body = " ".join(written(Evidence(checks=checks(over=(48, 112)))).split())
    assert "it held in all 1234 cases" in body
    assert "sizes 0 to 512" in body
    assert "8 of its 8 exception table entries were hit." in body
    assert "up to 112 bytes too many as not done, what is there now up to 48" in body
    assert "too many" not in written(Evidence(checks=checks()))


def test_entries_that_were_not_hit_are_explained():
    # A jump where CPUs with ERMS have rep movsb instead.
    body = " ".join(written(Evidence(checks=checks(unhit="+0x3a"))).split())
    assert (
        "7 of its 8 exception table entries were hit; 1 more belongs to code for other features"
    ) in body
    first = next(e.insn for e in assemble.user_code(variant()).exceptions if e.insn != 0x3A)
    body = " ".join(written(Evidence(checks=checks(unhit=f"+{first:#x}"))).split())
    assert "1 never was the first to fault, which nothing explains." in body


@pytest.mark.slow
def test_entries_that_were_hit_under_emulation_are_counted():
    arm = kernels.load("arm64/copy_user").variants["from_user_batched"]
    row = run([arm])
    body = message.Writer(arm, {"copy_from_user": "c", "copy_to_user": "t"}, Evidence(checks=row))
    message_text = " ".join(body.body([]).split())
    assert "39 of its 39 exception table entries were hit." in message_text


def test_what_is_there_and_breaks_the_contract_is_told_with_the_reason():
    rows = checks()
    rows.loc[rows["variant"] == "movsq_aligned", "passed"] = False
    body = " ".join(written(Evidence(checks=rows)).split())
    assert "What is there now was run, too, and breaks it: rbx." in body


def test_a_broken_contract_gives_no_message():
    with pytest.raises(InputError, match="breaks its contract, no patch: rbx"):
        written(Evidence(checks=checks(passed=False)))


def test_no_line_is_wider_than_a_commit_message():
    long = compared(
        ("movsq_aligned", "neoverse-n1", "llvm-mca-corrected", 1234.5, ""),
        ("loop32", "neoverse-n1", "llvm-mca-corrected", 98.75, ""),
    )
    calls = pd.concat([everywhere("movsq_aligned", 12345.6), everywhere("loop32", 98765.4)])
    judged = {"loop32": Judged(doubt=30 * "words and ", off_by={("a", "b"): 1.0})}
    lines = written(Evidence(table=long, measurements=calls, judged=judged)).splitlines()
    assert max(map(len, lines)) <= message.WIDTH
    assert message.too_wide(["x" * 76, "y"]) == "x" * 76
    assert message.too_wide([f"Link: https://example.org/{'x' * 80}"]) == ""


def test_trailers_come_from_the_kernel_and_the_user_alone():
    kernel = replace(kernels.load(KERNEL), fixes=('0123456789ab ("Some title")',))
    lines = message.trailers(kernel, "A B <a@example.org>")
    assert lines[0] == 'Fixes: 0123456789ab ("Some title")'
    assert [line for line in lines if line.startswith("Link: https://")]
    assert lines[-1] == "Signed-off-by: A B <a@example.org>"
    assert not [line for line in message.trailers(kernel, "") if line.startswith("Signed")]


def test_every_entry_of_the_allow_list_has_its_reason():
    assert mail.allowances()
    assert all(len(allowed.reason.split()) > 5 for allowed in mail.allowances())


def test_git_is_asked_for_no_identity_of_its_own_making(tmp_path: Path, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text("[user]\n\tname = Only A Name\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    assert user_identity(tmp_path) is None
    subprocess.run(["git", "config", "--global", "user.email", "a@example.org"], check=True)
    assert str(user_identity(tmp_path)) == "Only A Name <a@example.org>"
