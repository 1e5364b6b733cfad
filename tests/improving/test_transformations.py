"""Transformations: each keeps the contract where its condition holds, and needs its condition."""

import inspect
from dataclasses import replace

import pytest
from test_listing import assembled

from loopwright import kernels
from loopwright.checking import emulated
from loopwright.improving import accesses, transformations, unrolling
from loopwright.improving.accesses import FuseUpdate, PointersForIndex
from loopwright.improving.improve import read
from loopwright.improving.listing import MEMORY, parse
from loopwright.improving.transformable_loops import counted_loops, least_before
from loopwright.improving.transformations import (
    TRANSFORMATIONS,
    Align,
    CarryChains,
    ConstantBranches,
    JoinSections,
    PropagateCopies,
    Reorder,
    StringInstruction,
)
from loopwright.improving.unrolling import AheadOfLoop, CopyIterations, PipelineLoads, Unroll

COMPARE = "arm64/memcmp/words"
CLEAR, COPY, INDEX, SUM, PUT, MOVE = (
    f"x86_64/{name}"
    for name in (
        "clear_user/plain",
        "copy_user/loop32",
        "copy_user/negative_index",
        "csum/adc1",
        "put_event/put_user_twice",
        "memmove/loop32",
    )
)
# Those of LEFT_OUT are held there, and chains of few words below.
USED = {
    COMPARE: (CopyIterations(2), CopyIterations(4)),
    CLEAR: (CopyIterations(4), Unroll(8, apart=True), Align(5)),
    COPY: (PipelineLoads(), Unroll(2, apart=True), StringInstruction(256), Reorder()),
    INDEX: (Unroll(2),),
    SUM: (CarryChains(32, 4),),
    PUT: (ConstantBranches(), PropagateCopies()),
    MOVE: (PipelineLoads(),),
}


@pytest.fixture
def few(monkeypatch):
    """Make the calls of an emulated core few: all small sizes, and each position of a fault."""
    for name, value in (
        ("_SMALL", 72), ("_FULL_FAULTS", 24), ("_RANDOM", 20), ("_LARGE", (257, 513)),
        ("_ROUNDS", 1), ("_INJECTED", 4), ("_POWERS", range(16, 18)), ("_CROSSED", 1),
    ):  # fmt: skip
        monkeypatch.setattr(emulated, name, value)


def listing_of(spec):
    _, [variant] = kernels.select(spec)
    return variant, read(variant)


def failure(variant, listing, folder):
    """Return the first emulated call that breaks the contract."""
    code = assembled(listing, variant, folder)
    taken = frozenset(variant.alternatives)
    access = emulated.access(code, taken, taken, switches_pan=False)
    return emulated.run(code, listing.contract, access).failure


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("spec", "transformation"), [(s, t) for s, used in USED.items() for t in used]
)
def test_a_transformation_keeps_the_contract(spec, transformation, tmp_path):
    variant, listing = listing_of(spec)
    made = list(transformation.apply(listing))
    assert made
    assert all(one.steps == (*listing.steps, transformation.name) for one in made)
    assert failure(variant, made[0], tmp_path) == ""


@pytest.mark.usefixtures("few")
def test_chains_of_few_words_do_what_chains_of_many_leave(tmp_path):
    variant, listing = listing_of(SUM)
    [many] = CarryChains(16, 4).apply(listing)
    [both] = CarryChains(4, 1).apply(many)
    assert both.position[".Lsum16"] < both.position[".Lsum4"]
    assert failure(variant, both, tmp_path) == ""


def test_names_are_unique_and_docstrings_state_conditions():
    names = [one.name for one in TRANSFORMATIONS]
    assert len(set(names)) == len(names)
    assert all("Condition:" in inspect.getdoc(type(one)) for one in TRANSFORMATIONS)


# A copy that loads each word while it stores the last one: rax goes from iteration to iteration.
CARRIED = """
#include <linux/linkage.h>
#include <asm/asm.h>
SYM_FUNC_START(rep_movs_alternative)
	cmpq $16,%rcx
	jb .Lbytes
5:	movq (%rsi),%rax
	subq $16,%rcx
.Lwords:
1:	movq %rax,(%rdi)
2:	movq 8(%rsi),%rax
	addq $8,%rsi
	addq $8,%rdi
	subq $8,%rcx
	jae .Lwords
	addq $16,%rcx
	jmp .Lbytes
.Lfault:
	addq $16,%rcx
.Lbytes:
	testq %rcx,%rcx
	je .Lexit
3:	movb (%rsi),%al
4:	movb %al,(%rdi)
	incq %rdi
	incq %rsi
	decq %rcx
	jne .Lbytes
.Lexit:
	RET
	_ASM_EXTABLE_UA(1b, .Lfault)
	_ASM_EXTABLE_UA(2b, .Lfault)
	_ASM_EXTABLE_UA(5b, .Lbytes)
	_ASM_EXTABLE_UA(3b, .Lexit)
	_ASM_EXTABLE_UA(4b, .Lexit)
SYM_FUNC_END(rep_movs_alternative)
"""
# A copy that stores each word as soon as it has loaded it.
WORDS = CARRIED.replace("	cmpq $16,%rcx\n", "	cmpq $8,%rcx\n").replace(
    "5:	movq (%rsi),%rax\n	subq $16,%rcx\n", "	subq $8,%rcx\n"
)
WORDS = WORDS.replace(
    "1:	movq %rax,(%rdi)\n2:	movq 8(%rsi),%rax\n",
    "1:	movq (%rsi),%rax\n2:	movq %rax,(%rdi)\n",
)
WORDS = WORDS.replace("addq $16,%rcx", "addq $8,%rcx").replace(
    "	_ASM_EXTABLE_UA(5b, .Lbytes)\n", ""
)
# Behind the loop of plain, a branch that reads the borrow which ended it.
BORROWED = ("jae .Lqwords\n", "jae .Lqwords\n\tjnc .Lwrong\n")
WRONG = ("\tRET\n", "\tRET\n.Lwrong:\n\tmovq $1,%rcx\n\tRET\n")


