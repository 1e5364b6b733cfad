"""Rank of a scan: hurt loops first, spin-waits left out, split loops with figures."""

import subprocess

import pytest
from checkout import run_here
from scanned import built, by_name, found, linked

import loopwright as lw
from loopwright import microarchs, toolchain
from loopwright.scanning import scan
from loopwright.scanning.costs import CoreCosts

SPINS = """
	.globl spin
	.type spin, @function
spin:	pause
	cmpl $0, (%rdi)
	jne spin
	ret
	.size spin, .-spin
	.globl counts
	.type counts, @function
counts:	addl $0x90f3, %eax
	decl %ecx
	jne counts
	ret
	.size counts, .-counts
"""
SPINS_ARM64 = """
	.globl spin
	.type spin, %function
spin:	yield
	ldr w1, [x0]
	cbnz w1, spin
	ret
	.size spin, .-spin
"""
# The cold part of the loop lies 70,000 bytes before it.
SPLIT = """
cold:	addq $8, %rdi
	jmp back
	.skip 70000, 0x90
	.globl main
	.type main, @function
main:	testq %rax, %rax
	jmp cold
back:	decq %rcx
	jne main
	ret
	.size main, .-main
"""
# A short loop that its offset hurts on Zen 2, and a long one that is indifferent.
RANKED = """
	.p2align 6
	.skip 63, 0x90
	.globl short
	.type short, @function
short:	movq $0, (%rdi)
	addq $8, %rdi
	decq %rcx
	jne short
	ret
	.size short, .-short
	.p2align 6
	.skip 45, 0x90
	.globl long
	.type long, @function
long:	.rept 10
	imulq %rax, %rax
	.endr
	.rept 30
	movq %rbx, %rdx
	.endr
	decq %rcx
	jne long
	ret
	.size long, .-long
"""


@pytest.mark.parametrize(("isa", "text"), [("x86_64", SPINS), ("arm64", SPINS_ARM64)])
def test_a_loop_that_waits_is_no_candidate_and_is_counted(tmp_path, isa, text):
    every = found(built(tmp_path, text, isa))
    assert [loop.function for loop in every.loops] == ["counts"] * (isa == "x86_64")
    [(why, count)] = every.refused.items()
    assert count == 1
    assert "waits for another CPU" in why


def test_a_loop_whose_parts_lie_far_apart_has_a_figure_and_no_fix(tmp_path):
    path = linked(tmp_path, SPLIT)
    [loop] = by_name(path).values()
    assert loop.length > 1 << 16
    assert loop.split
    assert len(loop.executed) < 32
    [row] = lw.scan(path, microarch="skylake").to_dict("records")
    assert row["error"] == ""
    assert row["cycles"] >= row["best"] > 0
    assert row["fix"] in ("none", "not needed")
    if row["fix"] == "none":
        assert "64 KiB apart" in row["how"]


def test_what_is_hurt_comes_first_whatever_others_lose():
    # Cycles here and at the best offset: a long loop that loses more and a short one that is hurt.
    table = [[10.0, 8.5], [2.0, 1.0]]
    cost = CoreCosts(microarchs.load("zen2"), table, {}, [0, 0])
    assert [one.loop for one in scan.ranked([cost])] == [1, 0]
    assert [one.loop for one in scan.ranked([cost], hurt_first=False)] == [0, 1]


def test_below_the_table_stands_how_the_first_loops_are_fixed(tmp_path):
    path = built(tmp_path, RANKED)
    text = run_here("scan", path, "--microarch", "zen2").stdout
    rows = lw.scan(path, microarch="zen2")
    descriptions = [how for how in rows["how"] if how]
    assert descriptions
    assert descriptions[0] in text
    assert text.index(descriptions[0]) < text.index("innermost loop")


def test_names_of_a_stripped_library_are_told_apart(tmp_path):
    path = linked(tmp_path, RANKED, "-shared", name="library.so")
    whole = _summary(path)
    assert "names from the file" in whole
    subprocess.run([toolchain.find("x86_64").gcc.removesuffix("gcc") + "strip", path], check=True)
    assert "names from its dynamic symbols alone (the file is stripped)" in _summary(path)


def _summary(path):
    return run_here("scan", path, "--microarch", "zen2").stdout
