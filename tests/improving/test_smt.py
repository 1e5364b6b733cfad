"""Proofs by an SMT solver: what they show, what they do not, and that instructions do as a core."""

import random
import re
from dataclasses import replace
from itertools import pairwise

import iced_x86 as iced
import pytest
from quick import some
from test_bare import ARM64, ENTERED, LOOPS, MUTANTS, arm64, bare, broken, new_code

from loopwright.code import snippet
from loopwright.improving import equality, smt
from loopwright.improving.formulas import BITS, NAMES, X86Formulas
from loopwright.improving.formulas_arm64 import (
    ARM64_NAMES,
    FLAG_BITS,
    Arm64Formulas,
    arm64_instructions,
)
from loopwright.improving.listing import code
from loopwright.improving.transformations import LOOP_TRANSFORMATIONS, Reorder
from loopwright.improving.unrolling import CopyIterations, EntriesApart, UnrollByDistance
from loopwright.machine.emulator import core_of, register_of

z3 = pytest.importorskip("z3")


@pytest.mark.parametrize("name", some([*LOOPS, *ENTERED], {"copy", "find", "while"}))
def test_transformations_are_proven(name):
    loop = bare({**LOOPS, **ENTERED}[name])
    base = next(EntriesApart().apply(loop.listing), loop.listing)
    used = (CopyIterations(4), Reorder(), *([UnrollByDistance(2)] if name == "copy" else []))
    made = [base, *(one for each in used for one in each.apply(base))]
    assert len(made) > 1
    for one in made:
        assert smt.prove(loop, *new_code(loop, one)) == "", one.steps


@pytest.mark.parametrize("name", some(MUTANTS, {"signs do not count", "updates go one step"}))
def test_a_dropped_condition_is_not_proven(name, monkeypatch):
    loop = bare(MUTANTS[name])
    broken(name, monkeypatch)
    made = list(UnrollByDistance(2).apply(loop.listing))
    assert made
    for one in made:
        assert re.search("may|leaves", smt.prove(loop, *new_code(loop, one)))


MIXED = """
.L1:	mov (%rdi),%rcx
	imul $3,%rcx,%rcx
	xor %ecx,%r8d
	ror $5,%r8d
	movdqu (%rsi),%xmm1
	paddd %xmm0,%xmm1
	movdqu %xmm1,(%rsi)
	adc $0,%r8
	add $8,%rdi
	add $16,%rsi
	cmp %rdx,%rdi
	jb .L1
	mov %r8,%rax
"""
CHANGES = {
    "imulq $3, %rcx": "imulq $5, %rcx",
    "xorl %ecx, %r8d": "orl %ecx, %r8d",
    "rorl $5, %r8d": "roll $5, %r8d",
    "paddd %xmm0, %xmm1": "paddq %xmm0, %xmm1",
    "movdqu %xmm1, (%rsi)": "movdqu %xmm1, 16(%rsi)",
    "movdqu (%rsi), %xmm1": "movdqu (%rdi), %xmm1",
    "adcq $0, %r8": "sbbq $0, %r8",
    "addq $8, %rdi": "subq $8, %rdi",
    "jb .Lloop": "jbe .Lloop",
}


@pytest.mark.slow
def test_every_changed_instruction_is_not_proven():
    loop = bare(MIXED)
    assert smt.prove(loop, *new_code(loop, loop.listing)) == ""
    assert {one.text for one in loop.listing.lines} >= CHANGES.keys()
    for old, new in CHANGES.items():
        lines = tuple(code(new) if x.text == old else x for x in loop.listing.lines)
        unproven = smt.prove(loop, *new_code(loop, replace(loop.listing, lines=lines)))
        assert re.search("may|leaves", unproven), new


@pytest.mark.parametrize("name", some(["mixed", *LOOPS], {"mixed"}))
def test_neighbours_that_depend_on_one_another_are_not_proven_in_the_other_order(name):
    loop = bare({"mixed": MIXED, **LOOPS}[name])
    lines, effects = loop.listing.lines, loop.listing.effects
    at = [n for n, one in enumerate(lines[:-2]) if one.kind == "code"]
    wrong = []
    for one, two in pairwise(at[:-1]):
        if effects[one].writes & effects[two].reads & {"rcx", "rdi", "rsi", "r8"}:
            swapped = (*lines[:one], lines[two], lines[one], *lines[two + 1 :])
            text, entries = new_code(loop, replace(loop.listing, lines=swapped))
            wrong.append((smt.prove(loop, text, entries), equality.compare(loop, text).failure))
    for unproven, failure in wrong:
        assert unproven or not failure


