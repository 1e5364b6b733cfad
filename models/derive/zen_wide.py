"""Forms of which uops.info has a summary alone: AVX-512, and what came with Zen 4.

Summaries give the least and the largest latency of any pair of operands, with that of the address
where there is one, which is that of a load besides. What belongs to which pair follows from the
same form without mask or memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inputs import Summary
from x86_forms import name_of
from x86_latency import Latencies
from zen_kinds import GENERAL, Kind

# Rounding modes have the figures of the form without; gathers.py has gathers and scatters.
SKIPPED = re.compile(r"(_ER|_SAE)(_Z)?( |$)|VSIB|^VP2INTERSECT")
NAME = re.compile(r"^(\w+?)(?:_EVEX)?(_Z)?(?: \((.*)\))?$")
FAMILIES = re.compile(r"^(AVX512\w*|GFNI|VAES|VPCLMULQDQ)$")
# What these do to the elements that remain hangs on the mask.
BY_MASK = re.compile(r"^vp?(compress|expand)")
MEMORY = re.compile(r"^m\d+b?$")
REGISTERS = (*GENERAL, "x", "y", "z", "k", "mm")


def kinds(said: dict[str, Summary]) -> Iterator[Kind]:
    """Yield the forms of summaries in those families, operands as the simulator names them."""
    for string, summary in said.items():
        if not FAMILIES.match(summary.family) or SKIPPED.search(string):
            continue
        found = NAME.match(string)
        if not found:
            continue
        name, zeroing, text = found.group(1), found.group(2), found.group(3) or ""
        masked = summary.family == "AVX512EVEX" and _masked(text.split(", "))
        plain = text.replace(", K", "", 1) if masked else text
        named = name_of(f"{name} ({_unbroadcast(plain)})")
        if named is None:
            continue
        mnemonic, operands = named
        texts = plain.split(", ")
        broadcast = [f"{o}b" if "_1to" in t else o for o, t in zip(operands, texts, strict=False)]
        memory = [n for n, o in enumerate(operands) if MEMORY.match(o)]
        roles = [{"mem_role": "read" if n else "write"} for n in memory]
        record = {"string": string, "operands": roles, "latencies": [], "uops": None}
        mask = ("{kz}" if zeroing else "{k}") if masked else ""
        yield Kind(mnemonic, broadcast, record, summary, Summary(), mask)


def _masked(operands: list[str]) -> bool:
    return len(operands) > 2 and operands[1] == "K"


def _unbroadcast(operands: str) -> str:
    return re.sub(r"_1to\d+", "", operands)


def latencies(kind: Kind, known: dict[str, Summary], into: int, out: int) -> Latencies:
    """Return the latencies of a form; known are summaries by form, into and out between files.

    into is the latency from general-purpose to vector registers that closes measured chains of
    what goes the other way, out that of the way back.
    """
    found = Latencies()
    own = kind.summary.bounds()
    operands = kind.operands
    twin = _twin(kind.mnemonic, operands, known)
    data = twin.bounds() if twin else None
    if own is None and data is None:
        return found
    least, most = own or data or (1, 1)
    # Zero is that of a register less itself, which depends on nothing.
    result = max(data) if data else (least if kind.memory else most)
    result = max(result, 1)
    sources = [n for n, o in enumerate(operands) if n and o in REGISTERS]
    for n in sources:
        cycles = result
        if operands[n] in GENERAL:
            cycles = max(result - (out - 1), 1)
        elif operands[0] in GENERAL:
            cycles = max(result - (into - 1), 1)
        found.plain[str(n), "0"] = cycles
    if kind.memory and not sources:
        found.plain["m", "0"] = result
    if kind.mask:
        other = least if kind.memory or least > 0 else most
        mask = most if BY_MASK.match(kind.mnemonic) and not kind.memory else other
        found.plain["k", "0"] = max(mask, 1)
    found.plain["0", "0"] = max(min(least or result, result), 1) if own else result
    return found


def _twin(mnemonic: str, operands: list[str], known: dict[str, Summary]) -> Summary | None:
    """Return what is known of the form without mask, with registers for memory."""
    places = [n for n, o in enumerate(operands) if MEMORY.match(o)]
    if not places:
        return known.get(f"{mnemonic} {','.join(operands)}")
    for size in "xyz":
        tried = [size if n in places else o for n, o in enumerate(operands)]
        found = known.get(f"{mnemonic} {','.join(tried)}")
        if found and (operands[0] not in "xyz" or size == operands[0] or len(tried) == 2):
            return found
    return None
