"""Assembly as people paste it, made into text that an assembler takes.

Read are compilers' output (of Compiler Explorer with demangled names, AT&T or Intel syntax), that
of `objdump -d`, gdb's `disassemble` and `perf annotate`, bytes in hex, and any of them quoted in a
mail. A line of the result is made of the same line of the text, so that errors name it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loopwright.code import decode

_QUOTE = re.compile(r"^(?:[>|] ?)+")
_FENCE = ("```", "~~~")

# Prose of a mail. No instruction has four words of letters alone and one of these among them.
_ENGLISH = re.compile(
    r"(?:an?|are|be|but|can|do|does|for|has|have|here|i|is|its?|my|not|of|on|one|that|the|there|they"
    r"|this|to|was|we|what|when|which|with|your?)"
)
_LETTERS = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*[.,:;?!]?")
_PROSE = re.compile(
    r"(?:From|To|Cc|Date|Subject|Message-ID): \S.*|.*\bwrote:|[A-Za-z][A-Za-z ]*,"
    r"|[A-Za-z][^%\[(#]*[a-z][?!]"
)
_NOTES = re.compile(r"[;#]|//|/\*")
_CLOSING = re.compile(r"--|(?:best |kind |many )?(?:regards|thanks|cheers|greetings)[,.!]?", re.I)
_HEX = re.compile(r"[\s{\"']*(?:(?:0x|\\x)?[0-9a-f]{2}[\s,:;{}\"']*)+", re.IGNORECASE)

# A line of a listing: what perf puts in front, the address, the code, the instruction.
_SHARE = re.compile(r"^\s*(?:\d+\.\d+\s*%?)?\s*(?:[\u2502|]|:(?=\s))\s?")
_PERF = re.compile(r"^\s*\d+\.\d+\s*%?\s*[\u2502|:]|^\s+\u2502", re.MULTILINE)
_PLACED = re.compile(r"^(?:=>)?\s*(?:0x)?(?P<at>[0-9a-f]+)(?:\s+<[^>]*>)?:(?P<rest>\s.*|)$", re.I)
_NAMED = re.compile(r"^\s*(?:\d+\s+)?(?:[0-9a-f]{4,}\s+)?<(?P<name>.+)>:\s*$", re.I)
_BYTES = re.compile(
    r"^\s*(?P<code>[0-9a-f]{2}(?: [0-9a-f]{2})*)\s*(?:\t|\s{2,}|$)(?P<rest>.*)$", re.I
)
_WORD = re.compile(r"^\s*(?P<code>[0-9a-f]{8})\s+(?P<rest>[a-z.].*)$", re.I)
_ARROWS = re.compile("[\u2190-\u2193\u2502\u2500\u250c\u2514\u251c\u25ba\u25b6]+")
_SOURCE = re.compile(
    r"[;{}]\s*$|^\s*(?://|/\*|#|Disassembly of )|\(\):\s*$"
)  # a line of C that perf put in between
_LONG_NOP = re.compile(r"(?:data16 |cs |xchg\s+%ax,%ax)*(?:nop[wl]?\b.*)?$")  # of any length
_LONG_NOP_PREFIX = re.compile(r"^(?:data16 |cs )+(?=nop)")
_SYMBOLIC = re.compile(r"\s+<.*>\s*$")
_COMMENT = re.compile(r"\s+(?:#|//)\s.*$")
_TARGET = re.compile(
    r"^(?P<before>\s*(?:(?:bnd|notrack)\s+)?(?:j[a-z]+|loop\w*|call[a-z]?|xbegin|bl?|b\.?[a-z]{2}"
    r"|cbn?z|tbn?z)\s+(?:[wx]\d+,\s*)?(?:#\w+,\s*)?)(?P<to>(?:0x)?[0-9a-f]+)\s*$",
    re.I,
)

# Names as a compiler's output has them once they are demangled.
_LABEL = re.compile(r'^(?P<name>[A-Za-z_~][^#"]*[^\w.$\s"][^#"]*):(?P<rest>\s*(?:[#;/].*)?)$')
_CALL = re.compile(
    r'^(?P<verb>\s*(?:call|callq|jmp|jmpq|bl?)\s+)(?P<name>[A-Za-z_~][^"]*[(:<, ].*)$'
)
_DATUM = re.compile(
    r"(?P<name>(?:\b[A-Za-z_]\w*(?:<[^\"%]*>)?::"
    r"|\b(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for )[^\[\"%]*?)"
    r"(?=\[|\(%rip\)|,|[+-]\d|\s*$)"
)

_AT_AND_T = re.compile(r"%[a-z]")
_INTEL = re.compile(
    r"(?<![%\w.$@])(?:[re][abcd]x|[re][sd]i|[re][sb]p|r(?:8|9|1[0-5])[dwb]?|[xyz]mm\d+|[abcd][lh])\b"
    r"|\bptr\s*\[",
    re.I,
)
_MOST_LABEL = 15  # numbers up to it are rather local labels than addresses
_NOTE = re.compile(r"\s+;\s.*$")  # a comment of Intel's syntax


@dataclass(frozen=True)
class Pasted:
    """Text for an assembler; isa is None, and intel False, where the text does not tell."""

    text: str
    isa: str | None = None
    intel: bool = False


def read(text: str) -> Pasted:
    """Return what an assembler takes of a pasted text."""
    plain = text.replace("\r\n", "\n").replace("\u00a0", " ")
    lines = _without_prose([_QUOTE.sub("", line) for line in plain.split("\n")])
    lines = ["" if line.strip().startswith(_FENCE) else line for line in lines]
    whole = "\n".join(lines).strip()
    if re.search(r"\d", whole) and _HEX.fullmatch(whole):
        return Pasted(f"hex: {_data(decode.parse_hex(whole))}")
    if len(_PERF.findall("\n".join(lines))) > 1:
        return _annotated(lines)
    if _is_listing(lines):
        return _listed(lines, bare=False)
    intel = _is_intel(whole)
    return Pasted("\n".join(_compiled(line, intel=intel) for line in lines), intel=intel)


def _without_prose(lines: Sequence[str]) -> list[str]:
    """Return lines with the prose of a mail blank: headers, sentences, what closes it."""
    end = next((n for n, line in enumerate(lines) if _CLOSING.fullmatch(line.strip())), len(lines))
    return ["" if n >= end or _is_prose(line.strip()) else line for n, line in enumerate(lines)]


def _is_prose(line: str) -> bool:
    """Say whether a line is a sentence, a mail's header or a greeting; comments do not count."""
    plain = _NOTES.split(line)[0]
    words = [word.rstrip(".,:;?!").lower() for word in plain.split() if _LETTERS.fullmatch(word)]
    english = len(words) > 3 and any(map(_ENGLISH.fullmatch, words)) and "%" not in plain
    return english or bool(_PROSE.fullmatch(line))