WIDE = """
.L1:	vmovdqu (%rdi),%ymm1
	vpaddd %ymm0,%ymm1,%ymm2
	vpxor %xmm3,%xmm2,%xmm4
	vmovdqu %ymm2,(%rsi)
	vmovdqa %xmm4,32(%rsi)
	vmovq %xmm4,%rcx
	xor %rcx,%r8
	add $64,%rsi
	add $32,%rdi
	cmp %rdx,%rdi
	jb .L1
	mov %r8,%rax
"""
WIDE_CHANGES = {
    "vpaddd %ymm0, %ymm1, %ymm2": "vpaddd %ymm0, %ymm1, %ymm5",
    "vmovdqu (%rdi), %ymm1": "vmovdqu (%rdi), %xmm1",
    "vmovdqu %ymm2, (%rsi)": "vmovdqu %xmm2, (%rsi)",
    "vpxor %xmm3, %xmm2, %xmm4": "vpxor %xmm2, %xmm3, %xmm4",
}


def test_loops_of_32_byte_vectors_are_proven_without_runs():
    loop = bare(WIDE)
    [two] = UnrollByDistance(2).apply(loop.listing)
    assert smt.prove(loop, *new_code(loop, two)) == ""
    assert {one.text for one in loop.listing.lines} >= WIDE_CHANGES.keys()
    for old, new in WIDE_CHANGES.items():
        lines = tuple(code(new) if x.text == old else x for x in loop.listing.lines)
        changed = smt.prove(loop, *new_code(loop, replace(loop.listing, lines=lines)))
        assert re.search("may|leaves", changed), new
    runs = equality.compare(loop, *new_code(loop, two))
    assert not runs.failure
    assert "it has no AVX" in runs.missing
    proof = replace(runs, unproven="")
    assert proof.holds
    assert "proven for all inputs by SMT; not run: an instruction that" in str(proof)


def upper(text):
    """Return 128 bits above the lower half of zmm1 behind an instruction, as formulas have it."""
    [(_, piece)] = snippet.loops_of(f".L1:\n\t{text}\n\tjne .L1\n")
    [ins] = iced.Decoder(64, piece.instructions[0].code, ip=64)
    formulas = X86Formulas(z3, {64: ins})
    begun = formulas.fresh("")
    [(_, state)] = formulas.runs(begun, 64, frozenset(), lambda _: True)
    mine, old = (z3.Extract(255, 128, one.values["zmm1"]) for one in (state, begun))
    return "same" if z3.eq(z3.simplify(mine), z3.simplify(old)) else str(z3.simplify(mine))


def test_what_is_above_a_vector_is_kept_or_cleared_as_its_encoding_says():
    assert upper("movdqu (%rdi),%xmm1") == upper("movq %rcx,%xmm1") == "same"
    assert upper("vmovdqu (%rdi),%xmm1") == upper("vmovq %rcx,%xmm1") == "0"
    assert upper("vmovdqu (%rdi),%ymm1") not in ("0", "same")


def test_instructions_of_32_registers_or_masks_are_not_known():
    loop = bare(WIDE.replace("vmovdqa %xmm4,32(%rsi)", "vmovdqu64 %ymm2,32(%rsi)"))
    assert "vmovdqu64" in smt.prove(loop, loop.code, {})


def test_instructions_that_are_not_known_are_named():
    loop = bare(LOOPS["copy"].replace("mov %cl,(%rsi)", "rdrand %rcx"))
    assert "rdrand" in smt.prove(loop, loop.code, {})
    stores = bare(LOOPS["copy"].replace("mov %cl,(%rsi)", "incb (%rsi)"))
    assert smt.prove(stores, stores.code, {}) == ""


