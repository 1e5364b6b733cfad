"""Where routines begin, as the table says that a debugger or an exception unwinds by."""

import struct

from elftools.elf.elffile import ELFFile

_TABLE = bytes((0x03, 0x3B))  # a count of 4 bytes; pairs of 4 bytes relative to the section


def starts(image: ELFFile) -> tuple[int, ...]:
    """Return the addresses of routines by .eh_frame_hdr (LSB core, 10.6.2), sorted.

    Nothing where there is no such section, or one in another encoding than linkers write.
    """
    section = image.get_section_by_name(".eh_frame_hdr")
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return ()
    content = section.data()
    if len(content) < 12 or content[0] != 1 or content[2:4] != _TABLE:
        return ()
    (count,) = struct.unpack_from("<I", content, 8)
    table = content[12 : 12 + 8 * count]
    pairs = struct.iter_unpack("<ii", table[: len(table) - len(table) % 8])
    return tuple(sorted({section["sh_addr"] + start for start, _ in pairs}))
