"""Contract checks of variants: run in user space (arm64 under QEMU), and emulated."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pandas as pd

from loopwright import kernels, toolchain
from loopwright.checking import body, emulated
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant, contract_of
from loopwright.machine import harness, hosts

COLUMNS = [
    "kernel", "variant", "passed", "cases", "failure", "entries", "entries_hit", "unhit",
    "coverage", "over_report_bytes", "note", "seconds",
]  # fmt: skip

_NO_CODE = "not run: it does not assemble"


def run(variants: Iterable[Variant], progress: Callable[[str], None] | None = None) -> pd.DataFrame:
    """Check variants, in parallel; one row each, in the order given.

    cases counts calls, of this machine and emulated; failure is the first one that broke the
    contract; entries and entries_hit count exception-table entries, unhit lists the instructions
    (offsets in the code) of those that no case used; coverage is "100 %" where calls reached every
    instruction, both ways of every branch and condition and every entry, under each set of CPU
    features that the source names, else "not proven" with the places that are left;
    over_report_bytes is the largest excess of a result over the bytes that were in fact left. A
    variant that passed before with the same code, exception table, contract, cases and CPU is not
    run again: its note says "cached". One that does not assemble has not passed, and failure has
    the reason. InputError if none assembles, or a contract asks for something unknown to the
    harness.
    """
    ordered = list(variants)
    rows: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        futures = {pool.submit(_check, variant): variant for variant in ordered}
        try:
            for future in as_completed(futures):
                variant = futures[future]
                rows[variant.id] = future.result()
                if progress:
                    progress(variant.id)
        finally:
            pool.shutdown(cancel_futures=True)
    if rows and all(row["note"] == _NO_CODE for row in rows.values()):
        raise InputError(rows[ordered[0].id]["failure"])
    return pd.DataFrame([rows[v.id] for v in ordered], columns=COLUMNS)


def check(spec: str) -> pd.DataFrame:
    """Check KERNEL[/VARIANT] against its contract; one row a variant (see run)."""
    return run(kernels.select(spec)[1])


def holds(rows: pd.DataFrame, variants: Iterable[Variant]) -> bool:
    """True if all variants passed, each proven or with a reason in kernel.toml why not."""
    return all(
        row.passed and (row.coverage == "100 %" or bool(variant.unreached))
        for row, variant in zip(rows.itertuples(), variants, strict=True)
    )


def described_cases(contract: Contract) -> str:
    """Return, in words, the sizes, alignments and fault positions that the harness tries."""
    sides = {"dst": "the destination", "src": "the source"}
    faulting = " and of ".join(sides[side] for side in contract.faulting)
    has_both = {"dst", "src"} <= contract.inputs.keys()
    alignments = "16 by 16 alignments" if has_both else "64 alignments"
    if contract.align > 1:
        alignments = f"addresses that are multiples of {contract.align}"
    if contract.effect == "store_fields":
        counts = "0 to 64 records" if contract.counted else "one record"
        size = f"{contract.bytes} bytes" if contract.bytes else counts
        faults = f", with a fault at every byte of {faulting}" if contract.faulting else ""
        return f"{size}, at {alignments}{faults}"
    faults = f", with a fault at every byte of {faulting} (of larger sizes at some)"
    sizes = "sizes 0 to 512, 777, 1024, 2049, 4096 and around powers of two"
    return f"{sizes}, at {alignments}{faults if contract.faulting else ''}"


def harness_record(
    code: Code, contract: Contract, job_id: str, *, gated: bool = False
) -> dict[str, Any]:
    """Return the harness's record of checking code against a contract, cached where it passed.

    gated means that accesses of a user's memory have to lie between stac and clac.
    """
    reachable = body.of(code)
    if reachable.refused:
        zeros = dict.fromkeys(("passed", "cases", "over_report_bytes", "seconds", "cached"), 0)
        return {**zeros, "failure": reachable.refused, "hits": [0] * len(code.exceptions)}

    def job(name: str) -> str:
        constants = emulated.harness_constants(reachable)
        return harness.check_job(name, code, contract, values=constants, gated=gated)

    # All that decides the record: code, contract, cases, harness, CPU, tools.
    tools = repr(toolchain.find(code.isa))
    key = emulated.cache_key(
        harness.version(code.isa), tools, *sorted(hosts.features()), job("job")
    )
    record = emulated.kept_if_passed(key, lambda: next(harness.run(code.isa, job(job_id))))
    over_report = int(record["over_report_bytes"])
    if record["passed"] and (failure := emulated.over_reported(contract, over_report)):
        return {**record, "passed": 0, "failure": failure}
    return record


def _check(variant: Variant) -> dict[str, Any]:
    contract = contract_of(variant)
    try:
        user_code, full_code = assemble.user_code(variant), assemble.variant_code(variant)
        configurations = emulated.configurations(variant)
    except InputError as error:
        return {
            **dict.fromkeys(("cases", "entries", "entries_hit", "seconds"), 0),
            **dict.fromkeys(("unhit", "coverage"), ""),
            "kernel": variant.kernel,
            "variant": variant.name,
            "passed": False,
            "failure": str(error),
            "over_report_bytes": None,
            "note": _NO_CODE,
        }
    record = harness_record(user_code, contract, variant.id)
    records = [record]
    if record["passed"] and full_code.sha256 != user_code.sha256:
        records.append(harness_record(full_code, contract, variant.id, gated=True))
    proof = emulated.prove(configurations, contract) if all(r["passed"] for r in records) else None
    hit_accesses = {e.insn for e, n in zip(user_code.exceptions, record["hits"], strict=True) if n}
    failure = next((str(r["failure"]) for r in records if not r["passed"]), "")
    if proof:
        hit_accesses |= proof.hit
        failure = proof.failure
    unhit = [e.insn for e in user_code.exceptions if e.insn not in hit_accesses]
    cached_parts = [bool(r["cached"]) for r in records] + ([proof.cached] if proof else [])
    cached = "cached" if all(cached_parts) else "partly cached" if any(cached_parts) else ""
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "passed": not failure,
        "cases": sum(r["cases"] for r in records) + (proof.cases if proof else 0),
        "failure": failure,
        "entries": len(user_code.exceptions),
        "entries_hit": len(user_code.exceptions) - len(unhit),
        "unhit": " ".join(f"+{insn:#x}" for insn in unhit),
        "coverage": emulated.argued(proof.summary, variant) if proof else "",
        "over_report_bytes": record["over_report_bytes"],
        "note": "; ".join(_notes(variant, user_code, failure, cached)),
        "seconds": sum(r["seconds"] for r in records) + (proof.seconds if proof else 0.0),
    }


def _notes(variant: Variant, code: Code, failure: str, cached: str) -> list[str]:
    notes = [cached, user_space_note(variant)]
    if emulator := harness.emulator(code.isa):
        notes.append(f"run under {emulator}")
    missing = hosts.lacks(code.isa, variant.needs)
    if missing and "illegal instruction" in failure:
        notes.append(f"this host lacks {', '.join(missing)}")
    return [note for note in notes if note]


def user_space_note(variant: Variant) -> str:
    """Return the difference of the code that user space runs from the variant's own, or ""."""
    same = assemble.user_code(variant).sha256 == assemble.variant_code(variant).sha256
    return "" if same else "without stac/clac: user space cannot execute them"
