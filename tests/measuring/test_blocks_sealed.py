"""Blocks in sealed processes: what they do wrong is said, nothing outside is touched."""

import json
import random
import subprocess

import pytest

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.machine import harness

_TRIES = 20
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 blocks")


def _job(code, isa="x86_64", name="block", counter="", offset=0):
    size = len(code) // 2
    short = 20000 if counter else max(8, 2048 // size)
    lines = [f"job block\nid {name}\nisa {isa}\ncode {code}\noffset {offset}"]
    lines += [f"times {short} {2 * short}", *([f"counter {counter}"] if counter else []), "end\n"]
    return "\n".join(lines)


WRONG = {
    "0f05": "makes a system call",
    "cd80": "makes a system call",
    "ebfe": "does not end within",
    "f4": "privileged instruction",
    "0f30": "privileged instruction",
    "0f0b": "illegal or privileged instruction",
    "cc": "trap",
    "68000300009d": "trap",
    "31c9f7f1": "arithmetic exception",
    "c3": "jumps away",
    "31c0ffe0": "jumps away",
    "c605f9ffffffcc": "writes to its own code",
    "31c0488b00": "not to be had",
    "4881c70010000048890f": "touches too many pages",
    "48b90000001000000000f3aa": "touches too many pages",
    "48bc000000000000008058": "a stack outside of the address space",
    "48b8000000000000008048ff00": "an access outside of the address space",
}
HARMLESS = {
    "fd": "std",
    "644889042500000000": "a store behind fs",
    "654889042500000000": "a store behind gs",
    "31e4bc00000030": "a stack pointer of its own",
    "f3480faed1": "wrfsbase",
    "0fae1c24": "stmxcsr",
    "ddd9": "the x87 stack",
}


@X86_ONLY
def test_what_a_block_does_wrong_is_said():
    records = list(harness.run("x86_64", "".join(_job(code, name=code) for code in WRONG)))
    assert [r["id"] for r in records] == list(WRONG)
    assert all(r["cycles"] is None for r in records)
    said = {r["id"]: r["refused"] for r in records}
    assert {code: text for code, text in said.items() if WRONG[code] not in text} == {}


@X86_ONLY
def test_what_harms_nothing_is_measured_or_disturbed():
    for record in harness.run("x86_64", "".join(_job(code, name=code) for code in HARMLESS)):
        assert not record["refused"] or record["disturbed"], record


@X86_ONLY
def test_scribbling_forges_no_result():
    # Stores to all that can be named: behind fs and gs, on the stack, 1 GiB before and behind.
    code = "4889042500000020" + "644889042500000000" + "654889042500000010"
    code += "48890424" + "488905000000c0" + "48890500000040"
    [record] = harness.run("x86_64", _job(code))
    assert record["disturbed"] or record["cycles"] > 2  # six stores, two a cycle at most
    assert record["disturbed"] or record["pages"] >= 4


@X86_ONLY
def test_misaligned_accesses_are_noted():
    codes = {"488b4601": 1, "488b4608": 0, "66894601": 1, "0f284620": 0}
    jobs = "".join(_job(code, name=code) for code in codes)
    noted = {r["id"]: r["misaligned"] for r in harness.run("x86_64", jobs)}
    assert noted == codes


def _call_of(number, path):
    """Return a block that makes a system call with a path behind it, read-write-create."""
    head = f"be42000000baff010000b8{number:02x}000000"
    return "488d3d11000000" + head + "0f05" + (path.encode() + b"\0").hex()


@X86_ONLY
def test_nothing_outside_is_touched(tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("sings")
    made = tmp_path / "made"
    forged = json.dumps({"id": "forged", "refused": "", "cycles": 1})
    write = "bf01000000" + "488d3507000000" + f"ba{len(forged) + 1:02x}000000" + "b801000000"
    calls = [
        _call_of(87, str(canary)),  # unlink
        _call_of(2, str(made)),  # open
        _call_of(76, str(canary)),  # truncate
        "b8390000000f05",  # fork
        write + "0f05" + (forged + "\n").encode().hex(),
    ]
    jobs = "".join(_job(code, name=str(n)) for n, code in enumerate(calls))
    done = subprocess.run(
        [harness.build("x86_64")], input=jobs, capture_output=True, text=True, check=True
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["id"] for r in records] == [str(n) for n in range(len(calls))]
    assert {r["refused"] for r in records} == {"makes a system call"}
    assert canary.read_text() == "sings"
    assert not made.exists()


# Privileged, endless, self-modifying, away, system calls, stacks, segments, flags, strings.
NASTY_CODES = """
    0f05 cd80 0f34 f4 0f30 0f32 0f0b cc f1 ebfe fb fa fd 9d c3 cb cf 48cf ffe0 ffd0 f3a4 f3ab 0fa2
    0f31 0f01f9 0f01d0 0f01ef 0faef8 ff28 0f01c1 0f01d9 0fc7f8 0fae28 0f09 0f08 0f20c0 0f22d8 0f07
    0f35 0fae00 8ee0 8ed0 8ed8 4831e4 488b00488900 48010048ffc0 f390 48c7c000f5ffffffe0 480fc70f
    c605f9ffffffcc c705000000000f050f05 bc00000000 48bc8877665544332211 48bcffffffffff7f0000
    64488904250000000000 65488904250000000000 f3480faed0 f3480faed8 48b8000000000000ffffffe0
    48b9ffffffffffffff7ff3aa 4881c70010000048890f 68030400009d 68000304009d 68000004009d
    e800000000
    b83c0000000f05 b8390000000f05 b8090000000f05 c8ffff1f 0f0100 0f0000 0f01c8 4c8b2425100060ff 8cd0
    488d0500000000c60090 e9fbffffff 0f1800 0f01fa 0f01fb 0f01ca 0f01cb c5f877 dbe3 d9e8 0f77
"""
NASTY = NASTY_CODES.split()


def _hostile(count, seed):
    chance = random.Random(seed)
    for n in range(count):
        kind = chance.random()
        if kind < 0.4:
            code = chance.randbytes(chance.randint(1, 40)).hex()
        elif kind < 0.7:
            code = "".join(chance.choices(NASTY, k=chance.randint(1, 4)))
        else:
            around = [chance.randbytes(chance.randint(1, 8)).hex() for _ in range(2)]
            code = chance.choice(NASTY).join(around)
        counter = "r15" if chance.random() < 0.2 else ""
        if counter:
            back = -(len(code) // 2 + 9)
            code += "49ffcf0f85" + back.to_bytes(4, "little", signed=True).hex()
        yield _job(code, name=str(n), counter=counter, offset=chance.choice((0, 13, 63)))


def _assert_survived(count, seed):
    jobs = list(_hostile(count, seed))
    records = list(harness.run("x86_64", "".join(jobs)))
    assert [r["id"] for r in records] == [str(n) for n in range(count)]
    for record in records:
        assert bool(record["refused"]) != (record["cycles"] is not None), record
        assert record["cycles"] is None or record["cycles"] > 0
    assert len({r["refused"] for r in records}) > 8


@X86_ONLY
def test_hostile_blocks_each_have_an_answer():
    _assert_survived(100, seed=1)


@pytest.mark.measures
@X86_ONLY
@pytest.mark.slow
def test_ten_thousand_hostile_blocks():
    for seed in range(2, 12):
        _assert_survived(1000, seed)


ARM64 = {
    "0000018b": "emulated: no timing",  # add x0, x0, x1
    "010000d4": "system call",  # svc
    "000020d4": "trap",  # brk
    "00000014": "does not end within",  # b .
    "00000000": "illegal",  # udf
    "00f238d5": "illegal",  # mrs
    "c0035fd6": "jumps away",  # ret
    "000080d2000040f9": "not to be had",  # ldr of address 0
    "00044091000000f900044091000000f9": "touches too many pages",
}


@pytest.mark.skipif(toolchain.host_isa() == "arm64", reason="these are measured here")
def test_arm64_blocks_run_under_emulation_without_timing():
    jobs = "".join(_job(code, "arm64", name=code) for code in ARM64)
    said = {r["id"]: r["refused"] for r in harness.run("arm64", jobs)}
    assert {code: ARM64[code] for code in said if ARM64[code] not in said[code]} == {}
    assert len(said) == len(ARM64)


@pytest.mark.measures
@X86_ONLY
def test_a_block_has_as_many_samples_as_are_asked_for():
    few, usual = _job("4801c8", name="few"), _job("4801c8", name="usual")
    few = few.replace("\nend\n", "\nsamples 16\nend\n")
    taken = {"few": set(), "usual": set()}
    for _ in range(_TRIES):
        for record in harness.run("x86_64", few + usual):
            if not record["refused"]:
                taken[record["id"]].add(record["taken"])
        if 16 in taken["few"] and taken["usual"]:
            break
    else:
        pytest.skip(f"some sample of all {_TRIES} series was disturbed")
    assert min(taken["usual"]) >= 24


# inc [rbx], a chain of 8 multiplications, and of 4 more unless two bits of what was counted are 0.
_BY_TURNS = "48ff03" + "480fafc0" * 8 + "f70300000600" + "7410" + "480fafc0" * 4


@pytest.mark.measures
@X86_ONLY
def test_code_of_two_speeds_is_refused_for_them_and_both_are_named():
    job = _job(_BY_TURNS).replace("\nend\n", "\nsamples 10\nend\n")
    for _ in range(_TRIES):
        [record] = harness.run("x86_64", job)
        if record["unsteady"] and "by turns" in record["refused"]:
            break
    else:
        pytest.skip(f"of {_TRIES} series none showed both speeds: {record['refused']}")
    assert record["disturbed"]
    assert record["refused"].startswith("of no one speed: ")
    named = record["refused"].split("around ")[1].removesuffix(" cycles").split(" and ")
    assert [float(cycles) for cycles in named] == pytest.approx([24, 36], rel=0.1)


@X86_ONLY
@pytest.mark.parametrize("count", ["9", "49", "0", "many"])
def test_a_wrong_number_of_samples_is_an_error(count):
    wrong = _job("4801c8").replace("\nend\n", f"\nsamples {count}\nend\n")
    with pytest.raises(InputError, match="samples"):
        list(harness.run("x86_64", wrong))
