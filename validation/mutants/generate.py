"""Make variants with an error by rules that search.py has not, and list the outcome of each.

python validation/mutants/generate.py [--rules labels|surroundings] [--count N] [--seed N]
    [-o validation/mutants/generated.md]

By the rules `labels` text is put in at the labels of assembly sources; an exception-table entry or
a load is exchanged. Those of `surroundings` are in surroundings.py.
A mutant is found where `check` fails, and left open where it passes with all of its code reached.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import surroundings
from variants import WrongVariant, changed

from loopwright import kernels
from loopwright.checking import check, emulated
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import Variant, contract_of

FAILED, NOT_PROVEN, OPEN, BUILT = "fails", "not proven", "open", "does not assemble"
ARGUED = "does no harm"
# Mutants that do the same as their variant: a pattern of variant, class and error, and the reason.
HARMLESS = (
    (r"copy_user/.* rare (size|address): .*, at \.L(\w*word\w*|\w*tail)$",
     "fewer than 64 bytes are left there: it is of more"),
    (r"copy_user/.* alternative: ERMS, at \.L(large_\w+|unrolled\w*|four_\w+)$",
     "with ERMS no branch leads there"),
    (r"copy_user/negative_index distance: .*, at \.L\w+_of_pair$",
     "after a fault a byte is copied once more"),
)  # fmt: skip


def x86(text: str, draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield class, error, old and new text for each place of an x86-64 source."""
    lines = text.splitlines(keepends=True)
    for n, line in enumerate(lines):
        if text.count(line) != 1:
            continue
        if "_ASM_EXTABLE_UA" in line:
            yield "type of an entry", f"line {n + 1}", line, line.replace("_UA", "", 1)
        if "\tmovq %rax," in line and line.rstrip().endswith(")"):
            value = draw.choice((0, 1, 0x7F, 0x4141, 0x80000000 - 1, 0x20746547))
            skip = f"\tcmpl ${value:#x},%eax\n\tje 77f\n{line}77:\n"
            yield "stores by contents", f"line {n + 1}, {value:#x}", line, skip
        if not line.startswith(".L") or not line.rstrip().endswith(":"):
            continue
        count, residue = draw.randrange(1, 5000), draw.randrange(64)
        below = 8 * draw.randrange(1, 16)
        place = f"at {line.strip()}"
        for group, what, new in (
            ("rare size", f"{count}", f"\tcmpq ${count},%rcx\n\tjne 77f\n\tdecq %rcx\n77:\n"),
            ("rare address", f"dst % 64 is {residue}",
             f"\tpushq %rcx\n\tmovl %edi,%ecx\n\tandl $63,%ecx\n\tcmpl ${residue},%ecx\n"
             "\tpopq %rcx\n\tjne 77f\n\tincq %rcx\n77:\n"),
            ("red zone", f"{below} below",
             f"\tmovq %rbx,-{below}(%rsp)\n\tmovq -{below}(%rsp),%rbx\n"),
            ("partial register", "16 bits of the count", "\tmovzwl %cx,%ecx\n"),
            ("partial register", "a part of the count", "\tmovb $0,%cl\n"),
            ("stored back", "a byte at the destination", "\torb $0,(%rdi)\n"),
            ("no branch", f"{count} by a borrow",
             f"\tpushq %rdx\n\tmovq %rcx,%rdx\n\txorq ${count},%rdx\n\tsubq $1,%rdx\n"
             "\tpopq %rdx\n\tsbbq $0,%rcx\n"),
            ("off by one", "the count", "\tleaq 1(%rcx),%rcx\n"),
            ("state", "flags by way of the stack", "\tpushfq\n\torl $0x200000,(%rsp)\n\tpopfq\n"),
            ("callee-saved", "half of r12", "\tmovl %r12d,%r12d\n"),
        ):  # fmt: skip
            yield group, f"{what}, {place}", line, line + new


