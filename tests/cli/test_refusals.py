"""What a first user does wrong: what is said of it, and with which exit code."""

import json
import re

import pytest
from checkout import run_here as run
from few_variants import few

import loopwright as lw
from loopwright.errors import InputError, unknown

ADD = "4801d8"


@pytest.mark.parametrize("group", [[], ["kmod"]])
def test_without_a_verb_the_help_is_shown_whole(group):
    done = run(*group)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") > 10
    assert done.stderr.rstrip() == run(*group, "--help").stdout.rstrip()


def test_what_an_error_names_exists():
    done = run("predict", "--hex", ADD, "--set", "zzzz=1")
    (command,) = re.findall(r"`loopwright (.*?)` names all (\d+)", done.stderr)
    listed = run(*command[0].split(), "--json")
    rows = json.loads(listed.stdout)
    assert len(rows) + 1 == int(command[1])  # front_end is short for front_end.mode
    assert {row["parameter"] for row in rows} >= {"front_end.mode", "rename.width"}
    widths = next(row["values"] for row in rows if row["parameter"] == "rename.width")
    assert "zen2" in widths


def test_a_kind_that_is_not_listed_has_its_names_in_the_error():
    names = [f"n{number}" for number in range(40)]
    said = str(unknown("symbol", "ooooooo", names))
    assert "loopwright list" not in said
    assert said.endswith("and 28 more")
    assert "known: " + ", ".join(sorted(names[:20])) in str(unknown("verb", "ooooo", names[:20]))


@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "variants"], ["predict", "all"], ["check", "x86_64/csum"]]
)
def test_a_folder_of_kernels_that_is_not_there_is_no_empty_list(tmp_path, arguments):
    for folder in (tmp_path / "nowhere", tmp_path):
        done = run(*arguments, LOOPWRIGHT_KERNELS=str(folder))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert str(folder) in done.stderr


def test_a_folder_of_cores_that_is_not_there_is_no_empty_list(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        done = run("list", "microarchs", LOOPWRIGHT_MODELS=str(folder))
        assert (done.returncode, done.stdout) == (2, "")
        assert str(folder) in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "--hex", "0f0b", "--microarch", "zen2"],
        ["predict", "--hex", "0f0b", "--microarch", "zen2", "--model", "all"],
        ["predict", "--hex", "0f0b", "--microarch", "zen2", "--csv"],
        ["predict", "--hex", "0f0b", "--microarch", "zen2", "--ports"],
        ["predict", "--hex", "0f0b", "--microarch", "zen2", "--timeline", "2", "--json"],
    ],
)
def test_rows_of_nothing_but_errors_are_no_success(arguments):
    done = run(*arguments)
    assert done.returncode == 1
    assert "ud2" in done.stdout
    assert done.stderr == "loopwright: no prediction has a number; each row says why\n"


def test_one_number_is_a_success(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text(f"id,hex\nbad,0f0b\nnone,06\ngood,{ADD}\n")
    done = run("predict", "--blocks", str(blocks), "--microarch", "zen2")
    assert (done.returncode, done.stderr) == (0, "")


def test_measurements_that_are_all_refused_are_no_success(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("id,hex\nbad,0f0b\nnone,06\n")
    done = run("measure", "--blocks", str(blocks), "--processes", "1", "--json")
    assert done.returncode == 1
    assert [row["cycles"] for row in json.loads(done.stdout)] == [None, None]


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Return a kernel of which one variant does not assemble, and its baseline."""
    few(monkeypatch, tmp_path, "x86_64/clear_user", "plain", "unrolled64")
    with (tmp_path / "x86_64/clear_user/plain.S").open("a") as source:
        source.write("\tmovq %rax\n")
    return "x86_64/clear_user"


@pytest.mark.measures
def test_a_variant_that_does_not_assemble_leaves_its_family_alone(broken):
    rows = lw.predict(broken, microarch="zen2,sandybridge").set_index(["microarch", "variant"])
    wrong = rows[rows["error"] != ""]
    assert list(wrong.index) == [("zen2", "plain"), ("sandybridge", "plain")]
    assert wrong["error"].str.contains(r"plain\.S:\d+: Error", regex=True).all()
    assert rows["cycles"].notna().sum() == len(rows) - 2
    checks = lw.check(broken).set_index("variant")
    assert not checks.loc["plain", "passed"]
    assert checks.drop(index="plain")["passed"].all()
    assert "plain.S" in checks.loc["plain", "failure"]
    for quick in (True, False):
        compared = lw.compare(broken, quick=quick)
        assert compared.loc[compared["variant"] != "plain", "cycles"].notna().any()
        assert compared.loc[compared["variant"] == "plain", "error"].str.contains("plain.S").any()


def test_alone_it_is_bad_input(broken):
    for call in (lw.predict, lw.check, lw.measure):
        with pytest.raises(InputError, match=r"plain\.S:\d+: Error"):
            call(f"{broken}/plain")


def test_who_interrupts_a_measurement_is_told_how_to_go_on(monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lw, "measure", interrupted)
    done = run("measure", "x86_64/clear_user")
    said = done.stderr.strip()
    assert done.returncode == 130
    assert said.startswith("loopwright: interrupted; ")
    assert "--resume" in said
    assert "\n" not in said
    monkeypatch.setattr(lw, "compare", interrupted)
    done = run("compare", "x86_64/clear_user")
    assert (done.returncode, done.stderr.strip()) == (130, "loopwright: interrupted")


def test_both_formats_are_refused_before_anything_is_done(tmp_path):
    out = tmp_path / "kit.tar.gz"
    done = run("kit", "-o", str(out), "--json", "--csv")
    assert done.returncode == 2
    assert not out.exists()
