"""One call traced: what it reads and writes, which way branches go, where faults lead."""

import pytest

import loopwright as lw
from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import Code, decode
from loopwright.errors import InputError
from loopwright.kernels import contract_of
from loopwright.machine import emulator
from loopwright.machine.emulator import Call

SIZES = (0, 1, 7, 8, 63, 64, 65, 200, 517, 1500)


def _variants(*effects):
    every = (v for kernel in kernels.every() for v in kernel.variants.values())
    return [v for v in every if contract_of(v).effect in effects]


def _trace(variant, call):
    return emulator.trace_call(assemble.variant_code(variant), contract_of(variant), call)


def _covered(steps, side, buffer):
    accesses = (getattr(step, side) for step in steps)
    found = [a for a in accesses if a is not None and a.buffer == buffer]
    return {n for a in found for n in range(a.offset, a.offset + a.bytes)}


@pytest.mark.parametrize("variant", _variants("copy", "clear"), ids=lambda v: v.id)
def test_a_call_writes_its_buffer_whole_and_nothing_else(variant):
    for size in SIZES:
        found = _trace(variant, Call(size, dst_align=3, src_align=5))
        assert _covered(found.steps, "store", "dst") == set(range(size)), size
        assert found.returned["uncopied"] == 0
        assert found.steps[-1].instruction.mnemonic.startswith("ret")


@pytest.mark.parametrize("variant", _variants("checksum"), ids=lambda v: v.id)
def test_a_checksum_reads_its_buffer_whole(variant):
    for size in SIZES:
        found = _trace(variant, Call(size, src_align=1))
        assert _covered(found.steps, "load", "src") >= set(range(size)), size
        assert not _covered(found.steps, "store", "src")


@pytest.mark.parametrize("variant", _variants("copy", "clear"), ids=lambda v: v.id)
def test_a_fault_goes_on_at_its_fixup_and_is_said(variant):
    contract = contract_of(variant)
    side = contract.faulting[0]
    for reach in (0, 1, 37, 129):
        found = _trace(variant, Call(200, faults={side: reach}))
        faults = [n for n, step in enumerate(found.steps) if step.fault]
        assert {found.steps[n].fault for n in faults} == {side}
        left = found.returned["uncopied"]
        assert left == 200 - reach if contract.uncopied == "exact" else 200 - reach <= left <= 200
        fixups = {e.insn: e.fixup for e in assemble.variant_code(variant).exceptions}
        for n in faults:
            after = found.steps[n + 1].instruction.address
            assert after == fixups[found.steps[n].instruction.address]


def test_branches_say_whether_they_were_taken():
    rows = lw.trace("x86_64/clear_user/plain", size=24)
    branch = rows[rows["text"].str.startswith("jae")]
    assert list(branch["taken"]) == [True, True, False]
    assert rows[rows["text"].str.startswith("mov")]["taken"].isna().all()


def test_a_string_instruction_is_one_step_with_its_count_and_all_its_bytes():
    rows = lw.trace("x86_64/copy_user/movsq_aligned", size=100, align=(1, 0))
    [string] = rows[rows["text"].str.startswith("rep")].to_dict("records")
    assert (string["repeats"], string["load_bytes"], string["store_bytes"]) == (11, 88, 88)
    assert (string["load"], string["store"]) == ("src+7", "dst+7")
    assert string["store_address"] % 8 == 0
    nothing = lw.trace("x86_64/put_event/stat_buffer_fsrm", size=1)
    [string] = nothing[nothing["text"].str.startswith("rep")].to_dict("records")
    assert (string["repeats"], string["load_bytes"]) == (144, 144)
    assert string["load"].startswith("stack")


def test_repetitions_before_a_fault_are_those_that_were_done():
    rows = lw.trace("x86_64/copy_user/movsq", size=100, fault=("dst", 44))
    string = rows[rows["text"].str.startswith("rep")].iloc[0]
    assert (string["repeats"], string["fault"]) == (5, "dst")


def test_code_stands_at_the_offset_asked_for_and_loads_are_apart_from_stores():
    rows = lw.trace("x86_64/copy_user/unrolled64", size=640, offset=17, align=(8, 0))
    loop = assemble.main_loop(
        kernels.load("x86_64/copy_user").variants["unrolled64"],
        assemble.variant_code(kernels.load("x86_64/copy_user").variants["unrolled64"]),
    )
    heads = rows[rows["address"] == f"{loop.start:#x}"]
    assert set(heads["offset"]) == {17}
    first = rows[rows["store"] == "dst+0"].iloc[0]
    assert first["store_address"] % 4096 == 8
    assert rows[rows["load"] == "src+0"].iloc[0]["load_address"] % 4096 == 2048


