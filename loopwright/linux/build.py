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
    """A folder of links to a tree's files, some of them changed; held by one process (see hold).

    lock is the descriptor of the lock file.
    """

    def __init__(self, tree: Tree, folder: Path, lock: int) -> None:
        self.tree, self.folder, self.lock = tree, folder, lock
        self.source = folder / "source"
        self._state = folder / "changed.json"
        self._linked = False

    def put(self, files: Mapping[str, str]) -> None:
        """Change or add these files (path to text), and undo all earlier changes."""
        if not self._linked:  # the tree's listing takes a second, and stays while it is held
            self._link()
            self._linked = True
        changed: list[str] = json.loads(self._state.read_text()) if self._state.exists() else []
        touched = sorted({*changed, *files})
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(touched))
        part.replace(self._state)
        for file in touched:
            path = self.source / file
            text = files.get(file)
            if text is None and self.tree.has(file):
                text = self.tree.read(file)
            written = path.is_file() and not path.is_symlink()
            if text is None:
                path.unlink(missing_ok=True)
            elif not written or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_text(text, encoding="utf-8")
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
        folders: set[Path] = set()
        for file in listing:
            original, link = self.tree.root / file, self.source / file
            if link.parent not in folders:
                link.parent.mkdir(parents=True, exist_ok=True)
                folders.add(link.parent)
            link.symlink_to(original.readlink() if original.is_symlink() else original)
        mark.write_text(digest)


def _files(root: Path) -> Iterator[str]:
    """Yield the paths of a tree's files and links, without the products of builds."""

    def entered(path: str) -> bool:
        built = path in _BUILT_FOLDERS or path.endswith("/include/generated")
        return not built and PurePosixPath(path).name != ".git"

    for path in trees.walk(root, entered):
        if path.rpartition("/")[2] not in _BUILT_FILES and not path.endswith(_BUILT_SUFFIXES):
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
        environment = {k: v for k, v in os.environ.items() if k not in set_by_make}
        return subprocess.run(
            ["nice", "-n", "5", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=(self.overlay.lock,),
            env=environment | {"LC_ALL": "C", "KBUILD_BUILD_TIMESTAMP": "1970-01-01"},
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
    configuration = "\n".join([isa, base, *options])
    stamp = build.folder / ".loopwright-configured"
    complete = not (build.folder / ".loopwright-building").exists()
    previous = stamp.read_text() if complete and stamp.exists() else ""
    if previous == configuration:
        return build
    if previous.splitlines()[:2] == [isa, base]:
        stamp.unlink()
    else:
        shutil.rmtree(build.folder, ignore_errors=True)
    build.folder.mkdir(parents=True, exist_ok=True)
    _run_or_remove(build, build.command(base))
    if options:
        script = str(overlay.source / "scripts/config")
        words = [word for option in options for word in option.split()]
        _run_or_remove(build, ["bash", script, "--file", str(build.folder / ".config"), *words])
    for target in ("olddefconfig", *targets):
        _run_or_remove(build, build.command(target, jobs=toolchain.cpus()))
    stamp.write_text(configuration)
    return build


def _run_or_remove(build: Build, command: Sequence[str]) -> None:
    """Run a command of the configuration; BuildError without the folder if it fails."""
    done = build.run(command)
    if done.returncode:
        shutil.rmtree(build.folder, ignore_errors=True)
        raise BuildError(f"`{command[0]} {command[-1]}` failed", command, done.stdout)


_OBJECT_LIST = re.compile(r"\s*(\S+?)-(\w+|\$\(CONFIG_\w+\))\s*[:+]?=(.*)")
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
            ways += _ways_to_reach(tree, str(folder.parent), f"{folder.name}/")
    pending = [option for way in ways for option in way]
    needs = _dependencies(tree, isa) if pending else {}
    options: dict[str, None] = {}
    while pending:
        name = pending.pop(0)
        if name not in options:
            options[name] = None
            pending += sorted(needs.get(name, ()))
    return list(options)


def ways_to_build(tree: Tree, file: str) -> Iterator[tuple[str, ...]]:
    """Yield the options of each way in which a makefile builds a source."""
    path = PurePosixPath(file)
    return _ways_to_reach(tree, str(path.parent), f"{path.stem}.o")


def _ways_to_reach(tree: Tree, folder: str, name: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the options of each way to build an object, alone or in others, or enter a folder.

    Objects of arm64 code that runs before it is relocated end in .pi.o.
    """
    stem, dot, suffix = name.partition(".o")
    pi = r"(?:\.pi)?" if dot else ""
    word = re.compile(rf"(?<![\w/-]){re.escape(stem)}{pi}{re.escape(dot + suffix)}(?![\w-])")
    for listed, option, objects in _object_lists(tree, folder):
        if not word.search(objects):
            continue
        options = (option[len("$(CONFIG_") : -1],) if option.startswith("$(CONFIG_") else ()
        if listed in ("obj", "lib"):
            yield options
        elif depth < 2:
            outer_ways = _ways_to_reach(tree, folder, f"{listed}.o", depth + 1)
            yield from (options + way for way in outer_ways)


def _object_lists(tree: Tree, folder: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, option and contents of each list of objects, such as obj-$(CONFIG_EPOLL)."""
    for name in ("Kbuild", "Makefile"):
        file = str(PurePosixPath(folder, name))
        if tree.has(file):
            for line in tree.read(file).replace("\\\n", " ").splitlines():
                if match := _OBJECT_LIST.match(line):
                    yield match[1], match[2], match[3]


@cache
def _dependencies(tree: Tree, isa: str) -> dict[str, set[str]]:
    """Return by option the others that its entry in Kconfig depends on."""
    out: dict[str, set[str]] = {}
    pending: list[tuple[str, frozenset[str]]] = [("Kconfig", frozenset())]
    seen = set()
    while pending:
        file, enclosing = pending.pop()
        if file in seen or not tree.has(file):
            continue
        seen.add(file)
        text = tree.read(file).replace("\\\n", " ").replace("$(SRCARCH)", ARCH[isa])
        blocks, name = [enclosing], ""
        for line in text.splitlines():
            # The parts of a block, and help texts, are indented.
            word, argument = [*("" if line[:1].isspace() else line).split(maxsplit=1), "", ""][:2]
            if word in ("config", "menuconfig"):
                name = argument.strip()
                out.setdefault(name, set()).update(*blocks)
            elif word in ("menu", "choice", "if"):
                blocks.append(_required_options(argument) if word == "if" else frozenset())
                name = ""
            elif word in ("endmenu", "endchoice", "endif") and len(blocks) > 1:
                blocks.pop()
            elif line.strip().startswith("depends on"):
                if name:
                    out[name] |= _required_options(line)
                else:
                    blocks[-1] |= _required_options(line)
            elif word == "source":
                included = argument.split("#")[0].strip().strip("\"'")
                pending.append((included, frozenset().union(*blocks)))
    return out


def _required_options(expression: str) -> frozenset[str]:
    """Return the options that an expression requires to be set, with all alternatives."""
    text = _ABSENT.sub(" ", expression.split("#")[0])
    return frozenset(re.findall(r"\b[A-Z0-9][A-Z0-9_]{2,}\b", text))
