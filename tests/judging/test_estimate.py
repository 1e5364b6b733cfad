"""The value of a parameter from measured calls: one that was set is found again."""

import pandas as pd
import pytest

from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.judging import call_costs, unmeasured
from loopwright.measuring import readings
from loopwright.predicting.calls import CallQuestion, of_variants

SIZES = (128, 512, 2048)


def measured(spec, parameter, value, *, slower=1.0, in_kernel=False):
    """Return calls as a machine would have measured them that has this value of a parameter."""
    _, [variant] = kernels.select(spec)
    zen2 = microarchs.load("zen2")
    count = kernels.contract_of(variant).count_bytes
    sizes = (1, 4, 16) if count > 1 else SIZES
    places = [(size, *pair) for size in sizes for pair in unmeasured.alignments(parameter)]
    given = {"serial.stac_clac": "1", "string.stos_rate_unaligned": "20", parameter: value}
    question = CallQuestion(variant, zen2, places, given, in_user_space=not in_kernel)
    [costs] = of_variants([question])
    return [
        unmeasured.MeasuredCall(variant, in_kernel, *place, slower * cost.cycles)
        for place, cost in zip(places, costs, strict=True)
    ]


def row(spec, parameter, calls):
    found = unmeasured._row(spec, parameter, "zen2", "a machine", calls)
    return dict(zip(unmeasured.COLUMNS, found, strict=True))


def test_what_odd_addresses_cost_is_told_by_their_difference_to_words():
    """The aligned rate is off by what it is not known by, and the difference is not."""
    spec, name = "x86_64/clear_user/rep_stosq", "string.stos_odd_line_cycles"
    assert unmeasured.alignments(name) == ((8, 0), (1, 0))
    found = row(spec, name, measured(spec, name, "7"))
    assert found["value"] == pytest.approx(7, abs=0.6)
    assert found["set"] == f"--set {name}={found['value']:.4g}"
    assert found["outside"] == 0


def test_a_gate_that_costs_more_is_found_by_calls_in_the_kernel():
    spec, name = "x86_64/put_event/put_user_twice", "serial.stac_clac"
    found = row(spec, name, measured(spec, name, "40", in_kernel=True))
    assert found["value"] == pytest.approx(40, abs=1)
    with pytest.raises(InputError, match="no measured call depends on serial"):
        row(spec, name, measured(spec, name, "40"))


@pytest.mark.parametrize("value", ["1", "2"])
def test_of_a_few_values_it_is_the_one_that_fits_best(value):
    spec, name = "x86_64/clear_user/immediates", "uop_cache.reads"
    found = row(spec, name, measured(spec, name, value, slower=1.03))
    assert found["set"] == f"--set {name}={value}"
    assert 0 < found["error_percent"] < 6


def test_a_parameter_that_is_documented_is_not_estimated():
    spec = "x86_64/clear_user/immediates"
    with pytest.raises(InputError, match="it is not unmeasured"):
        row(spec, "uop_cache.width", measured(spec, "uop_cache.reads", "1"))
    with pytest.raises(InputError, match="unknown parameter"):
        row(spec, "uop_cache.widht", measured(spec, "uop_cache.reads", "1"))


def test_rows_of_another_cache_or_without_a_number_tell_nothing(monkeypatch):
    kernel, [variant] = kernels.select("x86_64/clear_user/plain")
    rows = pd.DataFrame(
        [["call", "cold", 10.0, "plain", 64, 0, 0], ["call", "hot", None, "plain", 64, 0, 0]],
        columns=["quantity", "cache", "cycles", "variant", "size_bytes", "dst_align", "src_align"],
    )
    assert kernel.id == "x86_64/clear_user"
    monkeypatch.setattr(unmeasured.hosts, "microarch", lambda: "zen2")
    assert not unmeasured._measured([variant], "uop_cache.reads", rows)


def test_a_module_and_a_kit_measure_all_points_of_a_verdict():
    for kernel in kernels.every():
        for routine in kernel.routines.values():
            wanted = set(call_costs.judged_points(routine.contract, None))
            here = {
                call_costs.CallPoint(size, dst, src)
                for size in readings.call_bytes(routine.contract, None)
                for dst, src, _ in readings.Sweep().allowed(routine.contract)
            }
            assert wanted <= here
