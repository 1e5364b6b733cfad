"""The simulator's whole calls through its Python module: rows, errors, caveats."""

import struct
from pathlib import Path

import pytest

from loopwright.code import binding
from loopwright.paths import models_root

# mov [rdi],rax; add rdi,8; dec rcx; jnz to the start; ret
CODE = bytes.fromhex("4889074883c70848ffc975f4c3")
TURN = (0, 3, 7, 10)


def _core(name, **overrides):
    folder: Path = models_root() / name
    texts = [(folder / file).read_text() for file in ("core.toml", "instructions.csv")]
    return binding.Core(*texts, {k.replace("__", "."): str(v) for k, v in overrides.items()})


def _step(at, load=-1, store=-1, repeats=1):
    return struct.pack("<IIqq", at, repeats, load, store)


def _clear(turns, start=0x10000):
    steps = b"".join(
        _step(at, store=start + 8 * turn if at == 0 else -1) for turn in range(turns) for at in TURN
    )
    return CODE, 0, steps + _step(12, load=0x8000)


def test_rows_stand_in_order_with_all_keys():
    rows = _core("zen2").calls([_clear(n) for n in (2, 8, 64)])
    keys = {"cycles", "mispredicted", "alone", "instructions", "steady", "caveats"}
    assert all(set(row) == keys for row in rows)
    assert [row["instructions"] for row in rows] == [4 * n + 1 for n in (2, 8, 64)]
    cycles = [row["cycles"] for row in rows]
    assert cycles == sorted(cycles)
    assert cycles[2] - cycles[1] == pytest.approx(56, rel=0.02)
    assert all(row["alone"] > row["cycles"] for row in rows)


def test_stores_across_a_boundary_cost_what_the_core_says():
    aligned, odd = _core("zen2").calls([_clear(64), _clear(64, start=0x10001)])
    # Every second store of the latter crosses 16 bytes, which costs Zen 2 a cycle.
    assert odd["cycles"] == pytest.approx(aligned["cycles"] + 32, abs=2)


def test_long_calls_say_what_was_left_out():
    (row,) = _core("zen2").calls([_clear(20_000)])
    assert row["cycles"] == pytest.approx(20_000, rel=0.005)
    assert any("are not simulated" in caveat for caveat in row["caveats"])
    assert row["mispredicted"] > row["cycles"] + 10


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (b"", "without steps"),
        (b"\0" * 23, "23 bytes of steps"),
        (_step(0) + _step(7), "cannot go from mov"),
        (_step(400), "beyond the 13 bytes of code"),
        (_step(12) + _step(12) + _step(0), "cannot go from mov"),
    ],
)
def test_damaged_steps_are_an_error_and_spare_their_neighbours(steps, words):
    bad, good = _core("zen2").calls([(CODE, 0, steps), _clear(8)])
    assert set(bad) == {"error"}
    assert words in bad["error"]
    assert good["cycles"] > 0


def test_unknown_costs_are_errors_that_name_the_parameter():
    # rep stosq; ret, to a destination off by 8, of which nothing is known on Zen 2.
    code, steps = (
        bytes.fromhex("f348abc3"),
        _step(0, store=0x1008, repeats=8) + _step(3, load=0x8000),
    )
    (row,) = _core("zen2").calls([(code, 0, steps)])
    assert "string.stos_rate_unaligned" in row["error"]
    (row,) = _core("zen2", string__stos_rate_unaligned=16).calls([(code, 0, steps)])
    assert row["cycles"] > 35
