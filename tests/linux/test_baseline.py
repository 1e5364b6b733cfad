"""The verb baseline: a tree's own functions as further variants."""

import os

import pytest
from few_variants import few
from linux_trees import linux

import loopwright as lw
from loopwright import kernels
from loopwright.errors import InputError
from loopwright.linux import baseline, trees
from loopwright.linux.baseline import run


@pytest.mark.parametrize(
    ("kernel", "names", "like"),
    [
        pytest.param("x86_64/copy_user", ["tree:{}"], ["movsq_aligned"], marks=pytest.mark.slow),
        ("x86_64/clear_user", ["tree:{}"], ["unrolled64"]),
        pytest.param(
            "arm64/copy_user",
            ["tree:{}:copy_to_user", "tree:{}:copy_from_user"],
            ["to_user_pairs", "from_user_pairs"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_trees_function_is_one_more_variant_and_the_baseline(
    kernel, names, like, tmp_path, monkeypatch
):
    few(monkeypatch, tmp_path, kernel, *like)
    root = linux("6.12")
    version = trees.read(root).version
    compared = run(kernel, str(root), quick=True)
    for name, twin in zip([n.format(version) for n in names], like, strict=True):
        assert f"{name} is the code of {twin}" in compared.notes
        row = compared.checks.set_index("variant").loc[name]
        assert row["passed"]
        assert row["cases"] > 100000
        mine = compared.rows[(compared.rows["variant"] == name) & compared.rows["cycles"].notna()]
        counted = mine[mine["excluded"] == ""]
        assert len(counted)
        assert (counted["vs_baseline"] == 1).all()
        theirs = compared.rows[(compared.rows["variant"] == twin) & compared.rows["cycles"].notna()]
        assert list(mine["cycles"]) == list(theirs["cycles"])


def test_what_differs_from_all_variants_is_said(tmp_path, monkeypatch):
    few(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", "unrolled64")
    root = linux("6.12")
    file = "arch/x86/lib/clear_page_64.S"
    for part in ("Makefile", "Kbuild", file):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        text = (root / part).read_text()
        (tmp_path / part).write_text(text.replace("cmp $8,%ecx", "cmp $16,%ecx"))
    compared = run("x86_64/clear_user", str(tmp_path), quick=True)
    assert compared.notes[0].endswith("is the code of none of the variants")
    with baseline.with_own_code("x86_64/clear_user", trees.read(tmp_path)) as kernel:
        (routine,) = kernel.routines.values()
        assert routine.baseline.startswith("tree:6.12")
        assert kernel.variants[routine.baseline].unpatchable
    assert os.environ["LOOPWRIGHT_KERNELS"] == str(tmp_path / "kernels")
    assert kernels.load("x86_64/clear_user").routines["clear_user"].baseline == "unrolled64"


def test_a_tree_without_the_function_is_refused():
    with pytest.raises(
        InputError, match=r"has no function rep_movs_alternative; .*since Linux 6\.4"
    ):
        lw.baseline("x86_64/copy_user", str(linux("6.1")), quick=True)
