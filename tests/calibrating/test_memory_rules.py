"""Accesses that cross boundaries or meet, idioms and the stack are found again."""

import csv
import tomllib

import calibrations
import pytest

from loopwright.calibrating import memory_rules
from loopwright.calibrating.passes import learn
from loopwright.microbench import latency, throughput, x86_forms
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated, Trial

BLOCKS = {
    "add [rdi],rax; add [rdi+64],rdx": "4801074801" + "5740",
    "add dword [rdi],1; mov rax,[rsi]": "830701488b06",
    "stores on either side of 32 bytes": "48894718" + "48894720",
    "stores within 32 bytes": "48894708" + "48894710",
    "a store across 16 bytes": "4889470c",
    "a load across a line": "488b473c",
    "a load across 32 bytes": "488b471c",
    "halves stored, the whole loaded": "8907" + "895704" + "488b0f",
    "more than was stored": "8907" + "488b0f",
    "the upper half of what was stored": "488907" + "8b4704",
    "vector stores": "0f2907" + "0f294710",
    "vector stores and others": "0f2907" + "48894708",
    "vector loads": "0f2807" + "0f284f50" + "0f2897a0000000",
    "vector loads and others": "0f2807" + "0f284f50" + "488b4618",
    "zeroed registers": "31c0" + "4831d2" + "01c8",
    "zeroed vectors": "660fefc0" + "660ffec1",
    "pops behind a change of the stack": "4883ec10" + "58" + "5a",
}


@pytest.fixture(scope="module", params=[calibrations.ZEN4, calibrations.GOLDENCOVE])
def learned(request, tmp_path_factory):
    """Return a core, and the folder of what was learned of it."""
    core = request.param
    return core, calibrations.learned(tmp_path_factory, core)[0]


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_meet_take_as_long_on_what_was_learned(learned, name, monkeypatch):
    core, folder = learned
    trials = [Trial(bytes.fromhex(BLOCKS[name]), "unrolled")]
    (true,) = calibrations.original(core, {"front_end": "ideal"}).measure(trials)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    (mine,) = Simulated(f"simulated-{core}", {"front_end": "ideal"}, noise=0).measure(trials)
    assert not mine.refused
    assert mine.cycles == pytest.approx(true.cycles, rel=0.08, abs=0.05)


def test_rules_of_memory_are_those_of_the_core(learned):
    core, folder = learned
    found = tomllib.loads((folder / f"simulated-{core}/core.toml").read_text())
    memory = {name: row["value"] for name, row in found["memory"].items()}
    known = {
        "zen4": {
            "commit_bytes": 32,
            "commit_middle": False,
            "commit_narrow_cycles": 3,
            "split_load_bytes": 64,
            "split_load_cycles": 1,
            "forward_parts": True,
            "failed_forward_cycles": 17,
            "failed_forward_waits": True,
            "renamed_step": 1,
        },
        "goldencove": {
            "commit_bytes": 64,
            "split_load_bytes": 64,
            "split_load_cycles": 1,
            "failed_forward_cycles": 19,
            "failed_forward_wait_cycles": 16,
            "merges_lower": True,
            "renamed_step": 1,
        },
    }[core]
    assert {name: memory.get(name) for name in known} == known
    told = {name for name, row in found["memory"].items() if row["source"].startswith("fitted")}
    assert told >= known.keys() - {"renamed_step"}


def test_what_rules_rest_on_is_written(learned):
    core, folder = learned
    with (folder / f"simulated-{core}/measured.csv").open(newline="") as file:
        rows = {(row["form"], row["figure"]): row for row in csv.DictReader(file)}
    across = rows["", "loads across 64 bytes"]
    assert float(across["cycles"]) > 1.5 * float(rows["", "loads across nothing"]["cycles"])
    assert float(across["uncertainty"]) > 0
    assert float(rows["xor r64,r64", "idiom"]["cycles"]) < 0.2


def test_a_core_without_such_rules_is_given_none(tmp_path_factory):
    folder = calibrations.learned(tmp_path_factory, "skylake")[0]
    found = tomllib.loads((folder / "simulated-skylake/core.toml").read_text())["memory"]
    rules = ("commit_bytes", "split_load_bytes", "split_store_bytes")
    assert not [name for name in rules if name in found]
    assert found["failed_forward_cycles"]["value"] == 13  # as Skylake has it
    assert found["failed_forward_waits"]["value"] is True


def test_ports_of_what_changes_memory_are_told_from_those_of_addresses(learned):
    core, folder = learned
    path = folder / f"simulated-{core}/instructions.csv"
    found = {name: row["ports"] for name, row in calibrations.by_form(path).items()}
    ports = tomllib.loads(path.with_name("core.toml").read_text())["ports"]
    names = {name: set(ports[name]["value"]) for name in ("load", "store_address", "store_data")}
    assert not names["load"] & names["store_data"]
    update = found["add m64,r64"].split("+")
    assert sum(set(one) <= names["store_data"] for one in update) == 1
    # On Zen 4 the store of a change needs no port of those that loads use.
    assert sum(bool(set(one) & names["load"]) for one in update) == 1


@pytest.mark.parametrize(
    ("core", "known"),
    [
        ("zen4", {"xor r64,r64": False, "pcmpeqd x,x": True}),
        (
            "goldencove",
            {
                "xor r64,r64": False,
                "pxor x,x": False,
                "pcmpeqd x,x": True,
                "mov r64,r64": True,
                "movzx r32,r8": True,
            },
        ),
        ("zen2", {"xor r64,r64": True, "pandn x,x": True}),
    ],
)
def test_idioms_are_those_of_the_core(core, known):
    laboratory = Laboratory(Simulated(core))
    names = {*known, "xor r16,r16", "add r64,r64", "movzx r32,r16"}
    forms = [form for form in x86_forms.forms(laboratory.machine.features)[0] if form.name in names]
    rates = throughput.measure(laboratory, forms)
    latencies = latency.measure(laboratory, forms, throughput.cycles(rates))
    wide = {"zen4": 6, "goldencove": 6, "zen2": 5}[core]
    found = latency.zero_idioms(laboratory, forms, latencies, wide)
    assert {name: one.port for name, one in found.items()} == known


def test_a_rule_that_another_explains_as_well_is_an_assumption():
    """Where one store a cycle is written anyway, writing them together is a split's cost alone."""
    settings = {
        "memory.commit_bytes": "32",
        "memory.failed_forward_cycles": "20",
        "memory.failed_forward_waits": "true",
    }
    laboratory = Laboratory(Simulated("skylake", settings))
    few = ("mov", "movaps", "movzx", "add", "xor", "dec", "test")
    forms = [f for f in x86_forms.forms(laboratory.machine.features)[0] if f.mnemonic in few]
    known = learn(laboratory, forms, lambda _: None)
    found = memory_rules.choose_memory_rules(laboratory, known, forms).rules
    stored = [
        why
        for name, (_, why) in found.items()
        if name.startswith(("memory.split_store", "memory.commit"))
    ]
    assert stored
    assert all(why.startswith("assumption") for why in stored)
    assert found["memory.failed_forward_cycles"][0] == 20
    assert found["memory.failed_forward_waits"][0] is True
