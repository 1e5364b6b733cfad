"""Change every variant's code by every operator, and list the mutants that pass.

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
# Features by which code is patched, with and without which user space can run it.
FEATURES = {"x86_64": ("X86_FEATURE_ERMS", "X86_FEATURE_ADX"), "arm64": ("ARM64_HAS_PAN",)}
_GATE = re.compile(r"\b(?:stac|clac)\b")
_LFENCE = bytes.fromhex("0faee8")
REGISTERS, CONTRACT, PASSED = "registers", "contract", "passed"


@dataclass(frozen=True)
class Outcome:
    """Result of a mutant: the tier that found it, or PASSED, and the tier's message."""

    variant: str
    mutant: str
    by: str
    reason: str


def run(variant: Variant, share: int = 1, first: int = 0) -> list[Outcome]:
    """Check every share-th mutant of a variant from first on, as tiers check and object do."""
    contract = contract_of(variant)
    code, whole = assemble.user_code(variant), assemble.variant_code(variant)
    wanted = [(name, mutant, False) for name, mutant in OPERATORS[code.isa](code)]
    if whole.sha256 != code.sha256:
        # The rest of it is the same code, which runs without them: with them it runs less.
        gates = (pair for pair in OPERATORS[code.isa](whole) if _GATE.search(pair[0]))
        wanted += [(f"gate: {name}", mutant, True) for name, mutant in gates]
    wanted = wanted[first :: max(1, share)]
    outcomes = [_by_registers(variant, contract, name, mutant) for name, mutant, _ in wanted]
    for form, prefix in _forms(variant, code):
        mutants = {name: mutant for name, mutant, _ in wanted}
        if form.sha256 != code.sha256:
            mutants = dict(OPERATORS[code.isa](form))
        passed = [n for n, outcome in enumerate(outcomes) if outcome.by == PASSED]
        remaining = [
            (n, mutants[wanted[n][0]], wanted[n][2]) for n in passed if wanted[n][0] in mutants
        ]
        for n, failure in _failures(code.isa, contract, remaining):
            outcomes[n] = Outcome(variant.id, wanted[n][0], CONTRACT, prefix + failure)
    return outcomes


def _forms(variant: Variant, own: Code) -> Iterator[tuple[Code, str]]:
    """Yield a variant's code, then its other forms, on CPUs with or without a feature."""
    yield own, ""
    seen = {own.sha256}
    for feature in FEATURES[own.isa]:
        has = feature in variant.alternatives
        others = tuple(name for name in variant.alternatives if name != feature)
        form = assemble.user_code(
            replace(variant, alternatives=others if has else (*others, feature)),
        )
        if form.sha256 not in seen:
            seen.add(form.sha256)
            yield form, f"{'without' if has else 'with'} {feature}: "


def _failures(
    isa: str, contract: Contract, codes: Sequence[tuple[int, Code, bool]]
) -> Iterator[tuple[int, str]]:
    """Check codes against a contract on all CPUs; yield number and failure of those that fail.

    Each code has its number and True if it is gated.
    """

    def hold(part: Sequence[tuple[int, Code, bool]]) -> list[tuple[int, str]]:
        text = "".join(
            harness.check_job(str(n), code, contract, gated=gated) for n, code, gated in part
        )
        records = harness.run(isa, text) if part else ()
        return [(int(r["id"]), str(r["failure"])) for r in records if not r["passed"]]

    with ThreadPoolExecutor(cpus()) as pool:
        for failures in pool.map(hold, (codes[n :: cpus()] for n in range(cpus()))):
            yield from failures


