"""x87 forms: latencies from chains, all else as vector forms have it."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from loopwright.calibrating import x87
from loopwright.calibrating.ports import Core, Doubt, Uops
from loopwright.microbench.laboratory import Figure
from loopwright.microbench.latency import Latency
from loopwright.microbench.oracle import Timing

ADD, MULTIPLY = (frozenset({0, 1}),), (frozenset({2}),)
LATENCIES = {"fadd": 6, "fmul": 4, "fdiv": 21}


@dataclass(frozen=True)
class Learned:
    core: Core
    uops: dict[str, Uops]
    latencies: dict[str, list[Latency]]
    accesses: object
    stores: frozenset[str] = frozenset()
    doubts: dict[str, Doubt] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)


class Laboratory:
    """Times chains by what each instruction takes, and what loads and stores the value."""

    isa = "x86_64"

    def __init__(self, exchange):
        self.cycles = LATENCIES | {"fxch": exchange}

    def timings(self, trials):
        assert all(trial.x87 for trial in trials)
        return [Timing(20 + self._chain(trial.code)) for trial in trials]

    def _chain(self, code):
        name = max(self.cycles, key=lambda one: code.count(x87._CHAINED[one]))
        return code.count(x87._CHAINED[name]) * self.cycles[name]


def learned():
    vectors = {
        "addsd x,x": Uops(1, ADD),
        "mulsd x,x": Uops(1, MULTIPLY),
        "divsd x,x": Uops(1, None),
    }
    accesses = SimpleNamespace(loads={"load_vector_cycles": 5})
    return Learned(Core([], [*ADD, *MULTIPLY], 4), vectors, {}, accesses)


@pytest.mark.parametrize(("exchange", "ports"), [(0.3, 0), (1.0, 1)])
def test_latencies_are_those_of_chains_and_ports_those_of_vectors(exchange, ports):
    found = x87.choose_x87(Laboratory(exchange), learned())
    assert [one.cycles for one in found.latencies["fsubrp other,other"]] == [6]
    assert [one.cycles for one in found.latencies["fmul m64"]] == [4, 9]
    assert found.uops["fsubrp other,other"].ports == ADD
    assert found.doubts["fmulp other,other"].most.ports == MULTIPLY * 2
    assert len(found.uops["fxch other,other"].ports) == ports
    assert "fdiv other,other" not in found.uops  # what it is taken for has no figures
    assert found.figures["a chain of 32 fadd"].cycles == 20 + 32 * 6


def test_a_machine_that_times_no_chain_has_no_x87():
    class Silent:
        isa = "x86_64"

        def timings(self, trials):
            return [Timing(None, refused="no figures for fld1")] * len(trials)

    before = learned()
    assert x87.choose_x87(Silent(), before) is before
