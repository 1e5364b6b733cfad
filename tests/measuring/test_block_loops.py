"""Loops cut from binaries: how they are made to end, and what keeps them on their path."""

import os
import subprocess
import sys

import pytest

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.measuring import block, block_path, block_starts

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="decodes and runs x86-64")
WALK = "4883c008488948f84839d075f3"  # add $8,%rax; mov %rcx,-8(%rax); cmp %rdx,%rax; jne
LIST = "480fafd9488b004885c075f4"  # imul %rcx,%rbx; mov (%rax),%rax; test %rax,%rax; jne
# mov (%rax),%rdx; cmpb $4,9(%rdx); je out; add $8,%rax; cmp %rsi,%rax; jb
SEARCH = "488b10807a0904740a4883c0084839f072ee"
# cmpl $7,0x18(%rdi); jne out; add $1,%ecx; cmp 0x40(%rsi),%ecx; jb
FIELD = "837f18070f85d000000083c1013b4e4072ee"
ENDLESS = "488b3f4839fe7402ebf6"  # mov (%rdi),%rdi; cmp %rdi,%rsi; je out; jmp
# imul %rbx,%rbx; test %rdi,%rdi; je over; imul %rbx,%rbx; over: add $1,%eax; cmp %edx,%eax; jne
FORK = "480fafdb4885ff7404480fafdb83c00139d075ec"


def _prepared(code, stretches=()):
    return block_starts.find_start(block_path.of_loop(bytes.fromhex(code), stretches))


def unaimed(prepared, code):
    """Return the code that is run, with displacements of branches as they were."""
    entry = prepared.image.entry
    code_run = bytearray(prepared.image.code[entry : entry + len(code) // 2])
    for step in prepared.path.steps:
        if step.branches:
            aim = slice(step.end - (1 if len(step.ins) == 2 else 4), step.end)
            code_run[aim] = bytes.fromhex(code)[aim]
    return code_run.hex()


@pytest.mark.parametrize("code", [WALK, SEARCH, FIELD, "480fafdb48ffc979f7"])
def test_loops_that_count_by_themselves_keep_every_byte_but_where_exits_go(code):
    prepared = _prepared(code)
    assert not prepared.replaced
    assert unaimed(prepared, code) == code


def test_a_comparison_is_replaced_by_a_count_of_its_length_and_said_so():
    prepared = _prepared(LIST)
    assert prepared.replaced == (
        "+0x7 test %rax,%rax and +0xa jne are replaced by dec %r15 and jne"
    )
    entry = prepared.image.entry
    found = prepared.image.code[entry : entry + len(LIST) // 2]
    assert found.hex() == LIST.replace("4885c0", "49ffcf")


def test_an_endless_loop_is_left_by_an_exit():
    prepared = _prepared(ENDLESS)
    assert "+0x6 je are replaced" in prepared.replaced
    assert prepared.path.steps[2].off_path == prepared.image.landing


@pytest.mark.parametrize("length", range(2, 8))
def test_a_count_has_the_length_of_what_it_replaces(length):
    import iced_x86 as iced

    code = block_path._count("rdi" if length in (2, 6) else "r15", length)
    [ins] = iced.Decoder(64, code)
    assert len(code) == length
    assert ins.mnemonic in (iced.Mnemonic.DEC, iced.Mnemonic.SUB)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("0f3148ffc975f9", "changes from run to run: rdtsc"),
        ("f3a448ffca75f9", "repeats by a count that is not known: rep movsb"),
        ("e8fbffffff48ffca75f6", "it calls"),
        ("0f3048ffca75f9", "a privileged instruction: wrmsr"),
        ("0f01cb48ffca75f8", "a privileged instruction: stac"),
        ("48a1001000820000ffff48ffc14839d175ee", "an address of the kernel's"),
        ("c348ffca75fa", "it leaves the loop: ret"),
        ("488b05f0ffffff48ffc975f4", "memory beside its own code"),
    ],
)
def test_what_cannot_run_is_refused_with_the_instruction(code, said):
    with pytest.raises(InputError, match=said):
        _prepared(code)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        # xor %eax,%eax; je out; inc %rcx; cmp %rdx,%rcx; jne
        ("31c0740848ffc14839d175f4", r"exit at \+0x2 taken"),
        ("f00fb10a75fa", "nothing in it can count its iterations"),  # lock cmpxchg; jne
        # mov $1,%rdx; shl $30,%rdx twice; mov (%rdx),%rax; inc %rcx; cmp %rsi,%rcx; jne
        (
            "48c7c20100000048c1e21e48c1e21e488b0248ffc14839f175e6",
            "an access outside of the address space",
        ),
    ],
)
def test_loops_that_no_start_keeps_turning_say_why(code, said):
    with pytest.raises(InputError, match=said):
        _prepared(code)


