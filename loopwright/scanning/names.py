"""Names of addresses from System.map, /proc/kallsyms or a kernel itself, put upon its code."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from loopwright.code.elf import Section, Symbol
from loopwright.errors import InputError

_ROUTINES = frozenset("tTwW")  # letters of nm for what lies in text
_STEP = 1 << 21  # a kernel that is moved about when it boots moves by multiples of 2 MiB


@dataclass(frozen=True)
class Names:
    """Names of routines with their addresses, sorted by these; base is the address of _text."""

    routines: tuple[tuple[int, str], ...]
    base: int | None

    @classmethod
    def of(cls, symbols: Iterable[tuple[int, str, str]]) -> Self:
        """Take the routines of symbols given as address, letter of nm and name."""
        base, routines = None, []
        for address, kind, name in symbols:
            if name == "_text":
                base = address
            if kind in _ROUTINES:
                routines.append((address, name))
        return cls(tuple(sorted(routines)), base)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a System.map, or what /proc/kallsyms shows; InputError where it is neither."""
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        symbols = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words:
                continue
            try:
                address, kind, name = int(words[0], 16), words[1], words[2]
            except (ValueError, IndexError):
                raise InputError(
                    f"{path}:{number}: {line[:60]!r} is not ADDRESS TYPE NAME as in System.map"
                ) from None
            if len(words) == 3:  # a fourth names a module, which lies elsewhere
                symbols.append((address, kind, name))
        found = cls.of(symbols)
        if found.routines and not found.routines[-1][0]:
            raise InputError(
                f"{path} has all addresses 0: read /proc/kallsyms as root, or give System.map"
            )
        return found

    def given(self, sections: Iterable[Section], source: str) -> list[Section]:
        """Return sections with these names instead of their own.

        Names of a running kernel are moved to where it is linked, by where _text is. InputError,
        which calls them by their source, where no name lies in the code.
        """
        given = list(sections)
        shift = self._shift(given)
        named = [self._upon(section, shift) for section in given]
        if not any(section.symbols for section in named):
            stub = "the real System.map" if not self.routines else "one of this very kernel"
            raise InputError(f"none of {source}'s names lies in the code: give {stub}")
        return named

    def _shift(self, sections: list[Section]) -> int:
        start = min((s.address for s in sections if s.name in (".text", ".head.text")), default=0)
        if self.base is None:
            return 0
        image = any(s.name == "Image" for s in sections)
        away = self.base - (0 if image else start)
        return away if image or away % _STEP == 0 else 0

    def _upon(self, section: Section, shift: int) -> Section:
        own = [
            Symbol(address - shift, 0, name, True)
            for address, name in self.routines
            if section.address <= address - shift < section.end
        ]
        return replace(section, symbols=tuple(own))
