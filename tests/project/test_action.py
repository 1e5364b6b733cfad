"""action.yml: its scan, run as a runner does it, with gh replaced by what keeps its arguments."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from checkout import ROOT

from loopwright import toolchain

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, SCAN = ACTION["runs"]["steps"]
LOOP = """
.globl f
.p2align 6
f:
.skip {before}, 0x90
1: addq (%rdi), %rax
add $8, %rdi
dec %rsi
jnz 1b
ret
"""
GH = """#!/bin/sh
printf '%s\\n' "$@" >>"$ASKED"
case "$*" in *--paginate*) cat "$COMMENTS" ;; esac
"""


def built(folder: Path, name: str, before: int) -> Path:
    """Return an object whose loop of 13 bytes begins so many bytes behind a line's start."""
    source, made = folder / f"{name}.s", folder / f"{name}.o"
    source.write_text(LOOP.format(before=before))
    subprocess.run([toolchain.find("x86_64").gcc, "-c", "-o", made, source], check=True)
    return made


@pytest.fixture
def runner(tmp_path):
    """Return what runs the scan as a runner does, with the action's inputs."""
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    temp = tmp_path / "temp"
    temp.mkdir()
    (temp / "loopwright").symlink_to(Path(sys.executable).parent.parent)
    files = {
        name: tmp_path / name.lower()
        for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "ASKED", "COMMENTS")
    }
    for file in files.values():
        file.touch()

    def run(comments: str = "", **inputs: str):
        files["COMMENTS"].write_text(comments)
        given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        env = os.environ | {name: str(file) for name, file in files.items()}
        env |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(temp)}
        env |= {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_REPOSITORY": "some/one"}
        for name, value in SCAN["env"].items():
            (asked,) = re.findall(r"inputs\.([\w-]+)", value)
            env[name] = given[asked]
        env["COMMENT_ON"] = "7" if given["comment"] == "true" else ""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", SCAN["run"]],
            **{"env": env, "cwd": tmp_path, "capture_output": True, "text": True},
        )
        return done, {name: file.read_text() for name, file in files.items()}

    return run


def test_a_loop_that_comes_to_lie_across_a_line_fails_and_is_told(runner, tmp_path):
    before, after = (str(built(tmp_path, str(n), n)) for n in (0, 56))
    inputs = {"before": before, "after": after, "microarch": "zen2", "fail_over": "5"}
    done, written = runner(**inputs)
    assert done.returncode == 1
    outputs = dict(line.split("=", 1) for line in written["GITHUB_OUTPUT"].splitlines())
    assert set(outputs) == set(ACTION["outputs"])
    assert outputs["slower"] == "1"
    assert float(outputs["worst-percent"]) == 100
    text = Path(outputs["report"]).read_text()
    assert "| zen2 | hurt +100.0 % | 1.00 | 2.00 | 1.00 | 0 → 56 |" in text
    assert written["GITHUB_STEP_SUMMARY"] == text
    assert f"body={text}" in written["ASKED"]
    assert "POST\nrepos/some/one/issues/7/comments" in written["ASKED"]
    # A second run, of builds that are alike, replaces the comment.
    done, written = runner("41\n", **inputs | {"after": before})
    assert done.returncode == 0
    assert "PATCH\nrepos/some/one/issues/comments/41" in written["ASKED"]
    assert "no loop of both builds changed" in written["GITHUB_STEP_SUMMARY"]


def test_what_cannot_be_scanned_says_so_and_tells_nobody(runner, tmp_path):
    done, written = runner(before=str(tmp_path / "none"), after="none")
    assert done.returncode == 2
    assert "none" in done.stderr
    assert not written["ASKED"] + written["GITHUB_OUTPUT"]


@pytest.mark.slow
def test_both_steps_hold_in_a_folder_of_programs(runner, tmp_path):
    (tmp_path / "temp" / "loopwright").unlink()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOOPWRIGHT", "PYTHON"))}
    env = kept | {"RUNNER_TEMP": str(tmp_path / "temp"), "GITHUB_ACTION_PATH": str(ROOT)}
    install = ["bash", "-e", "-o", "pipefail", "-c", INSTALL["run"]]
    subprocess.run(install, env=env, cwd=tmp_path, check=True)
    (tmp_path / "main.c").write_text("long f(long *, long); int main(void) { return !f; }")
    programs = []
    for n in (0, 56):
        parts = (tmp_path / "main.c", built(tmp_path, f"loop{n}", n))
        programs.append(tmp_path / f"program{n}")
        subprocess.run([toolchain.find("x86_64").gcc, "-o", programs[-1], *parts], check=True)
    inputs = {"before": str(programs[0]), "after": str(programs[1]), "fail_over": "5"}
    done, written = runner(**inputs, microarch="zen2,icelake")
    assert done.returncode == 1, done.stderr
    rows = [line for line in written["GITHUB_STEP_SUMMARY"].splitlines() if "| hurt " in line]
    assert len(rows) == 1
    assert "| zen2 | hurt +100.0 % | 1.00 | 2.00 | 1.00 |" in rows[0]


def test_the_action_installs_what_its_scan_runs():
    assert "$GITHUB_ACTION_PATH" in INSTALL["run"]
    assert INSTALL["run"].split()[:3] == ["python3", "-m", "venv"]
    documented = (ROOT / "docs" / "scan.md").read_text()
    assert all(f"`{name}`" in documented for name in (*ACTION["inputs"], *ACTION["outputs"]))