def _is_listing(lines: Sequence[str]) -> bool:
    """Say whether most lines begin with an address, and not with a local label such as 1."""
    placed = [found for line in lines if (found := _PLACED.match(line))]
    places = [int(found["at"], 16) for found in placed if found["rest"].strip()]
    if len(places) < 1 or 2 * len(placed) < sum(bool(line.strip()) for line in lines):
        return False
    coded = any(_BYTES.match(found["rest"]) or _WORD.match(found["rest"]) for found in placed)
    return coded or (max(places) > _MOST_LABEL and all(a < b for a, b in pairwise(places)))


def _annotated(lines: Sequence[str]) -> Pasted:
    """Return the code of perf's listing: with an address on each line, or on some as a label."""
    inside = [_SHARE.sub("", line, count=1) if _SHARE.match(line) else "" for line in lines]
    shares = [n for n, line in enumerate(lines) if re.match(r"\s*\d+\.\d+", line)]
    placed = sum(bool(_PLACED.match(inside[n])) for n in shares)
    return _listed(inside, bare=2 * placed < len(shares))


@dataclass(frozen=True)
class _Line:
    """A line of a listing: an instruction, the name of a routine, or nothing."""

    at: int | None = None
    code: bytes = b""
    text: str = ""
    name: str = ""
    word: bool = False


def _listed(lines: Sequence[str], *, bare: bool) -> Pasted:
    """Return a listing's code, at its code offset; bare: lines may be without an address."""
    found = [_line(line, bare=bare) for line in lines]
    found = _whole_codes(found)
    texts = [one for one in found if one.text]
    if texts and all(one.code for one in texts):
        isa = "arm64" if any(one.word for one in texts) else "x86_64"
        return Pasted("\n".join(_as_bytes(found)), isa)
    intel = _is_intel("\n".join(one.text for one in texts))
    return Pasted("\n".join(_as_text(found)), intel=intel)


def _line(line: str, *, bare: bool) -> _Line:
    if named := _NAMED.match(line):
        return _Line(name=named["name"])
    placed = _PLACED.match(line)
    if placed is None:
        text = _ARROWS.sub(" ", line).strip()
        return _Line(text=text) if bare and text and not _SOURCE.search(text) else _Line()
    at, rest = int(placed["at"], 16), placed["rest"]
    code, word = b"", False
    if found := _WORD.match(rest):
        code, rest, word = bytes.fromhex(found["code"])[::-1], found["rest"], True
    elif found := _BYTES.match(rest):
        code, rest = bytes.fromhex(found["code"]), found["rest"]
    rest = _SYMBOLIC.sub("", _COMMENT.sub("", _ARROWS.sub(" ", rest))).strip()
    return _Line(at, code, rest, word=word)


