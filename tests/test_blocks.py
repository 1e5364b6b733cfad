"""Blocks in sealed processes: known answers, refusals with a reason, nothing touched outside."""

import json
import math
import random
import subprocess
from pathlib import Path

import pytest

from loopwright import harness, paths, toolchain
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.measuring.blocks import addresses
from loopwright.measuring.blocks.slopes import BlockReading, result, wants_more
from loopwright.measuring.blocks.trips import of_block
from loopwright.measuring.blocks.verb import COLUMNS, measure_blocks

pytestmark = pytest.mark.measures

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 blocks")
LOADS = "488b06488b07498b00498b01"
KNOWN = {"4801c8": 1.0, "480fafc0": 3.0, "4811c8": 1.0}  # add, imul, adc: chains


def _job(code, isa="x86_64", name="block", counter="", offset=0):
    size = len(code) // 2
    short = 20000 if counter else max(8, 2048 // size)
    lines = [f"job block\nid {name}\nisa {isa}\ncode {code}\noffset {offset}"]
    lines += [f"times {short} {2 * short}", *([f"counter {counter}"] if counter else []), "end\n"]
    return "\n".join(lines)


def _file(path, rows):
    path.write_text("id,hex,offset\n" + "".join(f"{i},{h},{o}\n" for i, h, o in rows))
    return path


@X86_ONLY
def test_chains_of_known_cost_hold_or_are_refused(tmp_path):
    rows = [(code, code, n * 7) for n, code in enumerate(KNOWN)]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="all")
    assert list(table.columns) == COLUMNS
    assert list(table["notion"]) == ["loop", "unrolled"] * len(KNOWN)
    for row in table.itertuples():
        if row.status == "refused":
            assert math.isnan(row.cycles)
            assert row.reason.startswith(("disturbed", "self-test failed", "slopes"))
        else:
            assert abs(row.cycles - KNOWN[row.id]) <= max(row.uncertainty, 0.02 * KNOWN[row.id])
            assert row.processes >= 2


@X86_ONLY
def test_rows_that_are_no_code_stay_with_the_reason(tmp_path):
    rows = [
        ("odd", "4", 0),
        ("cut", "48", 0),
        ("call", "e800000000", 0),
        ("ret", "c3", 0),
        ("out", "eb7f", 0),
        ("long", "90" * 1025, 0),
        ("back", "ebfe", 0),
        ("syscall", "0f05", 0),
    ]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="unrolled")
    assert (table["status"] == "refused").all()
    assert table["cycles"].isna().all()
    said = dict(zip(table["id"], table["reason"], strict=True))
    assert "a byte needs two" in said["odd"]
    assert "starts no whole x86-64 instruction" in said["cut"]
    assert "leaves the block" in said["call"]
    assert "leaves the block" in said["ret"]
    assert "branches out of the block" in said["out"]
    assert "1025 bytes are too long" in said["long"]
    assert "branches out of the block, or back" in said["back"]
    assert "leaves the block" in said["syscall"]


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
    "48bc000000000000008058": "stack that cannot be",
    "48b8000000000000008048ff00": "address that cannot be",
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


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("488b4601", True),  # mov 1(%rsi), %rax
        ("488b4608", False),
        ("0f284620", False),  # movaps 32(%rsi), %xmm0
        ("0f104608", True),  # movups 8(%rsi), %xmm0: some CPUs do not refuse it
        ("0f104638", True),  # across a line
        ("c5fe6f4620", False),  # vmovdqu 32(%rsi), %ymm0
        ("c5fe6f4610", True),
        ("f20f104604", True),  # movsd 4(%rsi), %xmm0
        ("488d4601", False),  # lea
        ("48ffc6488b06", False),  # inc %rsi, and where it points then is not known
        ("6448 8b0425 01000000".replace(" ", ""), False),  # behind fs
        ("ff7601", True),  # push 1(%rsi)
    ],
)
def test_misaligned_accesses_are_known_by_their_operands(code, expected):
    assert addresses.misaligned("x86_64", bytes.fromhex(code)) is expected


def test_pointers_are_where_the_harness_puts_them():
    machine = (paths.HARNESS / "block_machine.h").read_text()
    assert f"#define BLOCK_POINTER {addresses.POINTER:#x}u" in machine
    steps = (paths.HARNESS / "x86_64" / "block.c").read_text()
    assert f"{{{addresses.STEP:#x}, {addresses.ALIGNED_STEP:#x}}}" in steps


