"""Linux source trees: their paths, versions, files and includers; Debian's packages."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePosixPath

from loopwright import paths
from loopwright.errors import InputError

_INSTALLED = Path("/usr/src")
SUBSET = ".loopwright-subset"  # marks a cached tree with only a part of the sources
# Files that patches change or read, files that checkpatch.pl reads, and one file in each of the
# folders by which checkpatch.pl recognises the top of a kernel tree.
_MEMBERS = (
    "Makefile", "Kbuild", "COPYING", "CREDITS", "MAINTAINERS", "README",
    "Documentation/dev-tools/checkpatch.rst", "Documentation/admin-guide/kernel-parameters.txt",
    "drivers/Makefile", "init/Makefile", "ipc/Makefile", "kernel/*.c", "lib/*.c", "fs/*.c",
    "include/linux", "include/uapi/linux/eventpoll.h", "arch/x86/lib", "arch/x86/include/asm",
    "arch/arm64/lib", "arch/arm64/include/asm", "arch/arm64/kernel/*.c", "arch/arm64/kernel/pi",
    "scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch",
)  # fmt: skip


class UnavailableError(Exception):
    """The reason, in one line, why a package is not available on this machine."""


def debian_package(series: str) -> str:
    """Return the name of the package with a kernel series, e.g. 6.12; InputError for others."""
    if not re.fullmatch(r"\d+\.\d+", series):
        raise InputError(f"debian:{series} names no kernel series; write e.g. debian:6.12")
    return f"linux-source-{series}"


def cached_debian(series: str) -> Path | None:
    """Return the fetched tree of a kernel series, the complete one if there is one."""
    tree = paths.cache_dir() / debian_package(series)
    return next((p for p in (tree.with_name(f"{tree.name}-whole"), tree) if p.is_dir()), None)


def fetch_debian(series: str, *, whole: bool = False) -> Path:
    """Return the cached tree of a kernel series, fetched if necessary; UnavailableError.

    It has the files that patches need, or all files of the package (1.7 GB), which builds need.
    """
    name, cache = debian_package(series), paths.cache_dir()
    cached = cached_debian(series)
    if cached and not (whole and cached.name == name):
        return cached
    tree = cache / (f"{name}-whole" if whole else name)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / f"{name}.lock", "fetches into"):
            if not tree.is_dir():
                _fetch(name, cache, tree, whole)
    except OSError as error:
        raise UnavailableError(f"the cache {cache} cannot be written ({error.strerror})") from None
    return tree


def _fetch(name: str, cache: Path, tree: Path, whole: bool) -> None:
    for stale in cache.glob(f"{name}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=cache))
    try:
        (part / "tree").mkdir()
        _unpack(_archive(name, part), part / "tree", whole)
        (part / "tree").rename(tree)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def locked(path: Path, doing: str) -> Iterator[int]:
    """Hold a lock file and yield its descriptor; doing names the other process's activity."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report(f"waiting for another process that {doing} {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _archive(name: str, folder: Path) -> Path:
    """Return the package's source archive: the installed one, else a downloaded one's."""
    installed = _INSTALLED / f"{name}.tar.xz"
    if installed.is_file():
        _report(f"unpacking kernel files from {installed}")
        return installed
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise UnavailableError(f"Debian's {name} needs {tool}, which is not here")
    listed = _run(["apt-cache", "show", "--no-all-versions", name], folder)
    size = re.search(r"(?m)^Size: (\d+)$", listed.stdout)
    exact = re.search(rf"(?m)^Package: {re.escape(name)}$", listed.stdout)  # apt takes patterns
    if listed.returncode or size is None or exact is None:
        raise UnavailableError(f"apt knows no package {name} (try `apt-get update`)")
    _report(f"downloading Debian's {name} with apt-get, {int(size[1]) / 1e6:.0f} MB, once")
    # On a terminal apt-get shows its progress.
    quiet, output = ([], sys.stderr) if sys.stderr.isatty() else (["-q"], subprocess.DEVNULL)
    command = ["apt-get", "download", *quiet, name]
    done = subprocess.run(
        command, cwd=folder, stdout=output, stderr=subprocess.PIPE, text=True, check=False
    )
    debs = list(folder.glob("*.deb"))
    if done.returncode or len(debs) != 1:
        last = (done.stderr.strip().splitlines() or ["no package came"])[-1]
        raise UnavailableError(f"apt-get download {name} failed: {last}")
    done = _run(["dpkg-deb", "-x", debs[0].name, "package"], folder)
    fetched = folder / "package" / "usr/src" / f"{name}.tar.xz"
    if done.returncode or not fetched.is_file():
        raise UnavailableError(f"{debs[0].name} holds no usr/src/{name}.tar.xz")
    debs[0].unlink()
    return fetched


