"""Rules for generate.py: errors that depend on where code, stack and data lie, without a branch.

Each yields (class, error, old text, new text) for the places of a source.
"""

import random
import re
from collections.abc import Iterator

Rule = tuple[str, str, str, str]


def _code(text: str) -> str:
    """Return instructions that are written one after the other, a line each."""
    return "".join(f"\t{line.strip()}\n" for line in text.split(";")).replace("\t77:", "77:")


def _where_zero(register: str, effect: str, other: str = "rax") -> str:
    """Return code with an effect by {0}: 1 where a register, which changes, is 0, else 0.

    No flag tells. other is a register that is used, and left as it was.
    """
    return (
        f"pushq %{other}; leaq -1(%{register}),%{other}; notq %{register}; "
        f"andq %{register},%{other}; shrq $63,%{other}; {effect.format(other)}; popq %{other}"
    )


def x86(text: str, draw: random.Random) -> Iterator[Rule]:
    """Yield errors for each label, store and entry of an x86-64 source."""
    lines = text.splitlines(keepends=True)
    copies, labels = "(%rsi)" in text, re.findall(r"(?m)^(\.L\w+):$", text)
    for label in labels:
        line = f"{label}:\n"
        rules = [*_at_label(draw), *(_of_copies(draw) if copies else ())]
        rules += _of_features(draw) if "ALTERNATIVE" in text else ()
        for group, what, code in rules:
            yield group, f"{what}, at {label}", line, line + _code(code)
    for line in lines:
        if text.count(line) != 1:
            continue
        if copies and re.match(r"(?:\w+:)?\tmovq %rax,\S*\(%rdi", line):
            yield "no fence", line.strip(), line, line.replace("movq", "movnti", 1)
            for what, code in _of_contents(draw):
                yield "by contents", f"{what}, {line.strip()}", line, _code(code) + line
        if entry := re.match(r"\t_ASM_EXTABLE_UA\(\s*(\S+),\s*(\S+)\)\n", line):
            other = draw.choice([label for label in labels if label != entry[2]])
            two = f"{line}\t_ASM_EXTABLE_UA({entry[1]}, {other})\n"
            yield "two entries", f"{line.strip()}, {other}", line, two


def _at_label(draw: random.Random) -> Iterator[tuple[str, str, str]]:
    half = "pushq %rdx; {} %rdx; shrq $63,%rdx; subq %rdx,%rcx; popq %rdx"
    for what, load in (("of the stack", "movq %rsp,"), ("of the code", "leaq 0(%rip),")):
        yield "upper half", what, half.format(load)
    bit, low, high = draw.randrange(20, 35), draw.randrange(1, 40), draw.randrange(40, 1000)
    yield "rare size", f"bit {bit}", f"btrq ${bit},%rcx"
    yield ("rare size", f"{low} + {high}",
           f"pushq %rdx; movq %rcx,%rdx; subq ${low},%rdx; subq ${high},%rdx; "
           f"{_where_zero('rdx', 'subq %{0},%rcx')}; popq %rdx")  # fmt: skip
    low_bit, high_bit = draw.randrange(6), draw.randrange(6, 12)
    yield ("rare address", f"bit {low_bit} and bit {high_bit} of the size",
           f"pushq %rdx; pushq %rax; movl %edi,%edx; movl %ecx,%eax; shrl ${low_bit},%edx; "
           f"shrl ${high_bit},%eax; andl %eax,%edx; popq %rax; andl $1,%edx; subq %rdx,%rcx; "
           "popq %rdx")  # fmt: skip
    yield ("rare address", "in the first page",
           "pushq %rdx; movq %rdi,%rdx; shrq $12,%rdx; "
           f"{_where_zero('rdx', 'shlq $12,%{0}; subq %{0},%rcx')}; popq %rdx")  # fmt: skip
    yield ("control flow", "push and ret",
           "pushq %rdx; leaq 77f(%rip),%rdx; xchgq %rdx,(%rsp); ret; 77:")  # fmt: skip
    yield "control flow", "a call that is left", "call 77f; 77: addq $8,%rsp"
    yield ("control flow", "a return address is read",
           "call 77f; 77: pushq %rdx; movq 8(%rsp),%rdx; popq %rdx; addq $8,%rsp")  # fmt: skip
    size, pushes = 8 * draw.randrange(200, 900), draw.randrange(130, 250)
    yield "stack", f"{size} bytes", f"subq ${size},%rsp; pushq %rbx; popq %rbx; addq ${size},%rsp"
    yield ("stack", f"{pushes} pushes",
           f".rept {pushes}; pushq %rbx; .endr; .rept {pushes}; popq %rbx; .endr")  # fmt: skip
    yield ("stack", "pointer elsewhere",
           "pushq %rdx; movq %rsp,%rdx; movq %rdi,%rsp; movq %rdx,%rsp; popq %rdx")  # fmt: skip
    yield ("state", "interrupt flag",
           "pushq %rdx; pushfq; popq %rdx; shrl $9,%edx; andl $1,%edx; xorl $1,%edx; "
           "subq %rdx,%rcx; popq %rdx")  # fmt: skip
    yield "state", "a system table", "subq $16,%rsp; sidt (%rsp); addq $16,%rsp"
    yield (
        "state",
        "a vector, given back",
        ("subq $16,%rsp; movups %xmm1,(%rsp); movq %rcx,%xmm1; movups (%rsp),%xmm1; addq $16,%rsp"),
    )
    yield "state", "x87", "fnop; fninit"
    yield "cache", "a line flushed", "clflush (%rdi)"
    yield "cache", "a line written back", "clwb -1(%rdi,%rcx)"