@X86_ONLY
def test_loads_of_several_registers_do_not_meet_in_a_bank(tmp_path):
    table = measure_blocks(_file(tmp_path / "blocks.csv", [("loads", LOADS, 0)]), notion="all")
    for row in table[table["status"] != "refused"].itertuples():
        loads = 4 / row.cycles
        assert abs(loads - round(loads)) <= 0.05, row


TWO_SPEEDS = "0f31" + "0fbae0{:02x}" + "7378" + 30 * "480fafdb"  # rdtsc; bt; over 30 imuls or not


@X86_ONLY
@pytest.mark.parametrize("bit", [20, 22, 24])
def test_a_block_of_two_speeds_makes_no_plain_figure(tmp_path, bit):
    path = _file(tmp_path / "blocks.csv", [("two", TWO_SPEEDS.format(bit), 0)])
    [row] = measure_blocks(path, notion="unrolled").to_dict("records")
    if "self-test failed" in row["reason"]:
        pytest.skip(f"nothing can be measured here: {row['reason']}")
    assert row["status"] in ("bimodal", "refused"), row
    assert row["reason"]


@X86_ONLY
def test_streams_of_known_cost_are_covered_by_their_uncertainty(tmp_path):
    known = {  # cycles of a copy; one multiplication a cycle on every core
        "6bc107": 1.0,
        "486bc107486bd107": 2.0,
        "480fafc0480fafdb": 3.0,
        "4801c8": 1.0,
    }
    rows = [(code, code, 0) for code in known]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="all")
    found = table[table["status"] != "refused"]
    if found.empty:
        pytest.skip(f"nothing was measured: {table['reason'].iloc[0]}")
    covered = [abs(r.cycles - known[r.id]) <= r.uncertainty for r in found.itertuples()]
    assert sum(covered) >= len(covered) - 1, found[["id", "cycles", "uncertainty"]]


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


def test_arm64_rows_say_that_they_were_emulated(tmp_path):
    if toolchain.host_isa() == "arm64":
        pytest.skip("arm64 blocks are measured here")
    path = _file(tmp_path / "blocks.csv", [("add", "0000018b", 4)])
    table = measure_blocks(path, notion="all", isa="arm64")
    assert set(table["reason"]) == {"emulated: no timing (qemu-aarch64 runs its code here)"}
    assert set(table["microarch"]) == {""}
    with_loop = table.set_index("notion")["code"]["loop"]
    assert with_loop == "0000018b9c0700d1dcffffb5"  # sub x28, x28, #1; cbnz x28


@pytest.mark.parametrize(
    ("isa", "code", "counter", "repeated"),
    [
        ("x86_64", "4801c8", "r15", "4801c849ffcf75f8"),
        ("x86_64", "4d01ff", "r14", "4d01ff49ffce75f8"),
        ("x86_64", "4801c849ffcf75f8", "r15", "4801c849ffcf75f8"),  # a loop already
        ("x86_64", "90" * 124, "r15", "90" * 124 + "49ffcf" + "0f857bffffff"),
        ("arm64", "0000018b", "x28", "0000018b9c0700d1dcffffb5"),
    ],
)
def test_loops_count_in_a_register_that_the_block_leaves_alone(isa, code, counter, repeated):
    trip = of_block(isa, bytes.fromhex(code))
    assert (trip.counter, trip.code.hex()) == (counter, repeated)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("4801c84839c875f8", "a number of trips that is not known"),
        ("4d01ff49ffcf75f8", "counts in r15, which the block uses besides"),
        ("4801c84801d94801f24801fb4d01c54d01ca4d01d34d01e44d01f64d01ff", "no register to count"),
    ],
)
def test_loops_that_cannot_be_counted_are_refused(code, said):
    if "no register" in said:
        code += "4801ed4d01c9"  # rbp and r9
    with pytest.raises(InputError, match=said):
        of_block("x86_64", bytes.fromhex(code))


def _reading(cycles, refused="", disturbed=False, spread=0.001, two_speeds="", copies=10_000):
    return BlockReading(
        cycles=cycles,
        p10=cycles * (1 - spread),
        p90=cycles * (1 + spread),
        samples=40,
        accepted=50,
        slow=10,
        slow_from=1.1,
        slow_to=2.5,
        copies=copies,
        two_speeds=two_speeds,
        clock="clock",
        misaligned=False,
        shared=False,
        disturbed=disturbed,
        refused=refused,
    )


def test_slopes_that_differ_give_no_number():
    row = result([_reading(1.0), _reading(1.3)], turns=2)
    assert row["status"] == "refused"
    assert row["reason"] == "slopes are inconsistent: 1.00, 1.30 cycles in 2 runs"
    assert math.isnan(row["cycles"])


