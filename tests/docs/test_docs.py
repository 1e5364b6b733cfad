"""The documents: every command in them runs, and what they show is what it prints."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from checkout import ROOT
from documents import Step, differs, steps

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
