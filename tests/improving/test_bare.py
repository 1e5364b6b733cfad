"""Loops without a contract: transformations leave them equal, and a dropped condition is found."""

import re
import subprocess
from dataclasses import replace

import pytest
from quick import some

from loopwright.code import loops, snippet
from loopwright.code.instructions import decode
from loopwright.errors import InputError
from loopwright.improving import equality, unrolling
from loopwright.improving.bare import BEHIND, of_piece
from loopwright.improving.listing import CARRY, FLAGS, code
from loopwright.improving.transformations import LOOP_TRANSFORMATIONS, Align
from loopwright.improving.unrolling import APART, CopyIterations, EntriesApart, UnrollByDistance

ROUTINE = (
    "\t.globl f\n\t.type f,@function\nf:\txor %eax,%eax\n\txor %r8d,%r8d\n{}\tret\n.size f,.-f\n"
)
COPY = """
.L1:	movzbl (%rdi),%ecx
	mov %cl,(%rsi)
	add $1,%rdi
	add $1,%rsi
	cmp %rdx,%rdi
	jne .L1
"""
SUM_SIGNED = """
.L1:	add (%rdi,%rax,4),%ecx
	add $1,%rax
	cmp %eax,%edx
	jg .L1
	mov %rcx,%rax
"""
FIND = """
.L1:	cmp %cl,(%rdi)
	je .L2
	add $1,%rdi
	cmp %rdx,%rdi
	jb .L1
.L2:	mov %rdi,%rax
"""
DOWN = """
.L1:	mov -8(%rdi),%rcx
	mov %rcx,-8(%rsi)
	sub $8,%rsi
	lea -8(%rdi),%rdi
	cmp %rdi,%rdx
	jbe .L1
"""
UNTIL_ZERO = """
.L1:	add $1,%rdi
	cmpb $0,(%rdi)
	jne .L1
	mov %rdi,%rax
"""
WHILE = """
	jmp .L2
.L1:	movzbl (%rdi),%ecx
	mov %cl,(%rsi)
	add $1,%rsi
	add $1,%rdi
.L2:	cmp %rdx,%rdi
	jne .L1
"""
TWICE_ENTERED = """
	test %rsi,%rsi
	je .L2
	cmp $5,%rdx
	ja .L3
.L1:	add $1,%rdi
.L2:	cmp %cl,(%rdi)
	je .L4
.L3:	cmp %rdx,%rdi
	jb .L1
.L4:	mov %rdi,%rax
"""
LOOPS = {"copy": COPY, "signed": SUM_SIGNED, "find": FIND, "down": DOWN, "zero": UNTIL_ZERO}
ENTERED = {"while": WHILE, "twice": TWICE_ENTERED}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Make the runs few."""
    monkeypatch.setattr(equality, "_RANDOM_CASES", 64)


def bare(text, free=()):
    section, piece = snippet.loops_of(ROUTINE.format(text))[0]
    return of_piece(section, piece, free)


def new_code(loop, listing):
    """Return a listing's code, and where what comes in within the loop goes in it."""
    text, labels = loop.assembled(listing)
    start = labels[".Lstart"]
    return text[start : labels[BEHIND]], {name: labels[name] - start for name in loop.entries}


@pytest.mark.parametrize("name", some(LOOPS, {"copy", "zero"}))
def test_every_transformation_leaves_a_loop_equal(name):
    loop = bare(LOOPS[name])
    made = [(t.name, one) for t in LOOP_TRANSFORMATIONS for one in t.apply(loop.listing)]
    assert any(one.iterations > 1 for _, one in made)
    for step, one in made:
        proof = equality.compare(loop, *new_code(loop, one))
        assert proof.holds, f"{step}: {proof}"


STRINGS = {
    "movsb": (".L1:\tmovsb\n\tdec %rcx\n\tjne .L1\n\tmov %rdi,%rax\n", "stosb"),
    "lodsb": (
        ".L1:\tlodsb\n\tadd %rax,%rdx\n\tcmp $3,%al\n\tjne .L1\n\tmov %rdx,%rax\n",
        "lodsw",
    ),
    "scasb": (
        ".L1:\tscasb\n\tje .L2\n\tdec %rcx\n\tjne .L1\n.L2:\tmov %rdi,%rax\n",
        "scasw",
    ),
    "cmpsb": (".L1:\tcmpsb\n\tje .L1\n\tmov %rdi,%rax\n", "cmpsw"),
}