def _unpack(archive: Path, into: Path, whole: bool) -> None:
    """Unpack all files, or those that patches need, of which a series may lack some."""
    top = archive.name.removesuffix(".tar.xz")
    members = [] if whole else [f"{top}/{member}" for member in _MEMBERS]
    command = ["tar", "-xJf", str(archive), "--strip-components=1", "--wildcards"]
    done = _run([*command, "--no-wildcards-match-slash", "-C", str(into), *members], into)
    expected = ("Not found in archive", "Exiting with failure status")
    errors = [x for x in done.stderr.splitlines() if not any(text in x for text in expected)]
    if (done.returncode and errors) or not (into / "Makefile").is_file():
        raise UnavailableError(
            f"{archive} cannot be unpacked: {(errors or ['no Makefile in it'])[0]}"
        )
    if not whole:
        (into / SUBSET).write_text("Only the files that loopwright's patches need.\n")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


DEFAULT = "6.12"


@dataclass(frozen=True)
class Tree:
    """A Linux source tree, never written to."""

    root: Path
    version: str

    def __str__(self) -> str:
        return f"{self.root} (Linux {self.version})"

    def has(self, file: str) -> bool:
        """True if the tree has a file; InputError if its path leaves the tree."""
        return self.path(file).is_file()

    def path(self, file: str) -> Path:
        """Return the path of a file of the tree; InputError if it is outside."""
        inside = PurePosixPath(file)
        path = (self.root / inside).resolve()
        if inside.is_absolute() or ".." in inside.parts or not path.is_relative_to(self.root):
            raise InputError(
                f"{file!r} leads out of the kernel tree {self.root}; name a file in it"
            )
        return path

    def read(self, file: str, since: str = "") -> str:
        """Return a file's text; InputError with the file, the tree and the version that has it."""
        path = self.path(file)
        if not path.is_file():
            hint = f"; it is there since Linux {since}" if since else ""
            if self.has(SUBSET):
                hint = "; this cache holds a part of the sources, give a whole tree with --tree"
            raise InputError(f"{self} has no file {file}{hint}")
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {file} in {self}: {error}") from None
        if "\r\n" in text:
            raise InputError(
                f"{file} in {self} has lines that end in CR LF, which Linux has not: check it out "
                "with `git config core.autocrlf false`, or convert it with dos2unix"
            )
        return text


