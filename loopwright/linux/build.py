"""Out-of-tree builds of a Linux tree: an overlay of links, its configuration, make."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from loopwright import paths, toolchain
from loopwright.errors import InputError
from loopwright.linux import trees
from loopwright.linux.trees import ARCH, Tree

# Files of a build inside the user's tree, which would make kbuild refuse the overlay.
_BUILT_FILES = {".config", ".config.old", ".git", "vmlinux", "Module.symvers", "System.map"}
_BUILT_FOLDERS = {"include/config", "include/generated"}
_BUILT_SUFFIXES = (".o", ".ko", ".a", ".cmd", ".d", ".mod", ".order")


class Overlay:
    """The overlay of one tree; held by one process at a time (see hold)."""

    def __init__(self, tree: Tree, folder: Path, lock: int) -> None:
        self.tree, self.folder, self.lock = tree, folder, lock
        self.source = folder / "source"
        self._state = folder / "changed.json"
        self._linked = False

    def put(self, files: Mapping[str, str]) -> None:
        """Make the overlay the tree with these files (path to text) changed or added."""
        if not self._linked:  # the tree's listing takes a second, and stays while it is held
            self._link()
            self._linked = True
        known: list[str] = json.loads(self._state.read_text()) if self._state.exists() else []
        every = sorted({*known, *files})
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(every))
        part.replace(self._state)
        for file in every:
            path = self.source / file
            wanted = files.get(file)
            if wanted is None and self.tree.has(file):
                wanted = self.tree.read(file)
            own = path.is_file() and not path.is_symlink()
            if wanted is None:
                path.unlink(missing_ok=True)
            elif not own or path.read_text(encoding="utf-8") != wanted:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_text(wanted, encoding="utf-8")
                if path.suffix in (".sh", ".pl"):
                    path.chmod(0o755)

    def _link(self) -> None:
        """Link the tree's files; a listing kept beside the links shows whether that is done."""
        listing = sorted(_files(self.tree.root))
        digest = hashlib.sha256("\n".join(listing).encode()).hexdigest()
        mark = self.folder / "linked"
        if mark.exists() and mark.read_text() == digest:
            return
        mark.unlink(missing_ok=True)
        shutil.rmtree(self.source, ignore_errors=True)
        self._state.unlink(missing_ok=True)
        made: set[Path] = set()
        for file in listing:
            original, link = self.tree.root / file, self.source / file
            if link.parent not in made:
                link.parent.mkdir(parents=True, exist_ok=True)
                made.add(link.parent)
            link.symlink_to(original.readlink() if original.is_symlink() else original)
        mark.write_text(digest)