@pytest.mark.parametrize("name", STRINGS)
def test_loops_of_one_step_of_strings_are_held_to_another(name):
    text, other = STRINGS[name]
    loop = bare(f"\n{text}")
    assert equality.compare(loop, loop.code).holds
    lines = [replace(x, text=other) if x.text.startswith(name) else x for x in loop.listing.lines]
    assert lines != list(loop.listing.lines)
    changed = replace(loop.listing, lines=tuple(lines))
    assert equality.compare(loop, *new_code(loop, changed)).failure


@pytest.mark.parametrize("name", some(ENTERED, {"while"}))
def test_a_loop_that_is_entered_in_its_middle_is_one_of_its_head(name):
    loop = bare(ENTERED[name])
    assert loop.entries
    assert not list(UnrollByDistance(2).apply(loop.listing))
    [apart] = EntriesApart().apply(loop.listing)
    assert not list(EntriesApart().apply(apart))
    assert equality.compare(loop, *new_code(loop, apart)).holds
    made = [(t.name, one) for t in LOOP_TRANSFORMATIONS for one in t.apply(apart)]
    assert any(one.iterations > 1 for _, one in made)
    for step, one in made:
        proof = equality.compare(loop, *new_code(loop, one))
        assert proof.holds, f"{step}: {proof}"
    text, entries = new_code(loop, apart)
    early = dict.fromkeys(entries, 0)
    assert equality.compare(loop, text, early).failure


def test_each_line_of_what_comes_in_within_a_loop_is_needed():
    loop = bare(WHILE)
    [made] = EntriesApart().apply(loop.listing)
    behind = range(made.position[APART], len(made.lines) - 1)
    for at in [n for n in behind if made.lines[n].kind == "code"]:
        less = replace(made, lines=(*made.lines[:at], *made.lines[at + 1 :]))
        assert not equality.compare(loop, *new_code(loop, less)).holds, made.lines[at].text


@pytest.mark.parametrize("name", ["copy", "signed", "find", "down"])
def test_loops_with_an_end_are_unrolled_by_its_distance(name):
    loop = bare(LOOPS[name])
    [made] = UnrollByDistance(4).apply(loop.listing)
    assert made.iterations == 4
    tests = [one for one in made.lines if one.kind == "code" and one.mnemonic.startswith("cmp")]
    assert len(tests) == (7 if name == "find" else 2)  # of the end two, of find's bytes all


def broken(name, monkeypatch):
    """Drop a condition of the unrolling, or make one of its mistakes."""
    if name == "what is left is not looked at":
        monkeypatch.setattr(
            unrolling, "_RELATIONS", dict.fromkeys(unrolling._RELATIONS, ("!=", False))
        )
    elif name == "signs do not count":
        made = {k: (r, False) for k, (r, _) in unrolling._RELATIONS.items()}
        monkeypatch.setattr(unrolling, "_RELATIONS", made)
    elif name == "the distance is in a register that is live":
        monkeypatch.setattr(unrolling, "free_register", lambda _: "rbx")
    elif name == "an exit finds registers too early":
        monkeypatch.setattr(
            unrolling, "_added", lambda update, _: f"lea ({update.operand}),{update.operand}"
        )
    elif name == "updates go one step":
        monkeypatch.setattr(unrolling, "stepped", lambda line, *_: line.text)
    elif name == "addresses are not moved":
        monkeypatch.setattr(unrolling, "shifted", lambda loop, at, _: loop.listing.lines[at].text)


