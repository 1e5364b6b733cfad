"""Rules of rename are those of the core: fused moves, schedulers that an ALU and an AGU share."""

import dataclasses
from statistics import fmean
from types import SimpleNamespace

import calibrations
import pytest

from loopwright import microarchs, paths
from loopwright.calibrating import passes, port_choice, rename_rules
from loopwright.calibrating.core_model import TRIED
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import CandidateCore, Simulated

CORE, WIDTH = "zen4", 6
LOAD, STORE = (calibrations.FORMS[name] for name in ("mov r64,m64", "mov m64,r64"))


@pytest.fixture(scope="module", params=[calibrations.ZEN4])
def folder(request, tmp_path_factory):
    """Return the folder of the learned core."""
    return calibrations.learned(tmp_path_factory, request.param)[0] / f"simulated-{CORE}"


def cycles(machine):
    """Return the cycles that a machine takes for the microbenchmarks."""
    kernels = dict(rename_rules._accesses(LOAD, STORE, WIDTH))
    return [one.cycles for one in Laboratory(machine).time(list(kernels.values()), "unrolled")]


def test_a_port_that_loads_and_computes_shares_no_scheduler():
    tried = list(rename_rules._shared_rules("0124", frozenset({4, 5}), ""))
    names = [rules[rename_rules.SHARED].split() for rules in tried if rules]
    assert names
    assert {one for pairs in names for one in pairs} == {"05", "15", "25"}
    assert list(rename_rules._shared_rules("01", frozenset({0, 1}), "")) == [{}]


def test_a_branch_unit_beside_an_alu_shares_its_scheduler_with_no_load():
    tried = list(rename_rules._shared_rules("0123", frozenset({8, 9}), "3d"))
    words = [rules[rename_rules.SHARED].split() for rules in tried]
    assert len(words) > 1
    assert all(pairs[-1] == "3d" for pairs in words)
    assert {one for pairs in words for one in pairs[:-1]} == {"08", "18", "19", "29"}


def test_accesses_beside_computing_uops_take_as_long_as_on_the_core(folder):
    texts = [(folder / name).read_text() for name in ("core.toml", "instructions.csv")]
    learned = cycles(CandidateCore(Simulated(CORE, noise=0), *texts, {}))
    true = cycles(calibrations.original(CORE))
    assert fmean(abs(a / b - 1) for a, b in zip(learned, true, strict=True)) < 0.005


@pytest.mark.parametrize("name", ["imul", "cmovb", "bt", "shl"])
def test_register_forms_have_no_uop_of_a_load(folder, name):
    load = set(calibrations.parameters(folder)["ports.load"])
    table = calibrations.rows(folder / "instructions.csv")
    rows = [row for row in table if row["mnemonic"] == name and "m" not in row["operands"]]
    assert rows
    assert not [row for row in rows if load & set(row["ports"])]


@dataclasses.dataclass(frozen=True)
class Learned:
    """A learned core of nothing but rules, and whether nops take dispatch slots."""

    rules: dict[str, object]
    width: SimpleNamespace


@pytest.mark.parametrize("core", ["redwoodcove", "zen4", "goldencove"])
def test_operations_that_absorb_moves_are_those_of_the_core(core):
    width = SimpleNamespace(nops=core != "zen4")
    learned = rename_rules.choose_absorbed(Laboratory(Simulated(core)), Learned({}, width))
    fusion = microarchs.load(core).parameters["macro_fusion"]
    asked = {name for _, operations in kits.of("x86_64").ABSORBING for name in operations}
    for rule in ("move_ops", "load_ops"):
        known = set(fusion.get(rule, {"value": ""})["value"].split()) & asked
        value, _ = learned.rules.get(f"macro_fusion.{rule}", ("", None))
        # Rotations by one have their own form, which takes two places.
        assert set(value.split()) == known - {"rol", "ror"}


# Eliminated moves, the operations between them, and forms that show the classes of ports.
MOVES = (
    "mov r64,r64", "movdqa x,x", "movsxd r64,r32", "vpand x,x,x", "add r64,r64", "imul r64,r64,i32",
    "lea.bid r32", "lea.b r64", "mov r64,m64", "mov m64,r64", "test r64,r64", "dec r64",
    "shl r64,i8", "pshufd x,x,i8", "mulps x,x", "mov r64,i32", "cmovb r64,r64", "paddq x,x",
)  # fmt: skip
SLOTS = (*rename_rules.SLOTS.values(), rename_rules.FREED, rename_rules.GROUPS)


@pytest.mark.parametrize("whole", [True, None])
@pytest.mark.parametrize("changes", [{}, {"rename.move_slot_cycles": 3}])
def test_slots_of_eliminated_moves_are_told_with_the_groups_of_rename(changes, whole):
    machine = Simulated("skylake", changes, noise=0)
    forms = [calibrations.FORMS[name] for name in MOVES]
    learned = passes.learn(Laboratory(machine), forms, lambda _: None)
    on_core = calibrations.parameters(paths.models_root() / "skylake")
    binding = {name: on_core[f"ports.{name}"] for name in ("assign", "position", "tie")}
    names = ("ports.slots", "ports.counts_age", port_choice.IMBALANCE)
    known = dataclasses.replace(
        learned,
        assigned=(binding, TRIED),
        windows=dataclasses.replace(learned.windows, whole_groups=whole),
        rules={**learned.rules, **{name: (on_core[name], TRIED) for name in names}},
    )
    found = rename_rules.choose_rename_rules(Laboratory(machine), known, forms).rules
    true = {**{name: on_core[name] for name in SLOTS}, **changes}
    assert {name: found[name][0] for name in SLOTS if name in found} == {
        name: value for name, value in true.items() if whole is None or name != rename_rules.GROUPS
    }
