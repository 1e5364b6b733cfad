"""The report: whole or not at all, 72 columns, and it says why there is no number."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace

import pandas as pd
import pytest
import reports
from checkout import LOOPWRIGHT
from few_variants import few
from linux_trees import linux
from quick import some

from loopwright import kernels
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.files import staged
from loopwright.judging.study import Study
from loopwright.reporting import findings, html
from loopwright.reporting.report import report


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return reports.three(tmp_path_factory)


def test_the_report_fits_a_mailing_list(out):
    lines = (out / "report.txt").read_text().splitlines()
    assert max(map(len, lines)) <= 72
    assert any("x86_64/csum" in line for line in lines)


def test_every_variant_and_every_reason_is_in_it(out):
    text = " ".join((out / "report.txt").read_text().split())
    assert all(variant in text for variants in reports.VARIANTS.values() for variant in variants)
    assert "needs adx, which sandybridge lacks" in text
    assert "measuring was left out" in text


def test_the_tables_are_beside_it(out):
    predictions = pd.read_csv(out / "predictions.csv")
    known = {(row.kernel, row.variant) for row in predictions.itertuples()}
    assert known == {(k, v) for k, variants in reports.VARIANTS.items() for v in variants}
    assert set(predictions["microarch"]) >= {*reports.CORES}
    assert json.loads((out / "host.json").read_text())["isa"]


def test_whole_calls_are_drawn_for_every_core_asked_for(out):
    calls = pd.read_csv(out / "calls.csv")
    assert set(calls["microarch"]) >= {*reports.CORES}
    page = (out / "index.html").read_text()
    for core in ("zen2", "sandybridge"):
        assert f"csum on {core}: cycles a call over its size, whole calls predicted" in page
    assert "Not predicted: adcx_adox (needs adx, which sandybridge lacks)" in page
    assert "start-up and main loop" not in page


def test_a_report_judges_for_the_cores_asked_for(out):
    judged = set(pd.read_csv(out / "bands.csv")["microarch"])
    assert judged - {"every core"} == {*reports.CORES}
    text = " ".join((out / "report.txt").read_text().split())
    assert "zen2: whole calls simulated" in text
    assert "neoverse-n1: whole calls" not in text
    page = (out / "index.html").read_text()
    assert "loopwright recommend x86_64/csum --microarch sandybridge,zen2 --no-measure" in page
    assert "loopwright recommend arm64/strlen --microarch tsv110 --no-measure" in page


@pytest.mark.parametrize(
    ("kernels", "cores", "word"),
    [
        (["x86_64/csum"], "zen9", "nearest: zen4"),
        (["x86_64/csum"], "tsv110", "tsv110 is arm64 and the code is x86_64"),
        (["x86_64/csum"], "zen2,tsv110", "no kernel named is"),
        (["x86_64/csum"], ",", "no microarchitecture named"),
        (["x86_64/csum", "arm64/copy_user"], "zen2", "zen2 is x86_64 and the code is arm64"),
    ],
)
def test_cores_that_fit_no_kernel_are_one_line(tmp_path, capsys, kernels, cores, word):
    out = tmp_path / "out"
    assert run_cli(["report", *kernels, "--microarch", cores, "-o", str(out)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line
    assert not out.exists()


def test_an_unknown_kernel_writes_nothing(tmp_path):
    with pytest.raises(InputError, match="x86_64/csum"):
        report(["x86_64/csum", "x86_64/cusm"], tmp_path / "out", log=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_a_question_about_a_variant_that_a_kernel_lacks_is_not_asked():
    kernel = kernels.load("x86_64/clear_user")
    assert "immediates" in {one.against for one in findings.threads() if one.kernel == kernel.id}
    kept = replace(kernel, variants={"plain": kernel.variants["plain"]})
    nothing = pd.DataFrame()
    assert findings.answers(Study(kept, nothing, nothing, nothing, "", ""), None) == ()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"), staged(tmp_path / "file" / "out"):
        pass


def test_what_fails_in_the_middle_leaves_the_folder_as_it_was(tmp_path):
    (tmp_path / "report.txt").write_text("old")

    def fail_half_way():
        with staged(tmp_path) as folder:
            (folder / "report.txt").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert [p.name for p in tmp_path.iterdir()] == ["report.txt"]
    assert (tmp_path / "report.txt").read_text() == "old"


@pytest.mark.parametrize("stop", some([signal.SIGINT, signal.SIGTERM], {signal.SIGINT}))
def test_interrupted_it_leaves_nothing_half_written(tmp_path, monkeypatch, stop):
    few(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", "unrolled64", "immediates")
    out = tmp_path / "out"
    process = subprocess.Popen(
        [LOOPWRIGHT, "report", "x86_64/clear_user", "-o", out], stderr=subprocess.PIPE, text=True
    )
    assert "x86_64/clear_user" in process.stderr.readline()
    time.sleep(0.3)
    os.kill(process.pid, stop)
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert not out.exists() or not list(out.iterdir())


@pytest.mark.slow
def test_with_a_tree_its_own_code_is_the_baseline(tmp_path):
    root, file = linux("6.12"), "arch/x86/lib/copy_user_64.S"
    tree = tmp_path / "tree"
    for part in ("Makefile", "Kbuild", file):
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
        text = (root / part).read_text()
        (tree / part).write_text(text.replace("cmp $8,%ecx", "cmp $16,%ecx"))
    out = tmp_path / "out"
    [found] = report(
        ["x86_64/copy_user"], out, quick=True, patch=True, tree=str(tree), log=lambda _: None
    )
    [row] = found.recommendation.to_dict("records")
    assert row["baseline"].startswith("tree:6.12")
    assert "The baseline is the code of Linux 6.12" in found.baselines["copy_user"]
    page = (out / "index.html").read_text()
    assert f"loopwright baseline x86_64/copy_user --tree {tree}" in page
    words = " ".join((out / "report.txt").read_text().split())
    assert "In the tree: The baseline is the code of Linux 6.12" in words


@pytest.mark.slow
def test_a_kernel_that_no_core_asked_for_has_figures_of_is_reported_all_the_same(tmp_path):
    # Nobody has measured stac on Zen 2: its loops have no figure there, and no offsets to sweep.
    [found] = report(
        ["x86_64/put_event"], tmp_path, quick=True, microarch="zen2", log=lambda _: None
    )
    assert found.sweep.empty
    assert not (tmp_path / "alignment.csv").exists()
    assert "no figures for stac" in (tmp_path / "index.html").read_text()
    assert pd.read_csv(tmp_path / "calls.csv")["low"].notna().any()


def test_a_table_has_no_column_that_is_empty_in_every_row():
    rows = [{"cycles": 1.5, "note": None, "core": "x"}, {"cycles": None, "note": "", "core": "y"}]
    columns = [html.column("core"), html.column("note"), html.column("cycles", digits=2)]
    table = html.grid("name", "caption", rows, columns, lambda row: {"core": row["core"]})
    assert [column.head for column in table.columns] == ["core", "cycles"]
    shown = [([cell.text for cell in row.cells], row.facets) for row in table.rows]
    assert shown == [(["x", "1.50"], {"core": "x"}), (["y", html.NONE], {"core": "y"})]
