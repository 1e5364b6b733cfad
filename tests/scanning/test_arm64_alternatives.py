"""Alternatives of arm64 kernels: found by what they look like, applied by names of features."""

import struct
from pathlib import Path

import pytest
from scanned import built

from loopwright import toolchain
from loopwright.cli import run
from loopwright.code import instructions
from loopwright.errors import InputError
from loopwright.scanning import binary_loops, images, vmlinux
from loopwright.scanning.vmlinux import Alternatives

_NOP = 0xD503201F
_BASE = 0xFFFF800080000000
_TEXT, _NEW, _WORDS, _ENTRIES, _CAPS = 0x1000, 0x3000, 0x4000, 0x5000, 0x6000
_ADD, _BACK = 0x91000400, 0x54FFFFE1  # add x0, x0, #1; b.ne to the one before
NAMES = ("LSE atomic instructions", "Privileged Access Never", "E0PD")


def kernel(*, relocated: bool = False) -> bytes:
    """An Image with 20 loops, each with an alternative: for atomics, for pan, and for neither."""
    out = bytearray(0x8000)
    out[56:60] = b"ARM\x64"
    relocations = b""
    for n, words in enumerate(NAMES):
        text = _WORDS + 128 * n
        out[text - 1 : text + len(words) + 1] = b"\0" + words.encode() + b"\0"
        entry = _CAPS + 64 * n
        struct.pack_into("<HHI", out, entry + 8, 40 + n, 2, 0)
        if relocated:
            relocations += struct.pack("<QQQ", _BASE + entry, 1027, _BASE + text)
        else:
            struct.pack_into("<Q", out, entry, _BASE + text)
    out[0x7000 : 0x7000 + len(relocations)] = relocations
    for n in range(20):
        at, new = _TEXT + 32 * n, _NEW + 32 * n
        struct.pack_into("<4I", out, at, _ADD, _NOP, 0x54FFFFC1, 0xD65F03C0)  # loop, ret
        struct.pack_into("<I", out, new, 0x14000002 if n % 2 else 0xD5033BBF)  # b, or dmb ish
        where = _ENTRIES + 12 * n
        offsets = at + 4 - where, new - where - 4
        struct.pack_into("<iiHBB", out, where, *offsets, (40, 41, 77)[n % 3], 4, 4)
    return bytes(out)


def _loops(content: bytes, folder: Path, *features: str) -> list[bytes]:
    path = folder / "Image"
    path.write_bytes(content)
    image = images.read_image(path, features=frozenset(features) if features else None)
    assert image.alternatives.total == 20
    text = image.sections[0].code
    return [text[_TEXT + 32 * n : _TEXT + 32 * n + 16] for n in range(20)]


@pytest.mark.parametrize("relocated", [False, True])
def test_features_choose_what_stands_in_the_text(tmp_path: Path, relocated: bool) -> None:
    content = kernel(relocated=relocated)
    assert vmlinux.arm64_features(content) == {"atomics": 40, "pan": 41, "e0pd": 42}
    linked, atomics = _loops(content, tmp_path), _loops(content, tmp_path, "atomics", "e0pd")
    changed = [n for n in range(20) if linked[n] != atomics[n]]
    assert changed == list(range(0, 20, 3))
    words = struct.unpack("<4I", atomics[0])
    assert words == (_ADD, 0xD5033BBF, 0x54FFFFC1, 0xD65F03C0)
    (branch,) = struct.unpack_from("<I", atomics[3], 4)  # to where it led from its own place
    target = _TEXT + 32 * 3 + 4 + 4 * ((branch & 0x3FFFFFF) - (1 << 26))
    assert branch >> 26 == 5
    assert target % (1 << 28) == (_NEW + 32 * 3 + 8) % (1 << 28)


def test_a_feature_that_this_kernel_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'mte' is none by which .* known: atomics, e0pd, pan"):
        _loops(kernel(), tmp_path, "mte")


def test_what_is_left_is_counted() -> None:
    alternatives = Alternatives(frozenset({"pan"}))
    alternatives.patched(kernel())
    assert (alternatives.total, alternatives.applied, alternatives.unknown) == (20, 7, 6)


def test_code_without_a_table_has_no_alternatives() -> None:
    alternatives = Alternatives(None)
    content = b"\0" * 56 + b"ARM\x64" + bytes(range(256)) * 64
    assert alternatives.patched(content) == content
    assert alternatives.total == 0


def test_a_module_alone_does_not_say_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "\t.globl f\nf:\tadd x0, x0, #1\n1:\tb.ne f\n\tret\n2:\tnop\n"
        '\t.section .altinstructions, "a"\n'
        "\t.word 1b - ., 2b - .\n\t.hword 5\n\t.byte 4, 4\n"
    )
    path = built(tmp_path, text, "arm64")
    image = images.read_image(path)
    assert image.alternatives.total == 1
    assert len(binary_loops.find_loops(image).loops) == 1
    assert run(["scan", str(path), "--features", "pan"]) == 2
    assert "does not say by which numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("b 9f", 0x104000),
        ("b.hi 9f", 0x104000),
        ("cbz x3, 9f", 0x104000),
        ("tbnz w3, #5, 9f", 0x104000),
        ("bl 9f", 0x104000),
    ],
)
def test_moved_branches_keep_their_targets(tmp_path: Path, text: str, kept: int) -> None:
    """By the assembler: what is moved is what it makes of the same branch at the new place."""
    toolchain.find("arm64")

    def word(before: int) -> bytes:
        source = f"\t.skip {before}\n\t{text}\n\t.skip {0x4000 - before - 4}\n9:\tnop\n"
        path = built(tmp_path, source, "arm64", f"code{before}.o")
        (section,) = images.read_image(path).sections
        return section.code[before : before + 4]

    assert instructions.moved("arm64", word(0), kept - 0x4000, kept - 0x2000) == word(0x2000)


def test_moved_pages_stay_and_branches_within_do() -> None:
    adrp = 0xB0000001  # adrp x1, to the next page
    out = instructions.moved("arm64", adrp.to_bytes(4, "little"), 0x5000, 0x3FFC)
    (word,) = struct.unpack("<I", out)
    assert word == 0xF0000001  # three pages from 0x3000 on
    within = struct.pack("<2I", _NOP, 0x17FFFFFF)  # b to the one before
    assert instructions.moved("arm64", within, 0x8000, 0x100) == within
