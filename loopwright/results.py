"""List what the results store holds."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pandas as pd

from loopwright import hosts, kernels
from loopwright.errors import InputError
from loopwright.facts import Facts
from loopwright.jobs import Point
from loopwright.recognise import recognise
from loopwright.store import Record, Run, Store
from loopwright.stored import code_hash

COLUMNS = [
    "started",
    "machine",
    "microarch",
    "clock",
    "kernel",
    "variant",
    "code",
    "points",
    "records",
    "refused",
    "processes",
    "protocol",
    "origin",
    "fingerprint",
    "run",
]


def results(kernel: str | None = None) -> pd.DataFrame:
    """Return what the results store holds (of one KERNEL[/VARIANT]): a row a run and variant.

    Newest first. code is "today's" where the variant still has the code that was measured, else
    "other", or says that it cannot be assembled here, and says where the kernel module measured it.
    points are sizes and alignments, records one point in one process each, refused those without a
    number. protocol is that by which it was measured; another than today's is not used.
    """
    wanted = {v.id for v in kernels.select(kernel)[1]} if kernel else None
    with closing(Store.open()) as store:
        rows = [r for run in store.runs() for r in _listed(store, run, wanted)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _listed(store: Store, run: Run, wanted: set[str] | None) -> Iterator[dict[str, object]]:
    facts = Facts.of(run.banner)
    groups: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in store.records(run):
        if wanted is None or f"{record.kernel}/{record.variant}" in wanted:
            key = record.kernel, record.variant, record.object, record.answer["clock"]
            groups[key].append(record)
    for (kernel, variant, code, clock), records in sorted(groups.items()):
        yield {
            "started": f"{datetime.fromtimestamp(run.started, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "machine": hosts.machine(facts),
            "microarch": recognise(facts).core or "",
            "clock": clock,
            "kernel": kernel,
            "variant": variant,
            "code": _age(kernel, variant, code),
            "points": len({(r.answer["offset"], Point.of(r.answer)) for r in records}),
            "records": len(records),
            "refused": sum(bool(r.answer["refused"]) for r in records),
            "processes": len({r.process for r in records}),
            "protocol": run.protocol,
            "origin": run.origin,
            "fingerprint": run.machine,
            "run": run.uid,
        }


def _age(kernel: str, variant: str, code: str) -> str:
    if kernel not in kernels.ids() or variant not in kernels.load(kernel).variants:
        return "not here"
    where, _, plain = code.rpartition(":")
    try:
        now = code_hash(kernels.load(kernel).variants[variant])
    except InputError:
        return "cannot be assembled here"
    age = "today's" if now == plain else "other"
    return f"{age}, in the kernel" if where else age