MUTANTS = {
    "what is left is not looked at": FIND,
    "signs do not count": SUM_SIGNED,
    "the distance is in a register that is live": COPY,
    "an exit finds registers too early": FIND,
    "addresses are not moved": DOWN,
    "updates go one step": COPY,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_dropped_condition_is_found(name, monkeypatch):
    loop = bare(MUTANTS[name])
    broken(name, monkeypatch)
    made = [one for n in (2, 4) for one in UnrollByDistance(n).apply(loop.listing)]
    assert made
    assert all(equality.compare(loop, *new_code(loop, one)).failure for one in made)


def test_a_branch_into_an_instruction_is_found():
    loop = bare(FIND)
    [made] = CopyIterations(2).apply(loop.listing)
    text, entries = new_code(loop, made)
    changed = bytes([*text[:-1], text[-1] ^ 1])
    found = equality.compare(loop, changed, entries).failure
    assert found.startswith("it goes to the middle of an instruction")


def test_a_copy_that_leaves_elsewhere_is_found(monkeypatch):
    loop = bare(FIND)
    monkeypatch.setattr(unrolling, "opposite", lambda text, target: f"{text.split()[0]} {target}")
    [made] = CopyIterations(2).apply(loop.listing)
    assert equality.compare(loop, *new_code(loop, made)).failure


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("addq $1, %rdi", "addq $2, %rdi"),
        ("movb %cl, (%rsi)", "movb %cl, (%rdi)"),
        ("movzbl (%rdi), %ecx", "movzbl 1(%rdi), %ecx"),
        ("movzbl (%rdi), %ecx", "movl (%rdi), %ecx"),
        ("jne .Lloop", "jb .Lloop"),
    ],
)
def test_a_changed_instruction_is_found(old, new):
    loop = bare(COPY)
    lines = [code(new) if one.text == old else one for one in loop.listing.lines]
    assert tuple(lines) != loop.listing.lines
    proof = equality.compare(loop, *new_code(loop, replace(loop.listing, lines=tuple(lines))))
    assert not proof.holds


def test_what_no_run_reaches_is_not_proven():
    loop = bare(
        COPY.replace("cmp %rdx", "cmp $1,%r10d\n\tje .Lout\n\tcmp %rdx").replace(
            "jne .L1", "jne .L1\n.Lout:"
        )
    )
    dead = COPY.replace("add $1,%rsi", "add $1,%rsi\n\ttest $0,%al\n\tjne .L3")
    proof = equality.compare(bare(dead + ".L3:"), bare(dead + ".L3:").code)
    assert re.search(r"no run reached jne at byte \d+ taken", proof.missing)
    assert equality.compare(loop, loop.code).holds


def test_code_behind_a_loop_says_what_is_live():
    live = bare(COPY).listing.leaving[BEHIND]
    assert {"rax", "rbx", "rsp", "zmm0"} <= live  # what a caller may read
    assert not live & {"rcx", "rsi", "rdi", "r8", CARRY, FLAGS}
    section, piece = snippet.loops_of(COPY)[0]  # nothing is known of what follows
    alone = of_piece(section, piece)
    assert {"rcx", CARRY, FLAGS} <= alone.listing.leaving[BEHIND]
    assert not list(UnrollByDistance(2).apply(alone.listing))
    freed = of_piece(section, piece, ("r10", "flags"))
    assert "%r10" in next(UnrollByDistance(2).apply(freed.listing)).render()


@pytest.mark.parametrize(
    ("text", "free", "said"),
    [
        (COPY.replace("mov %cl,(%rsi)", "call *%rbx"), (), "cannot be followed"),
        (COPY.replace("mov %cl,(%rsi)", "rep movsb"), (), "is not a loop"),
        (COPY, ("r99",), "is not a register"),
    ],
)
def test_what_cannot_be_improved_is_said(text, free, said):
    with pytest.raises(InputError, match=said):
        bare(text, free)


BY_TABLE = """
	.globl f
	.type f,@function
f:	lea .LT(%rip),%rdx
	movslq (%rdx,%rax,4),%rax
	add %rdx,%rax
	jmp *%rax
.L1:	movzbl (%rdi),%ecx
	mov %cl,(%rsi)
	add $1,%rsi
.L2:	add $1,%rdi
	cmp %r8,%rdi
	jne .L1
.L3:	ret
	.size f,.-f
	.section .rodata
	.p2align 2
.LT:	.long .L1-.LT, .L3-.LT
"""


