"""Rewrites of single instructions: loops stay equal, and each condition is needed."""

import re

import pytest
from test_bare import bare, new_code

from loopwright.improving import equality, rewriting
from loopwright.improving.rewriting import BreakDependencies, Rename

END = "\tadd $8,%rdi\n\tcmp %rdx,%rdi\n\tjne .L1\n\tmov %r8,%rax\n"
ZEROED = "\tpxor %xmm2,%xmm2\n\tmovaps %xmm2,%xmm3\n\tmovaps %xmm2,%xmm4\n"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Make the runs few."""
    monkeypatch.setattr(equality, "_RANDOM", 24)


def loop(*texts, behind=""):
    """Return a loop of instructions over words at rdi; r8 is its result."""
    return bare("\n.L1:\t" + "\n\t".join(texts) + "\n" + END + behind)


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
