"""Objects, archives and programs: the loops in them, and files that are none."""

import random
import subprocess
from pathlib import Path

import pytest

import loopwright as lw
from loopwright import toolchain
from loopwright.cli import run
from loopwright.code import loops
from loopwright.errors import InputError

X86 = """\
	.globl	sum
	.type	sum, @function
sum:	xorl %eax, %eax
	jmp 2f
	.p2align 4
1:	addq (%rdi), %rax
	addq $8, %rdi
2:	decq %rsi
	jns 1b
	jmp elsewhere
	.size	sum, .-sum
	.globl	copy
	.type	copy, @function
copy:	movq %rdx, %rcx
	rep movsb
	ret
	.size	copy, .-copy
	.globl	back
back:
	decq %rdi
	jne back
	ret
	.globl	twice
	.type	twice, @function
twice:	leaq (%rdi,%rdi), %rax
	ret
	.size	twice, .-twice
"""
ARM64 = """\
	.globl	sum
	.type	sum, %function
sum:	mov x2, xzr
1:	ldr x3, [x0], #8
	add x2, x2, x3
	subs x1, x1, #1
	b.ne 1b
	b elsewhere
	.size	sum, .-sum
	.word	0xffffffff, 0x54ffffe1
	.globl	wait
	.type	wait, %function
wait:	ldr x1, =0x123456789abcdef0
2:	cbnz x1, elsewhere
	tbz x0, #3, 2b
	ret
	.ltorg
	.size	wait, .-wait
"""


def built(folder: Path, isa: str, text: str, name: str = "code.o", *options: str) -> Path:
    (folder / "code.s").write_text(text)
    target = folder / name
    gcc = toolchain.find(isa).gcc
    command = [gcc, "-c", str(folder / "code.s"), "-o", str(target), *options]
    subprocess.run(command, check=True)
    return target


def ids(spec: object) -> list[str]:
    return [piece.id for piece in loops.of_file(str(spec))]


def test_every_loop_of_an_object_is_a_row_named_by_symbol_and_offset(tmp_path):
    obj = built(tmp_path, "x86_64", X86)
    rows = lw.predict(obj=obj, microarch="sandybridge,zen2")
    zen2 = rows[rows["microarch"] == "zen2"].set_index("id")
    # The tail call of sum is no loop, and back closes one though its branch is relocated.
    assert list(zen2.index) == ["sum+0x10", "copy+0x3", "back"]
    assert list(zen2["notion"]) == ["loop", "unrolled", "loop"]
    assert list(zen2["bytes_per_iteration"]) == [8, 64, 0]
    assert zen2.loc["sum+0x10", "offset"] == 16
    assert (rows["error"] == "").all()
    assert set(rows["microarch"]) == {"sandybridge", "zen2"}


def test_the_same_loop_has_the_same_prediction_as_an_object_and_as_text(tmp_path):
    obj = built(tmp_path, "x86_64", X86)
    by_object = lw.predict(obj=f"{obj}:sum", microarch="zen2")
    by_text = lw.predict(asm=X86, microarch="zen2")
    assert list(by_text["id"]) == ["sum:1", "copy:line 15", "back"]
    same = ["cycles", "bottleneck", "offset", "bytes_per_iteration", "least_cycles"]
    assert by_object[same].iloc[0].to_dict() == by_text[same].iloc[0].to_dict()


def test_arm64_objects_with_data_among_the_code(tmp_path):
    obj = built(tmp_path, "arm64", ARM64)
    rows = lw.predict(obj=obj).set_index(["microarch", "id"])
    assert {name for _, name in rows.index} == {"sum+0x4", "wait+0x4"}
    assert {core for core, _ in rows.index} == {"neoverse-n1", "tsv110"}
    assert rows["cycles"].notna().all()
    with pytest.raises(InputError, match="x86_64"):
        lw.predict(obj=obj, microarch="zen2")


def test_a_symbol_is_one_routine_and_without_a_loop_one_call(tmp_path):
    obj = built(tmp_path, "x86_64", X86)
    assert ids(f"{obj}:sum") == ["sum+0x10"]
    (row,) = lw.predict(obj=f"{obj}:twice", microarch="zen2").to_dict("records")
    assert (row["id"], row["notion"], row["error"]) == ("twice", "unrolled", "")
    with pytest.raises(InputError, match=r"code\.o: unknown symbol 'som'; nearest: .*sum"):
        lw.predict(obj=f"{obj}:som")
    subprocess.run(["strip", obj], check=True)
    with pytest.raises(
        InputError, match=r"code\.o is stripped of its symbols; give it without :sum"
    ):
        lw.predict(obj=f"{obj}:sum")


