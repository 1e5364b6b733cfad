"""The AVX-512 rows of Redwood Cove: each loop that set them is predicted as it was measured."""

import random
from collections import defaultdict
from statistics import mean

import pytest
from checkout import SHARED

from loopwright import microarchs
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline

COUNT = bytes.fromhex("49ffcf")  # dec r15


@pytest.fixture
def avx512(validation):
    return validation("avx512")


def _loop(code):
    behind = len(code) + len(COUNT) + 6
    return code + COUNT + b"\x0f\x85" + (-behind).to_bytes(4, "little", signed=True)


def _figures(avx512, line):
    yield from ((f"ports {of}", cycles) for of, cycles in avx512._figures(line["ports"]).items())
    yield from ((f"latency {n}", cycles) for n, cycles in avx512._figures(line["latency"]).items())


def test_loops_beside_blocking_instructions_and_chains_take_what_was_measured(validation, avx512):
    if not (SHARED / "data" / "uops" / "MTL-P.jsonl.gz").is_file():
        pytest.skip(
            "uops/MTL-P.jsonl.gz is not in $LOOPWRIGHT_SHARED/data: see models/derive/README.md"
        )
    measure = validation("measure_avx512")
    core = microarchs.load("redwoodcove")
    lines = {(line["mnemonic"], line["operands"]): line for line in avx512._lines()}
    shapes = [s for s in measure.unknown("redwoodcove", core.features) if s.form in lines]
    assert len(shapes) > 1600
    kinds, blocks, measured = [], [], []
    for shape in random.Random(7).sample(shapes, 150):
        loops = measure.experiments(shape)
        for what, cycles in _figures(avx512, lines[shape.form]):
            code, copies, less = loops[what]
            kinds.append(what.split()[0])
            blocks.append(Block("x86_64", _loop(code), "loop", 0))
            measured.append((cycles + less) * copies)
    errors = defaultdict(list)
    for kind, answer, cycles in zip(
        kinds, Pipeline().predict(blocks, core, brief=True), measured, strict=True
    ):
        if answer.cycles is not None:
            errors[kind].append(abs(answer.cycles / cycles - 1))
    assert sum(map(len, errors.values())) > 0.9 * len(blocks)
    assert mean(errors["ports"]) < 0.01
    assert mean(errors["latency"]) < 0.03


def test_a_unit_that_each_copy_keeps_busy_is_one_of_a_divider(avx512):
    row = avx512._measured(
        {
            "mnemonic": "vdivpd",
            "operands": "z,z,z",
            "alone": "16.00",
            "ports": "0:84.00 5:84.00 05:84.00",
            "latency": "1:22.00 2:22.00",
        },
        {},
    )
    assert (row.ports, row.flags, row.latency) == ("2*0+05", "tp=16", "*:22")


@pytest.mark.parametrize(
    ("ports", "uops"),
    [
        ({"0": 0.0, "5": 1.0, "05": 1.0}, {"5": 1}),
        ({"0": 2.0, "5": 0.5, "05": 3.0}, {"0": 2, "05": 1}),
        ({"0": 1.0, "5": 0.0, "01": 2.0, "15": 0.0, "015": 2.0}, {"0": 1, "01": 1}),
    ],
)
def test_uops_are_those_that_sets_of_ports_confine(avx512, ports, uops):
    assert avx512._uops(ports) == uops
