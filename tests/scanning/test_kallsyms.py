"""What is read of kernels alone: alternatives, and the table of their own symbols."""

import struct
from pathlib import Path

import pytest
from scanned import built, linked

from loopwright.errors import InputError
from loopwright.scanning import binary_loops, images, vmlinux

# Text for CPUs without erms, whose replacement is shorter; and a call with a padding of nops.
PATCHED = """\
	.text
	.type	copies, @function
	.globl	copies
copies:	decq %rsi
771:	jne copies
	.byte 0x90, 0x90, 0x90
772:	ret
	.size	copies, .-copies
	.type	waits, @function
	.globl	waits
waits:	movl $1, %eax
781:	movl $2, %eax
782:	decq %rsi
	jne waits
	ret
	.size	waits, .-waits
	.type	far, @function
	.globl	far
far:	nop
791:	.byte 0x90, 0x90, 0x90, 0x90, 0x90
792:	ret
	.size	far, .-far

	.section .altinstr_replacement, "ax"
773:	jmp 775f
775:	nop
774:
783:	lfence
784:
793:	call waits
794:

	.section .altinstructions, "a"
	{entry_copies}
	{entry_waits}
	{entry_far}
"""
ERMS, SMAP, XENPV = 9 * 32 + 9, 9 * 32 + 20, 8 * 32 + 16


def entry(layout: int, old: int, new: int, feature: int, missing: bool = False) -> str:
    """Return an entry as kernels of three ages have it."""
    where = f".long {old}b - .\n\t.long {new}b - .\n\t"
    lengths = f".byte {old + 1}b - {old}b, {new + 1}b - {new}b"
    if layout == 14:
        return f"{where}.word {feature}, {int(missing)}\n\t{lengths}"
    number = feature | (0x8000 if missing else 0)
    padding = ", 0" if layout == 13 else ""
    return f"{where}.word {number}\n\t{lengths}{padding}"


def kernel(folder: Path, layout: int, *, link: bool) -> Path:
    text = PATCHED.format(
        entry_copies=entry(layout, 771, 773, ERMS),
        entry_waits=entry(layout, 781, 783, XENPV, missing=True),
        entry_far=entry(layout, 791, 793, SMAP),
    )
    return linked(folder, text) if link else built(folder, text)


@pytest.mark.parametrize("link", [True, False])
@pytest.mark.parametrize("layout", [12, 13, 14])
def test_alternatives_are_applied_as_the_kernel_does(
    tmp_path: Path, layout: int, link: bool
) -> None:
    file = kernel(tmp_path, layout, link=link)
    plain = images.read_image(file)
    assert plain.alternatives.total == 3
    assert [loop.where for loop in binary_loops.find_loops(plain).loops] == ["copies", "waits"]
    erms = images.read_image(file, features=frozenset({"erms"}))
    assert [loop.where for loop in binary_loops.find_loops(erms).loops] == ["waits"]
    (waits,) = binary_loops.find_loops(erms).loops
    # For CPUs that are no guests of Xen, and the two bytes that are left are one nop.
    assert waits.code[5:10] == bytes.fromhex("0faee8") + bytes.fromhex("6690")
    assert erms.alternatives.applied == 2
    guest = images.read_image(file, features=frozenset({"xenpv", "smap"}))
    loops = {loop.where: loop for loop in binary_loops.find_loops(guest).loops}
    assert loops["waits"].code[5:10] == bytes.fromhex("b802000000")


def test_a_replaced_call_goes_where_its_replacement_went(tmp_path: Path) -> None:
    image = images.read_image(
        kernel(tmp_path, 12, link=True), features=frozenset({"smap", "xenpv"})
    )
    (text,) = [s for s in image.sections if s.name == ".text"]
    at = {s.name: s.address for s in text.symbols}
    call = text.bytes_of(at["far"] + 1, at["far"] + 6)
    assert call[0] == 0xE8
    assert at["far"] + 6 + struct.unpack("<i", call[1:])[0] == at["waits"]


def test_alternatives_in_no_known_layout_are_refused(tmp_path: Path) -> None:
    text = '\t.globl f\nf:\tret\n\t.section .altinstructions, "a"\n\t.fill 7\n'
    with pytest.raises(InputError, match="in none of the layouts"):
        images.read_image(built(tmp_path, text))


NAMES = [("T", "_text"), ("T", "counts"), *(("t", f"of_{n}") for n in range(600)), ("d", "data")]


def packed_names(start: int, *, late: bool, per_cpu: bool, ordered: bool = False) -> bytes:
    """Return the table that scripts/kallsyms.c writes, with tokens of one character each.

    late: as since Linux 6.4, addresses behind the tokens. per_cpu: others are negative. ordered: as
    since 6.2, the order of names before the tokens, three bytes each and maybe no zero at its end.
    """
    tokens = [bytes((n,)) if n else b"_of" for n in range(256)]
    texts = [kind + name for kind, name in NAMES]
    packed = [bytes((len(text), *text.encode())) for text in texts]
    markers, at = [], 0
    for n, one in enumerate(packed):
        if n % 256 == 0:
            markers.append(at)
        at += len(one)
    index = [sum(len(t) + 1 for t in tokens[:n]) for n in range(256)]
    offsets = [-1 - 16 * n if per_cpu else 16 * n for n in range(len(NAMES))]
    addresses = _aligned(struct.pack(f"<{len(offsets)}i", *offsets)) + struct.pack("<Q", start)
    names = struct.pack("<Q", len(NAMES)) + _aligned(b"".join(packed))
    table = _aligned(struct.pack(f"<{len(markers)}I", *markers))
    table += b"\x01\x02\x03" * 8 if ordered else b""
    table += _aligned(b"".join(t + b"\0" for t in tokens))
    table += _aligned(struct.pack("<256H", *index))
    return names + table + addresses if late else addresses + names + table


def _aligned(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 8)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("per_cpu", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_kernels_own_symbols_are_read(late: bool, per_cpu: bool, ordered: bool) -> None:
    start = 0xFFFFFFFF81000000
    noise = bytes(range(1, 251)) * 8
    content = noise + packed_names(start, late=late, per_cpu=per_cpu, ordered=ordered) + noise
    symbols = vmlinux.kallsyms_symbols(content)
    assert len(symbols) == len(NAMES)
    assert symbols[:2] == [(start, "T", "_text"), (start + 16, "T", "counts")]
    assert symbols[-1] == (start + 16 * (len(NAMES) - 1), "d", "data")
    damaged = content.replace(b"\0A\0B\0", b"\0A\0\0B")
    assert vmlinux.kallsyms_symbols(damaged) == []


def test_what_holds_no_such_table_has_no_symbols() -> None:
    digits = b"".join(bytes((d, 0)) for d in b"0123456789")
    assert vmlinux.kallsyms_symbols(b"") == []
    assert vmlinux.kallsyms_symbols(digits) == []
    assert vmlinux.kallsyms_symbols(b"\0" * 500 + digits + b"\0" * 5000) == []
