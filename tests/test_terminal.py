"""The command line on a terminal and in a pipe: help, completion, tables that fit, no colour."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from loopwright.cli import cli

LOOPWRIGHT = str(Path(sys.executable).parent / "loopwright")
TABLE = ("predict", "x86_64/clear_user")


def on_terminal(width: int, *arguments: str, **environment: str) -> str:
    """Return what the command writes to a terminal of so many columns."""
    process, terminal = pty.fork()
    if process == 0:
        size = struct.pack("HHHH", 40, width, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        os.execve(
            LOOPWRIGHT, [LOOPWRIGHT, *arguments], {**inherited, "TERM": "xterm"} | environment
        )
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return b"".join(parts).decode().replace("\r", "")


def piped(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [LOOPWRIGHT, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_every_verb_shows_an_example(verb):
    command = cli.commands[verb]
    groups = isinstance(command, click.Group)
    for one in command.commands.values() if groups else [command]:
        text = one.get_help(click.Context(one, info_name=verb, max_content_width=200))
        assert re.search(rf"^ +loopwright {verb}\b", text, re.M), one.name


@pytest.mark.parametrize("width", [60, 90])
def test_a_table_fits_the_window_and_loses_no_figure(width):
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_terminal(width, *TABLE))
    assert max(map(len, text.splitlines())) <= width
    for whole in ("48", "59", "port", "0"):
        assert whole in text
    joined = "".join(text.split())
    assert "startup" in joined or "star" in joined


def test_a_terminal_has_colour_unless_it_is_not_wanted():
    assert "\x1b[2m" in on_terminal(80, *TABLE)
    plain = on_terminal(80, *TABLE, NO_COLOR="1")
    assert not re.search(r"\x1b\[(3[0-9]|4[0-9]|9[0-9])", plain)


def test_in_a_pipe_a_row_is_a_line_whatever_the_window():
    narrow, wide = (piped(*TABLE, COLUMNS=columns) for columns in ("40", "400"))
    assert narrow == wide
    assert "\x1b" not in narrow
    rows = [line for line in narrow.splitlines() if "sandybridge" in line or "zen2" in line]
    assert len(rows) == 14
    assert all("pipeline" in row for row in rows)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_the_shell_takes(shell, tmp_path):
    script = piped("completion", shell)
    assert "To install it" in script
    assert "_LOOPWRIGHT_COMPLETE" in script
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here to read the script")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rec"], ["recommend"]),
        (["predict", "x86_64/clear_user/pl"], ["x86_64/clear_user/plain"]),
        (["compare", "arm64/"], ["arm64/copy_user"]),
        (["predict", "--microarch", "zen2,sky"], ["zen2,skylake"]),
        (["predict", "--model", "os"], ["osaca"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_the_shell_completes(words, expected):
    *before, begun = words
    found = BashComplete(cli, {}, "loopwright", "_X").get_completions(before, begun)
    assert [item.value for item in found] == expected


def test_the_installed_program_answers_the_shell():
    asked = {"COMP_WORDS": "loopwright rec", "COMP_CWORD": "1"}
    assert piped(_LOOPWRIGHT_COMPLETE="bash_complete", **asked) == "plain,recommend\n"