def _whole_codes(lines: Sequence[_Line]) -> list[_Line]:
    """Return lines with all bytes of an instruction in one: objdump breaks after the seventh."""
    out: list[_Line] = []
    owner = -1
    for line in lines:
        rest = owner >= 0 and line.at is not None and line.code and not line.text
        if rest and out[owner].at is not None and out[owner].code:
            first = out[owner]
            out[owner] = _Line(first.at, first.code + line.code, first.text, word=first.word)
            out.append(_Line())
            continue
        if line.text:
            owner = len(out)
        out.append(line)
    return out


def _as_bytes(lines: Sequence[_Line]) -> list[str]:
    """Return the code of a listing as data that lies where it lay, each place with a label."""
    out, end, named = [], None, any(line.name for line in lines)
    for line in lines:
        if line.name:
            out.append(_routine(line.name))
            continue
        if line.at is None or not line.code:
            out.append("")
            continue
        parts = [_gap(end, line.at)]
        if end is None and not named:
            parts.append(_routine("code"))
        code = f".inst {int.from_bytes(line.code, 'little'):#x}" if line.word else _data(line.code)
        out.append("; ".join([*filter(None, parts), f".L{line.at:x}: {code}"]))
        end = line.at + len(line.code)
    # The names of routines stand behind the gap in front of their first instruction.
    return _names_last(out)


def _names_last(lines: list[str]) -> list[str]:
    """Move each gap in front of the name of the routine that begins behind it."""
    out = list(lines)
    for n, line in enumerate(lines[:-1]):
        if not line.startswith(".globl"):
            continue
        behind = next((k for k in range(n + 1, len(lines)) if lines[k]), None)
        if behind is not None and lines[behind].startswith((".p2align", ".skip")):
            gap, _, rest = lines[behind].rpartition("; .L")
            out[n], out[behind] = f"{gap}; {line}", f".L{rest}"
    return out


def _as_text(lines: Sequence[_Line]) -> list[str]:
    """Return the instructions of a listing without code, each place with a label."""
    places = {line.at for line in lines if line.at is not None and line.text}
    wanted: set[int] = set()
    out = []
    for n, line in enumerate(lines):
        if line.name:
            out.append(_routine(line.name))
            continue
        if not line.text:
            out.append("")
            continue
        text = line.text
        if _LONG_NOP.match(text) and line.at is not None:
            behind = next((one.at for one in lines[n + 1 :] if one.at is not None), None)
            text = f".nops {behind - line.at}" if behind else _LONG_NOP_PREFIX.sub("", text)
        elif target := _TARGET.match(text):
            to = int(target["to"], 16)
            wanted.add(to)
            text = f"{target['before']}.L{to:x}"
        label = "" if line.at is None else f".L{line.at:x}: "
        out.append(label + text)
    first = min(places, default=None)
    if first is not None:
        at = next(n for n, line in enumerate(lines) if line.text)
        out[at] = f".p2align 6; .skip {first % 64}, 0xcc; {out[at]}" if first % 64 else out[at]
        # What lies outside of the listing is as far away as it was.
        away = [f".set .L{to:x}, .L{first:x} + {to - first}" for to in sorted(wanted - places)]
        out[-1] = "; ".join(filter(None, [out[-1], *away]))
    return out


def _gap(end: int | None, at: int) -> str:
    """Return what brings an address to its place: of the first instruction its code offset."""
    if end is None:
        return f".p2align 6; .skip {at % 64}, 0xcc" if at % 64 else ".p2align 6"
    return f".skip {at - end}, 0xcc" if 0 < at - end < 1 << 16 else ""


def _routine(name: str) -> str:
    quoted = _quoted(name)
    return f".globl {quoted}; .type {quoted}, %function; {quoted}:"


def _data(code: bytes) -> str:
    return f".byte {', '.join(map(hex, code))}"


def _quoted(name: str) -> str:
    plain = name.strip().replace("\\", "").replace('"', "")
    return f'"{plain}"'


def _is_intel(text: str) -> bool:
    """Say whether x86 assembly is in Intel's syntax, where it says so in no directive."""
    if "_syntax" in text or _AT_AND_T.search(text):
        return False
    return bool(_INTEL.search(text))


def _compiled(line: str, *, intel: bool) -> str:
    """Return a line of a compiler's output, with its demangled names in quotes."""
    if intel:
        line = _NOTE.sub("", line)
    if found := _LABEL.match(line):
        return f"{_quoted(found['name'])}:{found['rest']}"
    if (found := _CALL.match(line)) and not re.search(r"%|\[|\*|\bPTR\b", line):
        return f"{found['verb']}{_quoted(found['name'])}"
    if line.lstrip().startswith("."):
        return line
    return _DATUM.sub(lambda found: _quoted(found["name"]), line)