def test_a_core_takes_the_alternatives_that_it_has():
    with_smap = lw.trace("x86_64/put_event/write_begin", size=2, microarch="zen2")
    without = lw.trace("x86_64/put_event/write_begin", size=2, microarch="sandybridge")
    assert list(with_smap["text"]).count("stac") == 2
    assert "stac" not in set(without["text"])


def _code(text, isa="x86_64"):
    data = bytes.fromhex(text)
    return Code(isa, data, 0, len(data), decode(isa, data), {"f": 0}, (), ())


def test_code_that_cannot_be_run_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(emulator, "MOST_STEPS", 10_000)
    contract = contract_of(kernels.load("x86_64/copy_user").variants["movsb"])
    for text, why in (
        ("c5fe6f06c5fe7f07c3", "no AVX"),
        ("488b042500000000c3", "no entry|exception table"),
        ("ebfe", "does not return"),
    ):
        with pytest.raises(InputError, match=why):
            emulator.trace_call(_code(text), contract, Call(8))


ADD = """\
1:\tmovq (%rsi,%rax,8), %rdx
\ttestq %rdx, %rdx
\tje 2f
\taddq %rdx, 16(%rdi)
2:\tincq %rax
\tcmpq %rcx, %rax
\tjne 1b
"""


def accesses(rows, kind):
    return [
        (place, size)
        for place, size in zip(rows[kind], rows[f"{kind}_bytes"], strict=True)
        if place
    ]


def test_iterations_of_a_loop_go_through_buffers_named_by_their_registers():
    rows = lw.trace(asm=ADD, iterations=3, offset=60)
    assert list(rows["iteration"].unique()) == [0, 1, 2]
    assert accesses(rows, "load") == [("rsi+0", 8), ("rsi+8", 8), ("rsi+16", 8)]
    assert not accesses(rows, "store")  # memory holds zeros, and the branch skips the addition
    last = rows[rows["text"].str.startswith("jne")]
    assert list(last["taken"]) == [True] * 3
    assert rows["offset"].iloc[0] == 60


def test_a_loop_of_arm64_is_traced_and_its_exits_are_not_taken():
    text = "1: ldp x2, x3, [x1], 16\n cbz x2, 2f\n stp x2, x3, [x0], 16\n b 1b\n2: ret\n"
    rows = lw.trace(asm=text, iterations=2)
    assert accesses(rows, "load") == [("x1+0", 16), ("x1+16", 16)]
    assert accesses(rows, "store") == [("x0+0", 16), ("x0+16", 16)]
    assert list(rows["taken"].dropna()) == [False, True] * 2


def test_a_string_instruction_repeats():
    [row] = lw.trace(asm="rep movsq\n", iterations=1).to_dict("records")
    assert (row["repeats"], row["load"], row["store"], row["store_bytes"]) == (
        8,
        "rsi+0",
        "rdi+0",
        64,
    )


def test_hex_that_is_no_loop_is_passed_through_once_an_iteration():
    rows = lw.trace(hex="488b07488947 08".replace(" ", ""), iterations=2)
    assert list(rows["load"]) == ["rdi+0", "", "rdi+0", ""]
    assert list(rows["store"]) == ["", "rdi+8", "", "rdi+8"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give one of"),
        ({"asm": ADD, "hex": "90"}, "give one of"),
        ({"asm": ADD, "size": 8}, "are for KERNEL/VARIANT"),
        ({"asm": ADD, "iterations": 0}, "give 1 to"),
        ({"asm": ADD, "offset": 64}, "0..63"),
        ({"hex": "90", "isa": "z80"}, "unknown ISA"),
        ({"spec": "x86_64/csum/adc4", "size": 8, "microarch": "tsv110"}, "does not run"),
        ({"spec": "x86_64/clear_user/plain"}, "--size"),
        ({"spec": "x86_64/clear_user/plain", "size": 8, "iterations": 2}, "are for --asm"),
        ({"asm": "1: vmovups (%rdi), %ymm0\n jmp 1b\n"}, "AVX"),
        ({"asm": "1: call *%rax\n jmp 1b\n"}, "leaves the loop"),
        ({"asm": "1: call other\n jmp 1b\n"}, "leaves the loop"),
    ],
)
def test_what_cannot_be_traced_is_one_line(asked, said):
    with pytest.raises(InputError, match=said):
        lw.trace(**asked)
