"""What a core needs to predict whole blocks is found again: memory, branches, fusion."""

import tomllib

import calibrations
import pytest
from calibrations import rows

from loopwright.calibrating import branches, port_classes
from loopwright.calibrating.port_classes import Union
from loopwright.microbench import dispatch_width, x86_forms
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated, Trial
from loopwright.predicting.core_figures import forms as table

BLOCKS = {
    "copy": "488b0648890748ffc9",
    "sum": "480306480346084803461048ffc9",
    "update": "48010748015708",
    "chase": "488b1b",
    "round trip": "488907488b07",
    "compare and leave": "4839d10f850010000048ffc7",
    "vectors": "0f280e660ffec148ffc9",
    "stack": "5356575f5e5b",
}


@pytest.fixture(scope="module", params=["skylake", calibrations.ZEN2])
def learned(request, tmp_path_factory):
    """Return a core, and the folder of what was learned of it."""
    core = request.param
    return core, calibrations.learned(tmp_path_factory, core)[0]


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_take_as_long_on_what_was_learned(learned, name, monkeypatch):
    core, folder = learned
    code = bytes.fromhex(BLOCKS[name])
    trials = [Trial(code + bytes([0x75, 254 - len(code)]), "loop"), Trial(code, "unrolled")]
    true = calibrations.original(core, {"front_end": "ideal"}).measure(trials)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    mine = Simulated(f"simulated-{core}", noise=0).measure(trials)
    for theirs, ours in zip(true, mine, strict=True):
        assert not ours.refused
        assert ours.cycles == pytest.approx(theirs.cycles, rel=0.12)


@pytest.mark.slow
def test_addresses_of_stores_use_all_ports_of_loads(tmp_path_factory, monkeypatch):
    folder = calibrations.learned(tmp_path_factory, "sandybridge")[0]
    known = calibrations.by_form(folder / "simulated-sandybridge" / "instructions.csv")
    load = known["mov r64,m64"]["ports"]
    assert len(load) == 2
    address, data = known["mov m64,r64"]["ports"].split("+")
    assert address == load
    assert data not in address
    # mov rbp, [r14+0x48]; mov [r13+0x800], r14; dec r15; jne
    code = bytes.fromhex("498b6e484d89b50008000049ffcf75f0")
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    [timing] = Simulated("simulated-sandybridge", noise=0).measure([Trial(code, "loop")])
    assert timing.cycles == pytest.approx(1, rel=0.05)


def test_only_moves_are_performed_at_rename(learned):
    core, folder = learned
    known = rows(folder / f"simulated-{core}" / "instructions.csv")
    moves = {row["mnemonic"] for row in known if "elim" in row["flags"].split()}
    assert "mov" in moves
    assert all("mov" in one or one == "xchg" for one in moves)


def test_latencies_from_addresses_are_found_again(learned):
    core, folder = learned
    true = table(core)
    found = {}
    for row in rows(folder / f"simulated-{core}" / "measured.csv"):
        listed = dict(
            one.rsplit(":", 1) for one in true.get(row["form"], {"latency": ""})["latency"].split()
        )
        if row["figure"] == "latency a>0" and "a" in listed and not row["note"]:
            found[row["form"]] = (row["value"], listed["a"])
    assert len(found) > 20
    # A round trip between kinds of registers does not tell its halves.
    own = {form: pair for form, pair in found.items() if " r" in form}
    assert [form for form, (mine, theirs) in own.items() if mine != theirs] == []


def test_what_a_load_takes_from_a_store_is_found_again(learned):
    core, folder = learned
    written = tomllib.loads((folder / f"simulated-{core}" / "core.toml").read_text())
    memory = {name: one["value"] for name, one in written["memory"].items()}
    expected = {
        "skylake": {"load_cycles": 5, "pointer_chase_gain": 1, "forward_cycles": 4},
        "zen2": {
            "load_cycles": 4, "pointer_chase_gain": 0, "forward_cycles": 8, "renames": "any",
            "renamed_bytes": 4, "forward_update_cycles": 6,
        },
    }  # fmt: skip
    assert {name: memory[name] for name in expected[core]} == expected[core]
    assert ("renames" in memory) == (core == "zen2")


def test_branches_use_as_many_ports_as_on_the_core(learned):
    core, folder = learned
    table_of = rows(folder / f"simulated-{core}/instructions.csv")
    sure = [row for row in table_of if row["source"] == "calibrated"]
    found = {row["mnemonic"]: row for row in sure if row["operands"] == "rel"}
    for name in ("je", "jb", "jle", "jg", "jmp"):
        assert len(found[name]["ports"]) == len(table(core)[f"{name} rel"]["ports"])
    assert "jp" not in found  # which way it goes is not known, so nothing is said of it


@pytest.mark.parametrize(
    "core", ["skylake", "sandybridge", "zen2", "goldencove", "zen3", "zen4", "redwoodcove"]
)
def test_pairs_that_fuse_are_found(core):
    laboratory = Laboratory(Simulated(core))
    names = ["add r64,r64", "cmp r64,m64", "cmp m64,i8", "test r32,r32", "inc r64", "xor r64,r64"]
    known = {form.name: form for form in x86_forms.forms(laboratory.machine.features)[0]}
    wide = dispatch_width.measure(laboratory)
    found = branches.fused_pairs(laboratory, [known[name] for name in names], wide)
    for name in names:
        flags = [flag for flag in table(core)[name]["flags"].split() if flag.startswith("fuse=")]
        true = set(flags[0].removeprefix("fuse=")) if flags else set()
        if core == "zen4" and known[name].memory:
            true = set()  # such a pair takes two slots, as many as both apart
        assert set(found.get(name, "")) == true - {"p"}


def test_classes_that_are_not_seen_to_share_have_ports_of_their_own():
    sizes = [4, 4, 2, 2]
    pairs = [
        Union((0, 1), 5, True, None),
        Union((0, 2), 4, False, None),
        Union((1, 3), 4, False, None),
        Union((0, 3), 5, True, None),
        Union((1, 2), 5, True, None),
        Union((2, 3), 4, False, None),
    ]
    assert port_classes.groups_sharing_ports(sizes, pairs) == [(0, 2), (1, 3)]

    def measure(wanted):
        return [one for one in pairs if one.classes in wanted]

    found, _ = port_classes.find_mapping(sizes, 5, measure)
    assert found[2] < found[0]
    assert found[3] < found[1]
    assert not found[0] & found[1]