def changed_text(spec, *pairs):
    """Return a variant and the listing of its text with parts replaced."""
    _, [variant] = kernels.select(spec)
    text = variant.source.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return variant, parse(text, kernels.contract_of(variant))


def yes(*_):
    return True


def no(*_):
    return False


def as_it_is(loop, at, ahead):
    """Return a statement as it is, whatever its registers lack."""
    del ahead
    return loop.listing.lines[at].text


def as_before(text, target):
    """Return a branch to a target under the condition that it had."""
    mnemonic, rest = text.split(None, 1)
    return f"{mnemonic} {', '.join([*rest.split(',')[:-1], target])}"


def unmoved(line, source, more, copy):
    """Return an instruction that reads a register for its copy, whatever was added."""
    del more
    return replace(line, text=line.text.replace(copy, source)).text


def all_loads(loop):
    """Return the loads of a body wherever they stand."""
    return [n for n in loop.body if MEMORY in loop.listing.effects[n].reads]


def one_too_far(_, loop):
    """Return a loop of loads one iteration ahead that does the last iteration as well."""
    return AheadOfLoop.changed(PipelineLoads(1), loop)


def whole_steps(updates, copy, at):
    """Return the constants that whole iterations before a copy have added."""
    del at
    return {register: copy * update.step for register, update in updates.items()}


# Of each condition that is dropped: where it is asked for, the answer, and where it matters.
DROPPED = {
    "iterations begin again": (unrolling, "repeatable", yes, CARRIED, Unroll(2)),
    "no flags pass": (unrolling, "flags_live", no, BORROWED, Unroll(2)),
    "iterations are left": (unrolling, "least_before", lambda *_, **__: 1 << 20, CLEAR, Unroll(8)),
    "an index is that far": (unrolling, "least_before", lambda *_, **__: 1 << 20, INDEX, Unroll(8)),
    "steps within a body": (unrolling, "steps_ahead", whole_steps, INDEX, Unroll(2)),
    "words of one stretch": (transformations, "_copies_words", no, COPY, StringInstruction(256)),
    "a head is fallen into": (accesses, "entered", no, "twice", PointersForIndex()),
    "a fixup needs registers": (Reorder, "fixups_hold", yes, COPY, Reorder()),
    "a constant on every way": (transformations, "_zero_before", yes, "or", ConstantBranches()),
    "a copy's constant": (transformations, "_with_source", unmoved, PUT, PropagateCopies()),
    "what an update moves past": (accesses, "shifted", as_it_is, INDEX, FuseUpdate()),
    "a branch turned round": (unrolling, "opposite", as_before, COMPARE, CopyIterations(2)),
    "loads come first": (unrolling, "first_loads", all_loads, COPY, PipelineLoads()),
    "the next one is there": (PipelineLoads, "changed", one_too_far, WORDS, PipelineLoads()),
    "free registers": (CarryChains, "_free", lambda *_: ["%rsi", "%r9"], SUM, CarryChains(4, 1)),
}


def subject(where):
    """Return the variant and the listing that a dropped condition matters for."""
    if where in (CARRIED, WORDS):
        _, [variant] = kernels.select(COPY)
        return variant, parse(where, kernels.contract_of(variant))
    if where is BORROWED:
        return changed_text(CLEAR, BORROWED, WRONG)
    if where == "or":  # no constant that is known
        variant, listing = listing_of(PUT)
        old = next(one.text for one in listing.lines if one.text.startswith("movl $0xfffffff2"))
        lines = (replace(x, text="orl $1,%ecx") if x.text == old else x for x in listing.lines)
        return variant, replace(listing, lines=tuple(lines))
    if where == "twice":
        variant, listing = listing_of(INDEX)
        return variant, next(Unroll(2).apply(listing))
    return listing_of(where)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("condition", DROPPED)
