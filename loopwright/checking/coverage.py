"""Coverage of a routine by emulated calls, under each set of CPU features."""

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loopwright import files, paths, toolchain
from loopwright.checking import emulated
from loopwright.code import assemble, instructions
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine import watch
from loopwright.machine.watch import Access


def key(*parts: str) -> str:
    """Return the cache key of a question: a hash of everything that decides its answer."""
    return hashlib.sha256("\n".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


def passed(name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a record from the cache, or from run; it is stored where its "passed" is true.

    Its "cached" tells which.
    """
    path = paths.build_dir() / "check" / f"{name}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return {**stored, "cached": True}
    record = run()
    if record["passed"]:
        with suppress(InputError):  # an unwritable cache costs only another check
            files.written(path, json.dumps(record))
    return {**record, "cached": False}


PAN = "ARM64_HAS_PAN"
_MOST_IN_FULL = 4  # features up to which every set is checked
_MOST_SHOWN = 6  # places that a note names, at most


@dataclass(frozen=True)
class Form:
    """A routine's code under one set of CPU features, and its access to a user's memory."""

    name: str
    code: Code
    access: Access


@dataclass(frozen=True)
class Proof:
    """The result of the emulated calls of all forms.

    summary is "100 %", or "not proven" with the places that no call reached. hit are the addresses
    of the exception-table entries that were used.
    """

    failure: str
    cases: int
    summary: str
    hit: frozenset[int]
    seconds: float
    cached: bool


def forms(variant: Variant) -> list[Form]:
    """Return a variant's code, then its code under other sets of CPU features.

    Up to _MOST_IN_FULL features every set is taken; of more, each feature and each pair is toggled.
    """
    own = frozenset(variant.alternatives)
    names = assemble.features(variant)
    toggled = len(names) if len(names) <= _MOST_IN_FULL else 2
    sets = [own ^ set(c) for n in range(toggled + 1) for c in itertools.combinations(names, n)]
    codes = [assemble.variant_code(variant, with_=features) for features in sets]
    switches_pan = any(PAN in features ^ own and code.text != codes[0].text
                       for features, code in zip(sets, codes, strict=True))  # fmt: skip
    by_hash: dict[str, Form] = {}
    for features, code in zip(sets, codes, strict=True):
        name = f"with {', '.join(sorted(features))}" if features else "with no feature"
        by_hash.setdefault(code.sha256, Form(name, code, access(code, features, own, switches_pan)))
    return list(by_hash.values())


def access(code: Code, taken: frozenset[str], own: frozenset[str], switches_pan: bool) -> Access:
    """Return the kind of access that a form has to use for a user's memory.

    taken are its features, meant those of the variant itself: code that opens the access itself is
    checked for it. switches_pan is True if the code differs where PAN is off.
    """
    if code.isa == "arm64":
        return Access(unprivileged=not switches_pan or PAN in taken)
    return Access(gated=bool(taken & own & assemble.PRIVILEGED))


def of(checked_forms: Sequence[Form], contract: Contract) -> Proof:
    """Check forms of a routine against its contract, up to the first that fails."""
    records: list[dict[str, Any]] = []
    failure = ""
    for form in checked_forms:
        records.append(record := _record(form, contract))
        failure = record["failure"] or over_reported(contract, record["over_report"])
        if failure:
            failure += f" {form.name}" if form is not checked_forms[0] else ""
            break
    return Proof(
        failure=failure,
        cases=sum(r["cases"] for r in records),
        summary=_summary(checked_forms, records),
        hit=frozenset(at for r in records for at in r["hit"]),
        seconds=sum(r["seconds"] for r in records),
        cached=all(r["cached"] for r in records),
    )


def over_reported(contract: Contract, most: int) -> str:
    """Return the excess of a result over the contract's limit of over-reporting, or ""."""
    if contract.over_report is None or most <= contract.over_report:
        return ""
    return f"{most} bytes too many said to be left, {contract.over_report} are allowed"


def argued(result: str, variant: Variant) -> str:
    """Return a proof's result with the reason of kernel.toml where it is incomplete."""
    return f"{result} ({variant.unreached})" if result != "100 %" and variant.unreached else result


def _record(form: Form, contract: Contract) -> dict[str, Any]:
    code = form.code
    table = [(e.insn, e.fixup, e.type) for e in code.exceptions]
    name = key(_version(), code.isa, code.text.hex(), repr((code.entry, table)),
                    repr(contract), repr(form.access))  # fmt: skip

    def run() -> dict[str, Any]:
        began = time.monotonic()
        outcome = emulated.run(code, contract, form.access)
        return {
            "passed": not outcome.failure,
            "failure": outcome.failure,
            "cases": outcome.cases,
            "missing": outcome.missing,
            "steps": {str(at): step.text for at, step in outcome.body.steps.items()},
            "hit": sorted(outcome.hit),
            "over_report": outcome.over_report,
            "unknown": outcome.unknown,
            "seconds": time.monotonic() - began,
        }

    return passed(name, run)


def _summary(checked_forms: Sequence[Form], records: Sequence[dict[str, Any]]) -> str:
    """Return "100 %", or the places that no form reached.

    A place that is the same instruction in several forms is reached if one of them reached it.
    """
    unknown = next((str(r["unknown"]) for r in records if r["unknown"]), "")
    if unknown:
        return f"not proven: {unknown}"
    places = []
    for n, record in enumerate(records):
        for at, what in record["missing"]:
            text = record["steps"][str(at)]
            others = [
                r for m, r in enumerate(records) if m != n and r["steps"].get(str(at)) == text
            ]
            if all([at, what] in [list(x) for x in r["missing"]] for r in others):
                places.append(f"+{at:#x} {what}")
    hit = {at for r in records for at in r["hit"]}
    reached = {int(at) for r in records for at in r["steps"]}
    entries = dict.fromkeys(e.insn for e in checked_forms[0].code.exceptions)
    places += [f"+{at:#x} entry never used" for at in entries if at not in hit and at in reached]
    places += [f"+{at:#x} entry of what is never reached" for at in entries if at not in reached]
    places = list(dict.fromkeys(places))
    if not places:
        return "100 %"
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return f"not proven: {', '.join(places[:_MOST_SHOWN])}{more}"


@cache
def _version() -> str:
    """Return a hash of the code that chooses, runs and judges emulated calls."""
    own = sorted(Path(__file__).parent.glob("*.py"))
    also = (Path(watch.__file__), Path(instructions.__file__), *watch.SOURCES, *watch.HEADERS)
    gcc = toolchain.find(toolchain.host_isa()).gcc
    texts = [path.read_text() for path in (*own, *also)]
    libraries = (version(name) for name in ("unicorn", "iced-x86", "capstone", "numpy"))
    return key(*libraries, gcc, *texts)
