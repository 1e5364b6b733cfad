"""List what the results store holds."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pandas as pd

from loopwright import kernels
from loopwright.code.assemble import code_hash
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.machine.harness import Point
from loopwright.measuring.store import Record, Run, Store

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
    "withdrawn",
]
_UNREADABLE = "not to be read from the store"


def results(kernel: str | None = None) -> pd.DataFrame:
    """Return what the results store holds (of one KERNEL[/VARIANT]): a row a run and variant.

    Newest first. code is "today's" where the variant still has the code that was measured, else
    "other", or says that it cannot be assembled here, and says where the kernel module measured it.
    points are sizes and alignments, records one point in one process each, refused those without a
    number. protocol is that by which it was measured; another than today's is not used. withdrawn
    is empty, or says why the run is kept and used for nothing.
    """
    wanted = {v.id for v in kernels.select(kernel)[1]} if kernel else None
    with closing(Store.open()) as store:
        gone = store.withdrawn()
        rows = [
            {**row, "withdrawn": gone.get(run.uid, "")}
            for run in store.every_run()
            for row in _listed(store, run, wanted)
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def withdraw(run: str, reason: str = "") -> pd.DataFrame:
    """Have a run used for nothing from now on, and return its rows of results.

    run is the name that results gives it, or how that begins. It is kept and listed; importing its
    file again does not bring it back. InputError where no run, or several, are named so.
    """
    with closing(Store.open()) as store:
        found = [r for r in store.every_run() if run and r.uid.startswith(run)]
        if len(found) != 1:
            what = f"{len(found)} runs begin with" if found else "there is no run"
            raise InputError(f"{what} {run!r}; `loopwright results --csv` lists them as run")
        store.withdraw(found[0], reason or "withdrawn")
    rows = results()
    return rows[rows["run"] == found[0].uid]


def _listed(store: Store, run: Run, wanted: set[str] | None) -> Iterator[dict[str, object]]:
    try:
        facts, found = hosts.of_banner(run.banner)
        about = (hosts.machine(facts), found.core or "")
    except ValueError:
        about = (_UNREADABLE, "")
    groups: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in store.records(run):
        if wanted is None or f"{record.kernel}/{record.variant}" in wanted:
            key = record.kernel, record.variant, record.object, record.answer["clock"]
            groups[key].append(record)
    for (kernel, variant, code, clock), records in sorted(groups.items()):
        yield {
            "started": f"{datetime.fromtimestamp(run.started, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "machine": about[0],
            "microarch": about[1],
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
