"""What runs on which port of a core, and the picture of it at the head of what a core does."""

import pytest

import loopwright as lw
from loopwright import microarchs
from loopwright.cli import run as run_cli
from loopwright.predicting import core_figures
from loopwright.predicting.core_figures import forms

STORE = {"x86_64": "48890748ffc975f8", "arm64": "000000f9210400f1c1ffff54"}
# A load and a store that are nothing else, and whether a uop takes both halves of the store.
MEMORY = {"x86_64": ("mov r64,m64", "mov m64,r64"), "arm64": ("ldr x,[x,i]", "str x,[x,i]")}


def used(core):
    return {use.kind: use.ports for use in core_figures.port_uses(microarchs.load(core))}


def test_zen2_is_as_published():
    assert used("zen2") == {
        "integer": "0123",
        "shift": "0123",
        "multiply": "1",
        "branch": "03",
        "load": "45",
        "store address": "456",
        "store data": "s",
        "vector integer": "abd",
        "shuffle": "bc",
        "float add": "cd",
        "float multiply": "ab",
        "float divide": "d",
    }


def test_a_full_port_is_called_by_all_that_it_takes():
    # add rax, 1; cmp rax, rsi; je; cmp [rdi+rax*4], edx; jne: no shift, but two branches.
    [row] = lw.predict(hex="4883c0014839f0740739148775f2", microarch="goldencove").to_dict(
        "records"
    )
    assert "shift or branch ports p0 and p6 (2 of 2 busy)" in row["bottleneck"]


@pytest.mark.parametrize("core", microarchs.ids())
def test_what_core_toml_says_of_memory_is_what_the_instructions_take(core):
    found, names = used(core), core_figures.port_names(microarchs.load(core))
    assert set("".join(found.values())) <= set(names)
    load, store = (forms(core)[f]["ports"] for f in MEMORY[microarchs.load(core).isa])
    assert set(load) == set(found["load"])
    assert set(store) - {"+"} <= set(found["store address"]) | set(found["store data"])


def test_a_core_without_figures_has_no_picture(tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    text = 'name = "New"\nisa = "x86_64"\n[ports]\nnames = { value = "01" }\n'
    (tmp_path / "new" / "core.toml").write_text(text + 'alu = { value = "1" }\n')
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path))
    assert used("new") == {"integer": "1"}


@pytest.mark.parametrize("core", microarchs.ids())
def test_each_core_has_a_legend_of_its_ports_once(core, capsys, tmp_path):
    code = STORE[microarchs.load(core).isa]
    blocks = tmp_path / "blocks.csv"
    blocks.write_text(f"id,hex\none,{code}\ntwo,{code}\n")
    assert run_cli(["predict", "--blocks", str(blocks), "--microarch", core, "--ports"]) == 0
    out = capsys.readouterr().out
    about = microarchs.load(core)
    head = f"ports of {about.name}: "
    assert out.count(head) == 1
    legend = " ".join(out[out.index(head) + len(head) :].split())
    called = core_figures.vendor_port_names(about)
    assert len(set(called.values())) == len(called)
    for use in core_figures.port_uses(about):
        assert f"{use.kind} {' '.join(called[letter] for letter in use.ports)}" in legend
    assert max(map(len, out.splitlines())) <= 100


def test_a_port_without_a_name_of_its_vendor_has_that_of_uops_info():
    called = core_figures.vendor_port_names(microarchs.load("skylake"))
    assert called == {letter: f"p{letter}" for letter in "01234567"}
    assert core_figures.vendor_port_names(microarchs.load("zen2"))["4"] == "AGU0"
