"""What a scan reads: kernels as they are packed, modules, archives, and files that are none."""

import bz2
import gzip
import lzma
import os
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scanned import built, found, linked

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.scanning import images

LOOPS = """\
	.type	counts, @function
	.globl	counts
counts:	decq %rsi
	jne counts
	ret
	.size	counts, .-counts
"""


def _zstd(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(content)


def _lz4_as_the_kernel_does(content: bytes) -> bytes:
    import lz4.block

    out = b"\x02\x21\x4c\x18"
    for at in range(0, len(content), 8 << 20):
        block = lz4.block.compress(content[at : at + (8 << 20)], store_size=False)
        out += struct.pack("<I", len(block)) + block
    return out


def _lz4_frame(content: bytes) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(content))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lambda c: lzma.compress(c, check=lzma.CHECK_CRC32),
    "lzma": lambda c: lzma.compress(c, lzma.FORMAT_ALONE),
    "bzip2": bz2.compress,
    "zstd": _zstd,
    "lz4": _lz4_as_the_kernel_does,
}


def bzimage(payload: bytes, *, setup: int = 4) -> bytes:
    """Return a kernel as arch/x86/boot lays it out: setup, and behind it what holds the payload."""
    before = b"\x90" * 512
    header = bytearray((setup + 1) * 512)
    header[0x1F1] = setup
    header[0x1FE:0x200] = b"\x55\xaa"
    header[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", header, 0x206, 0x20F)
    struct.pack_into("<II", header, 0x248, len(before), len(payload))
    return bytes(header) + before + payload + b"\0" * 100


@pytest.mark.parametrize("how", PACKED)
def test_a_vmlinuz_is_unpacked_as_the_kernel_packs_it(tmp_path: Path, how: str) -> None:
    elf = linked(tmp_path, LOOPS).read_bytes()
    size = struct.pack("<I", len(elf))  # which the kernel's makefiles put behind the payload
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(bzimage(PACKED[how](elf) + (b"" if how == "gzip" else size), setup=27))
    assert [loop.where for loop in found(kernel).loops] == ["counts"]


@pytest.mark.parametrize("how", [*PACKED, "lz4 frame"])
def test_modules_and_others_are_unpacked(tmp_path: Path, how: str) -> None:
    pack = PACKED.get(how, _lz4_frame)
    module = tmp_path / "module.ko.packed"
    module.write_bytes(pack(built(tmp_path, LOOPS).read_bytes()))
    assert [loop.where for loop in found(module).loops] == ["counts"]


@pytest.mark.parametrize("how", [*PACKED, "lz4 frame"])
def test_what_is_cut_short_is_one_error(tmp_path: Path, how: str) -> None:
    pack = PACKED.get(how, _lz4_frame)
    file = tmp_path / "cut"
    noise = random.Random(1).randbytes(20_000)
    file.write_bytes(pack(built(tmp_path, LOOPS).read_bytes() + noise)[:-9000])
    with pytest.raises(InputError, match=f"{file}.*{how}"):
        images.read_image(file)


def test_what_becomes_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_LARGEST", 2 << 20)
    file = tmp_path / "bomb.xz"
    file.write_bytes(lzma.compress(b"\0" * (4 << 20)))
    with pytest.raises(InputError, match="more than 2 MiB"):
        images.read_image(file)


ARM64 = """\
	.type	counts, %function
	.globl	counts
counts:
1:	subs x1, x1, #1
	b.ne 1b
	ret
	.size	counts, .-counts
"""


def arm64_image(folder: Path) -> bytes:
    """Return an arm64 kernel without an ELF header: its own header and code."""
    tools = toolchain.find("arm64")
    obj = built(folder, ARM64, "arm64", "image.o")
    flat = folder / "flat"
    objcopy = tools.ld.removesuffix("ld") + "objcopy"
    subprocess.run([objcopy, "-O", "binary", "-j", ".text", obj, flat], check=True)
    header = bytearray(64)
    struct.pack_into("<I", header, 0, 0x14000010)  # b 0x40
    header[56:60] = b"ARM\x64"
    return bytes(header) + flat.read_bytes()


def test_arm64_kernels_come_as_image_packed_or_as_zboot(tmp_path: Path) -> None:
    image = arm64_image(tmp_path)
    payload = gzip.compress(image)
    zboot = (
        b"MZ\0\0zimg" + struct.pack("<II", 64, len(payload)) + b"\0" * 8 + b"gzip".ljust(32, b"\0")
    )
    for name, content in (
        ("Image", image),
        ("Image.gz", payload),
        ("vmlinuz.efi", zboot.ljust(64, b"\0") + payload),
    ):
        (tmp_path / name).write_bytes(content)
        (loop,) = found(tmp_path / name).loops
        assert (loop.isa, loop.address, loop.where) == ("arm64", 0x40, "0x40")


def test_archives_libraries_and_programs(tmp_path: Path) -> None:
    obj = built(tmp_path, LOOPS, name="counts.o")
    archive = tmp_path / "lib.a"
    subprocess.run(["ar", "rcs", archive, obj], check=True)
    (loop,) = found(archive).loops
    assert (loop.file, loop.where) == ("counts.o", "counts")
    library = linked(tmp_path, LOOPS, "-shared", name="lib.so")
    (loop,) = found(library).loops
    assert loop.where == "counts"
    assert loop.address > 0
    subprocess.run(["strip", library], check=True)
    assert [loop.where for loop in found(library).loops] == ["counts"]  # by its dynamic symbols


SYMBOLS = """\
0000000000000000 A fixed_percpu_data
{text:016x} T _text
{text:016x} T counts
{module:016x} t of_a_module	[some]
"""


def test_names_come_from_a_system_map_or_kallsyms(tmp_path: Path) -> None:
    program = linked(tmp_path, LOOPS, "-s")
    assert found(program).loops[0].function == ""
    start = images.read_image(program).sections[0].address
    names = tmp_path / "System.map"
    for moved in (0, 5 << 21):  # a running kernel is moved about
        names.write_text(SYMBOLS.format(text=start + moved, module=start + moved + 2))
        (section,) = images.read_image(program, names).sections
        assert [s.name for s in section.symbols if s.address == start] == ["_text", "counts"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ffffffffffffffff B The real System.map is in the package\n", "the real System.map"),
        ("0000000000000000 T _text\n0000000000000000 T counts\n", "as root"),
        ("hello world\n", ":1: 'hello world' is not ADDRESS TYPE NAME"),
        ("", "the real System.map"),
    ],
)
def test_symbols_that_name_nothing_say_so(tmp_path: Path, text: str, said: str) -> None:
    names = tmp_path / "map"
    names.write_text(text)
    with pytest.raises(InputError, match=said):
        images.read_image(linked(tmp_path, LOOPS, "-s"), names)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no ELF file"),
        (b"#!/bin/sh\n", "no ELF file"),
        (b"\x89LZO\0\r\n\x1a\n", "lzo"),
        (bzimage(b"nothing"), "packed in none of"),
        (bzimage(b"x" * 100)[:3000], "cut short"),
        (b"\x7fELF" + b"\0" * 60, "ELF"),
    ],
)
def test_what_is_no_code_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError, match=said) as refused:
        images.read_image(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_pipes_and_devices_are_refused_unread(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for special in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="is a pipe or a device: name a regular file"):
            images.read_image(special)
