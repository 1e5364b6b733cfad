"""Made-up evidence: predictions and measurements of copies to user space."""

from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.judging import call_costs, model_accuracy
from loopwright.judging.call_costs import CallSimulator
from loopwright.judging.study import Study

CORES = ("sandybridge", "zen2")
BYTES = {
    "movsq_aligned": 8, "movsq": 8, "movsb": 1, "overlapped": 8, "unrolled64": 64, "loop32": 32,
    "negative_index": 16,
}  # fmt: skip


RECORDS = {  # of (model, core): error in percent, and the number of loops, all held out
    ("llvm-mca", "zen2"): (6.0, 400),
    ("osaca", "zen2"): (8.0, 400),
    ("llvm-mca", "sandybridge"): (6.0, 400),
    ("osaca", "sandybridge"): (8.0, 400),
}


def held_to(records, what="loops"):
    """Return models/accuracy.csv as it would be with these records."""
    rows = [
        [core, model, what, model_accuracy.MEASUREMENT, count, error, 0.9, True, "made up"]
        for (model, core), (error, count) in records.items()
    ]
    return pd.DataFrame(rows, columns=model_accuracy.COLUMNS).astype({"rows": "Int64"})


def predictions(cycles, models=("llvm-mca", "osaca"), cores=CORES, least=0.0):
    """Return rows of predict; cycles an iteration by variant, or by (variant, core, model)."""
    rows = []
    for core in cores:
        for model in models:
            for variant, moved in BYTES.items():
                value = cycles.get((variant, core, model), cycles.get(variant))
                rows.append(
                    {"kernel": "x86_64/copy_user", "routine": "copy_user", "variant": variant,
                     "microarch": core, "model": model, "notion": "loop", "offset": 0,
                     "cycles": value, "bottleneck": "", "error": "" if value else "no answer",
                     "bytes_per_iteration": moved, "startup_cycles": 0.0, "least_cycles": least}
                )  # fmt: skip
    return pd.DataFrame(rows).astype({"cycles": "float64"})


# Columns that all rows of measured calls share.
CALL: dict[str, Any] = {
    "kernel": "x86_64/copy_user", "quantity": "call", "unit": "cycles/call", "skew_bytes": 2048,
    "cache": "hot", "offset": 0, "clock": "tsc-calibrated", "status": "ok", "reason": "",
    "machine": "a machine", "note": "",
}  # fmt: skip


def calls(cycles_by_variant, core, alignments=call_costs.ALIGNMENTS):
    """Return rows of measured calls; cycles by variant and size, or one number for all sizes."""
    rows = [
        {
            **CALL,
            "variant": variant,
            "size_bytes": size,
            "dst_align": dst,
            "src_align": src,
            "cycles": float(cycles),
            "uncertainty": 0.01 * cycles,
            "raw": [[[spread * cycles for spread in (0.99, 1.0, 1.01)] * 10]] * 3,
            "microarch": core,
        }
        for variant, sizes in cycles_by_variant.items()
        for size, cycles in (
            sizes if isinstance(sizes, dict) else dict.fromkeys(call_costs.SIZES, sizes)
        ).items()
        for dst, src in alignments
    ]
    return pd.DataFrame(rows)


def study(predicted, measured=None, host="", broken=()):
    kernel = kernels.load("x86_64/copy_user")
    checks = pd.DataFrame({"variant": list(kernel.variants)})
    checks = checks.assign(kernel=kernel.id, cases=1, failure="", over_report_bytes=0)
    checks["passed"] = ~checks["variant"].isin(broken)
    return Study(
        kernel,
        predicted,
        checks,
        pd.DataFrame() if measured is None else measured,
        host,
        "" if measured is not None else "not measured",
    )


class FakeSimulator:
    """A simulator with made-up costs of calls, by variant.

    A cost is a number of cycles for every call, or a function of size, dst and parameter, where
    parameter(name) is a parameter's value. missed has the cycles of mispredicted exits by variant.
    """

    def __init__(self, costs, missed=None):
        self.costs, self.missed, self.asked = costs, missed or {}, 0

    def __call__(self, questions):
        self.asked += len(questions)
        return [[self._one(q, point) for point in q.points] for q in questions]

    def _one(self, question, point):
        cost = self.costs.get(question.variant.name)
        if cost is None:
            return InputError("no answer")
        size, dst, _ = point
        cycles = (
            cost(size, dst, lambda n: float(question.overrides.get(n, 32)))
            if callable(cost)
            else cost
        )
        return Call(float(cycles), cycles + self.missed.get(question.variant.name, 0.0))


class Call(NamedTuple):
    """Made-up cycles of a call."""

    cycles: float
    mispredicted: float


def simulated(costs, *arguments, missed=None, given=None, cores=(), **options):
    """Return a study with a fake simulator's whole calls, and no answers of other models."""
    plain = study(*(arguments or (predictions({}),)), **options)
    fake_calls = CallSimulator(FakeSimulator(costs, missed), given or {})
    return replace(plain, calls=fake_calls, cores=tuple(microarchs.load(c) for c in cores))