def read(root: Path) -> Tree:
    """Open a Linux source tree; InputError if the folder is none."""
    if not root.is_dir():
        raise InputError(f"no kernel tree at {root}: it is not a folder; give one with --tree")
    makefile = root / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    parts = dict(
        re.findall(r"(?m)^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(.*)$", text)
    )
    if not (root / "Kbuild").is_file() or not {"VERSION", "PATCHLEVEL"} <= parts.keys():
        raise InputError(
            f"{root} is not a Linux tree: looked there for Kbuild and a Makefile with VERSION; "
            "give another with --tree"
        )
    numbers = [parts.get(key, "").strip() for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    version = ".".join(n for n in numbers if n) + parts.get("EXTRAVERSION", "").strip()
    return Tree(root.resolve(), version)


@dataclass(frozen=True)
class Found:
    """A tree to patch, or the reason for none; note is one line for the user."""

    path: Path | None
    note: str


def at_hand(spec: str = "") -> Found:
    """Return the tree at the path spec, or else a fetched one; none is fetched now."""
    if spec:
        return find(spec)
    cached = cached_debian(DEFAULT)
    if cached is None:
        return Found(None, "no kernel tree at hand: give one, or run `make recommend` once")
    return Found(cached, str(read(cached)))


def find(spec: str | None, *, whole: bool = False) -> Found:
    """Return the tree of spec: a path, debian:VERSION, or None for Debian's default.

    Debian's linux-source package is fetched once into the cache; whole asks for all of the sources,
    which builds need. Without a spec, an unavailable package is no error: path is None, and note
    has the reason and a way to get a tree. InputError if a tree is named and is invalid or
    unavailable.
    """
    if spec and not spec.startswith("debian:"):
        tree = read(Path(spec))
        return Found(tree.root, str(tree))
    series = spec.removeprefix("debian:") if spec else DEFAULT
    try:
        path = fetch_debian(series, whole=whole)
    except UnavailableError as reason:
        note = (
            f"no kernel tree: {reason}; give one with TREE=path (make) or --tree path, "
            "e.g. an unpacked kernel.org release"
        )
        if spec:
            raise InputError(note) from None
        return Found(None, note)
    what = f"the files of Debian's {debian_package(series)} needed here"
    tree = read(path)
    return Found(path, f"{tree}, {what}" if tree.has(SUBSET) else str(tree))


def named(spec: str, *, whole: bool = False) -> Tree:
    """Return the tree of a path or of debian:VERSION; InputError if invalid or unavailable."""
    path = find(spec, whole=whole).path
    assert path is not None  # only without a spec
    return read(path)


ARCH = {"x86_64": "x86", "arm64": "arm64"}  # Linux's name of each ISA
_SKIPPED_FOLDERS = {"Documentation", "LICENSES", "rust", "samples", "scripts", "tools", "usr"}


def walk(root: Path, entered: Callable[[str], bool]) -> Iterator[str]:
    """Yield the paths of files and links below a folder; entered tells which folders to search."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif entered(path):
                pending.append(path)


def source_files(
    tree: Tree, isa: str, suffixes: tuple[str, ...] = (".c", ".h", ".S")
) -> Iterator[str]:
    """Yield the paths of C and assembly files and headers, without those of other architectures."""

    def entered(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        other = folder == "arch" and name != ARCH[isa]
        return not (other or path in _SKIPPED_FOLDERS or name.startswith("."))

    return (path for path in walk(tree.root, entered) if path.endswith(suffixes))


def files_holding(
    tree: Tree, isa: str, word: str, pattern: str, suffixes: tuple[str, ...] = (".c", ".h", ".S")
) -> list[str]:
    """Return the sources with a word and a match of a regular expression, sorted by path."""
    word_bytes, expression = word.encode(), re.compile(pattern.encode(), re.MULTILINE)
    files = []
    for file in source_files(tree, isa, suffixes):
        content = _read(tree, file)
        if word_bytes in content and expression.search(content):
            files.append(file)
    return sorted(files)


def includers(tree: Tree, isa: str, header: str, most: int) -> list[str] | None:
    """Return the .c and .S files that include a header, also through other headers.

    None if they are more than `most`, or if the search ended early: it goes on while no more than
    `most` files, headers among them, are found.
    """
    including: dict[str, None] = {}
    pending = [header]
    while pending and len(including) <= most:
        included = pending.pop(0)
        name = re.escape(Path(included).name)
        pattern = rf'^[ \t]*#[ \t]*include[ \t]*[<"][\w./-]*{name}[">]'
        for file in files_holding(tree, isa, Path(included).name, pattern):
            if file not in including and file != header and _includes(tree, file, included):
                including[file] = None
                pending += [file] if file.endswith(".h") else []
    sources = [file for file in including if not file.endswith(".h")]
    return None if pending or len(sources) > most else sources


def _includes(tree: Tree, file: str, header: str) -> bool:
    """True if a file includes a header by its path in an include folder, or beside it."""
    text = _read(tree, file).decode(errors="replace")
    names = re.findall(r'(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([\w./-]+)[">]', text)
    path = re.sub(r"^(?:arch/\w+/)?include/", "", header)
    spellings = {path, path.removeprefix("uapi/")}
    beside = {os.path.normpath(f"{Path(file).parent}/{name}") for name in names}
    return header in beside or not spellings.isdisjoint(names)


def _read(tree: Tree, file: str) -> bytes:
    """Return a file's content, b"" of a dangling link."""
    try:
        with FileIO(f"{tree.root}/{file}") as source:  # a Path costs as much as reading
            return source.readall()
    except OSError:
        return b""


def made_against(tree: Tree, files: Sequence[str]) -> tuple[str, str]:
    """Return a sentence on what a patch was made against, and a warning of uncommitted changes."""
    against = f"Made against Linux {tree.version}"
    head = git_output(tree.root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return f"{against}.", ""
    status = git_output(tree.root, "status", "--porcelain", "--no-renames", "-z", "--", *files)
    changed = ", ".join(sorted(line[3:] for line in status.split("\0") if line))
    if not changed:
        return f"{against}, commit {head}.", ""
    return f"{against}, commit {head}, with changes in {changed}.", (
        f"{tree.root} has changes in {changed} that are not committed: the patch goes on top of "
        f"them, and git am may not take it on {head}"
    )


def refuse_inside(tree: Tree, out: Path) -> None:
    """Raise InputError for a folder for patches inside the tree, which is only read."""
    if out.resolve().is_relative_to(tree.root):
        raise InputError(
            f"{out} lies in the kernel tree {tree.root}, which is only read: give another with -o"
        )


def git_output(folder: Path, *arguments: str) -> str:
    """Return the output of git in a folder, "" if it fails.

    Only the folder itself counts as a repository, not one that contains it.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent), "LC_ALL": "C.UTF-8"}
    done = _git(folder, environment, *arguments)
    return done.stdout.strip("\n") if done.returncode == 0 else ""


def _git(
    folder: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run git in a folder and return the finished process; InputError without git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError:
        why = "git is not here, which patches need: install it with `apt install git`"
        raise InputError(why) from None


@dataclass(frozen=True)
class Identity:
    """A patch's author, as git knows the user."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


# The author where the user has no git identity, without which git makes no commit.
NOBODY = Identity("loopwright", "loopwright@localhost.invalid")


def user_identity(tree: Path) -> Identity | None:
    """Return the user's git identity in a kernel tree, or None if git has none.

    It is the tree's own if it is a repository, else the user's; the working directory does not
    matter.
    """
    name = os.environ.get("GIT_AUTHOR_NAME") or git_output(tree, "config", "--get", "user.name")
    email = os.environ.get("GIT_AUTHOR_EMAIL") or git_output(tree, "config", "--get", "user.email")
    return Identity(name, email) if name and email else None


class Repository:
    """A scratch repository, independent of the user's git configuration and hooks."""

    def __init__(self, folder: Path, identity: Identity | None) -> None:
        self.folder = folder
        author = identity or NOBODY
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        self._environment = environment | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_COMMITTER_NAME": author.name,
            "GIT_COMMITTER_EMAIL": author.email,
            "LC_ALL": "C.UTF-8",
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--initial-branch=base")

    def git(self, *arguments: str) -> str:
        """Run git and return its stdout; GitError with its stderr where it fails."""
        done = _git(self.folder, self._environment, *arguments)
        if done.returncode:
            raise GitError(f"git {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def commit(self, files: Mapping[str, str], message: str) -> None:
        """Write files (path to text) and commit them, whatever a .gitignore says."""
        for file, text in files.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "-f", "--", *files)
        note = self.folder / ".git" / "message"
        note.write_text(message, encoding="utf-8")
        self.git("commit", "-q", "--cleanup=whitespace", "-F", str(note))


class GitError(Exception):
    """An error of git, in its own words."""