def test_a_condition_that_is_dropped_breaks_the_contract(condition, monkeypatch, tmp_path):
    place, name, answer, where, transformation = DROPPED[condition]
    variant, listing = subject(where)
    whole = {one.render() for one in transformation.apply(listing)}
    monkeypatch.setattr(place, name, answer)
    new = [one for one in transformation.apply(listing) if one.render() not in whole]
    assert new
    assert any(failure(variant, one, tmp_path) for one in new)


@pytest.mark.usefixtures("few")
def test_subjects_of_dropped_conditions_are_right(tmp_path):
    for where in (CARRIED, BORROWED, WORDS):
        variant, listing = subject(where)
        assert failure(variant, listing, tmp_path) == ""


# Of each line that is left out behind a label: the transformation that writes it.
LEFT_OUT = {
    ".Lunrolled2_fault:": (CLEAR, Unroll(2), "addq $8,%rcx"),
    ".Lstring_fault:": (CLEAR, StringInstruction(256), "leaq -8(,%rcx,8),%rcx"),
    ".Lbases_for_first_of_pair:": (INDEX, PointersForIndex(), "subq %rcx,%rsi"),
    ".Lupdated_for_second_of_pair:": (INDEX, FuseUpdate(), "addq $16,%rcx"),
    ".Lunrolled_ahead_fault:": (WORDS, PipelineLoads(), "addq $8,%rcx"),
    ".Lsum10:": (SUM, CarryChains(10, 2), "adcq $0,%rdx"),
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("label", LEFT_OUT)
def test_each_line_of_a_fixup_is_needed(label, tmp_path):
    where, transformation, text = LEFT_OUT[label]
    variant, listing = subject(where)
    made = next(transformation.apply(listing))
    assert failure(variant, made, tmp_path) == ""
    names = [f"{one.text}:" if one.kind == "label" else one.text for one in made.lines]
    at = names.index(text, names.index(label))
    broken = replace(made, lines=(*made.lines[:at], *made.lines[at + 1 :]))
    assert failure(variant, broken, tmp_path)


@pytest.mark.usefixtures("few")
def test_joined_sections_keep_the_contract_and_an_access_needs_its_section(tmp_path):
    variant, listing = listing_of(PUT)
    [resolved] = ConstantBranches().apply(listing)
    [joined] = JoinSections().apply(resolved)
    gates = [n for n, one in enumerate(joined.lines) if '"stac"' in one.text]
    assert len(gates) == 1
    assert failure(variant, joined, tmp_path) == ""
    open_ = replace(joined, lines=tuple(x for n, x in enumerate(joined.lines) if n != gates[0]))
    assert failure(variant, open_, tmp_path)


def test_sections_with_a_branch_between_stay():
    _, listing = listing_of(PUT)
    assert not list(JoinSections().apply(listing))


def test_comparisons_tell_the_least_iterations():
    _, listing = listing_of(COPY)
    [loop] = [one for one in counted_loops(listing) if one.head == ".Lfour_words"]
    head = listing.position[loop.head]
    assert least_before(listing, head, "rcx") == 32  # 64 by the comparison, 32 taken away
    assert least_before(listing, head, "rsi") == 0
    _, plain = listing_of(CLEAR)
    assert least_before(plain, plain.position[".Lqwords"], "rcx") == 0


@pytest.mark.parametrize(
    ("pairs", "least"),
    [
        ((), 64),
        ((("andq $-16", "andq $-128"),), 0),  # 64 rounded down to a multiple of 128
        ((("andq $-16", "andq $-24"),), 0),  # no power of two
        ((("andq $-16,%rcx", "andl $-16,%ecx"),), 0),
        ((("negq %rcx", "negl %ecx"),), 0),
        ((("negq %rcx\n", "\n"),), 0),
        ((("negq %rcx", "negq %rcx\n\tsubq $16,%rcx"),), 0),
        ((("andq $-16,%rcx", "andq $-16,%rcx\n\tsubq $16,%rcx"),), 48),
        ((("andq $-16,%rcx", "addq $16,%rcx"),), 0),
        ((("andq $-16,%rcx", "subq $80,%rcx"),), 0),
        # What stands in the jump's place falls through.
        ((('"jmp .Llarge_index", "rep movsb"', '"nop", "rep movsb"'), ("1:\tRET\n", "1:\n")), 0),
    ],
)
def test_an_index_below_zero_is_as_far_as_the_comparison_says(pairs, least):
    _, listing = changed_text(INDEX, *pairs)
    head = listing.position[".Lpair"]
    assert least_before(listing, head, "rcx", negated=True) == least


@pytest.mark.usefixtures("few")
def test_an_unrolled_index_without_a_test_that_is_never_taken_is_covered(tmp_path):
    variant, listing = listing_of(INDEX)
    [made] = Unroll(4).apply(listing)
    assert "jg" not in {one.mnemonic for one in made.lines if one.kind == "code"}
    code = assembled(made, variant, tmp_path)
    access = emulated.access(code, frozenset(), frozenset(), switches_pan=False)
    found = emulated.run(code, made.contract, access)
    assert not found.failure
    assert not [what for _, what in found.missing if "branch" in what]
