"""Change every variant's code in every way that the operators know, and list what passes.

python validation/mutants/search.py [--only PART] [--share N] [--first N]
    [-o validation/mutants/search.md]

--share N takes one mutant of N, --first N begins with the Nth instead of the first. A mutant that
passes has to be argued to do what the variant does, in equivalent.toml: else the exit code is 1.
"""

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import mutate_arm64
import mutate_x86

from loopwright import kernels
from loopwright.code import assemble, instructions
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant, contract_of
from loopwright.linux import built_code
from loopwright.machine import harness, hosts
from loopwright.toolchain import cpus

HERE = Path(__file__).resolve().parent
OPERATORS = {"x86_64": mutate_x86.mutants, "arm64": mutate_arm64.mutants}
# By which code is patched, and which user space can run both with and without.
FEATURES = {"x86_64": ("X86_FEATURE_ERMS", "X86_FEATURE_ADX"), "arm64": ("ARM64_HAS_PAN",)}
_GATE = re.compile(r"\b(?:stac|clac)\b")
_LFENCE = bytes.fromhex("0faee8")
REGISTERS, CONTRACT, PASSED = "registers", "contract", "passed"


@dataclass(frozen=True)
class Found:
    """Result of a mutant: the tier that found it, or PASSED, and the tier's message."""

    variant: str
    mutant: str
    by: str
    reason: str


def run(variant: Variant, share: int = 1, first: int = 0) -> list[Found]:
    """Hold one of so many mutants of a variant to its contract, as tiers check and object do."""
    contract = contract_of(variant)
    code, whole = assemble.user_code(variant), assemble.variant_code(variant)
    wanted = [(name, one, False) for name, one in OPERATORS[code.isa](code)]
    if whole.sha256 != code.sha256:
        # The rest of it is the same code, which runs without them: with them it runs less.
        gates = (pair for pair in OPERATORS[code.isa](whole) if _GATE.search(pair[0]))
        wanted += [(f"gate: {name}", one, True) for name, one in gates]
    wanted = wanted[first :: max(1, share)]
    out = [_by_registers(variant, contract, name, one) for name, one, _ in wanted]
    for form, taken in _forms(variant, code):
        made = {name: one for name, one, _ in wanted}
        if form.sha256 != code.sha256:
            made = dict(OPERATORS[code.isa](form))
        left = [n for n, found in enumerate(out) if found.by == PASSED]
        given = [(n, made[wanted[n][0]], wanted[n][2]) for n in left if wanted[n][0] in made]
        for n, failure in _failures(code.isa, contract, given):
            out[n] = Found(variant.id, wanted[n][0], CONTRACT, taken + failure)
    return out


def _forms(variant: Variant, own: Code) -> Iterator[tuple[Code, str]]:
    """Yield a variant's code, then what it is on CPUs with and without a feature."""
    yield own, ""
    seen = {own.sha256}
    for feature in FEATURES[own.isa]:
        has = feature in variant.alternatives
        rest = tuple(name for name in variant.alternatives if name != feature)
        form = assemble.user_code(
            replace(variant, alternatives=rest if has else (*rest, feature)),
        )
        if form.sha256 not in seen:
            seen.add(form.sha256)
            yield form, f"{'without' if has else 'with'} {feature}: "


def _failures(
    isa: str, contract: Contract, given: Sequence[tuple[int, Code, bool]]
) -> Iterator[tuple[int, str]]:
    """Hold codes to a contract, as many at a time as there are CPUs; yield those that fail."""

    def hold(part: Sequence[tuple[int, Code, bool]]) -> list[tuple[int, str]]:
        text = "".join(
            harness.check_job(str(n), one, contract, gated=gated) for n, one, gated in part
        )
        records = harness.run(isa, text) if part else ()
        return [(int(r["id"]), str(r["failure"])) for r in records if not r["passed"]]

    with ThreadPoolExecutor(cpus()) as pool:
        for found in pool.map(hold, (given[n :: cpus()] for n in range(cpus()))):
            yield from found