KNOWN = """
	mov %rcx,%rdx; mov %cl,%dh; mov %ah,%bl; mov $-5,%ecx; movzbl %ch,%edx; movsbq %dl,%rsi
	movslq %ecx,%rdx; movswl %dx,%ecx; lea -3(%rcx,%rdx,4),%rsi; lea 7(%rdx),%esi
	add %rcx,%rdx; add %cl,%ch; add $127,%edx; sub %rdx,%rcx; sub %dx,%cx; adc %rcx,%rdx
	adc $-1,%cl; sbb %ecx,%edx; sbb %rcx,%rcx; cmp %rcx,%rdx; cmp $-1,%dl; test %ecx,%edx
	and %rcx,%rdx; or $12,%dx; xor %ecx,%edx; xor %edx,%edx; not %rcx; neg %ecx; neg %dl
	inc %rcx; inc %dl; dec %edx; dec %cx; shl $3,%rcx; shl $1,%edx; shr $9,%dx; sar $63,%rcx
	sar $1,%dl; shl $32,%edx; imul %rcx,%rdx; imul $-7,%ecx,%edx
	sete %cl; setb %dh; setg %al; setle %bl; seto %cl; setp %dl; sets %sil; seta %al; setbe %r8b
	cmovl %rcx,%rdx; cmovae %ecx,%edx; cmovne %dx,%cx; cmovge %ecx,%ecx
	movq %rcx,%xmm1; movd %ecx,%xmm2; movq %xmm1,%rdx; movd %xmm2,%edx; movq %xmm1,%xmm3
	movdqa %xmm1,%xmm4; movups %xmm2,%xmm5
	andn %rcx,%rdx,%rsi; shlx %rcx,%rdx,%rsi; shrx %ecx,%edx,%esi; sarx %rcx,%rdx,%rdx
	rorx $5,%rcx,%rdx; rorx $40,%ecx,%edx; rol $7,%rcx; ror $3,%edx; shl %cl,%rdx; sar %cl,%edx
	shr %cl,%rcx
"""


@pytest.mark.parametrize("name", ARM64)
def test_loops_of_aarch64_are_proven_and_a_changed_instruction_is_not(name):
    loop = arm64(name)
    made = [(t.name, one) for t in LOOP_TRANSFORMATIONS for one in t.apply(loop.listing)]
    assert {2, 4} <= {one.iterations for _, one in made}
    for step, one in made:
        if not step.startswith("align"):
            assert smt.prove(loop, *new_code(loop, one)) == "", step
    _, old, new = ARM64[name]
    lines = tuple(code(new) if x.text == old else x for x in loop.listing.lines)
    changed = smt.prove(loop, *new_code(loop, replace(loop.listing, lines=lines)))
    assert re.search("may|leaves", changed)


@pytest.mark.parametrize("name", ARM64)
def test_neighbours_of_aarch64_in_the_wrong_order_are_not_proven(name):
    loop = arm64(name)
    lines, effects = loop.listing.lines, loop.listing.effects
    at = [n for n, one in enumerate(lines[:-1]) if one.kind == "code"]
    tried = 0
    for one, two in pairwise(at[:-1]):
        if effects[one].writes & effects[two].reads:
            swapped = (
                *lines[:one],
                lines[two],
                *lines[one + 1 : two],
                lines[one],
                *lines[two + 1 :],
            )
            assert smt.prove(loop, *new_code(loop, replace(loop.listing, lines=swapped)))
            tried += 1
    assert tried or name in ("find", "words")


KNOWN_ARM64 = """
    add x1,x2,x3; add w1,w2,w3,lsl #5; add x1,x2,w3,sxtw #2; add x1,x2,w3,uxtb; adds x1,x2,#7
    adds w1,w2,w3,asr #3; sub x1,x2,x3,lsr #60; subs w1,w2,w3; subs x1,x2,#4095; cmp x1,x2
    cmp w1,#3; cmp x1,w2,sxth; cmn x1,x2; cmn w1,#9; neg x1,x2; negs w1,w2; sub x1,x2,#1,lsl #12
    and x1,x2,x3; and w1,w2,#0xff00; ands x1,x2,x3,ror #9; tst w1,#0x80; tst x1,x2
    bic x1,x2,x3; bics w1,w2,w3,lsl #4; orr x1,x2,#0x7f; orn w1,w2,w3; eor x1,x2,x3,lsl #1
    eon x1,x2,x3; mvn x1,x2; mvn w1,w2,lsl #3; mov x1,x2; mov w1,w2; mov x1,#-1; mov w1,#0x70000
    movk x1,#0x1234,lsl #32; movk w1,#5; lsl x1,x2,#9; lsl w1,w2,w3; lsr x1,x2,x3; lsr w1,w2,#31
    asr x1,x2,#63; asr w1,w2,w3; ror x1,x2,x3; ror w1,w2,#7; uxtb w1,w2; uxth w1,w2; sxtb x1,w2
    sxth w1,w2; sxtw x1,w2; mul x1,x2,x3; mul w1,w2,w3; madd x1,x2,x3,x4; msub w1,w2,w3,w4
    csel x1,x2,x3,eq; csel w1,w2,w3,hi; csinc x1,x2,x3,lt; csinv w1,w2,w3,ge; csneg x1,x2,x3,mi
    cset w1,ls; cset x1,vs; csetm w1,gt; cinc x1,x2,lo; cinv w1,w2,ne; cneg x1,x2,le; nop
    csel x1,x2,x3,pl; csel x1,x2,x3,hs; csel x1,x2,x3,vc; add x1,sp,#16
"""


