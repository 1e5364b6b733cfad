"""Entries of .altinstructions in every layout, laid out here by struct alt_instr of Linux."""

import struct

import pytest

from loopwright.code import instructions
from loopwright.code.elf import Entry, arm64_entry, x86_entry
from loopwright.errors import InputError

BASE, TEXT, NEW = 0x1000, 0x400, 0x2000  # addresses of the table, of code and of its replacement
FEATURE = 9 * 32 + 9  # ERMS


def table(layout, *rest, at=0):
    """Return a table of one entry whose distances count from their own fields."""
    return struct.pack(layout, TEXT - BASE - at, NEW - BASE - at - 4, *rest)


@pytest.mark.parametrize(
    ("layout", "rest", "inverse", "made"),
    [
        ("<iiHHBB", (FEATURE, 0, 5, 3), False, False),
        ("<iiHHBB", (FEATURE, 1, 5, 3), True, False),
        ("<iiHHBB", (FEATURE, 2, 5, 3), False, True),
        ("<iiHBB", (FEATURE, 5, 3), False, False),
        ("<iiHBB", (FEATURE | 0x8000, 5, 3), True, False),
        ("<iiHBBB", (FEATURE | 0x8000, 5, 3, 2), True, False),
    ],
)
def test_x86_entries_of_every_layout(layout, rest, inverse, made):
    content = table(layout, *rest)
    expected = Entry(TEXT, NEW, FEATURE, inverse, 5, 3, made)
    assert x86_entry(content, 0, BASE, len(content)) == expected


@pytest.mark.parametrize(
    ("number", "size", "made"), [(7, 8, False), (7, 0, True), (0x8007, 0, True)]
)
def test_arm64_entries_whose_replacement_a_function_makes(number, size, made):
    content = table("<iiHBB", number, 8, size)
    assert arm64_entry(content, 0, BASE) == Entry(TEXT, NEW, 7, False, 8, size, made)


def test_an_entry_counts_from_its_own_place():
    content = bytes(12) + table("<iiHBB", 7, 8, 8, at=12)
    assert arm64_entry(content, 12, BASE)[:2] == (TEXT, NEW)


def test_branches_out_of_moved_code_keep_their_targets():
    inside = "7501"  # over the nop
    code = bytes.fromhex(f"{inside} 90 0f8410000000 e820000000")
    was = [i.target for i in instructions.decode("x86_64", code, 0x1000) if i.target]
    moved = instructions.moved("x86_64", code, 0x1000, 0x400)
    now = [i.target for i in instructions.decode("x86_64", moved, 0x400) if i.target]
    assert now == [0x403, *was[1:]]
    assert moved[:3] == code[:3]
    with pytest.raises(InputError, match="short branch out of it"):
        instructions.moved("x86_64", bytes.fromhex("90eb10"), 0x1000, 0x400)
