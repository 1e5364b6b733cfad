"""Ranges of parameters of low confidence: each has one, and a core without is refused."""

import tomllib

import pytest

from loopwright import microarchs, paths
from loopwright.errors import InputError
from loopwright.microarchs import Range
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline

HEAD = 'name = "A toy"\nisa = "x86_64"\n\n[uop_cache]\n'
CORES = microarchs.ids()
NOP = Block("x86_64", b"\x90", "unrolled", 0)


def toy(tmp_path, monkeypatch, line: str) -> microarchs.Microarch:
    """Return a core with one more line in its core.toml."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "core.toml").write_text(HEAD + line + "\n")
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path))
    return microarchs.load("toy")


@pytest.mark.parametrize("line", [
    'reads = { value = 1, source = "one entry a cycle", confidence = "low" }',
    'reads = { value = 1, source = "assumption: one entry", confidence = "medium" }',
    'reads = { value = 1, low = 1, high = 2, source = "no reason", confidence = "low" }',
    'reads = { value = 1, low = 2, high = 1, range = "r", source = "s", confidence = "low" }',
    'reads = { value = 1, low = 1, range = "r", source = "s", confidence = "low" }',
    'reads = { value = 1, alternatives = [1], range = "r", source = "s", confidence = "low" }',
    'reads = { value = 1, fixed = " ", source = "s", confidence = "low" }',
    'rule = { value = "entry", low = 1, high = 2, range = "r", source = "s", confidence = "low" }',
])  # fmt: skip
def test_a_value_of_low_confidence_without_a_sound_range_is_refused(tmp_path, monkeypatch, line):
    with pytest.raises(InputError, match=r"core\.toml.*uop_cache\.(reads|rule)"):
        toy(tmp_path, monkeypatch, line)


def test_what_is_documented_needs_no_range(tmp_path, monkeypatch):
    line = 'reads = { value = 1, source = "the manual", confidence = "high" }'
    assert toy(tmp_path, monkeypatch, line).ranges == ()


@pytest.mark.parametrize("core_id", CORES)
def test_every_value_of_low_confidence_has_a_range_or_a_reason_to_have_none(core_id):
    core = microarchs.load(core_id)
    path = paths.models_root() / core_id / "core.toml"
    low = {
        f"{table}.{key}"
        for table, rows in tomllib.loads(path.read_text()).items()
        if isinstance(rows, dict) and table != "bounds"
        for key, entry in rows.items()
        if isinstance(entry, dict) and entry.get("confidence") == "low" and "value" in entry
    }
    assert low <= {one.name for one in core.ranges}
    assert all(one.reason for one in core.ranges)


@pytest.mark.parametrize("core_id", CORES)
def test_the_simulator_takes_every_value_of_a_range(core_id):
    """A value may do nothing with the core's other parameters; it may not be refused as wrong."""
    core = microarchs.load(core_id)
    refused = [why for one in core.ranges for v in one.values if (why := refusal(core, one, v))]
    assert [why for why in refused if "does nothing here" not in why] == []


def refusal(core: microarchs.Microarch, one: Range, value: str) -> str:
    """Return why the simulator does not take a value, or nothing."""
    try:
        Pipeline({one.name: value}).predict([NOP], core, brief=True)
    except InputError as error:
        return str(error)
    return ""


def test_the_op_cache_of_zen_2_may_deliver_two_entries_a_cycle():
    ranges = {one.name: one for one in microarchs.load("zen2").ranges}
    assert ranges["uop_cache.reads"].ends == (1.0, 2.0)
    assert ranges["string.odd_side"].values == ("destination", "either")
    assert ranges["serial.stac_clac"].likely is None
