"""Coverage of a routine by calls, under each set of CPU features that it may meet."""

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
    """Return the name of a question: a hash of all that decides its answer."""
    return hashlib.sha256("\n".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


def passed(name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a record from the cache, or as run makes it; kept where its "passed" is true.

    Its "cached" says which.
    """
    path = paths.build_dir() / "check" / f"{name}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return {**stored, "cached": True}
    record = run()
    if record["passed"]:
        with suppress(InputError):  # without the cache it is checked again
            files.written(path, json.dumps(record))
    return {**record, "cached": False}


PAN = "ARM64_HAS_PAN"
_MOST_IN_FULL = 4  # features of which every set is taken
_MOST_SHOWN = 6  # places that a note names


@dataclass(frozen=True)
class Form:
    """A routine's code as one set of CPU features has it, by a name, and how it accesses a user's
    memory."""

    name: str
    code: Code
    access: Access


@dataclass(frozen=True)
class Proof:
    """Findings of the emulated calls of all forms.

    said is "100 %", or "not proven" with the places that no call reached. hit are the addresses of
    the exception-table entries that were used.
    """

    failure: str
    cases: int
    said: str
    hit: frozenset[int]
    seconds: float
    cached: bool


def forms(variant: Variant) -> list[Form]:
    """Return a variant's code, then as it is where features are there or are not.

    All sets of few features are taken; of many, each one and each pair is there or is not.
    """
    own = frozenset(variant.alternatives)
    names = assemble.features(variant)
    most = len(names) if len(names) <= _MOST_IN_FULL else 2
    sets = [own ^ set(c) for n in range(most + 1) for c in itertools.combinations(names, n)]
    codes = [assemble.variant_code(variant, with_=taken) for taken in sets]
    switches_pan = any(PAN in taken ^ own and code.text != codes[0].text
                       for taken, code in zip(sets, codes, strict=True))  # fmt: skip
    found: dict[str, Form] = {}
    for taken, code in zip(sets, codes, strict=True):
        name = f"with {', '.join(sorted(taken))}" if taken else "with no feature"
        found.setdefault(code.sha256, Form(name, code, access(code, taken, own, switches_pan)))
    return list(found.values())


def access(code: Code, taken: frozenset[str], meant: frozenset[str], switches_pan: bool) -> Access:
    """Return how a form has to access a user's memory.

    taken are its features, meant those of the variant itself: one that opens the access by itself
    does so wherever it may. switches_pan says that the code is other code where PAN is off.
    """
    if code.isa == "arm64":
        return Access(unprivileged=not switches_pan or PAN in taken)
    return Access(gated=bool(taken & meant & assemble.PRIVILEGED))


def of(given: Sequence[Form], contract: Contract) -> Proof:
    """Hold forms of a routine to its contract, up to the first that fails."""
    records: list[dict[str, Any]] = []
    failure = ""
    for form in given:
        records.append(record := _record(form, contract))
        failure = record["failure"] or over_reported(contract, record["over_report"])
        if failure:
            failure += f" {form.name}" if form is not given[0] else ""
            break
    return Proof(
        failure=failure,
        cases=sum(r["cases"] for r in records),
        said=_said(given, records),
        hit=frozenset(at for r in records for at in r["hit"]),
        seconds=sum(r["seconds"] for r in records),
        cached=all(r["cached"] for r in records),
    )


def over_reported(contract: Contract, most: int) -> str:
    """Return how far a result exceeded what a contract allows it to over-report, or nothing."""
    if contract.over_report is None or most <= contract.over_report:
        return ""
    return f"{most} bytes too many said to be left, {contract.over_report} are allowed"


def argued(said: str, variant: Variant) -> str:
    """Return what a proof says with the reason that kernel.toml gives, if it is not all."""
    return f"{said} ({variant.unreached})" if said != "100 %" and variant.unreached else said


def _record(form: Form, contract: Contract) -> dict[str, Any]:
    code = form.code
    table = [(e.insn, e.fixup, e.type) for e in code.exceptions]
    name = key(_version(), code.isa, code.text.hex(), repr((code.entry, table)),
                    repr(contract), repr(form.access))  # fmt: skip

    def run() -> dict[str, Any]:
        began = time.monotonic()
        found = emulated.run(code, contract, form.access)
        return {
            "passed": not found.failure,
            "failure": found.failure,
            "cases": found.cases,
            "missing": found.missing,
            "steps": {str(at): step.text for at, step in found.body.steps.items()},
            "hit": sorted(found.hit),
            "over_report": found.over_report,
            "unknown": found.unknown,
            "seconds": time.monotonic() - began,
        }

    return passed(name, run)


def _said(given: Sequence[Form], records: Sequence[dict[str, Any]]) -> str:
    """Return what is left: no form reached it in which it is the same instruction."""
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
    entries = dict.fromkeys(e.insn for e in given[0].code.exceptions)
    places += [f"+{at:#x} entry never used" for at in entries if at not in hit and at in reached]
    places += [f"+{at:#x} entry of what is never reached" for at in entries if at not in reached]
    places = list(dict.fromkeys(places))
    if not places:
        return "100 %"
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return f"not proven: {', '.join(places[:_MOST_SHOWN])}{more}"


@cache
def _version() -> str:
    """Return a hash of what chooses, runs and judges emulated calls."""
    own = sorted(Path(__file__).parent.glob("*.py"))
    also = (Path(watch.__file__), Path(instructions.__file__), *watch.SOURCES, *watch.HEADERS)
    gcc = toolchain.find(toolchain.host_isa()).gcc
    texts = [path.read_text() for path in (*own, *also)]
    libraries = (version(name) for name in ("unicorn", "iced-x86", "capstone", "numpy"))
    return key(*libraries, gcc, *texts)
