"""Evidence made up for tests: what models and machines might have said of copies to user space."""

import pandas as pd

from loopwright import kernels
from loopwright.judging import basis, standing
from loopwright.judging.study import Study

CORES = ("sandybridge", "zen2")
BYTES = {
    "movsq_aligned": 8,
    "movsq": 8,
    "movsb": 1,
    "overlapped": 8,
    "unrolled64": 64,
    "loop32": 32,
    "negative_index": 16,
}


RECORDS = {  # of models on cores: error in percent over how many loops, held out
    ("llvm-mca", "zen2"): (6.0, 400),
    ("osaca", "zen2"): (8.0, 400),
    ("llvm-mca", "sandybridge"): (6.0, 400),
    ("osaca", "sandybridge"): (8.0, 400),
}


def held_to(records):
    """Return models/accuracy.csv as it would be with these records."""
    rows = [
        [core, model, "loops", standing.MEASUREMENT, count, error, 0.9, True, "made up"]
        for (model, core), (error, count) in records.items()
    ]
    return pd.DataFrame(rows, columns=standing.COLUMNS).astype({"rows": "Int64"})


def predictions(cycles, models=("llvm-mca", "osaca"), cores=CORES, least=0.0):
    """cycles: {variant: cycles an iteration} or {(variant, core, model): cycles}."""
    rows = []
    for core in cores:
        for model in models:
            for variant, moved in BYTES.items():
                value = cycles.get((variant, core, model), cycles.get(variant))
                rows.append(
                    {
                        "kernel": "x86_64/copy_user",
                        "routine": "copy_user",
                        "variant": variant,
                        "microarch": core,
                        "model": model,
                        "notion": "loop",
                        "offset": 0,
                        "cycles": value,
                        "bottleneck": "",
                        "error": "" if value else "no answer",
                        "bytes_per_iteration": moved,
                        "startup_cycles": 0.0,
                        "least_cycles": least,
                    }
                )
    return pd.DataFrame(rows).astype({"cycles": "float64"})


def calls(cycles_by_variant, core, alignments=basis.ALIGNMENTS):
    """Measured calls: {variant: {size: cycles}}, or a number of cycles for every size."""
    rows = [
        {
            "kernel": "x86_64/copy_user",
            "variant": variant,
            "quantity": "call",
            "unit": "cycles/call",
            "size_bytes": size,
            "dst_align": dst,
            "src_align": src,
            "skew_bytes": 2048,
            "cache": "hot",
            "offset": 0,
            "cycles": float(cycles),
            "uncertainty": 0.01 * cycles,
            "raw": [[[spread * cycles for spread in (0.99, 1.0, 1.01)] * 10]] * 3,
            "clock": "tsc-calibrated",
            "status": "ok",
            "reason": "",
            "microarch": core,
            "machine": "a machine",
            "note": "",
        }
        for variant, sizes in cycles_by_variant.items()
        for size, cycles in (
            sizes if isinstance(sizes, dict) else dict.fromkeys(basis.SIZES, sizes)
        ).items()
        for dst, src in alignments
    ]
    return pd.DataFrame(rows)


def study(predicted, measured=None, host="", broken=()):
    kernel = kernels.load("x86_64/copy_user")
    checks = pd.DataFrame(
        [
            {
                "kernel": kernel.id,
                "variant": v,
                "passed": v not in broken,
                "cases": 1,
                "failure": "",
                "over_report_bytes": 0,
            }
            for v in kernel.variants
        ]
    )
    return Study(
        kernel,
        predicted,
        checks,
        pd.DataFrame() if measured is None else measured,
        host,
        "" if measured is not None else "not measured",
    )