def _files(root: Path) -> Iterator[str]:
    """Yield the paths of a tree's files and links, without the products of builds."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                built = path in _BUILT_FOLDERS or path.endswith("/include/generated")
                if entry.name != ".git" and not built:
                    pending.append(path)
            elif entry.name not in _BUILT_FILES and not entry.name.endswith(_BUILT_SUFFIXES):
                yield path


@contextmanager
def hold(tree: Tree) -> Iterator[Overlay]:
    """Yield the overlay of a complete tree, waiting while another process holds it.

    Programs that inherit the lock's descriptor hold it until they end, too. InputError if the
    tree has only a part of the sources.
    """
    if tree.has(trees.SUBSET) or not tree.has("scripts/Makefile.build"):
        raise InputError(
            f"{tree} holds a part of the sources: building needs a whole tree, e.g. "
            "--tree debian:6.12"
        )
    key = hashlib.sha256(str(tree.root).encode()).hexdigest()[:12]
    folder = paths.build_dir() / "verify" / f"{tree.version}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with trees.locked(folder / "lock", "builds in") as lock:
        yield Overlay(tree, folder, lock)


@dataclass(frozen=True)
class Build:
    """A build folder of an overlay for one ISA and configuration."""

    overlay: Overlay
    isa: str
    folder: Path

    def command(self, *targets: str, jobs: int = 1) -> list[str]:
        """Return the make command for targets, as typed in a shell."""
        prefix = toolchain.find(self.isa).gcc.removesuffix("gcc")
        return [
            "make", "-s", f"-j{jobs}", "-C", str(self.overlay.source), f"O={self.folder}",
            f"ARCH={ARCH[self.isa]}", f"CROSS_COMPILE={prefix}", *targets,
        ]  # fmt: skip

    def make(self, *targets: str, jobs: int = 1) -> subprocess.CompletedProcess[str]:
        """Run make; a mark exists meanwhile, since the folder may be half-written."""
        mark = self.folder / ".loopwright-building"
        mark.touch()
        done = self.run(self.command(*targets, jobs=jobs))
        mark.unlink()
        return done

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program at low priority; stdout and stderr are merged."""
        set_by_make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
        kept = {k: v for k, v in os.environ.items() if k not in set_by_make}
        return subprocess.run(
            ["nice", "-n", "5", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=(self.overlay.lock,),
            env=kept | {"LC_ALL": "C", "KBUILD_BUILD_TIMESTAMP": "1970-01-01"},
        )


class BuildError(Exception):
    """A failure of make: its target, its command and its output."""

    def __init__(self, what: str, command: Sequence[str], output: str) -> None:
        super().__init__(what)
        self.command, self.output = list(command), output


def require_tools(isa: str) -> None:
    """Raise InputError with the package of the first tool missing for a kernel build."""
    toolchain.find(isa)
    for tool in ("make", "flex", "bison", "bc"):
        if not shutil.which(tool):
            raise InputError(f"{tool} is missing, which kernel builds need: `apt install {tool}`")
    if not any(Path(p, "libelf.h").is_file() for p in ("/usr/include", "/usr/local/include")):
        raise InputError("libelf is missing, which kernel builds need: `apt install libelf-dev`")


def configured(
    overlay: Overlay, isa: str, name: str, base: str, options: Sequence[str], *targets: str
) -> Build:
    """Return the build folder `name`, configured from base (a make target) with options.

    options are as for scripts/config: "-e KUNIT", "-d X86_KERNEL_IBT". targets are made once after
    that. A folder with other options is configured again in place: make rebuilds what depends on an
    option. BuildError if make fails; the folder is then removed.
    """
    require_tools(isa)
    build = Build(overlay, isa, overlay.folder / name)
    wanted = "\n".join([isa, base, *options])
    stamp = build.folder / ".loopwright-configured"
    whole = not (build.folder / ".loopwright-building").exists()
    had = stamp.read_text() if whole and stamp.exists() else ""
    if had == wanted:
        return build
    if had.splitlines()[:2] == [isa, base]:
        stamp.unlink()
    else:
        shutil.rmtree(build.folder, ignore_errors=True)
    build.folder.mkdir(parents=True, exist_ok=True)
    _must(build, build.command(base))
    if options:
        script = str(overlay.source / "scripts/config")
        words = [word for option in options for word in option.split()]
        _must(build, ["bash", script, "--file", str(build.folder / ".config"), *words])
    for target in ("olddefconfig", *targets):
        _must(build, build.command(target, jobs=toolchain.cpus()))
    stamp.write_text(wanted)
    return build


def _must(build: Build, command: Sequence[str]) -> None:
    done = build.run(command)
    if done.returncode:
        shutil.rmtree(build.folder, ignore_errors=True)
        raise BuildError(f"`{command[0]} {command[-1]}` failed", command, done.stdout)


_LIST = re.compile(r"\s*(\S+?)-(\w+|\$\(CONFIG_\w+\))\s*[:+]?=(.*)")
# Terms that require the absence of an option, which cannot be set.
_ABSENT = re.compile(r"!\s*\w+|\b\w+\s*=\s*n\b")


def is_built(tree: Tree, file: str, config: str) -> bool:
    """True if a configuration (the text of a .config) builds a source, by its makefile."""
    return PurePosixPath(file).suffix in (".S", ".c") and any(
        all(re.search(rf"(?m)^CONFIG_{option}=[ym]$", config) for option in way)
        for way in ways_to_build(tree, file)
    )


def options_of_source(tree: Tree, isa: str, file: str) -> list[str]:
    """Return the options that kbuild needs to build a source, and those that they depend on.

    A source that is always built has none. Only kconfig knows whether they can be set together: the
    resulting configuration has to be checked.
    """
    ways = list(ways_to_build(tree, file))
    for folder in PurePosixPath(file).parents:
        if folder.name and str(folder) != f"arch/{ARCH[isa]}":
            ways += _ways(tree, str(folder.parent), f"{folder.name}/")
    wanted = [option for way in ways for option in way]
    needs = _depends(tree, isa) if wanted else {}
    out: dict[str, None] = {}
    while wanted:
        name = wanted.pop(0)
        if name not in out:
            out[name] = None
            wanted += sorted(needs.get(name, ()))
    return list(out)


def ways_to_build(tree: Tree, file: str) -> Iterator[tuple[str, ...]]:
    """Yield the options of each way in which a makefile builds a source."""
    path = PurePosixPath(file)
    return _ways(tree, str(path.parent), f"{path.stem}.o")


def _ways(tree: Tree, folder: str, name: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the options of each way to build an object, alone or in others, or enter a folder."""
    stem, dot, suffix = name.partition(".o")
    also = r"(?:\.pi)?" if dot else ""  # of arm64, code that runs before it is relocated
    named = re.compile(rf"(?<![\w/-]){re.escape(stem)}{also}{re.escape(dot + suffix)}(?![\w-])")
    for listed, option, objects in _lists(tree, folder):
        if not named.search(objects):
            continue
        own = (option[len("$(CONFIG_") : -1],) if option.startswith("$(CONFIG_") else ()
        if listed in ("obj", "lib"):
            yield own
        elif depth < 2:
            yield from (own + way for way in _ways(tree, folder, f"{listed}.o", depth + 1))


def _lists(tree: Tree, folder: str) -> Iterator[tuple[str, str, str]]:
    for name in ("Kbuild", "Makefile"):
        file = str(PurePosixPath(folder, name))
        if tree.has(file):
            for line in tree.read(file).replace("\\\n", " ").splitlines():
                if match := _LIST.match(line):
                    yield match[1], match[2], match[3]


@cache
def _depends(tree: Tree, isa: str) -> dict[str, set[str]]:
    """Return by option the others that its entry in Kconfig depends on."""
    out: dict[str, set[str]] = {}
    pending: list[tuple[str, frozenset[str]]] = [("Kconfig", frozenset())]
    seen = set()
    while pending:
        file, around = pending.pop()
        if file in seen or not tree.has(file):
            continue
        seen.add(file)
        text = tree.read(file).replace("\\\n", " ").replace("$(SRCARCH)", ARCH[isa])
        blocks, name = [around], ""
        for line in text.splitlines():
            # The parts of a block, and help texts, are indented.
            word, rest = [*("" if line[:1].isspace() else line).split(maxsplit=1), "", ""][:2]
            if word in ("config", "menuconfig"):
                name = rest.strip()
                out.setdefault(name, set()).update(*blocks)
            elif word in ("menu", "choice", "if"):
                blocks.append(_names(rest) if word == "if" else frozenset())
                name = ""
            elif word in ("endmenu", "endchoice", "endif") and len(blocks) > 1:
                blocks.pop()
            elif line.strip().startswith("depends on"):
                if name:
                    out[name] |= _names(line)
                else:
                    blocks[-1] |= _names(line)
            elif word == "source":
                included = rest.split("#")[0].strip().strip("\"'")
                pending.append((included, frozenset().union(*blocks)))
    return out


def _names(expression: str) -> frozenset[str]:
    """Return the options that an expression requires to be set, with all alternatives."""
    text = _ABSENT.sub(" ", expression.split("#")[0])
    return frozenset(re.findall(r"\b[A-Z0-9][A-Z0-9_]{2,}\b", text))
