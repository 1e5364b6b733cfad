"""What is written of a patch: signed by whom, whole or not at all."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from few_variants import changed
from linux_trees import SOMEONE, linux, part_of, variant

from loopwright.errors import InputError
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a small tree of Linux with what a patch of clear_user needs."""
    files = "arch/x86/lib/clear_page_64.S", "arch/x86/include/asm/uaccess_64.h"
    return part_of(linux("6.12"), tmp_path_factory.mktemp("linux"), *files)


def test_without_a_git_identity_nothing_is_signed_and_it_is_said(root, tmp_path, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    made = make(variant("x86_64/clear_user/aligned16"), root, tmp_path / "out", Evidence())
    patch = made.files[0].read_text()
    assert "Signed-off-by:" not in patch.partition("\n---\n")[0]
    assert "user.email" in made.notes[0]
    assert "user.email" in patch
    assert [f.type for f in made.findings if f.level == "ERROR"] == ["MISSING_SIGN_OFF"]
    assert "git identity" in next(f.allowed for f in made.findings if f.level == "ERROR")


def test_the_users_git_identity_signs(root, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text("[user]\n\tname = Jane Doe\n\temail = jane@example.org\n")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.chdir(tmp_path)
    made = make(variant("x86_64/clear_user/aligned16"), root, tmp_path / "out", Evidence())
    patch = made.files[0].read_text()
    assert "\nSigned-off-by: Jane Doe <jane@example.org>\n" in patch
    assert "\nFrom: Jane Doe <jane@example.org>\n" in patch
    assert not [f for f in made.findings if f.level == "ERROR"]


def test_a_patch_with_errors_is_not_kept_and_its_log_is(root, tmp_path, monkeypatch):
    blanks = "aligned16.S", "\tsubq $8,%rcx\n", "    \tsubq $8,%rcx   \n"
    changed(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", blanks)
    monkeypatch.setenv("LOOPWRIGHT_BUILD", str(tmp_path / "build"))
    with pytest.raises(InputError, match=r"checkpatch\.pl .* TRAILING_WHITESPACE") as raised:
        make(
            variant("x86_64/clear_user/aligned16"),
            root,
            tmp_path / "out",
            Evidence(),
            SOMEONE,
        )
    assert "TRAILING_WHITESPACE" in raised.value.log
    log = tmp_path / "build" / "patch-x86_64-clear_user-aligned16.log"
    assert str(log) in str(raised.value)
    assert log.read_text() == raised.value.log
    assert not (tmp_path / "out").exists()


def test_a_variant_that_breaks_its_contract_gets_no_patch(root, tmp_path):
    row = {"kernel": "x86_64/clear_user", "variant": "plain", "passed": False, "failure": "rbx"}
    evidence = Evidence(checks=pd.DataFrame([row]))
    with pytest.raises(InputError, match="breaks its contract, no patch: rbx"):
        make(variant("x86_64/clear_user/plain"), root, tmp_path / "out", evidence, SOMEONE)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_told(root, tmp_path):
    (tmp_path / "out").write_text("a file where the folder would be")
    aim = variant("x86_64/clear_user/plain")
    with pytest.raises(InputError, match=r"cannot write .*/out/0001-.*\.patch: "):
        make(aim, root, tmp_path / "out", Evidence(), SOMEONE)


def test_killed_at_any_point_it_leaves_no_half_written_file(root, tmp_path):
    out = tmp_path / "out"
    code = (
        "import sys; from pathlib import Path; from loopwright import kernels; "
        "from loopwright.linux.message import Evidence; "
        "from loopwright.linux.patch import make; "
        "from loopwright.linux.trees import Identity; "
        "v = kernels.select('x86_64/clear_user/plain')[1][0]; "
        "who = Identity('A B', 'a@example.org'); "
        "make(v, Path(sys.argv[1]), Path(sys.argv[2]), Evidence(), who)"
    )
    command = [sys.executable, "-c", code, str(root), str(out)]
    for delay in (0.8, 1.3):
        process = subprocess.Popen(command)
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        process.wait()
        for file in out.glob("*") if out.exists() else ():
            assert file.read_text().rstrip().splitlines()[-2] == "-- "
    subprocess.run(command, check=True)
    (patch,) = out.glob("*.patch")
    assert patch.read_text().rstrip().splitlines()[-2] == "-- "
