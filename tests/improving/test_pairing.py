"""Pairs of accesses on AArch64: they keep the contract, and need their conditions."""

import pytest
from test_transformations import failure, few, listing_of  # noqa: F401

from loopwright.improving import accesses
from loopwright.improving.accesses import PairAccesses, SplitPairs
from loopwright.improving.listing import Listing, code

DOUBLE = "arm64/memcmp/double_pairs"
PAIRED = ["arm64/memcmp/aligned_pairs", DOUBLE]
pytestmark = pytest.mark.usefixtures("few")


def changed(listing, old, new):
    """Return a listing with some statements, which follow one another, in the place of others."""
    texts = [one.text for one in listing.lines]
    at = next(n for n in range(len(texts)) if texts[n : n + len(old)] == old)
    lines = [*listing.lines[:at], *map(code, new), *listing.lines[at + len(old) :]]
    return listing.with_lines(lines, "")


def of(*texts):
    return Listing(tuple(map(code, texts)), None, "arm64")


def paired(*texts):
    """Return the texts with pairs, None where there is nothing to pair."""
    made = list(PairAccesses().apply(of(*texts)))
    return [line.text for line in made[0].lines] if made else None


@pytest.mark.parametrize("spec", PAIRED)
def test_split_pairs_keep_the_contract_and_are_paired_again(spec, tmp_path):
    variant, listing = listing_of(spec)
    [split] = SplitPairs().apply(listing)
    assert not any("ldp" in line.text for line in split.lines)
    assert failure(variant, split, tmp_path) == ""
    [again] = PairAccesses().apply(split)
    count = [sum("ldp" in line.text for line in one.lines) for one in (listing, again)]
    assert count[1] >= count[0]
    assert failure(variant, again, tmp_path) == ""


def test_accesses_are_paired_in_either_order_and_behind_their_base():
    low, high = "ldr x3, [x0, #8]", "ldr x4, [x0, #16]"
    assert paired(low, high) == ["ldp x3, x4, [x0, #8]"]
    assert paired(high, low) == ["ldp x3, x4, [x0, #8]"]
    assert paired("str w3, [x0]", "add x5, x5, #1", "str wzr, [x0, #4]") == [
        "stp w3, wzr, [x0]",
        "add x5, x5, #1",
    ]
    assert paired("ldr x3, [x0], #8", "ldr x4, [x0], #8") == ["ldp x3, x4, [x0], #16"]
    assert paired("str q0, [x0, #-32]", "str q1, [x0, #-16]") == ["stp q0, q1, [x0, #-32]"]


@pytest.mark.parametrize(
    "texts",
    [
        ("ldr x3, [x0]", "ldr x4, [x0, #16]"),
        ("ldr x3, [x0]", "ldr w4, [x0, #8]"),
        ("ldr x3, [x0]", "ldr x4, [x1, #8]"),
        ("ldr x3, [x0]", "str x4, [x0, #8]"),
        ("ldr x3, [x0]", "ldr x3, [x0, #8]"),
        ("ldr x0, [x0]", "ldr x4, [x0, #8]"),
        ("ldr x3, [x0, #4]", "ldr x4, [x0, #12]"),
        ("ldr x3, [x0, #512]", "ldr x4, [x0, #520]"),
        ("ldr x3, [x0], #8", "ldr x4, [x0]"),
        ("ldr x3, [x0], #8", "add x5, x0, #0", "ldr x4, [x0], #8"),
        ("ldr x3, [x0]", "add x0, x0, #8", "ldr x4, [x0, #8]"),
        ("ldr x3, [x0]", "add x5, x4, #8", "ldr x4, [x0, #8]"),
        ("ldr x3, [x0]", "str x5, [x1]", "ldr x4, [x0, #8]"),
        ("str x3, [x0]", "ldr x5, [x1]", "str x4, [x0, #8]"),
        ("ldr x3, [x0]", "cbz x3, .", "ldr x4, [x0, #8]"),
    ],
)
def test_what_is_no_pair_stays(texts):
    assert paired(*texts) is None


def test_an_access_with_a_fixup_stays():
    _, listing = listing_of("arm64/copy_user/to_user_batched")
    entries = len(listing.fixups)
    for transformation in (PairAccesses(), SplitPairs()):
        for made in transformation.apply(listing):
            assert len(made.fixups) == entries
            assert all(name in made.position for name in made.fixups)


def test_a_base_that_moves_between_keeps_loads_apart(monkeypatch, tmp_path):
    variant, listing = listing_of(DOUBLE)
    [split] = SplitPairs().apply(listing)
    old = ["ldr x11, [x0, #16]", "ldr x13, [x0, #24]"]
    new = [old[0], "add x0, x0, #16", "ldr x13, [x0, #8]", "sub x0, x0, #16"]
    moving = changed(split, old, new)
    [made] = PairAccesses().apply(moving)
    assert failure(variant, made, tmp_path) == ""
    monkeypatch.setattr(PairAccesses, "movable", lambda _, __, first: [first + 1, first + 2])
    [broken] = PairAccesses().apply(moving)
    assert failure(variant, broken, tmp_path)


def test_a_load_of_its_own_base_comes_last(monkeypatch, tmp_path):
    variant, listing = listing_of(DOUBLE)
    old = ["ldp x3, x5, [x9, #0x10]"]
    own = changed(listing, old, ["ldp x9, x5, [x9, #0x10]", "mov x3, x9"])
    [made] = SplitPairs().apply(own)
    assert failure(variant, made, tmp_path) == ""
    whole = accesses.split

    def forwards(line, pair):
        return sorted(whole(line, pair), key=lambda one: "24" in one.text)

    monkeypatch.setattr(accesses, "split", forwards)
    [broken] = SplitPairs().apply(own)
    assert failure(variant, broken, tmp_path)


def test_registers_follow_their_places(monkeypatch, tmp_path):
    variant, listing = listing_of(DOUBLE)
    [split] = SplitPairs().apply(listing)
    pair = ["ldr x4, [x1]", "ldr x6, [x1, #8]"]
    turned = changed(split, pair, pair[::-1])
    [made] = PairAccesses().apply(turned)
    assert failure(variant, made, tmp_path) == ""
    joined = accesses._joined

    def as_written(one, two):
        both = joined(one, two)
        return both and both._replace(registers=(*one.registers, *two.registers))

    monkeypatch.setattr(accesses, "_joined", as_written)
    [broken] = PairAccesses().apply(turned)
    assert failure(variant, broken, tmp_path)


def test_a_split_pair_moves_its_base_behind():
    [made] = SplitPairs().apply(of("ldp x3, x4, [x0], #32", "stp w5, w6, [x1, #-8]"))
    assert [line.text for line in made.lines] == [
        "ldr x3, [x0]",
        "ldr x4, [x0, #8]",
        "add x0, x0, #32",
        "str w5, [x1, #-8]",
        "str w6, [x1, #-4]",
    ]
