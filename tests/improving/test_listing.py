"""Listings: text to statements and back, and what is live where."""

import pytest

from loopwright import kernels
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.improving.listing import (
    CARRY,
    FLAGS,
    MEMORY,
    Address,
    address,
    effects_of,
    lift,
    parse,
)

PLAIN = [
    f"x86_64/{name}"
    for name in ("clear_user/plain", "copy_user/negative_index", "memset/words64", "memmove/loop32")
]

LIFTED = ["x86_64/csum/adc1", "arm64/copy_user/to_user_batched", "arm64/memcmp/words"]


def assembled(listing, variant, folder):
    """Return the code of a listing as a variant's."""
    source = folder / "listing.S"
    source.write_text(listing.render())
    kernel = kernels.load(variant.kernel)
    symbol = listing.contract.symbol
    return assemble.source_code(kernel.isa, kernel.folder, source, symbol, variant.alternatives)


def test_fences_and_the_clock_keep_their_place_between_accesses():
    found = effects_of("x86_64", ["lfence", "mfence", "pause", "rdtsc", "nop"])
    assert all(MEMORY in found[name].writes for name in ("lfence", "mfence", "pause", "rdtsc"))
    assert MEMORY not in found["nop"].writes


@pytest.mark.parametrize("spec", PLAIN)
def test_a_listing_assembles_to_the_code_it_was_read_from(spec, tmp_path):
    _, [variant] = kernels.select(spec)
    listing = parse(variant.source.read_text(), kernels.contract_of(variant))
    code = assembled(listing, variant, tmp_path)
    assert code.sha256 == assemble.variant_code(variant).sha256


@pytest.mark.parametrize("spec", LIFTED)
def test_lifted_code_assembles_to_itself(spec, tmp_path):
    _, [variant] = kernels.select(spec)
    was = assemble.variant_code(variant)
    code = assembled(lift(was, kernels.contract_of(variant)), variant, tmp_path)
    assert [i.text for i in code.instructions] == [i.text for i in was.instructions]
    assert [(e.insn, e.type) for e in code.exceptions] == [
        (e.insn - was.entry, e.type) for e in was.exceptions
    ]


def test_macros_are_refused():
    _, [variant] = kernels.select(PLAIN[0])
    with pytest.raises(InputError, match=r"\.macro in the source"):
        parse(".macro store\n\tmovq %rax,(%rdi)\n.endm\n", kernels.contract_of(variant))


def test_an_increment_leaves_the_carry_and_a_part_keeps_the_rest_of_its_register():
    found = effects_of("x86_64", ["incq %rdi", "movb (%rsi),%al", "movl (%rsi),%eax"])
    assert CARRY not in found["incq %rdi"].writes
    assert "rax" in found["movb (%rsi),%al"].reads
    assert "rax" not in found["movl (%rsi),%eax"].reads


def test_what_aarch64_compares_is_read_and_vectors_have_one_name():
    texts = ["cmp x0, x9", "tst w3, #1", "cmn x4, x5", "fcmp d0, d1", "ldr q0, [x1]"]
    found = effects_of("arm64", [*texts, "add v2.4s, v0.4s, v1.4s", "stp q0, q1, [x0]"])
    reads = [{"x0", "x9"}, {"x3"}, {"x4", "x5"}, {"v0", "v1"}]
    assert [found[text].reads for text in texts[:4]] == reads
    assert all(found[text].writes == {FLAGS} for text in texts[:4])
    assert "v0" in found["ldr q0, [x1]"].writes
    assert found["add v2.4s, v0.4s, v1.4s"].reads == {"v0", "v1"}
    assert {"v0", "v1"} <= found["stp q0, q1, [x0]"].reads


def test_a_returned_register_is_live_at_the_end_and_a_free_one_is_not():
    _, [variant] = kernels.select("x86_64/copy_user/loop32")
    listing = parse(variant.source.read_text(), kernels.contract_of(variant))
    end = next(n for n, one in enumerate(listing.lines) if one.text == "RET")
    assert "rcx" in listing.live[end]
    assert not {"rax", "rsi", "rdi"} & listing.live[end]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("-8(%rsi,%rcx)", Address(-8, "%rsi", "%rcx")),
        ("(,%rcx,8)", Address(0, "", "%rcx", 8)),
        ("$8", None),
    ],
)
def test_memory_operands_are_read_and_written_back(text, parts):
    assert address(text) == parts
    assert parts is None or str(parts) == text
