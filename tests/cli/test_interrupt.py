"""An interrupt ends in one line, whatever is being imported or done when it comes."""

import os
import subprocess
import sys

import pytest
from checkout import ROOT
from quick import some

# Sends itself an interrupt, once: when a module is looked for, or a file of that name opened.
PROGRAM = """
import importlib.abc, os, signal, sys
import loopwright.start

wanted = sys.argv.pop(1)

def interrupt():
    global wanted
    wanted = None
    os.kill(os.getpid(), signal.SIGINT)

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == wanted:
            interrupt()

def on(event, given):
    if event == "open" and wanted and str(given[0]).endswith(wanted):
        interrupt()

sys.meta_path.insert(0, Interrupting())
sys.addaudithook(on)
loopwright.start.main()
"""
VERBS = {
    "list": ["list", "variants"],
    "predict": ["predict", "x86_64/clear_user/plain"],
    "check": ["check", "x86_64/clear_user/plain"],
    "measure": ["measure", "x86_64/clear_user/plain"],
    "improve": ["improve", "x86_64/clear_user/plain"],
    "compare": ["compare", "x86_64/clear_user"],
    "recommend": ["recommend", "x86_64/clear_user", "--no-measure"],
    "report": ["report", "x86_64/clear_user", "-o", "report", "--no-measure"],
    "patch": ["patch", "x86_64/clear_user", "--tree", "nowhere", "-o", "patches"],
    "kit": ["kit", "-o", "kit.tar.gz"],
    "kmod": ["kmod", "source", "-o", "kmod"],
    "doctor": ["doctor"],
}


def interrupted(module, arguments, folder):
    """Run the command line with an interrupt when it looks for a module."""
    env = os.environ | {
        "XDG_DATA_HOME": str(folder / "home"),
    }
    command = [sys.executable, "-c", PROGRAM, module, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=folder, check=False, timeout=120
    )


@pytest.mark.parametrize("module", ["loopwright.cli", "click", "loopwright.cli.kernels"])
def test_while_the_command_line_is_imported(module, tmp_path):
    done = interrupted(module, VERBS["measure"], tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "loopwright: interrupted\n"


@pytest.mark.parametrize("verb", some(VERBS, {"list", "predict", "measure", "doctor"}))
def test_while_a_verb_begins(verb, tmp_path):
    done = interrupted("core.toml" if verb == "doctor" else "kernel.toml", VERBS[verb], tmp_path)
    assert done.returncode == 130, done.stderr
    # The line of the terminal's ^C ends first.
    assert done.stderr.startswith("\nloopwright: interrupted")
    assert done.stderr.count("\n") == 2
    made = {path.name for path in tmp_path.iterdir()}
    assert made <= {"home", "results.sqlite"}  # the store that doctor looks at


def test_one_that_is_ignored_stays_ignored():
    command = f"trap '' INT; exec {sys.executable} -c \"$1\" click list kernels"
    done = subprocess.run(
        ["sh", "-c", command, "sh", PROGRAM],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert "x86_64/copy_user" in done.stdout
