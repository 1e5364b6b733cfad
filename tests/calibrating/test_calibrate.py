"""Calibration finds a known core again, from timing with noise alone."""

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import permutations

import calibrations
import pytest
from calibrations import rows

import loopwright as lw
from loopwright import paths
from loopwright.calibrating import core_files, port_classes, rename_rules
from loopwright.calibrating.passes import learn
from loopwright.calibrating.port_classes import Union, mixture
from loopwright.calibrating.ports import bound_cycles, index_subsets
from loopwright.errors import InputError
from loopwright.microbench import dispatch_width, x86_forms
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Recorded, Replay, Simulated, Trial
from loopwright.predicting.core_figures import forms as table


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Return the folder of what was learned of a simulated Skylake."""
    return calibrations.learned(tmp_path_factory, "skylake")[0]


_MEMORY = re.compile(r"\bm\d|^(push|pop)\b")


def uops(text):
    """Return the uops of a cell of the table: a set of ports each."""
    out = []
    for part in filter(None, text.split("+")):
        times, _, ports = part.rpartition("*")
        out += [frozenset(ports)] * int(times or 1)
    return Counter(out)


def test_ports_are_found_again_but_for_their_names(learned):
    true = table("skylake")
    shown = {
        name: uops(row["ports"])
        for name, row in calibrations.by_form(
            learned / "simulated-skylake" / "instructions.csv"
        ).items()
        if row["source"] == "calibrated"  # which says so where it is in doubt
    }
    found = {n: one for n, one in shown.items() if n in true and not _MEMORY.search(n)}
    assert len(found) > 60
    names = [dict(zip("0123", order, strict=True)) for order in permutations("0156")]
    agreeing = [
        {
            name
            for name, mine in found.items()
            if Counter(
                {frozenset(called.get(p, "none") for p in one): n for one, n in mine.items()}
            )
            == uops(true[name]["ports"])
        }
        for called in names
    ]
    best = max(agreeing, key=len)
    assert len(best) >= 0.95 * len(found), sorted(set(found) - best)


def test_latencies_are_found_again(learned):
    true = table("skylake")
    known = {}
    for row in rows(learned / "simulated-skylake" / "measured.csv"):
        figure, _, pair = row["figure"].partition(" ")
        if figure == "latency" and not row["note"]:
            listed = dict(one.rsplit(":", 1) for one in true[row["form"]]["latency"].split())
            of_address = listed.get("a") if pair.startswith("a>") else listed.get("*")
            cycles = listed.get(pair, of_address)
            if cycles is not None:
                known[row["form"], pair] = (row["value"], cycles)
    assert len(known) > 40
    wrong = {key: pair for key, pair in known.items() if pair[0] != pair[1]}
    assert len(wrong) <= 0.02 * len(known), wrong


def test_the_slots_of_eliminated_moves_are_found_again(learned):
    found = calibrations.parameters(learned / "simulated-skylake")
    on_core = calibrations.parameters(paths.models_root() / "skylake")
    for name in (*rename_rules.SLOTS.values(), rename_rules.FREED):
        assert found[name] == on_core[name], name


@pytest.mark.parametrize("name", ["mov r64,r64", "movzx r64,r8", "movaps x,x"])
def test_a_move_that_is_eliminated_at_times_passes_its_operand_on(learned, name, monkeypatch):
    true = Laboratory(calibrations.original("skylake"))
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(learned))
    mine = Laboratory(Simulated("simulated-skylake", noise=0))
    move = calibrations.FORMS[name]
    kind = move.chosen[0].kind
    first, second = move.kit.POOLS[kind].others[:2]
    labels = [operand.label for operand in move.chosen]
    there = move.encode(dict(zip(labels, (second, first), strict=True)))
    chain = [there, move.kit.transfer(kind, kind, second, first)]
    (theirs,), (ours,) = true.time([chain]), mine.time([chain])
    assert theirs.cycles > 1
    assert ours.cycles == pytest.approx(theirs.cycles, rel=0.05)


def test_what_is_written_predicts_mixtures_as_the_core_does(learned, monkeypatch):
    true = Laboratory(calibrations.original("skylake"))
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(learned))
    mine = Laboratory(Simulated("simulated-skylake", noise=0))
    known = {form.name: form for form in x86_forms.forms(true.machine.features)[0]}
    names = ["imul r64,r64", "vaddps x,x,x", "pshufd x,x,i8", "popcnt r64,r64", "vpand x,x,x"]
    kernels = [
        mixture([(known[a], 4), (known[b], 4)])
        for a in names
        for b in names
        if names.index(a) < names.index(b)
    ]
    for theirs, ours in zip(true.time(kernels), mine.time(kernels, "unrolled"), strict=True):
        assert ours.cycles == pytest.approx(theirs.cycles, rel=0.05)


def test_what_is_not_known_is_left_out_and_listed(learned):
    folder = learned / "simulated-skylake"
    left = {row["form"]: row["why"] for row in rows(folder / "left-out.csv")}
    listed = {row["mnemonic"] + " " + row["operands"] for row in rows(folder / "instructions.csv")}
    assert all(left.values())
    assert not set(left) & listed
    assert left


SMALL = ["add", "imul", "shl", "paddd", "mulps", "pshufd", "movq", "mov", "vpand", "lea.bid"]


def test_two_runs_give_the_same_core_but_for_noise(tmp_path):
    found, figures = [], []
    for seed in (1, 2):
        core = Simulated("skylake", seed=seed)
        folder = tmp_path / str(seed)
        answers = Recorded(core, tmp_path / f"{seed}.jsonl")
        forms = [f for f in x86_forms.forms(core.features)[0] if f.mnemonic in SMALL]
        learned = learn(Laboratory(answers), forms, lambda _: None)
        core_files.write_core(learned, core, folder)
        found.append({name: one for name, one in learned.uops.items() if one.ports is not None})
        figures.append(rows(folder / "measured.csv"))
    both = found[0].keys() & found[1].keys()
    assert len(both) >= 0.97 * len(found[0] | found[1])
    other = [n for n in both if found[0][n].ports != found[1][n].ports]
    assert len(other) <= 0.01 * len(both), other
    pairs = [
        (float(a["cycles"]) - float(b["cycles"]), float(a["uncertainty"]), float(b["uncertainty"]))
        for a, b in zip(*figures, strict=True)
        if a["uncertainty"] and a["cycles"] != "nan"
    ]
    # Uncertainties are one standard deviation: of differences as many as expected are within three.
    near = sum(abs(off) <= 3 * (one**2 + other**2) ** 0.5 + 1e-9 for off, one, other in pairs)
    assert any(off for off, _, _ in pairs)
    assert near >= 0.98 * len(pairs) > 200


@pytest.mark.parametrize(("set_to", "wide"), [("3", 3), ("4", 4)])
def test_a_parameter_changed_by_hand_is_found(set_to, wide):
    machine = Simulated("zen2", {"rename.instructions": set_to})
    assert dispatch_width.measure(Laboratory(machine)).instructions == wide


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    path = tmp_path / "answers.jsonl"
    add, imul = (
        Trial(bytes.fromhex("4801d8"), "unrolled"),
        Trial(bytes.fromhex("480fafd8"), "unrolled"),
    )
    first = Recorded(Simulated("skylake"), path).measure([add])
    with path.open("a") as file:
        file.write('{"trial": "unrolled@0:48')  # killed while it wrote
    again = Recorded(Simulated("skylake"), path)
    assert again.measure([add, imul])[0] == first[0]
    assert again.asked == 1
    again.close()
    assert Replay(path).measure([add]) == first
    assert Replay(path).measure([Trial(b"\x90")])[0].refused


def test_two_runs_do_not_write_one_file(tmp_path):
    path = tmp_path / "answers.jsonl"
    first = Recorded(Simulated("skylake"), path)
    with pytest.raises(InputError, match=f"another run writes {path}; let it end"):
        Recorded(Simulated("skylake"), path)
    first.close()
    assert not Recorded(Simulated("skylake"), path).kept


def test_a_run_that_is_killed_within_a_batch_keeps_what_it_has(tmp_path):
    class Dying(Simulated):
        def measure(self, trials):
            if self._tries.total() > 300:
                raise KeyboardInterrupt
            return super().measure(trials)

    path = tmp_path / "answers.jsonl"
    trials = [Trial(b"\x90" * n, "unrolled") for n in range(1, 801)]
    with pytest.raises(KeyboardInterrupt):
        Recorded(Dying("skylake"), path).measure(trials)
    again = Recorded(Simulated("skylake"), path)
    again.measure(trials)
    assert 300 < again.asked < 600


def test_answers_of_two_machines_and_half_a_file_are_refused(tmp_path):
    path = tmp_path / "answers.jsonl"
    machine = Recorded(Simulated("skylake"), path)
    machine.measure([Trial(bytes.fromhex("4801d8"), "unrolled")])
    machine._file.flush()
    with pytest.raises(InputError, match="cut short"):
        Replay(path)
    machine.close()
    with pytest.raises(InputError, match=r"holds answers of simulated:skylake .*take another"):
        Recorded(Simulated("zen2"), path)
    lines = path.read_text().splitlines()
    other = json.dumps({**json.loads(lines[0]), "fingerprint": "another"})
    path.write_text("\n".join([*lines[:-1], other, lines[-1], ""]))
    with pytest.raises(InputError, match="mixes two machines"):
        Replay(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not an answer of a machine"):
        Replay(path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"machine": "simulated:skylark"}, "nearest: skylake"),
        ({"machine": "nowhere"}, "give host, simulated:ID or a file of answers"),
        ({"machine": "simulated:skylake", "settings": {"rename.wide": "4"}}, "unknown parameter"),
        ({"machine": "host", "settings": {"rename.width": "4"}}, "a simulated core alone"),
        ({"machine": "simulated:skylake", "mnemonics": ["frobnicate"]}, "no form is left"),
    ],
)
def test_bad_input_is_said_in_one_line(tmp_path, asked, said):
    with pytest.raises(InputError, match=said):
        lw.calibrate(tmp_path, **asked)


def test_forms_have_the_names_of_the_tables():
    for core in ("skylake", "zen2"):
        features = Simulated(core).features
        names = {form.name for form in x86_forms.forms(features)[0]}
        assert len(names & set(table(core))) > 1200
        assert "add r64,i8" in names
        assert "vpaddd y,y,y" in names
        assert not any(name.startswith(("jmp", "call", "syscall", "fld")) for name in names)


def test_the_rule_of_mixtures():
    one, both, other = frozenset({1}), frozenset({1, 2}), frozenset({2})
    assert bound_cycles({one: 1}) == 1
    assert bound_cycles({both: 1}) == 0.5
    assert bound_cycles({one: 2, both: 2}) == 2
    assert bound_cycles({one: 2, both: 1}) == 2
    assert bound_cycles({one: 1, other: 1, both: 1}) == 1.5
    assert bound_cycles({}) == 0


TRUE = [{0, 1, 2}, {0, 3}, {0, 1}, {1, 2}, {0}, {2}, {1}, {4}]


def counted(true, wanted):
    """Return what mixtures of classes with these ports would tell."""
    return [Union(of, len(set().union(*(true[n] for n in of))), False, None) for of in wanted]


def test_ports_that_explain_mixtures_are_found_up_to_their_names():
    found, _ = port_classes.find_mapping([len(one) for one in TRUE], 9, partial(counted, TRUE))
    for some in index_subsets(len(TRUE), 3):
        together = set().union(*(found[n] for n in some))
        assert len(together) == len(set().union(*(TRUE[n] for n in some)))


def test_three_classes_are_measured_together_where_pairs_do_not_tell():
    # Three pairs of ports, each two sharing one: all the same one, or three different ones.
    for true in ([{0, 1}, {0, 2}, {0, 3}], [{0, 1}, {0, 2}, {1, 2}]):
        asked = []

        def count(wanted, true=true, asked=asked):
            asked.extend(wanted)
            return counted(true, wanted)

        found, _ = port_classes.find_mapping([2, 2, 2], 9, count)
        assert (0, 1, 2) in asked
        assert len(set().union(*found)) == len(set().union(*true))


def test_ports_of_no_class_are_an_error():
    with pytest.raises(InputError, match="no class of forms"):
        port_classes.find_mapping([], 4, partial(counted, []))


def test_what_no_ports_explain_is_an_error():
    def impossible(wanted):
        return [Union(of, 1, False, None) for of in wanted]

    with pytest.raises(InputError, match="no ports explain"):
        port_classes.find_mapping([2, 2], 9, impossible)


def test_a_mixture_that_takes_longer_than_its_ports_ask_for_does_not_mislead():
    def clumsy(wanted):
        told = counted(TRUE, wanted)
        return [replace(one, ports=3) if one.classes == (1, 3) else one for one in told]

    found, known = port_classes.find_mapping([len(one) for one in TRUE], 9, clumsy)
    for some in index_subsets(len(TRUE), 2):
        assert len(found[some[0]] | found[some[1]]) == len(set().union(*(TRUE[n] for n in some)))
    assert [one.classes for one in known if one.least] == [(1, 3)]