@pytest.mark.parametrize(
    ("stretches", "said"),
    [
        (((1, 20),), "does not begin with its first byte"),
        (((0, 30),), "has a stretch 0-30, and it 20 bytes"),
        (((0, 9), (14, 20)), "does not go on from"),
        (((0, 4), (13, 20)), "does not go on from"),
    ],
)
def test_paths_that_are_none_are_refused(stretches, said):
    with pytest.raises(InputError, match=said):
        block_path.of_loop(bytes.fromhex(FORK), stretches)


def test_displacements_to_the_kernel_are_aimed_at_user_space_in_their_place():
    # movzbl -0x7d000000(%rcx,%rcx),%ecx; movzbl (%rax),%ecx; inc %rax; cmp %rdx,%rax; jne
    code = "0fb68c09000000830fb60848ffc04839d075ed"
    prepared = _prepared(code)
    assert prepared.path.code.hex() == code.replace("00000083", "00000003")
    # mov 0xffffffff82001000,%rcx; inc %rax; cmp %rdx,%rax; jne
    assert not _prepared("488b0c250010008248ffc04839d075f0").replaced
    near = "48ffc0480fb688f8ffffff4839d075f0"  # what counts from a pointer stays: -8(%rax)
    assert _prepared(near).path.code.hex() == near


# add $1,%rax; cmpb $0,-1(%rsi,%rax); jne; and movsbq 1(%r14),%rdx; add $1,%r14;
# testb $32,1(%rcx,%rdx,2); jne: what they read decides alone
ZERO, TABLE = "4883c001807c06ff0075f5", "490fbe56014983c601f64451012075f0"
# add $1,%rax; cmpb $0x2f,(%rax); jne out; add $1,%rax; cmpb $0x2f,(%rax); je: two steps of one
TWICE = "4883c00180382f75094883c00180382f74ee"
# mov %rax,%r9; add $1,%rax; cmpq $0,-8(%rdx,%rax,8); je: by words
WORDS = "4989c14883c00148837cc2f80074f1"
# add $1,%rdi; cmp $0x2f,%al; movzbl (%rdi),%eax; jne over; mov %rdi,%rdx; over: test %al,%al; jne:
# its path has the second move, so that what al begins with counts
BEFORE = "4883c7013c2f0fb60775034889fa84c075ee"