# Of each ISA: instructions, the branch back, its formulas and decoder, registers, and its flags.
CORES = {
    "x86_64": (
        KNOWN, "jne", X86Formulas, lambda code, at: iced.Decoder(64, code, ip=at),
        [n for n in NAMES if n not in BITS], "eflags",
        dict(zip(BITS, (0, 2, 6, 7, 11), strict=True)),
    ),
    "arm64": (
        KNOWN_ARM64, "cbnz x1,", Arm64Formulas, arm64_instructions,
        [n for n in ARM64_NAMES if n[0] == "x" or n == "sp"], "nzcv",
        {bit: 31 - n for n, bit in enumerate(FLAG_BITS)},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("isa", CORES)
def test_known_instructions_do_what_a_core_does(isa):
    texts, back, formulas_of, decoded, names, flags, places = CORES[isa]
    text = "\n".join(f"\t{x.strip()}" for line in texts.splitlines() for x in line.split(";"))
    [(_, piece)] = snippet.loops_of(f".L1:\n{text}\n\t{back} .L1\n", isa)
    draw = random.Random(5)
    core = core_of(isa)
    core.mem_map(0x40_0000, 0x4000)
    numbers = {n: register_of(isa, n.replace("zmm", "xmm")) for n in names}
    compared = 0
    for n, ins in enumerate(piece.instructions[:-1]):
        base = 0x40_0000 + 64 * n  # the emulator keeps what it translated of an address
        core.mem_write(base, ins.code)
        [one] = decoded(ins.code, base)
        formulas = formulas_of(z3, {base: one})
        for _ in range(12):
            values = {
                n: draw.choice((0, 1, 2**31, 2**63, 2**64 - 1, draw.getrandbits(64), 2**31 - 1))
                for n in names
            }
            values |= {n: draw.getrandbits(128) for n in names if n.startswith("zmm")}
            bits = {bit: draw.getrandbits(1) for bit in places}
            for name, number in numbers.items():
                core.reg_write(number, values[name])
            set_flags = sum(bits[bit] << at for bit, at in places.items())
            core.reg_write(register_of(isa, flags), set_flags | 2 * (isa == "x86_64"))
            core.emu_start(base, 0, count=1)
            begun = formulas.fresh("")
            known = {n: z3.BitVecVal(values[n], begun.values[n].size()) for n in names}
            known |= {bit: z3.BoolVal(bool(bits[bit])) for bit in places}
            given = replace(begun, values={**begun.values, **known})
            [(end, state)] = formulas.runs(given, base, frozenset(), lambda _: True)
            assert end == base + len(ins.code)
            for name, number in numbers.items():
                mine = z3.simplify(state.values[name]).as_long()
                assert mine == core.reg_read(number), (ins.text, name)
                compared += 1
            found = core.reg_read(register_of(isa, flags))
            for bit, at in places.items():
                flag = z3.simplify(state.values[bit])
                if z3.is_true(flag) or z3.is_false(flag):
                    assert z3.is_true(flag) == bool(found >> at & 1), (ins.text, bit)
                else:  # the vendors of x86 leave some undefined
                    assert isa == "x86_64", (ins.text, bit)
    assert compared > 20_000


ACCESSES_ARM64 = {
    "ldr x4,[x1],#8": "ldr x4,[x1]; add x1,x1,#8",
    "ldr x4,[x1,#8]!": "add x1,x1,#8; ldr x4,[x1]",
    "ldrb w4,[x1,#3]": "ldurb w4,[x1,#3]",
    "ldrsh x4,[x1]": "ldrh w4,[x1]; sxth x4,w4",
    "ldrsw x4,[x1]": "ldr w4,[x1]; sxtw x4,w4",
    "ldrsb w4,[x1]": "ldrb w4,[x1]; sxtb w4,w4",
    "ldr x4,[x1,x5,lsl #3]": "add x4,x1,x5,lsl #3; ldr x4,[x4]",
    "ldr w4,[x1,w5,sxtw #2]": "add x4,x1,w5,sxtw #2; ldr w4,[x4]",
    "ldrb w4,[x1,w5,uxtw]": "add x4,x1,w5,uxtw; ldrb w4,[x4]",
    "ldp x4,x5,[x1,#16]": "ldr x4,[x1,#16]; ldr x5,[x1,#24]",
    "ldp w4,w5,[x1],#8": "ldr w4,[x1]; ldr w5,[x1,#4]; add x1,x1,#8",
    "stp x4,x5,[x1,#-16]!": "str x4,[x1,#-16]!; str x5,[x1,#8]",
    "stp q0,q1,[x1]": "str q0,[x1]; str q1,[x1,#16]",
    "strb w4,[x1],#1": "strb w4,[x1]; add x1,x1,#1",
    "str wzr,[x1]": "mov w4,#0; str w4,[x1]",
}


@pytest.mark.parametrize("one", ACCESSES_ARM64)
def test_accesses_of_aarch64_are_what_they_are_in_steps(one):
    def state(text):
        lines = text.replace("; ", "\n\t")
        [(_, piece)] = snippet.loops_of(f".L1:\t{lines}\n\tcbnz x9,.L1\n", "arm64")
        body = b"".join(ins.code for ins in piece.instructions[:-1])
        formulas = Arm64Formulas(z3, {i.ip: i for i in arm64_instructions(body, 64)}, functions)
        [(_, found)] = formulas.runs(formulas.fresh(""), 64, frozenset(), lambda _: True)
        return found

    def same(first, second):
        names = [n for n in ARM64_NAMES if n != "x4" or "wzr" not in one]
        pairs = [
            (first.memory, second.memory),
            *((first.values[n], second.values[n]) for n in names),
        ]
        solver = z3.Solver()
        solver.add(z3.Or(*(a != b for a, b in pairs)))
        return solver.check() == z3.unsat

    functions = {}
    whole, steps = state(one), state(ACCESSES_ARM64[one])
    assert same(whole, steps)
    assert [x[::2] for x in whole.accesses] == [x[::2] for x in steps.accesses]
    *before, last = ACCESSES_ARM64[one].split("; ")
    number = re.search(r"#(-?\d+)", last)
    other = (
        last.replace(number[0], f"#{int(number[1]) ^ 16}") if number else last.replace("x1", "x2")
    )
    other = other if other != last else last.replace("4", "6")
    assert not same(whole, state("; ".join([*before, other])))


@pytest.mark.parametrize(
    "text", ["mrs x4,tpidr_el0", "ldxr x4,[x1]", "dmb ish", "ldar x4,[x1]", "svc #0"]
)
def test_instructions_of_aarch64_that_are_more_than_functions_are_not_known(text):
    loop = arm64("words")
    lines = [code(text) if x.text.startswith("add x6") else x for x in loop.listing.lines]
    changed = replace(loop.listing, lines=tuple(lines))
    made = smt.prove(loop, *new_code(loop, changed))
    assert "is not known" in made or "is not followed" in made


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("add v0.4s,v1.4s,v2.4s", False), ("mov v0.16b,v1.16b", False), ("fadd d0,d1,d2", False),
        ("fmov x4,d0", False), ("umov w4,v1.h[2]", False), ("fmla v0.4s,v1.4s,v2.4s", True),
        ("mov v0.d[1],x4", True), ("orr v0.4s,#4", True), ("bfi x4,x5,#3,#9", True),
        ("bfxil w4,w5,#3,#9", True), ("xtn2 v0.16b,v1.8h", True),
        ("bsl v0.16b,v1.16b,v2.16b", True),
    ],
)  # fmt: skip
def test_what_stays_of_a_register_of_aarch64_counts_as_read(text, keeps):
    [(_, piece)] = snippet.loops_of(f".L1:\t{text}\n\tcbnz x9,.L1\n", "arm64")
    [ins] = arm64_instructions(piece.instructions[0].code, 64)
    formulas = Arm64Formulas(z3, {64: ins})
    begun = formulas.fresh("")
    first = text.split()[1].partition(",")[0].partition(".")[0].replace("w", "x").replace("d", "v")
    other = replace(begun, values={**begun.values, first: formulas.fresh("_other").values[first]})
    found = [next(formulas.runs(x, 64, frozenset(), lambda _: True))[1] for x in (begun, other)]
    assert z3.eq(*(z3.simplify(one.values[first]) for one in found)) != keeps