def test_tables_of_jumps_say_where_a_loop_is_entered(tmp_path):
    def loop(text):
        made = tmp_path / "f.so"
        command = ["gcc", "-shared", "-nostdlib", "-x", "assembler", "-", "-o", str(made)]
        subprocess.run(command, input=text, text=True, check=True)
        [(section, piece)] = loops.loops_of(str(made))
        return of_piece(section, piece)

    assert not loop(BY_TABLE).entries
    assert loop(f"{BY_TABLE}\t.long .L2-.LT\n").entries == {".Lat_9": 9}
    assert not loop(f"{BY_TABLE}\t.long .L2-.LT+1\n").entries  # none leads into an instruction
    with pytest.raises(InputError, match=r"jumps by \*%rax, which may lead into"):
        loop(BY_TABLE.replace("movslq (%rdx,%rax,4)", "mov (%rdx,%rax,8)"))


OTHER = """
	.globl g
	.type g,@function
g:	test %rsi,%rsi
	{jump} .L2
	ret
	.size g,.-g
	.skip {apart}
"""


@pytest.mark.parametrize("jump", ["je", "jmp", "call"])
@pytest.mark.parametrize("apart", [0, 4000])
def test_another_routine_may_enter_a_loop(jump, apart):
    before = OTHER.format(jump=jump, apart=apart)
    middle = ROUTINE.format(COPY.replace("\tadd $1,%rsi", ".L2:\tadd $1,%rsi"))
    assert loop_of(middle + before).entries == loop_of(before + middle).entries != {}
    assert not loop_of(middle + before.replace(".L2", ".L1")).entries
    assert not loop_of(middle + before.replace(f"{jump} .L2", "lea .L2(%rip),%rax")).entries


def loop_of(text):
    """Return the loop of an object of several routines."""
    [(section, piece)] = snippet.loops_of(text)
    return of_piece(section, piece)


# subl $1,%ebx; lea -1(%rbp),%rax; cmp $-1,%ebx; je; cmpb $32,(%rax); mov %rax,%rbp; jle: a walk
# down, which random pointers let begin in the upper half of memory
DOWN_BYTES = """
.L1:	subl $1,%ebx
	leaq -1(%rbp),%rax
	cmpl $-1,%ebx
	je .L2
	cmpb $0x20,(%rax)
	movq %rax,%rbp
	jle .L1
.L2:	mov %rbp,%rax
"""


def test_a_loop_is_equal_to_itself_wherever_its_pointers_lead():
    for seed in range(3):
        loop = bare(DOWN_BYTES)
        proof = equality.compare(loop, loop.code, seed=seed)
        assert proof.holds, (seed, str(proof))
    other = loop.code.replace(b"\x38\x20", b"\x38\x1f")
    assert len(other) == len(loop.code)
    assert other != loop.code
    assert equality.compare(loop, other).failure


def test_registers_that_are_not_compared_are_not_proven():
    loop = bare(COPY.replace("mov %cl,(%rsi)", "movq (%rdi),%mm0"))
    assert "do not compare" in equality.compare(loop, loop.code).missing


@pytest.mark.parametrize("bytes_", [1, 2, 3])
def test_a_loop_is_aligned_by_longer_encodings_and_no_nop(bytes_):
    loop = bare("\n\tnop" * (15 - bytes_) + COPY)
    [plain] = UnrollByDistance(4).apply(loop.listing)
    made = next(Align(4).apply(plain))
    new, old = (new_code(loop, one)[0] for one in (made, plain))
    assert equality.compare(loop, new).holds
    names = [[i.mnemonic for i in decode("x86_64", text)] for text in (new, old)]
    assert names[0] == names[1]
    assert len(new) == len(old) + bytes_


def test_what_is_within_a_loop_keeps_its_encodings():
    [plain] = UnrollByDistance(4).apply(bare(COPY).listing)
    _, rest = Align(4).apply(plain)
    body = range(rest.position[rest.head], len(rest.lines))
    assert not any("{" in rest.lines[n].text for n in body)