def test_the_odd_one_out_is_left_out_and_said():
    row = result([_reading(1.0), _reading(1.7), _reading(1.001)], turns=2)
    assert row["cycles"] == pytest.approx(1.0005)
    assert (row["status"], row["processes"]) == ("bimodal", 2)
    assert row["reason"] == "processes differ: 1.00, 1.70, 1.00 cycles"


def test_noise_is_no_second_speed():
    row = result([_reading(1.0), _reading(1.012), _reading(1.006)])
    assert (row["status"], row["reason"]) == ("ok", "")
    assert row["cycles"] + row["uncertainty"] >= 1.012
    one = _reading(1.0, two_speeds="9 of 24 samples took 2.60 times as long")
    row = result([one, _reading(1.0), _reading(1.0)])
    assert (row["status"], row["reason"]) == ("bimodal", one.two_speeds)


def test_what_was_dropped_is_said():
    row = result([_reading(1.0)] * 3)
    assert (row["dropped"], row["dropped_from"], row["dropped_to"]) == (0.2, 1.1, 2.5)


def test_codes_end_early_or_late_by_their_length():
    short = [_reading(c, copies=100) for c in (1.72, 1.66, 1.60)]
    row = result(short)
    assert (row["status"], row["processes"]) == ("ok", 3)
    assert row["uncertainty"] > 0.06
    assert result([_reading(c) for c in (1.72, 1.66, 1.60)])["status"] == "refused"
    assert result([_reading(1.0, copies=100)] * 3)["uncertainty"] == pytest.approx(0.02)


def test_disturbed_runs_do_not_count():
    disturbed = _reading(0, "disturbed: 3 of 20", True)
    row = result([_reading(1.0), disturbed, _reading(1.0)], turns=2)
    assert (row["status"], row["cycles"]) == ("ok", 1.0)
    row = result([disturbed] * 5)
    assert row["reason"] == "disturbed: 3 of 20 (in 5 of 5 processes)"


def test_noisy_runs_give_way_to_quiet_ones():
    noisy = _reading(1.015, spread=0.035)
    assert wants_more([noisy, _reading(1.0)], turns=2)
    assert not wants_more([_reading(1.0)], turns=1)
    assert not wants_more([noisy], turns=1)
    alone = result([_reading(1.0)], turns=1)
    assert (alone["status"], alone["note"]) == ("ok", "one process alone")
    assert result([_reading(1.0)] * 2, turns=2)["note"] == ""
    disturbed = _reading(0, "disturbed: 3 of 20", True)
    assert result([disturbed], turns=1)["status"] == "refused"
    both = result([noisy, _reading(1.0)], turns=2)
    assert (both["status"], both["uncertainty"] > 0.04) == ("ok", True)
    row = result([noisy, _reading(1.0), _reading(1.001)], turns=2)
    assert (row["status"], row["cycles"]) == ("ok", pytest.approx(1.0005))
    assert row["uncertainty"] < 0.002


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--blocks", "{}/absent.csv"], "absent.csv: No such file"),
        (["--blocks", "{}/binary.csv"], "binary.csv is no UTF-8 text"),
        (["--blocks", "{}/blocks.csv", "--notion", "lop"], "notion"),
        (["--blocks", "{}/blocks.csv", "--offset", "64"], "offset 64 is not in 0..63"),
        (["--blocks", "{}/blocks.csv", "--isa", "mips"], "isa"),
        (["--blocks", "{}/blocks.csv", "--sizes", "8"], "--blocks takes"),
        (["x86_64/copy_user", "--blocks", "{}/blocks.csv"], "exclude each other"),
        (["x86_64/copy_user", "--notion", "loop"], "are for --blocks"),
        ([], "give KERNEL[/VARIANT] or --blocks"),
    ],
)
def test_settings_that_make_no_sense_are_named(arguments, said, tmp_path, capsys):
    _file(tmp_path / "blocks.csv", [("add", "4801c8", 0)])
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    assert run_cli(["measure", *(a.format(tmp_path) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@X86_ONLY
def test_the_verb_prints_rows_as_json(tmp_path, capsys):
    path = _file(tmp_path / "blocks.csv", [("hlt", "f4", 0), ("none", "zz", 5)])
    assert run_cli(["measure", "--blocks", str(path), "--json"]) == 1  # no figure at all
    rows = json.loads(capsys.readouterr().out)
    assert [(r["id"], r["status"], r["cycles"]) for r in rows] == [
        ("hlt", "refused", None),
        ("none", "refused", None),
    ]
    assert Path(path).exists()
