"""Objects of a kernel that hold a routine, and a unit that makes a function of inline code."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loopwright import kernels
from loopwright.kernels import Variant
from loopwright.linux import c_source, routine, trees
from loopwright.linux.verify.outcomes import NotProven
from loopwright.linux.verify.subject import PatchedVariant

_UNIT = "lib/loopwright_{}.c"
_MOST_INCLUDERS = 200  # of a header that a patch changes, each built
_PUT_USER = "arch/x86/lib/putuser.o"  # what __put_user() calls


@dataclass(frozen=True)
class CompiledAs:
    """The objects that hold a routine, and the name that it has there; files are added units."""

    symbol: str
    objects: tuple[str, ...]
    files: dict[str, str]


def place(variant: Variant, subject: PatchedVariant) -> CompiledAs:
    """Return where a routine is compiled: in its own file, or through a unit if it is inline."""
    aim = routine.find(variant, subject.tree)
    if not aim.file.endswith(".h"):
        return CompiledAs(aim.name, (object_of(aim.file),), {})
    unit, symbol = _UNIT.format(variant.routine), routine.symbol(variant)
    now = subject.files.get(aim.file) or subject.tree.read(aim.file)
    span = c_source.c_function(now, aim.name)
    calls = span is not None and re.search(r"\b__put_user\(", span.of(now))
    objects = (object_of(unit), *((_PUT_USER,) if calls else ()))
    return CompiledAs(symbol, objects, {unit: _unit(variant, symbol)})


def object_of(file: str) -> str:
    """Return the object that kbuild makes of a source file."""
    return str(PurePosixPath(file).with_suffix(".o"))


def compiled(subject: PatchedVariant, config: str) -> list[str]:
    """Return the objects of the changed sources, as far as a configuration has them."""
    return [object_of(file) for file in subject.files if _is_built(file, subject, config)]


def including(header: str, subject: PatchedVariant, config: str) -> tuple[list[str], list[str]]:
    """Return the objects of the sources that include a header, and the sources left out.

    Those are left out that a configuration (the text of a .config) does not build. NotProven where
    they are too many.
    """
    found = trees.includers(subject.tree, subject.isa, header, _MOST_INCLUDERS)
    if len(found) > _MOST_INCLUDERS:
        raise NotProven(
            f"more than {_MOST_INCLUDERS} sources include {header}: they are not built here, but "
            "those of its small kernel by tier boot"
        )
    built = [file for file in found if _is_built(file, subject, config)]
    return [object_of(file) for file in built], [file for file in found if file not in built]


def _is_built(file: str, subject: PatchedVariant, config: str) -> bool:
    """Say whether a configuration builds a source, by its folder's makefile."""
    path = PurePosixPath(file)
    makefile = str(path.parent / "Makefile")
    if path.suffix not in (".S", ".c") or not subject.tree.has(makefile):
        return False
    lines = subject.tree.read(makefile).replace("\\\n", " ").splitlines()
    return _is_named(path.stem, lines, config)


def _is_named(stem: str, lines: list[str], config: str, depth: int = 0) -> bool:
    """Say whether a list that is built names an object, or one that consists of it."""
    for line in lines:
        named = re.match(r"\s*(\S+?)-(\w+|\$\(CONFIG_\w+\))\s*[:+]?=(.*)", line)
        if not named or not re.search(rf"(?<![\w-]){re.escape(stem)}(?:\.pi)?\.o\b", named[3]):
            continue
        option = named[2].removeprefix("$(").removesuffix(")")
        if option.startswith("CONFIG_") and not re.search(rf"(?m)^{option}=[ym]$", config):
            continue
        if named[1] in ("obj", "lib") or (depth < 2 and _is_named(named[1], lines, config, 1)):
            return True
    return False


def _unit(variant: Variant, symbol: str) -> str:
    """Return a unit with the tree's own headers and the function around the inline code."""
    folder = kernels.load(variant.kernel).folder
    source = variant.source.read_text()
    # The tree's headers need not stand alone: linux/fs.h is what their users include first.
    headers = ["#include <linux/fs.h>\n"]
    headers += [f"#include {h}\n" for h in c_source.includes(source) if h.startswith("<")]
    for name in [h.strip('"') for h in c_source.includes(source) if h.startswith('"')]:
        if c_source.c_function((folder / name).read_text(), symbol):
            body = _expanded(folder / name)
            span = c_source.c_function(body, symbol)
            assert span is not None
            prototype = span.of(body).partition("{")[0].rstrip() + ";\n"
            body = body[: span.start] + prototype + body[span.start :]
            return "".join([*headers, body])
    raise NotProven(f"no header of {variant.source.name} defines {symbol} around the inline code")


def _expanded(path: Path) -> str:
    """Return a header's text with the headers beside it in place of their #include lines."""

    def inline(match: re.Match[str]) -> str:
        return _expanded(path.parent / match[1])

    return re.sub(r'(?m)^#include "([^"]+)"\n', inline, path.read_text())
