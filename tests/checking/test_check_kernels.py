"""Every variant of this repository honours its contract, and mutants of its code do not."""

from dataclasses import replace

import pytest
from quick import some

from loopwright import kernels
from loopwright.checking.check import harness_record, run
from loopwright.code import assemble
from loopwright.code.instructions import Code, ExceptionEntry
from loopwright.kernels import contract_of

VARIANTS = [v for k in kernels.every() for v in k.variants.values()]
# Of each kernel of x86-64, and of those of arm64 that copy and scan, one that other tests check,
# too: what is found of a variant is kept.
QUICK = {
    "x86_64/clear_user/immediates",
    "x86_64/copy_user/movsq_aligned",
    "x86_64/csum/two_chains_40",
    "x86_64/put_event/write_begin",
    "x86_64/memchr/aligned_words",
    "x86_64/memcmp/swapped_word",
    "x86_64/memmove/loop32",
    "x86_64/memset/words64",
    "arm64/copy_user/to_user_nopan",
    "arm64/strlen/pairs",
}
LONGEST_CHECKS = {"x86_64/memmove/loop32", "arm64/copy_user/to_user_nopan"}


def _call(isa, at, target):
    """Return a call at one offset of the code to another."""
    if isa == "x86_64":
        return b"\xe8" + (target - at - 5).to_bytes(4, "little", signed=True)
    return (0x94000000 | ((target - at) // 4 & 0x3FFFFFF)).to_bytes(4, "little")


def _wrapped(code, before, after):
    """Return code whose entry runs before, the routine, and after, with arm64's link saved."""
    start = -(-len(code.text) // 16) * 16
    call = _call(code.isa, start + len(before), code.entry)
    body = before + call + after
    return replace(code, text=code.text.ljust(start, b"\0") + body, entry=start)


SAVE_LINK = bytes.fromhex("fe0f1ff8")  # str x30, [sp, #-16]!
RESTORE = bytes.fromhex("fe0741f8 c0035fd6")  # ldr x30, [sp], #16; ret


def _clobber_register(code, _):
    if code.isa == "x86_64":
        return _wrapped(code, b"", bytes.fromhex("48ffc5 c3"))  # inc %rbp; ret
    return _wrapped(code, SAVE_LINK, bytes.fromhex("73060091") + RESTORE)  # add x19, x19, #1


def _clobber_vector(code, _):
    if code.isa == "x86_64":
        return _wrapped(code, b"", bytes.fromhex("660fefff c3"))  # pxor %xmm7, %xmm7; ret
    return _wrapped(code, SAVE_LINK, bytes.fromhex("09e4004f") + RESTORE)  # movi v9.16b, #0


def _one_byte_too_many(code, contract):
    """Store a byte behind the destination of the size that was asked for."""
    dst, count = contract.inputs["dst"], contract.inputs["count"]
    if code.isa == "arm64":
        # str x19, [sp, #-16]!; add x19, dst, count; call; strb w19, [x19]; ldr x19, [sp], #16
        add = 0x8B000013 | int(count[1:]) << 16 | int(dst[1:]) << 5
        before = SAVE_LINK + bytes.fromhex("f30f1ff8") + add.to_bytes(4, "little")
        return _wrapped(code, before, bytes.fromhex("73020039 f30741f8") + RESTORE)
    assert dst == "rdi"
    # push %rbp; lea (%rdi,%count), %rbp; call; movb $85, (%rbp); pop %rbp; ret
    lea = {"rcx": "488d2c0f", "rdx": "488d2c17"}[count]
    before, after = bytes.fromhex(f"55 {lea}"), bytes.fromhex("c6450055 5d c3")
    return _wrapped(code, before, after)


def _wrong_result(code, contract):
    """Return one more than the routine does."""
    register = next(iter(contract.returns.values()))
    if code.isa == "arm64":
        number = int(register[1:])
        add = 0x91000400 | number << 5 | number
        return _wrapped(code, SAVE_LINK, add.to_bytes(4, "little") + RESTORE)
    index = {"rax": 0, "eax": 0, "rcx": 1, "ecx": 1}[register]
    return _wrapped(code, b"", bytes([0x48, 0xFF, 0xC0 | index, 0xC3]))


MUTATIONS = [
    _clobber_register,
    _clobber_vector,
    _one_byte_too_many,
    _wrong_result,
]


@pytest.mark.parametrize("name", some([v.id for v in VARIANTS], QUICK - LONGEST_CHECKS))
def test_variant_honours_its_contract(name):
    [variant] = (v for v in VARIANTS if v.id == name)
    row = run([variant]).iloc[0]
    assert row["passed"], row["failure"]
    assert row["entries_hit"] > 0 or not contract_of(variant).faulting
    if contract_of(variant).uncopied == "exact":
        assert row["over_report_bytes"] == 0


def _mutants():
    for variant in VARIANTS:
        for mutation in MUTATIONS:
            writes = contract_of(variant).effect in ("copy", "clear", "set", "move")
            if writes or mutation is not _one_byte_too_many:
                name = mutation.__name__.strip("_")
                marks = [] if variant.id in QUICK else [pytest.mark.slow]
                yield pytest.param(variant, mutation, id=f"{variant.id}-{name}", marks=marks)


@pytest.mark.parametrize(("variant", "mutation"), list(_mutants()))
def test_mutants_are_caught(variant, mutation):
    code, contract = assemble.user_code(variant), contract_of(variant)
    assert not harness_record(mutation(code, contract), contract, "mutant")["passed"]


def _with_entries(code: Code, entries: list[ExceptionEntry]) -> Code:
    return replace(code, exceptions=tuple(entries))


# Accesses that may fault, and checksums' loads past an end. Not by their code: it takes seconds to
# assemble all, and every worker collects all tests.
WITH_ENTRIES = [
    v.id for v in VARIANTS if contract_of(v).faulting or contract_of(v).effect == "checksum"
]


@pytest.mark.parametrize("name", some(WITH_ENTRIES, QUICK & {*WITH_ENTRIES}))
def test_broken_exception_tables_are_caught(name):
    """Drop an entry that is hit, and make its fixup the faulting instruction: both must fail."""
    [variant] = (v for v in VARIANTS if v.id == name)
    code, contract = assemble.user_code(variant), contract_of(variant)
    record = harness_record(code, contract, variant.id)
    assert record["passed"], record["failure"]
    hits = record["hits"]
    hit = [n for n, count in enumerate(hits) if count]
    for n in {hit[0], hit[len(hit) // 2], hit[-1]}:
        entries = list(code.exceptions)
        dropped = harness_record(
            _with_entries(code, entries[:n] + entries[n + 1 :]), contract, "dropped"
        )
        assert "no exception-table entry" in dropped["failure"]
        entries[n] = ExceptionEntry(entries[n].insn, entries[n].insn)
        again = harness_record(_with_entries(code, entries), contract, "again")
        assert "faults without end" in again["failure"]
