"""Calibration finds a known AArch64 core again, from timing with noise alone."""

from itertools import permutations, product

import calibrations
import pytest
from calibrations import rows

from loopwright.calibrating.port_classes import mixture
from loopwright.code import binding
from loopwright.code.instructions import decode
from loopwright.microbench import arm64_forms, arm64_kit, form_instances, kits
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated
from loopwright.predicting.core_figures import forms as table

CORE = "neoverse-n1"
_PAIRS = ("LK", "KL", "VW", "WV")  # ports of loads and stores, of vectors


@pytest.fixture(scope="module", params=[calibrations.NEOVERSE_N1])
def learned(request, tmp_path_factory):
    """Return the folder of what was learned of a simulated Neoverse N1."""
    folder, _ = calibrations.learned(tmp_path_factory, request.param)
    return folder / f"simulated-{CORE}"


def uops(text, without):
    """Return the uops of a cell of the table: a set of ports each, in no order.

    Left out are those that use some ports: what is known of no store by timing alone.
    """
    out = []
    for part in filter(None, text.split("+")):
        times, _, ports = part.rpartition("*")
        out += [sorted(ports)] * (int(times or 1) if set(ports).isdisjoint(without) else 0)
    return sorted(out)


def in_table(name):
    """Say whether a form of a table computes in registers, loads or stores."""
    mnemonic, _, operands = name.partition(" ")
    system = mnemonic in ("nop", "ret", "b", "b.cond", "bl", "blr", "br")
    branch = mnemonic in ("cbz", "cbnz", "tbz", "tbnz")
    moved = mnemonic.startswith(("ld1", "ld2", "ld3", "ld4", "st1", "st2", "st3", "st4"))
    far = operands.endswith("],x") and moved  # its base moves on by a register
    return not (system or branch or far or "literal" in operands)


@pytest.mark.parametrize("core", [CORE, "tsv110"])
def test_every_form_of_the_tables_is_listed(core):
    true = {name for name in table(core) if in_table(name)}
    features = Simulated(core).features
    listed = {form.name for form in arm64_forms.forms(features)[0]}
    assert len(true) > 1600
    assert not true - listed


def test_forms_that_the_core_lacks_are_not_listed():
    features = Simulated(CORE).features
    assert any(form.mnemonic == "aese" for form in arm64_forms.forms(features)[0])
    assert not any(form.mnemonic == "aese" for form in arm64_forms.forms(features - {"aes"})[0])


def test_every_instance_is_the_form_and_an_instruction():
    forms, left = arm64_forms.forms(Simulated(CORE).features)
    instances = form_instances.Instances()
    codes = [
        code for form in forms for code in (form_instances.under_test(form), instances.of(form))
    ]
    names = [form.name for form in forms for _ in range(2)]
    found = binding.forms("arm64", codes)
    assert [name for name, *_ in found] == names
    assert {name for _, *rest in found for name in rest} == {"sub x,x,i"}  # gives back a base
    assert all(decode("arm64", code) for code in codes)
    assert all(left.values())


def test_instances_beside_each_other_write_other_registers():
    known = {form.name: form for form in arm64_forms.forms(Simulated(CORE).features)[0]}
    for name in ("add x,x,x", "mla 16b", "tbx 16b,4"):
        instances = form_instances.Instances()
        written = [instances.of(known[name])[0] & 0x1F for _ in range(6)]
        assert len(set(written)) == 6
        assert not set(written) & set(arm64_kit.POOLS["vector"].constant)
    with pytest.raises(ValueError, match="does not fit"):
        known["mul 8h,e"].encode({"0": 0, "1": 1, "2": 20})


def test_what_carries_values_reads_and_writes_what_it_says():
    kit = kits.of("arm64")
    for source, target in (
        ("gpr", "gpr"), ("gpr", "vector"), ("vector", "gpr"), ("vector", "vector"),
        ("gpr", "flags"), ("flags", "gpr"),
    ):  # fmt: skip
        ((text,),) = [[i.text for i in decode("arm64", kit.transfer(source, target, 8, 9))]]
        assert ("8" in text) == (source != "flags"), text
        assert ("9" in text) == (target != "flags"), text
    for kind in ("gpr", "vector", "flags"):
        assert len(decode("arm64", kit.break_dependency(kind, 3))) == 1


def test_width_and_ports_are_found_again_but_for_their_names(learned):
    true = table(CORE)
    known = calibrations.by_form(learned / "instructions.csv")
    found = {name: row["ports"] for name, row in known.items()}
    asked = [
        name for name in true if name.partition(" ")[0] in calibrations.ARM64 and in_table(name)
    ]
    assert len(found) >= 0.95 * len(asked) > 150
    agreeing = []
    for one, two, three in product(map("".join, permutations("STM")), _PAIRS, _PAIRS):
        called = str.maketrans("01234567", f"{one}{two}{three}B")
        agreeing.append(
            {
                n
                for n, p in found.items()
                if uops(_ports(p, called), "ab") == uops(true[n]["ports"], "DE")
            }
        )
    best = max(agreeing, key=len)
    assert len(best) >= 0.98 * len(found), sorted(set(found) - best)
    width = next(r for r in rows(learned / "measured.csv") if r["figure"] == "width")
    assert width["value"] == "4"


def _ports(text, called):
    parts = (part.rpartition("*") for part in text.replace("AB", "ab").split("+"))
    return "+".join(times + star + ports.translate(called) for times, star, ports in parts)


def test_latencies_within_general_or_vector_registers_are_found_again(learned):
    # What crosses between kinds is known as a round trip alone.
    true = table(CORE)
    known, wrong = 0, []
    forms = {form.name: form for form in arm64_forms.forms(Simulated(CORE).features)[0]}
    for row in rows(learned / "measured.csv"):
        figure, _, pair = row["figure"].partition(" ")
        if figure != "latency" or row["note"]:
            continue
        source, _, target = pair.partition(">")
        form = forms[row["form"]]
        kinds = {o.kind for o in form.operands if o.label in (source, target)}
        listed = dict(one.rsplit(":", 1) for one in true[row["form"]]["latency"].split())
        # What a load of a part of a register keeps has no figure of its own in the table.
        if len(kinds) == 1 and (form.memory is None or source == "a"):
            known += 1
            if listed.get(pair, listed.get(source, listed.get("*"))) != row["value"]:
                wrong.append(row)
    assert known > 200
    assert len(wrong) <= 0.02 * known, wrong


def test_what_is_written_predicts_mixtures_as_the_core_does(learned, monkeypatch):
    true = Laboratory(Simulated(CORE, noise=0))
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(learned.parent))
    mine = Laboratory(Simulated(learned.name, noise=0))
    known = {form.name: form for form in arm64_forms.forms(true.machine.features)[0]}
    names = ["add x,x,x", "madd x,x,x", "fadd 4s", "mla 8b", "fmadd d", "umov r,e", "csel x,x,x"]
    mixtures = [mixture([(known[a], 3), (known[b], 4)]) for a in names for b in names if a < b]
    for theirs, ours in zip(
        true.time(mixtures, "unrolled"), mine.time(mixtures, "unrolled"), strict=True
    ):
        assert ours.cycles == pytest.approx(theirs.cycles, rel=0.05)