def arm64(text: str, draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield class, error, old and new text for each place of an arm64 source."""
    for line in dict.fromkeys(text.splitlines(keepends=True)):
        if text.count(line) != 1:
            continue
        for name in ("ldtrb", "ldtrh", "ldtr", "sttrb", "sttrh", "sttr"):
            if f"{name}," in line or f"{name} " in line:
                plain = line.replace(name, name.replace("tr", "r"), 1)
                yield "permissions", line.strip(), line, plain
                break
        if "sub\tx0, end" in line:
            yield "fixup", line.strip(), line, line.replace("sub\tx0, end", "add\tx0, end", 1)
        if line == "\tmov\tx0, #0\n":
            below = 16 * draw.randrange(1, 8)
            for group, new in (
                ("red zone", f"\tstr\tx3, [sp, #-{below}]\n"),
                ("callee-saved", "\tmov\tw19, w19\n"),
                ("partial register", "\tmov\tw0, w2\n"),
                ("state", "\tmsr\tfpsr, xzr\n"),
                ("stored back", "\tldrb\tw3, [x6]\n\tstrb\tw3, [x6]\n"),
                ("control flow", "\tbr\tx30\n"),
            ):
                replacement = new + line if group != "partial register" else line + new
                yield group, new.split("\n")[0].strip(), line, replacement


RULES = {
    "labels": {"x86_64.S": x86, "arm64.S": arm64},
    "surroundings": {
        "x86_64.S": surroundings.x86, "x86_64.c": surroundings.c, "arm64.S": surroundings.arm64,
    },
}  # fmt: skip


def mutants(rules: str, count: int, seed: int) -> list[WrongVariant]:
    """Return count mutants, spread evenly over ISAs and classes."""
    draw = random.Random(seed)
    groups: dict[tuple[str, str], list[WrongVariant]] = {}
    for kernel in kernels.every():
        for variant in kernel.variants.values():
            rule = RULES[rules].get(kernel.isa + variant.source.suffix)
            for group, kind, old, new in rule(variant.source.read_text(), draw) if rule else ():
                mutant = WrongVariant(variant.id, group, kind, variant.source.name, ((old, new),))
                groups.setdefault((kernel.isa, group), []).append(mutant)
    out: list[WrongVariant] = []
    for of_class in groups.values():
        draw.shuffle(of_class)
    while len(out) < count and any(groups.values()):
        out += [of_class.pop() for of_class in groups.values() if of_class]
    return out[:count]


def outcome_of(variant: Variant) -> tuple[str, str]:
    """Return the outcome of checking a variant, and its reason; the emulated calls go first."""
    contract = contract_of(variant)
    try:
        configurations = emulated.configurations(variant)
    except InputError as error:
        return BUILT, str(error)
    proof = emulated.prove(configurations, contract)
    if proof.failure:
        return FAILED, proof.failure
    record = check.harness_record(assemble.user_code(variant), contract, variant.id)
    if not record["passed"]:
        return FAILED, str(record["failure"])
    return (OPEN, "") if proof.summary == "100 %" else (NOT_PROVEN, proof.summary)


def main() -> int:
    """Make mutants, hold each to its contract and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=110)
    parser.add_argument("--rules", choices=RULES, default="labels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    rows, counts = [], Counter[str]()
    for mutant in mutants(options.rules, options.count, options.seed):
        with changed(mutant) as variant:
            outcome, reason = outcome_of(variant)
        if outcome == OPEN:
            name = f"{mutant.variant} {mutant.group}: {mutant.kind}"
            why = next((why for pattern, why in HARMLESS if re.search(pattern, name)), "")
            outcome, reason = (ARGUED, why) if why else (OPEN, "")
        counts[outcome] += 1
        cells = (mutant.variant, mutant.group, mutant.kind, outcome, reason)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        print(rows[-1], file=sys.stderr, flush=True)
    total = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    how = f"By rules `{options.rules}`, {options.count} from seed {options.seed}: {total}."
    lines = ["# Generated mutants", "", how, "",
             "| variant | class | error | | reason |", "|---|---|---|---|---|", *rows]  # fmt: skip
    print(total)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return int(counts[OPEN] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