@pytest.mark.parametrize(
    ("code", "counter", "most", "changed"),
    [
        (ZERO, "rax", 4095, 1), (TABLE, "r14", 4095, 2), (TWICE, "rax", 2047, 1),
        (WORDS, "rax", 511, 1), (BEFORE, "rdi", 4095, 1),
    ],
)  # fmt: skip
def test_a_loop_that_looks_for_a_value_ends_where_memory_holds_it(code, counter, most, changed):
    prepared = _prepared(code)
    assert not prepared.replaced
    assert (prepared.start.counter, prepared.most) == (counter, most)
    words = {at // 8 for at in prepared.start.memory.changed}
    assert len(words) == changed
    assert unaimed(prepared, code) == code
    begun = [
        block_starts.EmulatedLoop(
            prepared.path, prepared.image, len(prepared.path.steps) - 1, prepared.start.memory
        )
        .run(prepared.start, iterations)
        .iterations
        for iterations in (24, most // 2, most)
    ]
    assert [one - begun[0] for one in begun] == [0, most // 2 - 24, most - 24]
    lines = block.job("x86_64", "it", block.of_hex("it", code, 0, "x86_64", None), 1).splitlines()
    [times] = [line for line in lines if line.startswith("times")]
    assert int(times.split()[2]) <= most


def test_a_loop_that_stores_does_not_end_by_what_memory_holds():
    # add $1,%rax; mov %dl,(%rdi,%rax); cmpb $0,-1(%rsi,%rax); jne
    with pytest.raises(InputError, match="nothing in it can count"):
        _prepared("4883c001881407807c06ff0075f2")


@pytest.mark.parametrize("length", range(2, 8))
def test_a_comparison_that_counts_has_the_length_of_what_it_replaces(length):
    import iced_x86 as iced

    names = ("rdi", "rax") if length == 2 else ("r15", "r12")
    [ins] = iced.Decoder(64, block_path._compare(*names, length))
    assert len(ins) == length
    assert ins.mnemonic == iced.Mnemonic.CMP
    assert [block_path.full_name(ins.op_register(n)) for n in (1, 0)] == [*names]


def test_what_counts_hands_nothing_on_where_the_loop_moves_a_register():
    # movups (%rax),%xmm0; add $16,%rax; pmovmskb %xmm0,%ecx; cmp $7,%ecx; jne: 256 iterations of
    # a page are too few to end by memory, and a chain of dec would take a cycle each
    prepared = _prepared("0f10004883c010660fd7c883f90775f0")
    assert "replaced by cmp %r15,%rax and jne" in prepared.replaced
    assert prepared.start.registers(24)["r15"] == prepared.start.values["rax"] + 16 * 24


# inc %rsi; cmp 8(%rax,%rdx),%rcx; jne
GUESSED = """
from loopwright.measuring import block_path, block_starts
path = block_path.of_loop(bytes.fromhex("48ffc6483b4c100875f6"))
seen = block_starts.Observation({}, {"rax": 1, "rcx": 2, "rdx": 3})
print(*block_starts.Guesses(path)._memory_candidates(2, 0, seen))
"""


def test_guesses_are_the_same_in_every_process():
    guesses = {
        subprocess.check_output(
            [sys.executable, "-c", GUESSED], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in "023"
    }
    assert len(guesses) == 1


@X86_ONLY
@pytest.mark.measures
def test_an_exit_that_is_taken_ends_the_try_and_is_named():
    from dataclasses import replace

    from loopwright.measuring import measure_blocks as measure_blocks_module

    good = block.of_code("search", bytes.fromhex(SEARCH), 5, "x86_64", "loop")
    start = good.prepared.start
    # The byte that no record has, at the record that all words point to.
    wrong = start.memory.with_value(start.memory.word + 9, 1, 4)
    bad = replace(good, prepared=replace(good.prepared, start=replace(start, memory=wrong)))
    [row] = measure_blocks_module.measure_in_turns("x86_64", [bad], 1)
    if "self-test failed" in row["reason"]:
        pytest.skip(f"nothing can be measured here: {row['reason']}")
    assert (row["status"], row["reason"]) == ("refused", "exit at +0x7 taken")


def test_memory_behind_gs_is_there():
    # mov %gs:0x10,%rax; inc %rcx; cmp %rdx,%rcx; jne
    assert not _prepared("65488b04251000000048ffc14839d175ef").replaced


KNOWN = {  # by code and path; cycles are those of chains: 3 a multiplication
    (WALK, ""): None,
    (LIST, ""): None,
    ("480fafdb48ffc979f7", ""): 3.0,
    (FORK, ""): 6.0,
    (FORK, "0-9 13-20"): 3.0,
    # imul %rbx,%rbx; jmp over 9 bytes; imul %rbx,%rbx; add $1,%eax; cmp %edx,%eax; jne
    ("480fafdbeb09cccccccccccccccccc480fafdb83c00139d075e6", "0-6 15-26"): 6.0,
}


@X86_ONLY
@pytest.mark.measures
def test_loops_of_a_blocks_file_cost_what_is_known(tmp_path):
    from loopwright.measuring.measure_blocks import measure_blocks

    rows = [f"{n},{code},{7 * n},{way}" for n, (code, way) in enumerate(KNOWN)]
    (tmp_path / "loops.csv").write_text("\n".join(["id,hex,offset,path", *rows, ""]))
    table = measure_blocks(tmp_path / "loops.csv")
    assert (table["notion"] == "loop").all()
    found = table[table["cycles"].notna()]
    if found.empty:
        pytest.skip(f"nothing was measured: {table['reason'].iloc[0]}")
    for row in found.itertuples():
        known = list(KNOWN.values())[int(row.id)]
        assert known is None or abs(row.cycles - known) <= max(row.uncertainty, 0.02 * known), row


def test_a_path_that_cannot_be_read_names_its_line(tmp_path, capsys):
    from loopwright.cli import run

    (tmp_path / "loops.csv").write_text(f"id,hex,path\nfork,{FORK},0-\n")
    assert run(["measure", "--blocks", str(tmp_path / "loops.csv")]) == 2
    assert "loops.csv:2: path '0-' is none" in capsys.readouterr().err


@X86_ONLY
@pytest.mark.measures
def test_hostile_loops_each_have_an_answer():
    import random

    from loopwright.measuring import measure_blocks as measure_blocks_module

    chance = random.Random(5)
    blocks = []
    for n in range(150):
        body = chance.randbytes(chance.randint(2, 20))
        compare = chance.choice(("4839d0", "85c0", "83f805", "48ffc9"))
        code = body + bytes.fromhex(compare)
        code += b"\x75" + (-len(code) - 2).to_bytes(1, "little", signed=True)
        blocks.append(block.of_code(str(n), code, n % 64, "x86_64", "loop"))
    assert any(one.prepared for one in blocks)
    rows = measure_blocks_module.measure_in_turns("x86_64", blocks, 1)
    assert [row["id"] for row in rows] == [one.id for one in blocks]
    for row in rows:
        assert (row["status"] == "refused") == (row["cycles"] != row["cycles"])
        assert row["status"] != "refused" or row["reason"]


# vpaddd (%rax),%zmm0,%zmm7; add $64,%rax; cmp %rax,%rdx; jne, and vptest %ymm0,%ymm1; je between
VECTORS = "62f17d48fe384883c0404839c275f1"
TESTED = "62f17d48fe38c4e27d17c874084883c0404839c275ea"


@X86_ONLY
def test_a_loop_whose_end_hangs_on_no_vector_counts_by_itself():
    prepared = _prepared(VECTORS)
    assert not prepared.replaced
    assert prepared.start.counter in ("rax", "rdx")


@X86_ONLY
def test_a_branch_that_hangs_on_vectors_unknown_to_the_emulator_is_refused():
    with pytest.raises(InputError, match="lacks an instruction"):
        _prepared(TESTED)
