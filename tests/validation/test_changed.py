"""Cores changed by hand are made as said, and what was learned of them is judged strictly."""

import tomllib

import pytest

from loopwright import paths
from loopwright.errors import InputError
from loopwright.predicting.core_figures import TABLE


@pytest.fixture(scope="module")
def changed(validation):
    return validation("changed")


def test_every_case_changes_what_it_says(changed, tmp_path):
    cases = tomllib.loads(changed.CASES.read_text())["core"]
    assert len({case["name"] for case in cases}) == len(cases) > 15
    for case in cases:
        changed.write_case(case, tmp_path)
        texts = [(root / TABLE).read_text() for root in _folders(case, tmp_path)]
        assert (texts[0] != texts[1]) == bool(case.get("rows"))
        mine = tomllib.loads((tmp_path / case["name"] / "core.toml").read_text())
        for name, value in case.get("set", {}).items():
            table, _, key = name.partition(".")
            assert mine[table][key]["value"] == value
        # The simulator takes it.
        with changed.calibrated.models(tmp_path):
            assert changed.Simulated(case["name"]).isa == mine["isa"]


def _folders(case, models):
    return paths.models_root() / case["of"], models / case["name"]


def test_a_change_that_changes_nothing_is_refused(changed, tmp_path):
    rows = [{"mnemonic": "imul", "column": "latency", "from": "no such", "to": "x"}]
    with pytest.raises(InputError, match="changes nothing"):
        changed.write_case({"name": "x", "of": "skylake", "rows": rows}, tmp_path)


def entry(value, source="measured"):
    return {"value": value, "source": source, "confidence": "high"}


@pytest.mark.parametrize(
    ("learned", "state"),
    [
        (entry(224, "220 instructions"), "equal"),
        (entry(223, "221 to 223, 220 instructions"), "wrong"),
        (entry(223, "221 to 225, 220 instructions"), "marked"),
        (entry(300, "assumption: not measured"), "marked"),
        (entry(300, "300 instructions"), "wrong"),
    ],
)
def test_what_is_wrong_is_told_from_what_is_marked(changed, learned, state):
    true = {"retire": {"reorder_buffer": entry(224)}}
    (found,) = changed.compared(true, {"retire": {"reorder_buffer": learned}}, {})
    assert (found.name, found.true, found.state) == ("retire.reorder_buffer", "224", state)


def test_what_is_as_the_simulator_takes_it_is_no_change(changed):
    said = {"retire": {"width": entry(4)}}
    true = {"retire": {"width": entry(4)}, "predecode": {"width": entry(5), "lcp_cycles": entry(6)}}
    found = {one.name: one.state for one in changed.compared(true, said, {})}
    assert found == {"retire.width": "equal", "predecode.lcp_cycles": "not said"}
    # What core.toml leaves out has the simulator's own value.
    wrong = {"decode": {"branch_ends": entry(False, "a kernel")}}
    (found,) = changed.compared({}, wrong, {})
    assert (found.true, found.state) == ("true", "wrong")


def test_names_of_ports_are_arbitrary(changed):
    true, mine = ({"ports": {"load": entry(ports)}} for ports in ("23", "45"))
    assert not list(changed.compared(true, mine, {}))


def test_chains_say_whether_forwarding_is_the_same(changed):
    true, mine = ({"memory": {"forward_vector_cycles": entry(n)}} for n in (0, 4))
    for same, state in ((True, "equal"), (False, "wrong")):
        (found,) = changed.compared(true, mine, {"memory.forward_vector_cycles": same})
        assert found.state == state


@pytest.mark.parametrize(("vector", "state"), [(0, "equal"), (7, "wrong")])
def test_vectors_that_are_forwarded_as_others_are_told_so(changed, vector, state):
    true = {"memory": {"forward_cycles": entry(5), "forward_vector_cycles": entry(vector)}}
    mine = {"memory": {"forward_vector_cycles": entry(5)}}
    found = {one.name: one.state for one in changed.compared(true, mine, {})}
    assert found["memory.forward_vector_cycles"] == state
