"""Numbers in sentences: of one thing, and of several."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 loop" or "1,234 loops"; many is what several are called where no s makes it."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
