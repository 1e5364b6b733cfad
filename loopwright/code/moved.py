"""Move AArch64 code to another place: where it branches to, and pages that it names, stay."""

# Branches (Arm ARM, C4.1): mask and value that tell them, lowest bit and width of their distance.
_BRANCHES = (
    (0x7C000000, 0x14000000, 0, 26),  # b, bl
    (0xFF000000, 0x54000000, 5, 19),  # b.cond
    (0x7E000000, 0x34000000, 5, 19),  # cbz, cbnz
    (0x7E000000, 0x36000000, 5, 14),  # tbz, tbnz
)
_ADRP = (0x9F000000, 0x90000000)  # its distance in pages: 19 bits from bit 5, above 2 from bit 29
_PAGE = 12


def arm64(code: bytes, old: int, new: int) -> bytes:
    """Return code of an address as it has to be at another; branches within it stay the same."""
    out = bytearray()
    for at in range(0, len(code), 4):
        word = int.from_bytes(code[at : at + 4], "little")
        out += _word(word, old + at, new + at, range(old, old + len(code))).to_bytes(4, "little")
    return bytes(out)


def _word(word: int, old: int, new: int, inside: range) -> int:
    if word & _ADRP[0] == _ADRP[1]:
        pages = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        moved = (old >> _PAGE) + pages - (new >> _PAGE)
        return word & 0x9F00001F | (moved & 3) << 29 | (moved >> 2 & 0x7FFFF) << 5
    for mask, value, low, width in _BRANCHES:
        if word & mask != value:
            continue
        field = ((1 << width) - 1) << low
        target = old + 4 * _signed((word & field) >> low, width)
        if target in inside:
            return word
        return word & ~field | ((target - new) // 4 << low) & field
    return word


def _signed(value: int, width: int) -> int:
    return value - (value >> (width - 1) << width)