def _by_registers(variant: Variant, contract: Contract, name: str, code: Code) -> Found:
    """Look at the registers that a mutant writes, and its barriers, as tier object does."""
    body = code.text[code.entry : code.entry + code.size]
    given = {*contract.may_change, *contract.inputs.values(), *contract.returns.values()}
    link = {"x16", "x17", "x30"} if code.isa == "arm64" else {"rsp"}
    allowed = {built_code.wide_name(r) for r in {*given, *contract.zeroed}} | link
    reason = ""
    own = built_code.vector_registers(code.isa, _own(variant))
    if vectors := built_code.vector_registers(code.isa, body) - own:
        reason = f"it uses {', '.join(sorted(vectors))}"
    elif lost := built_code.written_registers(code.isa, body) - allowed:
        reason = f"it writes {', '.join(sorted(lost))}"
    elif code.isa == "x86_64" and built_code.direction_flag(body) > 0:
        reason = "it sets the direction flag"
    elif code.isa == "x86_64" and body.count(_LFENCE) < _own(variant).count(_LFENCE):
        reason = "it lacks an lfence, which an alternative of the variant has"
    elif code.isa == "arm64" and _unprivileged(body) < _unprivileged(_own(variant)):
        reason = "an access has the kernel's permissions"
    elif code.isa == "arm64" and built_code.indirect_branches(body):
        reason = "it branches through a register and does not return"
    return Found(variant.id, name, REGISTERS if reason else PASSED, reason)


def _unprivileged(body: bytes) -> int:
    return sum(i.mnemonic.startswith(("ldtr", "sttr")) for i in instructions.decode("arm64", body))


def _own(variant: Variant) -> bytes:
    code = assemble.user_code(variant)
    return code.text[code.entry : code.entry + code.size]


def arguments() -> dict[str, str]:
    """Return why mutants that pass are no errors, by "VARIANT: MUTANT"."""
    with (HERE / "equivalent.toml").open("rb") as file:
        entries = tomllib.load(file)["equivalent"]
    return {mutant: " ".join(e["why"].split()) for e in entries for mutant in e["mutants"]}


def reason(found: Found, known: Mapping[str, str]) -> str:
    """Return why a mutant that passed does what the variant does, or nothing."""
    return known.get(f"{found.variant}: {found.mutant}", "")


def table(found: Sequence[Found], share: int) -> str:
    """Return the counts by variant, and every mutant that passed with its argument."""
    known = arguments()
    every = "every mutant" if share <= 1 else f"one mutant of {share}"
    lines = ["# Checks that find each mutant", "", f"By `search.py`, {every} of the operators."]
    lines += [
        "`registers`: seen in the code; `contract`: seen when it ran; `equivalent`: it passed,"
    ]
    lines += [
        "and does what the variant does, as argued below; `open`: it passed, and is not argued."
    ]
    lines += ["", "| variant | mutants | registers | contract | equivalent | open |"]
    lines += ["|---|---|---|---|---|---|"]
    rows = {
        name: [f for f in found if f.variant == name]
        for name in dict.fromkeys(f.variant for f in found)
    }
    rows["all"] = list(found)
    for name, mine in rows.items():
        count = Counter(f.by for f in mine)
        argued = sum(bool(reason(f, known)) for f in mine if f.by == PASSED)
        cells = [len(mine), count[REGISTERS], count[CONTRACT], argued, count[PASSED] - argued]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    left = [f for f in found if f.by == PASSED]
    lines += ["", "## What passed", ""]
    for why in sorted({reason(f, known) for f in left}):
        mine = [f for f in left if reason(f, known) == why]
        lines += [f"{why or 'Not argued'} ({len(mine)}):", ""]
        lines += [f"* {f.variant}: `{f.mutant}`" for f in mine] + [""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the search and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the variants' names")
    parser.add_argument("--share", type=int, default=1, help="one mutant of so many")
    parser.add_argument("--first", type=int, default=0, help="the first of them, from 0")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    found: list[Found] = []
    for kernel in kernels.every():
        for variant in kernel.variants.values():
            if given.only not in variant.id:
                continue
            if missing := hosts.lacks(kernel.isa, variant.needs):
                print(f"{variant.id}: this host lacks {', '.join(missing)}", file=sys.stderr)
                continue
            try:
                mine = run(variant, given.share, given.first)
            except InputError as error:
                print(f"{variant.id}: {error}", file=sys.stderr)
                return 2
            passed = sum(f.by == PASSED for f in mine)
            print(f"{variant.id}: {passed} of {len(mine)} pass", file=sys.stderr, flush=True)
            found += mine
            if given.out:
                given.out.write_text(table(found, given.share))
    if not given.out:
        print(table(found, given.share), end="")
    known = arguments()
    return int(any(f.by == PASSED and not reason(f, known) for f in found))


if __name__ == "__main__":
    raise SystemExit(main())