def _of_copies(draw: random.Random) -> Iterator[tuple[str, str, str]]:
    by = draw.randrange(64)
    yield ("upper half", "of the source",
           "pushq %rdx; movq %rsi,%rdx; shrq $63,%rdx; subq %rdx,%rcx; popq %rdx")  # fmt: skip
    yield ("distance", f"{by} mod 64",
           f"pushq %rdx; movl %edi,%edx; subl %esi,%edx; andl $63,%edx; xorl ${by},%edx; "
           f"{_where_zero('rdx', 'subq %{0},%rcx')}; popq %rdx")  # fmt: skip


def _of_features(draw: random.Random) -> Iterator[tuple[str, str, str]]:
    alternative = 'ALTERNATIVE "", "{}", X86_FEATURE_{}'
    feature = draw.choice(("ERMS", "FSRM", "SMAP", "ADX"))
    yield "alternative", feature, alternative.format("decq %rcx", feature)
    yield ("alternative", "SMAP with FSRM",
           f"pushq %rdx; xorl %edx,%edx; {alternative.format('movl $1,%edx', 'FSRM')}; "
           f"{alternative.format('subq %rdx,%rcx', 'SMAP')}; popq %rdx")  # fmt: skip


def _of_contents(draw: random.Random) -> Iterator[tuple[str, str]]:
    value, mask = (draw.randrange(1 << 40, 1 << 62) for _ in range(2))
    for what, load in (
        (f"{value:#x}", f"movabsq ${value:#x},%rdx"),
        (f"{value ^ mask:#x} in two parts",
         f"movabsq ${value:#x},%rdx; movabsq ${mask:#x},%r9; xorq %r9,%rdx"),
        ("its own address", "movq %rdi,%rdx"),
        ("the count", "movq %rcx,%rdx"),
    ):  # fmt: skip
        yield (
            what,
            (
                f"pushq %r9; pushq %rdx; {load}; xorq %rax,%rdx; "
                f"{_where_zero('rdx', 'addq %{0},%rax', 'r8')}; popq %rdx; popq %r9"
            ),
        )


def arm64(text: str, draw: random.Random) -> Iterator[Rule]:
    """Yield errors at the entry, the return and the entries of an arm64 source."""
    start = "\tadd\tend, x0, x2\n"
    bit, low, high = draw.randrange(20, 35), draw.randrange(1, 40), draw.randrange(40, 1000)
    user = "x0" if "copy_to_user" in text else "x1"
    zero = "sub x4, x3, #1; bic x4, x4, x3; lsr x4, x4, #63"
    frame = 16 * draw.randrange(80, 250)
    for group, what, code in (
        ("upper half", "of the stack", "mov x3, sp; lsr x3, x3, #63; sub x2, x2, x3"),
        ("upper half", "of the code", "adr x3, .; lsr x3, x3, #63; sub x2, x2, x3"),
        ("tag", "of the destination", "ubfx x3, x0, #57, #1; sub x2, x2, x3"),
        ("tag", "of the source", "ubfx x3, x1, #62, #1; sub x2, x2, x3"),
        ("rare size", f"bit {bit}", f"and x2, x2, #{~(1 << bit) & (1 << 64) - 1:#x}"),
        ("rare size", f"{low} + {high}",
         f"sub x3, x2, #{low}; sub x3, x3, #{high}; {zero}; sub x2, x2, x4"),
        ("distance", f"{low} mod 64",
         f"sub x3, x0, x1; and x3, x3, #63; sub x3, x3, #{low}; {zero}; sub x2, x2, x4"),
        ("rare address", "bits of both and of the size",
         f"lsr x3, x0, #{low % 6}; and x3, x3, x1, lsr #{high % 6}; "
         f"and x3, x3, x2, lsr #{low % 5 + 4}; and x3, x3, #1; sub x2, x2, x3"),
        ("rare address", "in the first page",
         f"lsr x3, {user}, #12; {zero}; lsl x4, x4, #12; sub x2, x2, x4"),
        ("control flow", "ret to itself", "mov x4, x30; adr x30, 77f; ret; 77: mov x30, x4"),
        ("control flow", "bl and no return", "mov x4, x30; bl 77f; 77: mov x30, x4"),
        ("stack", f"{frame} bytes", f"sub sp, sp, #{frame}; str x3, [sp]; add sp, sp, #{frame}"),
        ("stack", "pointer elsewhere", "mov x3, sp; mov sp, x1; mov sp, x3"),
        ("state", "a vector, given back",
         "sub sp, sp, #16; str q1, [sp]; fmov d1, x2; ldr q1, [sp]; add sp, sp, #16"),
        ("state", "a vector read", "umov w3, v3.h[0]"),
        ("state", "exclusive", "ldxrb w3, [x1]; clrex"),
        ("cache", "a line cleaned", "dc civac, x1"),
        ("cache", "a line of zeros", "dc zva, x0"),
        ("no entry", "a word", "ldr x3, [x1]"),
    ):  # fmt: skip
        yield group, what, start, _code(code) + start
    fixup = "9998:\tsub\tx0, end, dst\n"
    missing_byte = "9998: sub x0, end, dstin; sub x0, x0, #1"
    rounded = (
        "9998: sub x3, dst, dstin; mov x4, x3; and x3, x3, #-512; cmp x3, #0; "
        "csinc x3, x3, x3, ne; cmp x4, #0; csel x3, x3, xzr, ne; add x3, x3, dstin; sub x0, end, x3"
    )
    yield "over-report", "all but one byte", fixup, _code(missing_byte).lstrip()
    yield "over-report", "to a multiple of 512", fixup, _code(rounded).lstrip()
    for line in re.findall(r"(?m)^USER\(9998f,.*\n", text):
        code = line.partition(",")[2].strip().rstrip(")")
        entries = [f"_asm_extable_uaccess 9999b, {fixup}" for fixup in ("9998f", "9997b")]
        twice = _code("; ".join([f"9999: {code}", *entries])).lstrip()
        yield "two entries", line.strip(), line, twice


