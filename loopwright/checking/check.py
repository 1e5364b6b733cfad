"""Hold variants to their contracts by running them in user space (arm64 under QEMU)."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any

import pandas as pd

from loopwright import files, harness, kernels, paths
from loopwright.code import assemble, decode
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.harness import jobs
from loopwright.kernels import Contract, Variant, contract_of
from loopwright.machine import hosts

_SYSTEM_CALLS = ("syscall", "sysenter", "int", "svc", "hvc", "smc")

COLUMNS = [
    "kernel",
    "variant",
    "passed",
    "cases",
    "failure",
    "entries",
    "entries_hit",
    "unhit",
    "over_report_bytes",
    "note",
    "seconds",
]

_NO_CODE = "not run: it does not assemble"


def run(variants: Iterable[Variant], progress: Callable[[str], None] | None = None) -> pd.DataFrame:
    """Check variants, in parallel; one row each, in the order given.

    cases counts calls; failure is the first one that broke the contract; entries and entries_hit
    count exception-table entries, unhit lists the instructions (offsets in the code) of those that
    no case reached; over_report_bytes is the most that a result said was left beyond what had to
    be. A variant that passed before with the same code, contract, harness and CPU is not run
    again: its note says "cached". One that does not assemble has not passed, and failure says why.
    InputError where none assembles, or a contract asks for what the harness does not know.
    """
    wanted = list(variants)
    rows: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        futures = {pool.submit(_check, variant): variant for variant in wanted}
        try:
            for future in as_completed(futures):
                variant = futures[future]
                rows[variant.id] = future.result()
                if progress:
                    progress(variant.id)
        finally:
            pool.shutdown(cancel_futures=True)
    if rows and all(row["note"] == _NO_CODE for row in rows.values()):
        raise InputError(rows[wanted[0].id]["failure"])
    return pd.DataFrame([rows[v.id] for v in wanted], columns=COLUMNS)


def check(spec: str) -> pd.DataFrame:
    """Hold KERNEL[/VARIANT] to its contract; one row a variant (see run)."""
    return run(kernels.select(spec)[1])


def passed(variants: Iterable[Variant]) -> list[Variant]:
    """Return the variants that honour their contracts."""
    wanted = list(variants)
    held = run(wanted)["passed"]
    return [variant for variant, holds in zip(wanted, held, strict=True) if holds]


def tried(contract: Contract) -> str:
    """Say which sizes, alignments and positions of faults the harness tries (cases.c)."""
    sides = {"dst": "the destination", "src": "the source"}
    where = " and of ".join(sides[side] for side in contract.faulting)
    both = {"dst", "src"} <= contract.inputs.keys()
    alignments = "16 by 16 alignments" if both else "64 alignments"
    if contract.align > 1:
        alignments = f"addresses that are multiples of {contract.align}"
    if contract.effect == "store_fields":
        most = "0 to 64 records" if contract.counted else "one record"
        what = f"{contract.bytes} bytes" if contract.bytes else most
        faults = f", with a fault at every byte of {where}" if contract.faulting else ""
        return f"{what}, at {alignments}{faults}"
    faults = f", with a fault at every byte of {where} (of larger sizes at some)"
    sizes = "sizes 0 to 512, 777, 1024, 2049, 4096 and around powers of two"
    return f"{sizes}, at {alignments}{faults if contract.faulting else ''}"


def verdict(code: Code, contract: Contract, job_id: str, *, gated: bool = False) -> dict[str, Any]:
    """Check code against a contract; what the harness says, from the cache where it passed."""
    forbidden = _system_call(code)
    if forbidden:
        return _unrun(code, forbidden)
    job = jobs.check("job", code, contract, gated=gated)
    what = [harness.version(code.isa), *sorted(hosts.features()), job]
    key = hashlib.sha256("\n".join(what).encode()).hexdigest()
    path = paths.build_dir() / "check" / f"{key}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return {**stored, "cached": True}
    record = next(harness.run(code.isa, jobs.check(job_id, code, contract, gated=gated)))
    if record["passed"]:
        with suppress(InputError):  # without the cache it is checked again
            files.written(path, json.dumps(record))
    return {**record, "cached": False}


def _system_call(code: Code) -> str:
    """Return where code calls the system, whether a case runs it or not, or nothing."""
    try:
        body = decode.decode(code.isa, code.text)
    except InputError:  # data among it: what runs is stopped by the harness
        return ""
    for ins in body:
        if ins.mnemonic in _SYSTEM_CALLS:
            return f"+{ins.address:#x} makes a system call: {' '.join(ins.text.split())}"
    return ""


def _unrun(code: Code, failure: str) -> dict[str, Any]:
    """Return the record of code that is not run at all."""
    return {
        "passed": 0,
        "cases": 0,
        "failure": failure,
        "over_report_bytes": 0,
        "hits": [0] * len(code.exceptions),
        "seconds": 0.0,
        "cached": False,
    }


def _check(variant: Variant) -> dict[str, Any]:
    contract = contract_of(variant)
    try:
        code, whole = assemble.user_code(variant), assemble.variant_code(variant)
    except InputError as error:
        return _unassembled(variant, str(error))
    record = verdict(code, contract, variant.id)
    if record["passed"] and whole.sha256 != code.sha256:
        gated = verdict(whole, contract, variant.id, gated=True)
        record |= {
            "passed": gated["passed"],
            "cases": record["cases"] + gated["cases"],
            "failure": gated["failure"],
            "seconds": record["seconds"] + gated["seconds"],
        }
    unhit = [e.insn for e, n in zip(code.exceptions, record["hits"], strict=True) if not n]
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "passed": bool(record["passed"]),
        "cases": record["cases"],
        "failure": record["failure"],
        "entries": len(code.exceptions),
        "entries_hit": len(code.exceptions) - len(unhit),
        "unhit": " ".join(f"+{insn:#x}" for insn in unhit),
        "over_report_bytes": record["over_report_bytes"],
        "note": "; ".join(_notes(variant, code, record)),
        "seconds": record["seconds"],
    }


def _unassembled(variant: Variant, why: str) -> dict[str, Any]:
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "passed": False,
        "cases": 0,
        "failure": why,
        "entries": 0,
        "entries_hit": 0,
        "unhit": "",
        "over_report_bytes": None,
        "note": _NO_CODE,
        "seconds": 0.0,
    }


def _notes(variant: Variant, code: Code, record: dict[str, Any]) -> list[str]:
    notes = []
    if record["cached"]:
        notes.append("cached")
    left_out = user_space_note(variant)
    if left_out:
        notes.append(left_out)
    emulator = harness.emulator(code.isa)
    if emulator:
        notes.append(f"run under {emulator}")
    missing = hosts.lacks(code.isa, variant.needs)
    if missing and "illegal instruction" in record["failure"]:
        notes.append(f"this host lacks {', '.join(missing)}")
    return notes


def user_space_note(variant: Variant) -> str:
    """Say how the code that user space runs differs from the variant's own, or nothing."""
    same = assemble.user_code(variant).sha256 == assemble.variant_code(variant).sha256
    return "" if same else "without stac/clac: user space cannot execute them"