# Loops of AArch64, and a changed instruction of each.
ARM64 = {
    "copy": ("ldrb w4,[x1],#1; strb w4,[x0],#1; cmp x1,x2; b.ne .L1",
             "strb w4, [x0], #1", "strb w4, [x0], #2"),
    "find": ("ldrb w4,[x1]; cmp w4,w3; b.eq .L2; add x1,x1,#1; cmp x1,x2; b.lo .L1",
             "b.lo .Lloop", "b.ls .Lloop"),
    "sum": ("ldr x4,[x1,x5,lsl #3]; add x6,x6,x4; add x5,x5,#1; subs x2,x2,#1; b.ne .L1",
            "add x6, x6, x4", "add x6, x6, w4, sxtw"),
    "vector": ("ldr q0,[x1],#16; add v1.4s,v1.4s,v0.4s; fmov x4,d0; tbnz x4,#4,.L1",
               "add v1.4s, v1.4s, v0.4s", "add v1.2d, v1.2d, v0.2d"),
    "words": ("ldr x4,[x1]; ldr x5,[x1,#8]; add x1,x1,#16; add x6,x6,x5; cbnz x4,.L1",
              "ldr x5, [x1, #8]", "ldr x5, [x1, #0x10]"),
}  # fmt: skip
ARM64_ROUTINE = """	.globl f
	.type f,%function
f:	cbz x9,{entry}
.L1:	{body}
.L2:	mov x0,x6
	ret
	.size f,.-f
"""


def arm64(name, entry=".L2", free=()):
    """Return a loop of AArch64, entered by code before it at a label."""
    body = ARM64[name][0].replace("; ", "\n\t")
    if entry == ".L3":
        body = body.replace("cmp x1", ".L3:\tcmp x1")
    text = ARM64_ROUTINE.format(entry=entry, body=body)
    [(section, piece)] = snippet.loops_of(text, "arm64")
    return of_piece(section, piece, free)


def test_flags_are_free_on_aarch64_where_the_user_says_so():
    kept, freed = arm64("copy"), arm64("copy", free=["flags"])
    assert all(FLAGS in live for live in kept.listing.leaving.values())
    assert not any(FLAGS in live for live in freed.listing.leaving.values())


@pytest.mark.parametrize("name", ARM64)
def test_loops_of_aarch64_are_run_side_by_side(name):
    loop = arm64(name)
    made = [(t.name, one) for t in LOOP_TRANSFORMATIONS for one in t.apply(loop.listing)]
    assert {2, 4} <= {one.iterations for _, one in made}
    assert ("accesses paired" in {step for step, _ in made}) == (name == "words")
    for step, one in made:
        if not step.startswith("align"):
            assert equality.compare(loop, *new_code(loop, one)).holds, step
    _, old, new = ARM64[name]
    lines = tuple(code(new) if x.text == old else x for x in loop.listing.lines)
    assert lines != loop.listing.lines
    assert equality.compare(loop, *new_code(loop, replace(loop.listing, lines=lines))).failure


# br x1; braaz x1; brabz x1; braa x1, x2; brab x1, x2
@pytest.mark.parametrize("word", [0xD61F0020, 0xD61F083F, 0xD61F0C3F, 0xD71F0822, 0xD71F0C22])
def test_a_jump_by_a_register_may_lead_into_a_loop_of_aarch64(word):
    text = ARM64_ROUTINE.format(entry=".L2", body=ARM64["find"][0].replace("; ", "\n\t"))
    [(section, piece)] = snippet.loops_of(text.replace("ret", f".inst {word}"), "arm64")
    with pytest.raises(InputError, match="jumps by a register, which may lead into"):
        of_piece(section, piece)


def test_a_loop_of_aarch64_may_be_entered_in_its_middle():
    loop = arm64("copy", ".L3")
    assert list(loop.entries.values()) == [8]
    [apart] = EntriesApart().apply(loop.listing)
    assert equality.compare(loop, *new_code(loop, apart)).holds
    assert equality.compare(loop, new_code(loop, apart)[0], {".Lat_8": 0}).failure


def test_vectors_of_16_bytes_in_vex_encoding_are_not_run():
    text = COPY.replace("mov %cl,(%rsi)", "vaddps %xmm1,%xmm2,%xmm0")
    loop = bare(text)
    assert "no AVX" in equality.compare(loop, loop.code).missing