def c(text: str, draw: random.Random) -> Iterator[Rule]:
    """Yield errors in the C of checksums and of stores of fields."""
    value, mask = (draw.randrange(1 << 40, 1 << 62) for _ in range(2))
    start = "\tu64 temp64 = (__force u64)sum;\n"
    if text.count(start) == 1:
        for group, what, code in _of_sums(draw, value, mask):
            yield group, what, start, start + code
    for line in re.findall(r"(?m)^\s*unsafe_put_user\(.*\n", text):
        stored, field = re.findall(r"unsafe_put_user\((.*), &?(.*), efault\);", line)[0]
        if text.count(line) != 1 or stored == "0":
            continue
        for group, what, new in (
            ("by contents", f"{value >> 32:#x}", f"{stored} - !({stored} ^ {value >> 32:#x})"),
            ("by contents", "its own address",
             f"{stored} + ((u64)({stored}) == (unsigned long)&{field})"),
            ("upper half", "of the stack",
             f"{stored} + ((unsigned long)__builtin_frame_address(0) >> 63)"),
        ):  # fmt: skip
            yield group, f"{stored}, {what}", line, line.replace(f"({stored},", f"({new},")


def _of_sums(draw: random.Random, value: int, mask: int) -> Iterator[tuple[str, str, str]]:
    low, high = draw.randrange(1, 40), draw.randrange(40, 1000)
    apart = '; asm("" : "+r"(x))'  # what the compiler would make one constant of
    where = "\tu64 x = {}; temp64 += ((x - 1) & ~x) >> 63;\n"
    word = f"(len >= 8 ? *(const u64 *)buff : {draw.randrange(1 << 40)}ul)"
    yield "upper half", "of the source", "\ttemp64 += (unsigned long)buff >> 63;\n"
    yield ("upper half", "of the stack",
           "\ttemp64 += (unsigned long)__builtin_frame_address(0) >> 63;\n")  # fmt: skip
    yield "rare size", f"{low} + {high}", where.format(f"(u64)len - {low}{apart}; x -= {high}")
    yield "rare sum", f"{mask >> 30:#x}", where.format(f"temp64 ^ {mask >> 30:#x}")
    yield "by contents", f"{value:#x}", where.format(f"{word} ^ {value:#x}ul")
    two = f"{word} ^ {value:#x}ul{apart}; x ^= {mask:#x}ul"
    yield "by contents", f"{value ^ mask:#x} in two parts", where.format(two)
    yield "by contents", "its own address", where.format(f"{word} ^ (unsigned long)buff")
    bits = f"(unsigned long)buff >> {low % 6} & len >> {high % 9} & 1"
    yield "rare address", "bits of address and size", f"\ttemp64 += {bits};\n"
    yield (
        "state",
        "a vector",
        ('\tasm volatile("movq %1,%%xmm3; movq %%xmm3,%0" : "=r"(temp64) : "r"(temp64));\n'),
    )
    yield "stack", "4096 bytes", "\tvolatile char room[4096];\n\troom[0] = 1;\n"
