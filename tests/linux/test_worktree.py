"""A kernel tree under git: what a patch says it was made against, and who it is from."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from linux_trees import SOMEONE, linux, part_of, variant

from loopwright.errors import InputError
from loopwright.linux import patch as patches
from loopwright.linux import trees
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make
from loopwright.linux.trees import user_identity

FILE = "arch/x86/lib/csum-partial_64.c"
SPEC = "x86_64/csum/adc4"


def git(folder: Path, *arguments: str) -> str:
    environment = os.environ | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    return subprocess.run(
        ["git", "-C", folder, *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def work(tmp_path):
    """Return a small work tree of Linux with what a patch of csum_partial() needs, committed."""
    folder = part_of(linux("6.12"), tmp_path / "linux", FILE)
    git(folder, "init", "-q")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-q", "-m", "all of it")
    return folder


def made(work, out, **more):
    return make(variant(SPEC), work, out, Evidence(), **{"identity": SOMEONE, **more})


def test_a_clean_tree_is_named_by_its_commit(work, tmp_path):
    head = git(work, "rev-parse", "--short=12", "HEAD").strip()
    mail = made(work, tmp_path / "out")
    assert f"Made against Linux 6.12.117, commit {head}." in mail.files[0].read_text()
    assert not mail.notes


def test_changes_that_are_not_committed_are_warned_of_and_named(work, tmp_path):
    (work / "Makefile").write_text((work / "Makefile").read_text() + "# mine\n")
    assert not made(work, tmp_path / "a").notes  # no matter to the patch
    path = work / FILE
    path.write_text(path.read_text().replace("/* Do two 40-byte", "/* mine: do two 40-byte"))
    mail = made(work, tmp_path / "b")
    assert "changes in arch/x86/lib/csum-partial_64.c that are not committed" in mail.notes[0]
    words = " ".join(mail.files[0].read_text().split())
    assert "with changes in arch/x86/lib/csum-partial_64.c." in words
    git(work, "stash", "-q")
    refused = subprocess.run(
        ["git", "-C", work, "apply", "--check", mail.files[0]],
        capture_output=True,
        check=False,
    )
    assert refused.returncode  # so that the warning was due


def test_a_tree_inside_of_another_repository_is_not_its_work_tree(work, tmp_path):
    shutil.rmtree(work / ".git")
    git(tmp_path, "init", "-q")
    assert "commit" not in made(work, tmp_path / "out").files[0].read_text().partition("diff")[0]


def test_the_tree_says_who_works_on_it_not_the_folder_where_one_stands(work, tmp_path, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    for folder, name in ((work, "Kernel"), (other, "Other")):
        git(folder, "config", "user.name", name)
        git(folder, "config", "user.email", f"{name}@example.org")
    monkeypatch.chdir(other)
    assert str(user_identity(work)) == "Kernel <Kernel@example.org>"
    patch = made(work, tmp_path / "out", identity=None).files[0].read_text()
    assert "Signed-off-by: Kernel <Kernel@example.org>" in patch


@pytest.mark.parametrize("where", [".", "patches", "arch/../out"])
def test_a_folder_for_patches_inside_the_tree_is_refused_before_anything_runs(
    work, tmp_path, monkeypatch, where
):
    with pytest.raises(InputError, match="lies in the kernel tree"):
        made(work, work / where)
    monkeypatch.setattr(patches, "gather", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(InputError, match="which is only read: give another with -o"):
        patches.patch(SPEC, str(work), work / where)
    link = tmp_path / "link"
    link.symlink_to(work)
    with pytest.raises(InputError, match="which is only read"):
        patches.patch(SPEC, str(link), work / where)
    assert not git(work, "status", "--porcelain")


def test_a_missing_qemu_is_told_before_anything_runs(work, tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "gather", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.setattr(patches.verify.boot_tier.shutil, "which", lambda _: None)
    monkeypatch.setattr(patches.verify.build, "require_tools", lambda _: None)
    monkeypatch.setattr(patches.trees, "find", lambda *_, **__: trees.Found(work, "a tree"))
    with pytest.raises(InputError, match=r"qemu-system-x86_64 is missing.*apt install"):
        patches.patch(SPEC, str(work), tmp_path / "out", tier="boot")


def test_files_with_carriage_returns_are_named_as_such(work, tmp_path):
    path = work / FILE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(InputError, match=r"csum-partial_64\.c in .* lines that end in CR LF"):
        made(work, tmp_path / "out")


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    (cache / "linux-source-6.12.lock").mkdir(parents=True)  # as good as a read-only folder
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(cache))
    with pytest.raises(trees.UnavailableError, match="cannot be written"):
        trees.fetch_debian("6.12")
    with pytest.raises(InputError, match=r"no kernel tree: the cache .* cannot be written"):
        trees.find("debian:6.12")
