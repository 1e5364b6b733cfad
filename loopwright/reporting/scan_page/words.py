"""Texts by number: those of a page repeat."""

from collections.abc import Sequence


class Words:
    """Numbers of texts, in the order in which they were first asked for."""

    def __init__(self) -> None:
        """Know none; the empty text is number 0."""
        self._of = {"": 0}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        return self._of.setdefault(text, len(self._of))

    @property
    def all(self) -> Sequence[str]:
        """Return all texts, by number."""
        return list(self._of)
