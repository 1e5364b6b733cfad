"""What is known of a core: rows of the verb, and its page."""

import json
import re
import shutil

import browsing
import pytest

import loopwright as lw
from loopwright import microarchs, paths
from loopwright.cli import run
from loopwright.reporting import core_page, core_sheet
from loopwright.reporting.plots import port_map


@pytest.fixture(scope="module")
def zen2():
    return lw.core("zen2", beside="zen4").set_index(["part", "figure"])


def test_parameters_stand_with_their_sources_and_those_of_the_other_core(zen2):
    row = zen2.loc["parameter", "retire.reorder_buffer"]
    assert (row["value"], row["beside"]) == (224, 320)
    assert row["confidence"] == "high"
    given = microarchs.load("zen2").entry("retire.reorder_buffer")["source"]
    assert row["source"] == given
    named = {name for name, entry in microarchs.load("zen2").entries() if "value" in entry}
    assert named <= set(zen2.loc["parameter"].index)


@pytest.mark.parametrize(
    ("part", "form", "value"),
    [
        ("latency", "add r64,r64", "1"),
        ("latency", "imul r64,r64", "3"),
        ("latency", "mul r64", "3 to 4"),
        ("latency", "mov r64,r64", "0"),
        ("throughput", "imul r64,r64", "1.00"),
        ("throughput", "paddd x,x", "0.33"),
        ("throughput", "adc r64,r64", "at most 0.50"),
        ("throughput", "vfmadd231ps y,y,y", "0.50"),
        ("throughput", "aesenc x,x", "0.50"),
        ("uops", "imul r64,r64", "1"),
        ("uops", "mov r64,r64", "none"),
        ("ports", "load", "45"),
    ],
)
def test_instructions_take_what_everybody_knows_of_zen_2(zen2, part, form, value):
    assert zen2.loc[part, form]["value"] == value


def test_without_another_core_there_is_nothing_beside():
    rows = lw.core("skylake")
    assert rows["beside"].isna().all()
    assert set(rows["part"]) == {"parameter", "ports", "latency", "throughput", "uops"}


def test_an_arm64_core_has_figures_and_none_of_x86_64_beside_it(capsys):
    rows = lw.core("neoverse-n1")
    found = rows.set_index(["part", "figure"])["value"]
    assert found["latency", "madd x,x,x,x"] == "4"
    assert found["throughput", "add x,x,x"] == "0.33"
    assert found["latency", "fmla 4s"] == "2 to 4"  # its accumulator is forwarded
    assert "integer" in set(rows.loc[rows["part"] == "ports", "figure"])
    assert run(["core", "neoverse-n1", "--beside", "zen2"]) == 2
    assert "zen2 is x86_64 and neoverse-n1 arm64" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_found(monkeypatch, capsys):
    monkeypatch.setattr(core_sheet, "core_rows", None)
    assert run(["core", "zen2", "--html", "/proc/zen2.html"]) == 2
    assert capsys.readouterr().err.startswith("loopwright: cannot write /proc/zen2.html: ")


@pytest.mark.parametrize("core", ["zen2", "neoverse-n1"])
def test_every_instruction_that_is_shown_is_a_form_of_its_isa(core):
    known = microarchs.load(core)
    asked = core_sheet.REFERENCES[known.isa]
    assert [form.name for form in core_sheet.well_known(known)] == list(asked)


def test_the_port_map_has_a_square_for_each_port_that_runs_a_kind():
    figure = port_map(microarchs.load("skylake"))
    (axes,) = figure.axes
    kinds = [label.get_text() for label in axes.get_yticklabels()]
    squares = {
        kind: len(one.get_offsets()) for kind, one in zip(kinds, axes.collections, strict=True)
    }
    assert squares["integer"] == 4
    assert squares["multiply"] == 1
    assert squares["load"] == 2


@pytest.fixture
def own_models(tmp_path, monkeypatch):
    """A folder of models, with what they have their sources from; tests put cores into it."""
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(paths.models_root() / "sources.toml", folder)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    return folder


STRINGS = """\
instruction,bytes,source_offset,destination_offset,cycles,uncertainty,note
rep movsb,128,0,0,12.34,0.1,
rep movsb,4096,0,0,,,of no one speed
"""


def test_the_page_is_one_file_with_everything_in_it(own_models, tmp_path, capsys):
    for name in ("zen2", "goldencove"):
        shutil.copytree(paths.HOME / "models" / name, own_models / name)
    (own_models / "zen2" / "strings.csv").write_text(STRINGS)
    out = tmp_path / "core.html"
    asked = ["core", "zen2", "--beside", "goldencove", "--html", str(out), "--json"]
    assert run(asked) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)
    assert {row["part"] for row in rows} >= {"parameter", "latency"}
    assert f"written: {out}" in printed.err
    # Curves of strings that were measured stand beside those of the other core.
    strings = {row["figure"]: row for row in rows if row["part"] == "strings"}
    row = strings["rep movsb, 128 bytes, offsets 0 and 0"]
    assert (row["value"], row["beside"], row["source"]) == ("12.3", "11.0", "strings.csv, measured")
    assert strings["rep movsb, 4096 bytes, offsets 0 and 0"]["value"] is None
    text = out.read_text()
    assert len(text) < 1_000_000
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in ids
    for said in ("AMD Zen 2", "Golden Cove", "retire.reorder_buffer", "vfmadd231ps y,y,y"):
        assert said in text
    assert "2.00 against 1.00 cycles" in text
    assert "Repeated strings" in text
    assert "12.3" in text


@pytest.mark.parametrize("size", browsing.SIZES.values(), ids=browsing.SIZES)
def test_the_page_opens_at_any_size(size, chromium, tmp_path):
    page = tmp_path / "core.html"
    page.write_text(core_page.render(core_sheet.core("neoverse-n1"), "neoverse-n1"))
    opened = browsing.opened(chromium, page, size)
    assert browsing.complaints(opened) == []
    opened.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert browsing.fits(opened)
    heads = "return [...document.querySelectorAll('h2')].map((e) => e.textContent)"
    assert opened.execute_script(heads)[:2] == ["Contents", "Ports"]


def test_forms_that_calibrating_left_out_are_listed(own_models):
    shutil.copytree(paths.HOME / "models" / "zen2", own_models / "mine")
    (own_models / "mine" / "left-out.csv").write_text(
        'form,why\n"xchg r8,r8",it is of two speeds\n'
    )
    text = core_page.render(core_sheet.core("mine"), "mine")
    assert "1 form" in text
    assert "it is of two speeds" in text
    assert "Repeated strings" not in text
