"""Which objects of a kernel hold a routine, and a unit that makes a function of inline code."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loopwright import kernels
from loopwright.kernels import Variant
from loopwright.tree import c_text, target
from loopwright.tree.target import Target
from loopwright.tree.verify.outcomes import NotCovered
from loopwright.tree.verify.subject import PatchedVariant

_UNIT = "lib/loopwright_{}.c"
_PUT_USER = "arch/x86/lib/putuser.o"  # what __put_user() calls


@dataclass(frozen=True)
class CompiledAs:
    """The objects that hold a routine, and the name that it has there; files are added units."""

    symbol: str
    objects: tuple[str, ...]
    files: dict[str, str]


def place(variant: Variant, subject: PatchedVariant) -> CompiledAs:
    """Return where a routine is compiled: in its own file, or through a unit if it is inline."""
    aim = target.find(variant, subject.tree)
    if not aim.file.endswith(".h"):
        return CompiledAs(aim.name, (object_of(aim.file),), {})
    unit, symbol = _UNIT.format(variant.routine), target.symbol(variant)
    now = subject.files.get(aim.file) or subject.tree.read(aim.file)
    span = c_text.c_function(now, aim.name)
    calls = span is not None and re.search(r"\b__put_user\(", span.of(now))
    objects = (object_of(unit), *((_PUT_USER,) if calls else ()))
    return CompiledAs(symbol, objects, {unit: _unit(variant, symbol)})


def object_of(file: str) -> str:
    """Return the object that kbuild makes of a source file."""
    return str(PurePosixPath(file).with_suffix(".o"))


def compiled(subject: PatchedVariant) -> list[str]:
    """Return the objects of the changed sources, and of those that use a changed header's routine.

    Sources count that their folder's makefile names.
    """
    out = []
    for file in [*subject.files, *_users(subject)]:
        path = PurePosixPath(file)
        makefile = str(path.parent / "Makefile")
        if path.suffix not in (".S", ".c") or not subject.tree.has(makefile):
            continue
        if re.search(rf"\b{re.escape(path.stem)}(?:\.pi)?\.o\b", subject.tree.read(makefile)):
            out.append(object_of(file))
    return out


def _users(subject: PatchedVariant) -> list[str]:
    """Return the sources in the top folders that call a routine which a header holds."""
    names = {aim.name for v in subject.variants if (aim := _header_aim(v, subject))}
    folders = [subject.tree.root / name for name in ("fs", "kernel", "lib")] if names else []
    found = []
    for file in sorted(f for folder in folders for f in folder.glob("*.c")):
        body = file.read_text(errors="replace")
        if any(re.search(rf"\b{name}\(", body) for name in names):
            found.append(str(file.relative_to(subject.tree.root)))
    return found


def _header_aim(variant: Variant, subject: PatchedVariant) -> Target | None:
    aim = target.find(variant, subject.tree)
    return aim if aim.file.endswith(".h") else None


def _unit(variant: Variant, symbol: str) -> str:
    """Return a unit with the tree's own headers and the function around the inline code."""
    folder = kernels.load(variant.kernel).folder
    source = variant.source.read_text()
    # The tree's headers need not stand alone: linux/fs.h is what their users include first.
    headers = ["#include <linux/fs.h>\n"]
    headers += [f"#include {h}\n" for h in c_text.includes(source) if h.startswith("<")]
    for name in [h.strip('"') for h in c_text.includes(source) if h.startswith('"')]:
        if c_text.c_function((folder / name).read_text(), symbol):
            body = _expanded(folder / name)
            span = c_text.c_function(body, symbol)
            assert span is not None
            prototype = span.of(body).partition("{")[0].rstrip() + ";\n"
            body = body[: span.start] + prototype + body[span.start :]
            return "".join([*headers, body])
    raise NotCovered(f"no header of {variant.source.name} defines {symbol} around the inline code")


def _expanded(path: Path) -> str:
    """Return a header's text with the headers beside it in place of their #include lines."""

    def inline(match: re.Match[str]) -> str:
        return _expanded(path.parent / match[1])

    return re.sub(r'(?m)^#include "([^"]+)"\n', inline, path.read_text())
