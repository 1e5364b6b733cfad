"""By which numbers an arm64 kernel knows features: they differ from build to build.

Each kernel has a table of what it looks for in a CPU: a pointer to words that it prints where that
is there, then its number, then its type (struct arm64_cpu_capabilities). Nothing says where the
table lies; it is found by the words.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

# By the words: the name in /proc/cpuinfo, or of what that does not have, the architecture's.
_WORDS = {
    "LSE atomic instructions": "atomics",
    "CRC32 instructions": "crc32",
    "Scalable Vector Extension": "sve",
    "Scalable Matrix Extension": "sme",
    "Data cache clean to Point of Persistence": "dcpop",
    "Data cache clean to Point of Deep Persistence": "dcpodp",
    "Speculative Store Bypassing Safe (SSBS)": "ssbs",
    "Speculation barrier (SB)": "sb",
    "Random Number Generator": "rng",
    "Branch Target Identification": "bti",
    "Memory Tagging Extension": "mte",
    "RCpc load-acquire (LDAPR)": "lrcpc",
    "WFx with timeout": "wfxt",
    "Data independent timing control (DIT)": "dit",
    "Memory Copy and Memory Set instructions": "mops",
    "Enhanced Counter Virtualization": "ecv",
    "Address authentication (architected QARMA5 algorithm)": "paca",
    "Generic authentication (architected QARMA5 algorithm)": "pacg",
    "Privileged Access Never": "pan",
    "Enhanced Privileged Access Never": "epan",
    "User Access Override": "uao",
    "E0PD": "e0pd",
    "Virtualization Host Extensions": "vhe",
    "RAS Extension Support": "ras",
    "Activity Monitors Unit (AMU)": "amu",
    "Data cache clean to the PoU not required for I/D coherence": "idc",
    "Instruction cache invalidation not required for I/D coherence": "dic",
    "Stage-2 Force Write-Back": "fwb",
    "ARMv8.4 Translation Table Level": "ttl",
    "TLB range maintenance instructions": "tlbirange",
    "Hardware dirty bit management": "dbm",
    "Common not Private translations": "cnp",
    "Fine Grained Traps": "fgt",
    "HCRX_EL2 register": "hcx",
    "GIC system register CPU interface": "gicv3",
    "Kernel page table isolation (KPTI)": "kpti",
}
NAMES = frozenset(_WORDS.values())

_RELATIVE = 1027  # R_AARCH64_RELATIVE, whose entry is: where, this, what
_KERNEL = 0xFFFF << 48  # addresses of kernels are not below
_ALIGNED = 0x10000  # where a kernel is linked
MOST = 1024  # numbers


def numbers(content: bytes) -> dict[str, int]:
    """Return the numbers of features in a kernel's memory as it was linked, by their names.

    content begins where the kernel does. Empty where it has no such table.
    """
    places = {name: at for text, name in _WORDS.items() if (at := _text(content, text)) >= 0}
    words = np.frombuffer(content[: len(content) & ~7], "<u8")
    known = np.flatnonzero(words >= _KERNEL)
    values = words[known]
    base = _base(values, list(places.values()))
    found: dict[str, int] = {}
    for name, at in places.items():
        for hit in known[values == base + at] if base else ():
            for number in _number(content, words, int(hit), base):
                found.setdefault(name, number)
    return found


def _text(content: bytes, text: str) -> int:
    at = content.find(b"\0" + text.encode() + b"\0")
    return at + 1 if at >= 0 else -1


def _base(values: np.ndarray, places: list[int]) -> int:
    """Return the address that a kernel was linked for: the one by which most texts are named."""
    votes: Counter[int] = Counter()
    for at in places:
        bases = values - np.uint64(at)
        votes.update(set(bases[bases % np.uint64(_ALIGNED) == 0].tolist()))
    (best, count), *_ = votes.most_common(1) or [(0, 0)]
    return best if 2 * count > len(places) else 0


def _number(content: bytes, words: np.ndarray, hit: int, base: int) -> Iterator[int]:
    """Yield the number that stands behind a pointer, where a word that is one belongs to a table.

    The pointer is in the table itself, or in a relocation that says where in it.
    """
    relocated = hit >= 2 and words[hit - 1] == _RELATIVE
    at = int(words[hit - 2]) - base if relocated else 8 * hit
    number = int.from_bytes(content[at + 8 : at + 10], "little")
    kind = int.from_bytes(content[at + 10 : at + 16], "little")
    if 0 <= at <= len(content) - 16 and number < MOST and 0 < kind < 1 << 16:
        yield number
