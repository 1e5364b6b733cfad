"""Find the kernel in what boots: bzImage (vmlinuz) of x86, and Image and zboot of arm64."""

from loopwright.errors import InputError
from loopwright.scanning import packed

_X86_MAGIC = b"HdrS"  # at 0x202 (Documentation/arch/x86/boot.rst)
_ARM64_MAGIC = b"ARM\x64"  # at 56 (Documentation/arch/arm64/booting.rst)
_ZBOOT_MAGIC = b"zimg"  # at 4 (drivers/firmware/efi/libstub/zboot-header.S)
_SECTOR = 512
_PAYLOAD_SINCE = 0x208  # the boot protocol that says where the payload is


def is_bzimage(content: bytes) -> bool:
    """Say whether content is an x86 kernel as a boot loader takes it."""
    return content[0x202:0x206] == _X86_MAGIC


def is_image(content: bytes) -> bool:
    """Say whether content is an unpacked arm64 kernel, which is no ELF file."""
    return content[56:60] == _ARM64_MAGIC


def is_zboot(content: bytes) -> bool:
    """Say whether content is a kernel that unpacks itself as an EFI program."""
    return content[4:8] == _ZBOOT_MAGIC and content[:2] == b"MZ"


def payload(content: bytes, name: str) -> bytes:
    """Return the ELF file that a bzImage unpacks; InputError where there is none."""
    protocol = _number(content, 0x206, 2)
    if protocol < _PAYLOAD_SINCE:
        raise InputError(
            f"{name}: boot protocol {protocol >> 8}.{protocol & 255:02} does not say where its "
            "payload is (2.08 of Linux 2.6.26 does); give its vmlinux"
        )
    setup = (content[0x1F1] or 4) + 1  # 0 of old kernels means 4 sectors
    start = setup * _SECTOR + _number(content, 0x248, 4)
    return _unpacked(content, start, _number(content, 0x24C, 4), name)


def zboot_payload(content: bytes, name: str) -> bytes:
    """Return the kernel that an EFI zboot image unpacks; InputError where there is none."""
    return _unpacked(content, _number(content, 8, 4), _number(content, 12, 4), name)


def _unpacked(content: bytes, start: int, size: int, name: str) -> bytes:
    inside = content[start : start + size]
    if size == 0 or len(inside) < size:
        raise InputError(
            f"{name} is cut short or no kernel: its header names {size} bytes of payload at "
            f"{start:#x}, and it has {len(content)} bytes"
        )
    if inside[:4] == b"\x7fELF" or is_image(inside):  # not packed at all
        return inside
    if not packed.format_of(inside):
        raise InputError(
            f"{name}: its payload at {start:#x} ({inside[:6].hex()}) is packed in none of gzip, "
            "xz, zstd, lz4, lzma and bzip2"
        )
    return packed.unpack(inside, f"the payload of {name}")


def image_text(content: bytes) -> bytes:
    """Return what of an arm64 Image may be code: as its PE header says, or else all of it.

    Without EFI there is no such header. The section .text of the header holds read-only data, too.
    """
    pe = _number(content, 60, 4)
    if content[:2] != b"MZ" or content[pe : pe + 4] != b"PE\0\0":
        return content
    sections = pe + 24 + _number(content, pe + 20, 2)
    for at in range(sections, sections + 40 * min(_number(content, pe + 6, 2), 16), 40):
        if content[at : at + 8].rstrip(b"\0") == b".text":
            start, size = _number(content, at + 20, 4), _number(content, at + 16, 4)
            return content[: start + size]
    return content


def _number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
