"""What a patch says of itself: its subject, its tables, and what it leaves unsaid."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.patch import Evidence, checkpatch, message
from loopwright.patch.scratch import user_identity

KERNEL = "x86_64/copy_user"
NAMES = {"copy_user": "rep_movs_alternative"}


def variant(name: str = "loop32") -> kernels.Variant:
    return kernels.load(KERNEL).variants[name]


def predictions(*rows: tuple[str, str, str, float | None, str]) -> pd.DataFrame:
    columns = ["variant", "microarch", "model", "cycles", "error"]
    table = pd.DataFrame(rows, columns=columns).astype({"cycles": "float64"})
    moved = table["variant"].map({"movsq_aligned": 64, "loop32": 32})
    return table.assign(kernel=KERNEL, notion="loop", offset=0, bytes_per_iteration=moved)


def measured(name: str, quantity: str, rows: list[tuple[int, int, float]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["size_bytes", "dst_align", "cycles"])
    return table.assign(
        kernel=KERNEL,
        variant=name,
        quantity=quantity,
        unit="cycles/call" if quantity == "call" else "cycles/iteration",
        src_align=0,
        uncertainty=0.012,
        clock="tsc-calibrated",
        status="ok",
        machine="Some CPU (guest)",
        microarch="zen4",
    )


def checks(passed: bool = True, over: tuple[int, int] = (0, 0)) -> pd.DataFrame:
    columns = ["variant", "over_report_bytes"]
    rows = pd.DataFrame(zip(("movsq_aligned", "loop32"), over, strict=True), columns=columns)
    return rows.assign(
        kernel=KERNEL, passed=passed, cases=1234, failure="rbx", entries=8, entries_hit=7
    )


def written(evidence: Evidence, name: str = "loop32") -> str:
    return message.Writer(variant(name), NAMES, evidence).body([])


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


def test_predictions_stand_side_by_side_with_bytes_per_cycle():
    rows = predictions(
        ("movsq_aligned", "zen2", "llvm-mca", 8.0, ""),
        ("loop32", "zen2", "llvm-mca", 3.2, ""),
        ("loop32", "sandybridge", "osaca", 4.0, ""),
        ("movsq_aligned", "sandybridge", "osaca", None, "no data"),
    )
    body = written(Evidence(predictions=rows))
    table = [line.split() for line in body.splitlines() if line.startswith("  ")]
    assert table == [
        ["core", "model", "notion", "baseline", "patched"],
        ["zen2", "llvm-mca", "loop", "8.00", "(8.0)", "3.20", "(10.0)"],
        ["sandybridge", "osaca", "loop", "-", "4.00", "(8.0)"],
    ]
    assert "Predicted, not measured" in body


def test_what_models_do_not_know_stands_below_the_cut_and_not_in_the_message():
    rows = predictions(("loop32", "zen2", "osaca", None, "OSACA has no data for `x`"))
    writer = message.Writer(variant(), NAMES, Evidence(predictions=rows))
    assert "no data" not in writer.body([])
    assert "No model has a figure" in writer.body([])
    assert "No figure from osaca for loop32 on zen2: OSACA has no data" in writer.below("Made.")


def test_measurements_name_machine_clock_and_uncertainty_and_the_worst_alignment():
    both = pd.concat(
        [
            measured("movsq_aligned", "call", [(64, 0, 20.0), (64, 1, 20.0), (256, 0, 40.0)]),
            measured("loop32", "call", [(64, 0, 10.0), (64, 1, 25.0), (256, 0, 40.0)]),
            measured("movsq_aligned", "loop", [(64, 0, 2.0)]),
            measured("loop32", "loop", [(32, 0, 4.0)]),
        ]
    )
    body = " ".join(written(Evidence(measurements=both)).split())
    assert "Measured on Some CPU (guest) (zen4), clock tsc-calibrated: cycles/call" in body
    assert "64 20.0 +- 0.02 10.0..25.0 +- 0.02 -50.0..+25.0 %" in body
    assert "256 40.0 +- 0.02 40.0 +- 0.02 +0.0 %" in body
    assert "baseline 2.00 +- 0.02 (32.0)" in body
    assert "patched 4.00 +- 0.02 (8.0)" in body


def test_machines_and_clocks_have_tables_of_their_own():
    here = [
        measured(name, "call", [(64, 0, cycles)])
        for name, cycles in (("movsq_aligned", 20.0), ("loop32", 10.0))
    ]
    there = [f.assign(microarch="zen2", clock="perf-rdpmc", cycles=7.0) for f in here]
    alone = measured("loop32", "call", [(64, 0, 1.0)]).assign(machine="Other", cycles=1.0)
    body = " ".join(written(Evidence(measurements=pd.concat([*here, *there, alone]))).split())
    assert "(zen4), clock tsc-calibrated: cycles/call" in body
    assert "(zen2), clock perf-rdpmc: cycles/call" in body
    assert "64 20.0 +- 0.02 10.0 +- 0.02 -50.0 %" in body
    assert "64 7.0 +- 0.02 7.0 +- 0.02 +0.0 %" in body
    assert "Other" not in body


def test_refused_measurements_are_counted_and_give_no_figure():
    both = pd.concat(
        [
            measured(name, "call", [(64, 0, 20.0), (128, 0, 30.0)])
            for name in ("movsq_aligned", "loop32")
        ]
    )
    both.loc[(both["variant"] == "loop32") & (both["size_bytes"] == 128), "status"] = "refused"
    body = written(Evidence(measurements=both))
    assert "1 of 2 measurements of the patched code were refused" in " ".join(body.split())
    assert not [line for line in body.splitlines() if line.split()[:1] == ["128"]]


def test_nothing_measured_and_nothing_checked_is_said():
    body = written(Evidence(unmeasured="this host is no arm64"))
    assert "Not measured on hardware: this host is no arm64." in body
    assert "rep_movs_alternative() was not run against its contract." in body


def test_the_contracts_result_carries_counts_and_the_over_report():
    body = " ".join(written(Evidence(checks=checks(over=(48, 112)))).split())
    assert "it held in all 1234 cases" in body
    assert "sizes 0 to 512" in body
    assert "7 of its 8 exception table entries" in body
    assert "up to 112 bytes too many as not done, the baseline up to 48" in body
    assert "too many" not in written(Evidence(checks=checks()))


def test_a_broken_contract_gives_no_message():
    with pytest.raises(InputError, match="breaks its contract, no patch: rbx"):
        written(Evidence(checks=checks(passed=False)))


def test_no_line_is_wider_than_a_commit_message():
    long = predictions(
        ("movsq_aligned", "neoverse-n1", "llvm-mca-corrected", 1234.5, ""),
        ("loop32", "neoverse-n1", "llvm-mca-corrected", 12.25, ""),
        ("loop32", "neoverse-n1", "llvm-mca-corrected", 98.75, ""),
    )
    lines = written(Evidence(predictions=long, summary=30 * "words and ")).splitlines()
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
    assert checkpatch.allowances()
    assert all(len(allowed.reason.split()) > 5 for allowed in checkpatch.allowances())


def test_git_is_asked_for_no_identity_of_its_own_making(tmp_path: Path, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text("[user]\n\tname = Only A Name\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    assert user_identity() is None
    subprocess.run(["git", "config", "--global", "user.email", "a@example.org"], check=True)
    assert str(user_identity()) == "Only A Name <a@example.org>"
