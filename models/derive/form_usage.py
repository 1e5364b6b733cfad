"""Usage of x86-64 instruction forms in common libraries, by linear disassembly of their code.

`python models/derive/form_usage.py LIBRARY... > models/form_usage.csv` writes how many of a million
instructions are of each form, by the names of instructions.csv. How often code runs does not count.
"""

import sys
from collections import Counter
from pathlib import Path

import iced_x86 as iced

from loopwright.code import binding, elf

_LEAST = 1.0  # of a million instructions: rarer forms are left out


def main(files: list[str]) -> None:
    """Write the table of some libraries."""
    seen: Counter[tuple[object, ...]] = Counter()
    sample: dict[tuple[object, ...], bytes] = {}
    for file in files:
        for section in elf.read(Path(file)):
            decoder = iced.Decoder(64, section.code)
            at = 0
            for ins in decoder:
                kinds = tuple(_kind(ins, n) for n in range(ins.op_count))
                key = (ins.code, *kinds)
                seen[key] += 1
                sample.setdefault(key, section.code[at : at + ins.len])
                at += ins.len
    names = binding.forms("x86_64", list(sample.values()))
    counts: Counter[str] = Counter()
    for key, found in zip(sample, names, strict=True):
        if found and len(found) == 1:
            counts[found[0]] += seen[key]
    total = seen.total()
    libraries = ", ".join(Path(file).name for file in files)
    print(f"# Source: {total} instructions of {libraries}; models/derive/form_usage.py")
    print("form,per_million")
    for name, count in counts.most_common():
        if (rate := 1e6 * count / total) >= _LEAST:
            print(f'"{name}",{rate:.1f}')


def _kind(ins: iced.Instruction, number: int) -> object:
    """Tell operands apart as far as the names of forms do."""
    kind = ins.op_kind(number)
    if kind == iced.OpKind.REGISTER:
        register = ins.op_register(number)
        high = register in (
            iced.Register.AH,
            iced.Register.CH,
            iced.Register.DH,
            iced.Register.BH,
        )
        return kind, iced.RegisterExt.size(register), high, iced.RegisterExt.base(register)
    if kind == iced.OpKind.MEMORY:
        parts = (ins.memory_base, ins.memory_index, ins.memory_displacement)
        ip = ins.memory_base == iced.Register.RIP
        return kind, ins.memory_size, tuple(map(bool, parts)), ip, ins.memory_index_scale > 1
    return kind, kind == iced.OpKind.IMMEDIATE8 and ins.immediate(number) in (0, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
