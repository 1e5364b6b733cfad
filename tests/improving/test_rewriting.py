"""Rewrites of single instructions: loops stay equal, and each condition is needed."""

import re
from dataclasses import replace

import pytest
from test_bare import bare, new_code

from loopwright.code.instructions import Flow
from loopwright.improving import equality, rewriting, smt
from loopwright.improving.listing import Effects, code
from loopwright.improving.rewriting import (
    BreakDependencies,
    FoldLoads,
    JoinUpdates,
    NewerForms,
    Rename,
    SplitUpdates,
    ThreeOperands,
    TwoOperands,
    UnfoldLoads,
)

END = "\tadd $8,%rdi\n\tcmp %rdx,%rdi\n\tjne .L1\n\tmov %r8,%rax\n"
ZEROED = "\tpxor %xmm2,%xmm2\n\tmovaps %xmm2,%xmm3\n\tmovaps %xmm2,%xmm4\n"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Make the runs few."""
    monkeypatch.setattr(equality, "_RANDOM_CASES", 24)


def loop(*texts, behind=""):
    """Return a loop of instructions over words at rdi; r8 is its result."""
    made = bare("\n.L1:\t" + "\n\t".join(texts) + "\n" + END + behind)
    return replace(made, listing=replace(made.listing, features=frozenset({"bmi1", "bmi2"})))


def plain(text):
    """Return an instruction without spaces between its operands."""
    return re.sub(r",\s+", ",", text)


def made_of(transformation, subject):
    """Return by their added instructions the listings that a transformation makes of a loop."""
    old = {plain(x.text) for x in subject.listing.lines}
    return {
        "; ".join(plain(x.text) for x in one.lines if plain(x.text) not in old): one
        for one in transformation.apply(subject.listing)
    }


# Of each rewrite: the transformation, the instructions of a loop, and those that it makes.
SET = ("cmp %r8,(%rdi)", "seta %cl", "mov %cl,(%rsi)")
REWRITES = {
    "counts": (BreakDependencies(), ("popcnt (%rdi),%rcx", "add %rcx,%r8"), "xorl %ecx,%ecx"),
    "condition": (BreakDependencies(), SET, "movl $0,%ecx"),
    "byte": (
        BreakDependencies(), ("mov (%rdi),%cl", "mov %cl,(%rsi)"), "movzbl (%rdi),%ecx",
    ),
    "constant": (BreakDependencies(), ("movw $-5,%cx", "mov %cx,(%rdi)"), "movl $65531,%ecx"),
    "converted": (
        BreakDependencies(),
        ("cvtsi2sdq (%rdi),%xmm3", "mulsd %xmm1,%xmm3", "movsd %xmm3,(%rdi)"),
        "xorps %xmm3,%xmm3",
    ),
    "root": (
        BreakDependencies(), ("sqrtss (%rdi),%xmm3", "movss %xmm3,(%rdi)"), "xorps %xmm3,%xmm3",
    ),
    "merged": (
        BreakDependencies(), ("movsd %xmm1,%xmm4", "movsd %xmm4,(%rdi)"), "movaps %xmm1,%xmm4",
    ),
    "own source": (
        Rename(),
        ("mov (%rdi),%r9", "popcnt %r9,%rcx", "add %rcx,%r8"),
        "popcntq %r9,%r9; addq %r9,%r8",
    ),
    "written twice": (
        Rename(),
        ("mov (%rdi),%rcx", "add %ecx,%r8d", "mov 8(%rdi),%rcx", "mov %cl,(%rsi)"),
        "movq (%rdi),%rax; addl %eax,%r8d",
    ),
    "load within": (
        FoldLoads(),
        ("mov (%rdi),%rcx", "add %rcx,%r8"),
        "addq (%rdi),%r8",
    ),
    "byte within": (FoldLoads(), ("movzbl (%rdi),%ecx", "cmp %cl,%r8b", "adc $0,%r8"),
                    "cmpb (%rdi),%r8b"),
    "test within": (FoldLoads(), ("mov (%rdi),%ecx", "test %ecx,%ecx", "adc $0,%r8"),
                    "cmpl $0,(%rdi)"),
    "vector within": (
        FoldLoads(), ("movaps (%rsi),%xmm3", "paddd %xmm3,%xmm2"), "paddd (%rsi),%xmm2",
    ),
    "load apart": (UnfoldLoads(), ("add (%rdi),%r8",), "movq (%rdi),%rax; addq %rax,%r8"),
    "byte apart": (
        UnfoldLoads(), ("cmpb $5,(%rdi)", "adc $0,%r8"), "movzbl (%rdi),%eax; cmpb $5,%al",
    ),
    "update split": (
        SplitUpdates(), ("subw %cx,(%rdi)",), "movzwl (%rdi),%eax; subw %cx,%ax; movw %ax,(%rdi)",
    ),
    "update joined": (
        JoinUpdates(), ("mov (%rdi),%rcx", "add %r8,%rcx", "mov %rcx,(%rdi)"), "addq %r8,(%rdi)",
    ),
    "byte joined": (
        JoinUpdates(), ("movzbl (%rdi),%ecx", "xor %r8d,%ecx", "mov %cl,(%rdi)"),
        "xorb %r8b,(%rdi)",
    ),
    "sum of a copy": (
        ThreeOperands(), ("mov (%rdi),%r9", "mov %r9,%rcx", "add %r8,%rcx", "xor %rcx,%r8"),
        "leaq (%r9,%r8),%rcx",
    ),
    "shift of a copy": (
        ThreeOperands(), ("mov (%rdi),%r9", "mov %r9d,%ecx", "shl $3,%ecx", "xor %rcx,%r8"),
        "leal (,%r9,8),%ecx",
    ),
    "rotation of a copy": (
        ThreeOperands(), ("mov (%rdi),%r9", "mov %r9,%rcx", "rol $3,%rcx", "xor %rcx,%r8"),
        "rorxq $61,%r9,%rcx",
    ),
    "newer shift": (
        NewerForms(), ("mov (%rdi),%rcx", "shr %cl,%r8"), "shrxq %rcx,%r8,%r8",
    ),
    "complement": (
        NewerForms(), ("mov (%rdi),%rcx", "not %rcx", "and %rcx,%r8", "not %r8", "and %rcx,%r8"),
        "andnq %rcx,%r8,%r8",
    ),
    "sum in place": (TwoOperands(), ("lea (%r8,%rdi),%r8",), "addq %rdi,%r8"),
    "sum of three": (
        TwoOperands(), ("lea 7(%rdi,%r8,2),%r9", "mov %r9,%r8"),
        "leaq (%rdi,%r8,2),%r9; addq $7,%r9",
    ),
    "copy and sum": (
        TwoOperands(), ("lea 7(%rdi),%ecx", "xor %rcx,%r8"), "movl %edi,%ecx; addl $7,%ecx",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_leaves_a_loop_equal(name):
    transformation, texts, expected = REWRITES[name]
    subject = loop(*texts, behind=ZEROED)
    found = made_of(transformation, subject)
    assert expected in found
    for one in found.values():
        assert one.steps == (transformation.name,)
        assert equality.compare(subject, *new_code(subject, one)).holds


def yes(*_):
    return True


# Of each condition: where it is asked for, an answer that drops it, and where it matters.
PARTLY = ("mov (%rdi),%cl", "add %rcx,%r8")
CONDITIONS = {
    "nothing above is read": (rewriting, "unread_above", yes, BreakDependencies(), PARTLY),
    "nothing above a number is read": (
        rewriting, "unread_above", yes, BreakDependencies(),
        ("sqrtsd (%rdi),%xmm3", "movups %xmm3,(%rdi)"),
    ),
    "it is no source": (
        rewriting, "named", lambda _: [], BreakDependencies(),
        ("mov (%rdi),%rcx", "popcnt %rcx,%rcx", "add %rcx,%r8"),
    ),
    "the source is not needed": (
        Rename, "unused", yes, Rename(),
        ("mov (%rdi),%r9", "popcnt %r9,%rcx", "add %rcx,%r8", "add %r9,%r8"),
    ),
    "every reader is renamed": (
        Rename, "uses", lambda _, __, at, ___: [at + 1], Rename(),
        ("mov (%rdi),%rcx", "add %rcx,%r8", "xor %rcx,%r8", "mov 8(%rdi),%rcx", "add %rcx,%r8"),
    ),
    "the register is free": (
        rewriting, "free_register", lambda *_, **__: "rbx", Rename(),
        REWRITES["written twice"][1],
    ),
    "a load's register is not needed": (
        rewriting, "dead", yes, FoldLoads(),
        ("mov (%rdi),%rcx", "add %rcx,%r8", "mov %rcx,(%rsi)", "add $8,%rsi"),
    ),
    "nothing between changes memory": (
        rewriting, "reader", lambda *_: 3, FoldLoads(),
        ("mov (%rdi),%rcx", "mov %r8,(%rdi)", "add %rcx,%r8"),
    ),
    "a load is of as many bytes": (
        rewriting, "effects_if_valid",
        lambda _: Effects(frozenset(), frozenset(), Flow.NEXT, loads=8),
        FoldLoads(), ("movsd (%rdi),%xmm3", "paddd %xmm3,%xmm0"),
    ),
    "a register is free for a load": (
        rewriting, "free_register", lambda *_: "rbx", UnfoldLoads(), ("add (%rdi),%r8",),
    ),
    "a register is free for an update": (
        rewriting, "free_register", lambda *_: "rbx", SplitUpdates(), ("incl (%rdi)",),
    ),
    "a register serves an update alone": (
        rewriting, "dead", yes, JoinUpdates(),
        ("mov (%rdi),%rcx", "add %r8,%rcx", "mov %rcx,(%rdi)", "add %rcx,%r8"),
    ),
    "no flags of a wider update go on": (
        rewriting, "EVERY_FLAG", frozenset(), JoinUpdates(),
        ("movzbl (%rdi),%ecx", "add $200,%ecx", "mov %cl,(%rdi)", "adc $0,%r8"),
    ),
    "the original stays": (
        rewriting, "reader", lambda *_: 4, ThreeOperands(),
        ("mov (%rdi),%r9", "mov %r9,%rcx", "mov %r8,%r9", "add %r9,%rcx", "xor %rcx,%r8"),
    ),
    "no flags of a sum go on": (
        rewriting, "_flags_die", yes, ThreeOperands(),
        ("mov (%rdi),%r9", "mov %r9,%rcx", "add $5,%rcx", "adc %rcx,%r8"),
    ),
    "no flags of a shift go on": (
        rewriting, "_flags_die", yes, NewerForms(),
        ("mov (%rdi),%ecx", "shl %cl,%r8", "adc $5,%r8"),
    ),
    "no flags are live behind lea": (
        rewriting, "EVERY_FLAG", frozenset(), TwoOperands(),
        ("add (%rdi),%rcx", "lea (%r8,%rdi),%r8", "adc $5,%r8"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_dropped_condition_is_found(name, monkeypatch):
    place, attribute, answer, transformation, texts = CONDITIONS[name]
    subject = loop(*texts, behind=ZEROED)
    whole = made_of(transformation, subject)
    monkeypatch.setattr(place, attribute, answer)
    new = [one for text, one in made_of(transformation, subject).items() if text not in whole]
    assert new
    assert any(equality.compare(subject, *new_code(subject, one)).failure for one in new)


def test_newer_forms_need_a_core_that_has_them():
    subject = loop(*REWRITES["newer shift"][1])
    assert not list(NewerForms().apply(replace(subject.listing, features=frozenset())))


WIDE = ("vmovdqu (%rdi),%ymm1", "vmovdqa %ymm1,%ymm2", "vpaddd %ymm0,%ymm2,%ymm2")
NARROW = ("vmovdqu (%rdi),%ymm3", "vpaddd %ymm3,%ymm0,%ymm2")


@pytest.mark.parametrize(
    ("transformation", "texts", "expected"),
    [
        (ThreeOperands(), WIDE, "vpaddd %ymm0,%ymm1,%ymm2"),
        (FoldLoads(), NARROW, "vpaddd (%rdi),%ymm0,%ymm2"),
        (ThreeOperands(), REWRITES["rotation of a copy"][1], "rorxq $61,%r9,%rcx"),
        (NewerForms(), REWRITES["complement"][1], "andnq %rcx,%r8,%r8"),
    ],
)
def test_rewrites_are_proven(transformation, texts, expected):
    pytest.importorskip("z3")
    subject = loop(*texts, "movups %xmm2,(%rsi)", behind=ZEROED)
    one = made_of(transformation, subject)[expected]
    assert smt.prove(subject, *new_code(subject, one)) == ""
    wrong = expected.replace("%r8,%r8", "%rcx,%r8").replace("61", "60").replace("ymm0", "ymm3")
    lines = [code(wrong) if plain(x.text) == expected else x for x in one.lines]
    assert smt.prove(subject, *new_code(subject, replace(one, lines=tuple(lines)))) != ""
