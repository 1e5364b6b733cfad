"""What memory holds under a loop: the same 4096 bytes again and again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

BYTES = 4096
POINTER = 0x21000840  # what each word of 64 bits holds unless said otherwise: block_machine.h


@dataclass(frozen=True)
class Memory:
    """Words of 64 bits that are all alike, but for single bytes of the 4096."""

    word: int = POINTER
    changed: Mapping[int, int] = field(default_factory=dict)

    def page(self) -> bytes:
        """Return the bytes."""
        page = bytearray(self.word.to_bytes(8, "little") * (BYTES // 8))
        for at, byte in self.changed.items():
            page[at] = byte
        return bytes(page)

    def having(self, address: int, size: int, value: int) -> "Memory":
        """Return it with so many bytes at an address that hold a value."""
        new = dict(self.changed)
        for n, byte in enumerate((value % (1 << 8 * size)).to_bytes(size, "little")):
            new[(address + n) % BYTES] = byte
        return Memory(self.word, new)

    def held(self, address: int, size: int) -> int:
        """Return the value that so many bytes at an address hold."""
        page = self.page()
        several = bytes(page[(address + n) % BYTES] for n in range(size))
        return int.from_bytes(several, "little")

    def lines(self) -> Iterator[str]:
        """Yield what a job says of it."""
        yield f"memory {self.word}"
        page = self.page()
        for index in sorted({at // 8 for at in self.changed}):
            yield f"word {index} {int.from_bytes(page[8 * index : 8 * index + 8], 'little')}"