def _by_registers(variant: Variant, contract: Contract, name: str, code: Code) -> Outcome:
    """Return the outcome of a look at a mutant's registers and barriers, as in tier object."""
    body = code.text[code.entry : code.entry + code.size]
    named = {*contract.may_change, *contract.inputs.values(), *contract.returns.values()}
    link = {"x16", "x17", "x30"} if code.isa == "arm64" else {"rsp"}
    allowed = {built_code.wide_name(r) for r in {*named, *contract.zeroed}} | link
    reason = ""
    original = _own(variant)
    registers = built_code.vector_registers(code.isa, original)
    if vectors := built_code.vector_registers(code.isa, body) - registers:
        reason = f"it uses {', '.join(sorted(vectors))}"
    elif lost := built_code.written_registers(code.isa, body) - allowed:
        reason = f"it writes {', '.join(sorted(lost))}"
    elif code.isa == "x86_64" and built_code.direction_flag(body) > 0:
        reason = "it sets the direction flag"
    elif code.isa == "x86_64" and body.count(_LFENCE) < original.count(_LFENCE):
        reason = "it lacks an lfence, which an alternative of the variant has"
    elif code.isa == "arm64" and _unprivileged(body) < _unprivileged(original):
        reason = "an access has the kernel's permissions"
    elif code.isa == "arm64" and built_code.indirect_branches(body):
        reason = "it branches through a register and does not return"
    return Outcome(variant.id, name, REGISTERS if reason else PASSED, reason)


def _unprivileged(body: bytes) -> int:
    return sum(i.mnemonic.startswith(("ldtr", "sttr")) for i in instructions.decode("arm64", body))


def _own(variant: Variant) -> bytes:
    code = assemble.user_code(variant)
    return code.text[code.entry : code.entry + code.size]


def arguments() -> dict[str, str]:
    """Return the arguments that passing mutants are no errors, by "VARIANT: MUTANT"."""
    with (HERE / "equivalent.toml").open("rb") as file:
        entries = tomllib.load(file)["equivalent"]
    return {mutant: " ".join(e["why"].split()) for e in entries for mutant in e["mutants"]}


def reason(outcome: Outcome, known_arguments: Mapping[str, str]) -> str:
    """Return the argument that a mutant which passed does the same as the variant, or ""."""
    return known_arguments.get(f"{outcome.variant}: {outcome.mutant}", "")


def table(outcomes: Sequence[Outcome], share: int) -> str:
    """Return the counts by variant, and every mutant that passed with its argument."""
    known_arguments = arguments()
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
        name: [f for f in outcomes if f.variant == name]
        for name in dict.fromkeys(f.variant for f in outcomes)
    }
    rows["all"] = list(outcomes)
    for name, group in rows.items():
        count = Counter(f.by for f in group)
        argued = sum(bool(reason(f, known_arguments)) for f in group if f.by == PASSED)
        cells = [len(group), count[REGISTERS], count[CONTRACT], argued, count[PASSED] - argued]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    passed = [f for f in outcomes if f.by == PASSED]
    lines += ["", "## What passed", ""]
    for why in sorted({reason(f, known_arguments) for f in passed}):
        group = [f for f in passed if reason(f, known_arguments) == why]
        lines += [f"{why or 'Not argued'} ({len(group)}):", ""]
        lines += [f"* {f.variant}: `{f.mutant}`" for f in group] + [""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the search and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the variants' names")
    parser.add_argument("--share", type=int, default=1, help="one mutant of so many")
    parser.add_argument("--first", type=int, default=0, help="the first of them, from 0")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    for kernel in kernels.every():
        for variant in kernel.variants.values():
            if options.only not in variant.id:
                continue
            if missing := hosts.lacks(kernel.isa, variant.needs):
                print(f"{variant.id}: this host lacks {', '.join(missing)}", file=sys.stderr)
                continue
            try:
                of_variant = run(variant, options.share, options.first)
            except InputError as error:
                print(f"{variant.id}: {error}", file=sys.stderr)
                return 2
            passed = sum(f.by == PASSED for f in of_variant)
            print(f"{variant.id}: {passed} of {len(of_variant)} pass", file=sys.stderr, flush=True)
            outcomes += of_variant
            if options.out:
                options.out.write_text(table(outcomes, options.share))
    if not options.out:
        print(table(outcomes, options.share), end="")
    known_arguments = arguments()
    return int(any(f.by == PASSED and not reason(f, known_arguments) for f in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
