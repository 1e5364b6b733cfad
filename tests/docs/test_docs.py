"""The documents: every command in them runs, and what they show is what it prints.

They tell the reader to write files and to run commands, and show the output.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from checkout import ROOT

_FENCE = re.compile(r"^```(?P<info>.*)$")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_RULE = re.compile(r"[-─━]{3,}")
_PARTS = re.compile(rf"(\.\.\.|\s+|{_RULE.pattern}|{_NUMBER.pattern})")
_EXIT = re.compile(r"^\[exit (\d+)\]$")


@dataclass(frozen=True)
class Step:
    """One thing to do: write text to file, or run a command and see output.

    tags are the words behind `console`: `slow` for what takes longer than some seconds, `clone`
    for what makes the checkout itself, `varies` where numbers are another machine's or another
    day's: those alone stand for any number. `measures` is for what a machine may refuse to measure.
    """

    line: int
    file: str = ""
    text: str = ""
    command: str = ""
    output: list[str] = field(default_factory=list)
    exit_code: int = 0
    tags: tuple[str, ...] = ()


def steps(document: Path) -> list[Step]:
    """Return what a document tells the reader to do, in its order."""
    return list(_steps(document.read_text().splitlines()))


def _steps(lines: list[str]) -> Iterator[Step]:
    inside: tuple[int, list[str]] | None = None
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if not fence:
            block.append(line)
        elif inside is None:
            inside, block = (number, fence["info"].split()), []
        else:
            start, info = inside
            inside = None
            yield from _block(start, info, block)


def _block(start: int, info: list[str], block: list[str]) -> Iterator[Step]:
    files = [word.removeprefix("file=") for word in info if word.startswith("file=")]
    if files:
        yield Step(start, file=files[0], text="\n".join(block) + "\n")
    elif info[:1] == ["console"]:
        yield from _commands(start, tuple(info[1:]), block)


def _commands(start: int, tags: tuple[str, ...], block: list[str]) -> Iterator[Step]:
    """Return the commands of a block: lines that begin with `$`, continued behind a backslash."""
    at = [n for n, line in enumerate(block) if line.startswith("$ ")]
    for first, end in zip(at, [*at[1:], len(block)], strict=True):
        last = first
        while block[last].endswith("\\"):
            last += 1
        output = block[last + 1 : end]
        code = 0
        if output and (found := _EXIT.match(output[-1])):
            code = int(found.group(1))
            output = output[:-1]
        command = "\n".join([block[first][2:], *block[first + 1 : last + 1]])
        yield Step(start + 1 + first, "", "", command, output, code, tags)


def differs(shown: list[str], printed: str, *, varies: bool = False) -> str:
    """Say which line of the output shown is not in what was printed, or nothing.

    Spaces and rules stand for any length of them, `...` in a line for anything, a line `...` for
    any lines, and a number for itself, unless it varies.
    """
    rest = [line.rstrip() for line in printed.splitlines()]
    skipping = False
    for line in (shown_line.rstrip() for shown_line in shown):
        if line == "...":
            skipping = True
            continue
        pattern = _pattern(line, varies=varies)
        found = next((n for n, text in enumerate(rest) if pattern.fullmatch(text)), None)
        if found is None or (found and not skipping):
            return f"{line!r} where there is {rest[0] if rest else 'nothing more'!r}"
        rest = rest[found + 1 :]
        skipping = False
    return f"no line for {rest[0]!r}" if rest and not skipping else ""


def _pattern(line: str, *, varies: bool) -> re.Pattern[str]:
    out = []
    for part in _PARTS.split(line):
        if part == "...":
            out.append(".*")
        elif part.isspace():
            out.append(r"\s+" if out != [""] else r"\s*")
        elif _RULE.fullmatch(part):
            out.append("[-─━]+")
        elif _NUMBER.fullmatch(part) and varies:
            out.append(_NUMBER.pattern)
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))


DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
# What measure says, and a kit's run.
_REFUSED = ("loopwright: no measurement has a number", "are still wanted: try --resume")
_UNKNOWN = "loopwright: no core.toml describes this machine"
QUICK = [ROOT / "docs" / name for name in ("tutorial.md", "add-a-core.md")]
LONG = [path for path in DOCUMENTS if path not in QUICK or "console slow" in path.read_text()]


class Reader:
    """Somebody who does what a document says, in a folder; exports and cd carry over."""

    def __init__(self, start: Path, folder: Path, environment: dict[str, str]) -> None:
        """Begin in the folder start; the checkout is or will be at folder."""
        self.folder, self.state = folder, folder.parent / "state.sh"
        self.refused: list[int] = []  # lines of commands that this machine would not measure
        self.state.write_text(f"cd {shlex.quote(str(start))}\n")
        identity = {"NAME": "A Reader", "EMAIL": "reader@example.org"}  # what `git am` needs
        git = {f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in identity.items()}
        self.environment = {**os.environ, **git, **environment}

    def do(self, step: Step) -> None:
        if step.file:
            path = self.folder / step.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text)
            return
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{shlex.quote(str(self.state))}"
        script = f". {self.state}\n{step.command}\nlw_exit=$?\n{keep}\nexit $lw_exit\n"
        done = subprocess.run(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            check=False,
        )
        said = f"line {step.line}: $ {step.command}\n{done.stdout}"
        refused = done.returncode == 1 and any(words in done.stdout for words in _REFUSED)
        if "measures" in step.tags and refused:
            self.refused.append(step.line)
            return
        if "varies" in step.tags and _UNKNOWN in done.stdout:
            assert done.returncode == 2, said
            self.refused.append(step.line)
            return
        assert done.returncode == step.exit_code, said
        wrong = differs(step.output, done.stdout, varies="varies" in step.tags)
        assert not (step.output and wrong), f"{wrong}\n{said}"

    def done(self) -> None:
        """Skip in sight where the machine would not measure, or its core is not known."""
        if self.refused:
            pytest.skip(f"not shown: this machine refused line {self.refused}")


def _path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


@pytest.fixture
def reader(tmp_path):
    """Return a reader in a copy of the checkout whose kernels may be changed."""
    folder, home = tmp_path / "loopwright", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("kernels", "out", "build", ".git"):
            (folder / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "kernels", folder / "kernels")
    # The .venv of this interpreter, whichever checkout it stands in, with the code of this one.
    (folder / ".venv").unlink(missing_ok=True)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    places = {"LOOPWRIGHT_KERNELS": str(folder / "kernels"), "HOME": str(home)}
    places |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *_path()])}
    # The cache holds the kernel sources.
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Reader(folder, folder, {**places, "XDG_CACHE_HOME": cache})


@pytest.mark.slow
@pytest.mark.parametrize("document", QUICK, ids=lambda path: path.stem)
def test_quick_commands_do_what_the_document_shows(document, reader):
    for step in steps(document):
        if not {"slow", "clone", "measures"} & set(step.tags):
            reader.do(step)
    reader.done()


@pytest.mark.measures
def test_quick_measurements_do_what_the_tutorial_shows(reader):
    quick = [step for step in steps(QUICK[0]) if not {"slow", "clone"} & set(step.tags)]
    measuring = [n for n, step in enumerate(quick) if "measures" in step.tags]
    assert measuring
    for step in quick[: measuring[-1] + 1]:  # they need files that steps before them write
        reader.do(step)
    reader.done()


@pytest.mark.measures
@pytest.mark.slow
@pytest.mark.parametrize("document", LONG, ids=lambda path: path.stem)
def test_all_commands_do_what_the_document_shows(document, reader):
    for step in steps(document):
        if "clone" not in step.tags:
            reader.do(step)
    reader.done()


@pytest.mark.measures
@pytest.mark.slow
def test_the_tutorial_works_word_for_word_in_a_clean_clone(tmp_path):
    places = {"LOOPWRIGHT_RESULTS": str(tmp_path / "results.sqlite"), "PYTHONPATH": ""}
    reader = Reader(tmp_path, tmp_path / "loopwright", places)
    for step in steps(ROOT / "docs" / "tutorial.md"):
        here = step.command.replace("https://example.org/loopwright.git", f"{ROOT} loopwright")
        reader.do(replace(step, command=here))
    reader.done()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_somewhere_and_blocks_say_what_they_are(document):
    text = document.read_text()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        assert target.startswith("https://") or (document.parent / target).exists(), target
    opened = re.findall(r"^```(.*)$", text, flags=re.M)[::2]
    assert all(info.strip() for info in opened), "a block without a kind"
    assert not [info for info in opened if info.split()[0] in ("sh", "bash", "shell")]
    tags = {tag for info in opened if info.startswith("console") for tag in info.split()[1:]}
    assert tags <= {"slow", "clone", "varies", "measures"}


def test_the_reader_notices_what_is_not_so():
    assert differs(["a 1", "b"], "a 2\nb\n", varies=True) == ""
    assert differs(["a 1", "b"], "a 2\nb\n") == "'a 1' where there is 'a 2'"
    assert differs(["a 1.25"], "a 1.250\n")
    assert differs(["a 1", "..."], "a 1\nb\nc\n") == ""
    assert differs(["a 1"], "a 1\nb\n") == "no line for 'b'"
    assert "nothing more" in differs(["a", "b"], "a\n")
    assert differs(["id  cycles", "────"], "id     cycles\n──────────\n") == ""
    assert differs(["x..., end"], "x and more, end\n") == ""
    assert differs(["x"], "y\n")
