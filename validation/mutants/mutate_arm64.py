"""Change AArch64 code an instruction at a time, as mutate_x86.py does x86-64 code."""

import re
from collections.abc import Iterator
from dataclasses import replace

import capstone

from loopwright.code.instructions import ARM64_BRANCHES, Code, ExceptionEntry, signed_field

_NOP = 0xD503201F
_STEPS = (1, -1, 8, -8)  # changes of a field
# Fields by class of instruction: mask, value, then (kind, lowest bit, width) of each field.
_FIELDS: tuple[tuple[int, int, tuple[tuple[str, int, int], ...]], ...] = (
    (0x1F000000, 0x11000000, (("immediate", 10, 12),)),  # add, sub, immediate
    (0x3A000000, 0x28000000, (("address", 15, 7),)),  # ldp, stp
    (0x3B200C00, 0x38000800, (("address", 12, 9),)),  # ldtr, sttr
    (0x3B200C00, 0x38000400, (("address", 12, 9),)),  # post-indexed
    (0x3B200C00, 0x38000C00, (("address", 12, 9),)),  # pre-indexed
    (0x3B200C00, 0x38000000, (("address", 12, 9),)),  # unscaled
    (0x3B000000, 0x39000000, (("address", 10, 12),)),  # unsigned offset
    (0x1F800000, 0x12000000, (("immediate", 10, 6), ("immediate", 16, 6))),  # logical immediate
    (0x7E000000, 0x36000000, (("immediate", 19, 5),)),  # tbz, tbnz: the bit
)


def mutants(code: Code) -> Iterator[tuple[str, Code]]:
    """Yield each mutant with words that say what was changed."""
    words = [int.from_bytes(code.text[at : at + 4], "little") for at in range(0, len(code.text), 4)]
    pool = _pool(words)
    for n in range(code.entry // 4, (code.entry + code.size) // 4):
        if words[n] == _NOP or _shown(words[n], 4 * n) is None:
            continue
        where = f"+{4 * n - code.entry:#x} {_shown(words[n], 4 * n)}"
        seen = {words[n]}
        for kind, new in _changed(words[n], pool):
            shown = _shown(new, 4 * n)
            if shown is not None and new not in seen and _stays(new, n, len(words)):
                seen.add(new)
                text = [*words[:n], new, *words[n + 1 :]]
                yield f"{kind}: {where} -> {shown}", replace(code, text=_bytes(text))
        if not _idempotent(words[n]):
            yield f"doubled: {where}", _doubled(code, words, n)
    for n, entry in enumerate(code.exceptions):
        others = (*code.exceptions[:n], *code.exceptions[n + 1 :])
        where = f"entry: entry at +{entry.insn - code.entry:#x}"
        yield f"{where} left out", replace(code, exceptions=others)
        for fixup in sorted({e.fixup for e in code.exceptions} - {entry.fixup}):
            moved = (*others, ExceptionEntry(entry.insn, fixup))
            yield f"{where} -> fixup +{fixup - code.entry:#x}", replace(code, exceptions=moved)


def _bytes(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)


_DECODER = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
_DECODER.detail = True


def _shown(word: int, address: int) -> str | None:
    """Return the text of an instruction, None if the word is no instruction."""
    instruction = next(_DECODER.disasm(word.to_bytes(4, "little"), address), None)
    return f"{instruction.mnemonic} {instruction.op_str}".strip() if instruction else None


def _pool(words: list[int]) -> list[int]:
    """Return the numbers of the general registers that the code names."""
    texts = (_shown(word, 0) or "" for word in words)
    return sorted({int(number) for text in texts for number in re.findall(r"\b[xw](\d+)\b", text)})


def _changed(word: int, pool: list[int]) -> Iterator[tuple[str, int]]:
    yield "dropped", _NOP
    for bit in (31, 30):
        yield "size", word ^ 1 << bit
    for bit in (29, 24, 22):
        yield "operation", word ^ 1 << bit
    yield "address", word ^ 1 << 11
    if word & 0xFF000010 == 0x54000000:
        for bits in (1, 2, 4, 8):
            yield "condition", word ^ bits
        return
    relative = any(word & mask == value for mask, value, _, _ in ARM64_BRANCHES)
    for low in (0, *(() if relative else (5, 16, 10))):
        number = word >> low & 31
        if number in pool:
            at = pool.index(number)
            for other in {pool[at - 1], pool[(at + 1) % len(pool)]} - {number}:
                yield "register", word & ~(31 << low) | other << low
    for mask, value, fields in _FIELDS:
        if word & mask != value:
            continue
        for kind, low, width in fields:
            field = ((1 << width) - 1) << low
            for step in _STEPS:
                yield kind, word & ~field | (((word & field) >> low) + step << low) & field


def _target(word: int) -> tuple[int, int, int] | None:
    """Return a branch's distance in words, and the lowest bit and width of its field; or None."""
    for mask, value, low, width in ARM64_BRANCHES:
        if word & mask == value:
            return signed_field(word, low, width), low, width
    return None


def _stays(word: int, at: int, count: int) -> bool:
    """True if an instruction is no branch, or a branch to a place in the code."""
    branch = _target(word)
    return branch is None or 0 <= at + branch[0] < count


def _idempotent(word: int) -> bool:
    """True if an instruction has no effect the second time: it writes no register that it reads.

    A branch is taken the first time or never; a load or a store moves the same bytes again.
    """
    [ins] = _DECODER.disasm(word.to_bytes(4, "little"), 0)
    read, written = ins.regs_access()
    return _target(word) is not None or not set(read) & set(written)


def _doubled(code: Code, words: list[int], n: int) -> Code:
    """Return code with an instruction twice; branches and entries follow what moves."""

    def moved(index: int) -> int:
        return index + (index > n)

    doubled = []
    for at, word in enumerate(words):
        branch = _target(word)
        new = word
        if branch:
            distance, low, width = branch
            distance = moved(at + distance) - moved(at)
            new = word & ~(((1 << width) - 1) << low) | (distance & (1 << width) - 1) << low
        doubled += [new] * (1 + (at == n))
    entries = tuple(
        ExceptionEntry(4 * moved(e.insn // 4), 4 * moved(e.fixup // 4)) for e in code.exceptions
    )
    return replace(code, text=_bytes(doubled), size=code.size + 4, exceptions=entries)
