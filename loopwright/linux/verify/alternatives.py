"""Put alternatives into code as the kernel does at boot, for a set of CPU features."""

from collections.abc import Iterable
from itertools import combinations

import iced_x86 as iced

from loopwright.code import instructions
from loopwright.linux.verify.image import Alternative, Image
from loopwright.linux.verify.outcomes import NotProven

_MOST_IN_FULL = 3  # features of which every subset is tried
# User space ends elsewhere with it than where the cases of a check are.
FIVE_LEVEL_PAGING = "X86_FEATURE_LA57"
_ARM64_NOP = bytes.fromhex("1f2003d5")


def sets(alternatives: Iterable[Alternative]) -> list[frozenset[str]]:
    """Return the sets of features under which code is to be tried: all subsets, where few.

    Five-level paging is in none of them.
    """
    every = dict.fromkeys(a.feature for a in alternatives)
    names = [name for name in every if name != FIVE_LEVEL_PAGING]
    sizes = range(len(names) + 1) if len(names) <= _MOST_IN_FULL else (0, 1, len(names))
    return [frozenset(chosen) for size in sizes for chosen in combinations(names, size)]


def resolve(image: Image, taken: frozenset[str]) -> bytes:
    """Return the image's code with the alternatives of some features in place."""
    text = bytearray(image.text)
    for one in image.alternatives:
        if (one.feature in taken) == one.inverse:
            continue
        if one.callback:
            raise NotProven(f"the alternative of {one.feature} is made by a function of the kernel")
        if one.site + one.length > len(text):
            continue  # of code in another section
        move = _moved_x86 if image.isa == "x86_64" else _moved_arm64
        new = move(one)
        text[one.site : one.site + one.length] = new + _padding(image.isa, one.length - len(new))
    return bytes(text)


def _padding(isa: str, size: int) -> bytes:
    return b"\x90" * size if isa == "x86_64" else _ARM64_NOP * (size // 4)


def _moved_x86(one: Alternative) -> bytes:
    """Move a replacement to its site: near branches out of it keep their targets."""
    new = bytearray(one.replacement)
    end = one.replacement_address + len(new)
    decoder = iced.Decoder(64, one.replacement, ip=one.replacement_address)
    for ins in decoder:
        if not (ins.is_jcc_short_or_near or ins.is_jmp_short_or_near or ins.is_call_near):
            continue
        target, at = ins.near_branch_target, ins.ip - one.replacement_address
        if one.replacement_address <= target < end:
            continue
        if ins.is_jcc_short or ins.is_jmp_short:
            raise NotProven("a replacement has a short branch out of it")
        relative = target - (one.site + at + ins.len)
        new[at + ins.len - 4 : at + ins.len] = relative.to_bytes(4, "little", signed=True)
    return bytes(new)


def _moved_arm64(one: Alternative) -> bytes:
    return instructions.arm64(one.replacement, one.replacement_address, one.site)