def test_sections_of_their_own_and_archives_name_what_they_are_of(tmp_path):
    split = X86.replace("\t.globl\tcopy", '\t.section .text.copy, "ax"\n\t.globl\tcopy')
    one = built(tmp_path, "x86_64", X86, "one.o")
    two = built(tmp_path, "x86_64", split, "a_name_longer_than_sixteen.o")
    assert ids(two) == ["sum+0x10", "copy+0x3", "back"]
    (tmp_path / "notes.txt").write_text("no object\n")
    archive = tmp_path / "lib:1.a"
    subprocess.run(["ar", "rcs", archive, one, tmp_path / "notes.txt", two], check=True)
    assert ids(archive) == [
        f"{name}:{where}"
        for name in ("one.o", "a_name_longer_than_sixteen.o")
        for where in ("sum+0x10", "copy+0x3", "back")
    ]
    assert ids(f"{archive}:back") == ["one.o:back", "a_name_longer_than_sixteen.o:back"]


@pytest.mark.parametrize("strip", [False, True])
def test_a_program_has_its_own_addresses(tmp_path, strip):
    text = X86.replace("jmp elsewhere", "ret")
    obj = built(tmp_path, "x86_64", text)
    program = tmp_path / "program"
    linker = toolchain.find("x86_64").ld
    subprocess.run([linker, "-Ttext=0x401029", "-e", "sum", "-o", program, obj], check=True)
    if strip:
        subprocess.run([linker.replace("ld", "strip"), program], check=True)
    pieces = loops.of_file(str(program))
    start = pieces[0].address
    assert pieces[0].offset == start % 64
    assert pieces[0].id == (f"{start:#x}" if strip else "sum+0x10")
    assert len(pieces) == 3


def test_places_in_memory_stay_apart_though_they_are_not_linked(tmp_path):
    text = (
        "\t.globl f\nf:\n1:\tmovl %eax, one(%rip)\n\tmovl two(%rip), %eax\n\tdecq %rdi\n\tjne 1b\n"
    )
    (apart,) = loops.of_file(str(built(tmp_path, "x86_64", text)))
    together = text.replace("two", "one")
    (same,) = loops.of_file(str(built(tmp_path, "x86_64", together, "same.o")))
    cycles = [
        lw.predict(hex=piece.code.hex(), microarch="skylake")["cycles"].item()
        for piece in (apart, same)
    ]
    assert cycles[0] < 1.5  # a load and a store that have nothing to do with each other
    assert cycles[1] > 3  # a store that the next load waits for


def test_what_is_no_instruction_has_its_row(tmp_path):
    text = X86.replace("back:\n", "back:\n\t.byte 0x06, 0x07\n")
    rows = lw.predict(obj=built(tmp_path, "x86_64", text), microarch="zen2").set_index("id")
    assert list(rows.index) == ["sum+0x10", "copy+0x3", "back"]
    assert "starts no whole x86-64 instruction" in rows.loc["back", "error"]
    assert rows.loc["sum+0x10", "error"] == ""


def test_files_that_hold_no_code_of_ours_are_one_line(tmp_path, capsys):
    obj = built(tmp_path, "x86_64", X86)
    files = {
        "text": b"no object\n",
        "empty": b"",
        "cut": obj.read_bytes()[:500],
        "small": built(tmp_path, "x86_64", "nop\n", "small.o", "-m32").read_bytes(),
        "data": built(tmp_path, "x86_64", ".data\n.long 1\n", "data.o").read_bytes(),
        "thin": b"!<thin>\n",
        "archive": b"!<arch>\nbroken",
    }
    messages = {}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert run(["predict", "--obj", str(tmp_path / name)]) == 2, name
        messages[name] = capsys.readouterr().err
        assert messages[name].count("\n") == 1
        assert str(tmp_path / name) in messages[name]
    assert "32-bit" in messages["small"]
    assert "no code" in messages["data"]
    assert "thin archive" in messages["thin"]
    for spec in (tmp_path, tmp_path / "nowhere.o", f"{obj}:"):
        assert run(["predict", "--obj", str(spec)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_damaged_objects_are_never_more_than_an_error(tmp_path):
    whole = built(tmp_path, "x86_64", X86).read_bytes()
    chance = random.Random(1)
    path = tmp_path / "damaged.o"
    refused = []
    for _ in range(300):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(1, 6)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            loops.of_file(str(path))
        except InputError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 300
    assert not any("\n" in message for message in refused)
