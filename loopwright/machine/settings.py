"""Settings of a machine that bear on measurements; set for one command, and put back."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import paths
from loopwright.errors import InputError, unknown

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Setting:
    """One setting: its files below the root, the value that serves best, and why.

    serves says whether a value already does; a file with a value for which it does is left alone.
    command is what sets it by hand.
    """

    name: str
    pattern: str
    wanted: str
    serves: Callable[[str], bool]
    why: str
    command: str

    def files(self, root: Path) -> list[Path]:
        """Return the files that are here, one or one a CPU."""
        return sorted(p for p in root.glob(self.pattern) if p.is_file())


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _at_most(most: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdecimal() and int(value) <= most


def _sysctl(name: str, value: str) -> str:
    return f"sudo sysctl kernel.{name}={value}"


def _echo(value: str, pattern: str) -> str:
    return f"echo {value} | sudo tee /{pattern}"


# SMT comes last: the files of CPUs that it takes away are still there before, and come back first.
SETTINGS = (
    Setting(
        "paranoid",
        "proc/sys/kernel/perf_event_paranoid",
        "2",
        _at_most(2),
        "above 2, a user may not count cycles",
        _sysctl("perf_event_paranoid", "2"),
    ),
    Setting(
        "rdpmc",
        "sys/bus/event_source/devices/cpu/rdpmc",
        "1",
        _is("1", "2"),
        "at 0, user space may not read the cycle counter",
        _echo("1", "sys/bus/event_source/devices/cpu/rdpmc"),
    ),
    Setting(
        "user-access",
        "proc/sys/kernel/perf_user_access",
        "1",
        _is("1"),
        "at 0, user space may not read the cycle counter (arm64)",
        _sysctl("perf_user_access", "1"),
    ),
    Setting(
        "watchdog",
        "proc/sys/kernel/nmi_watchdog",
        "0",
        _is("0"),
        "the watchdog takes a counter and interrupts",
        _sysctl("nmi_watchdog", "0"),
    ),
    Setting(
        "governor",
        f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor",
        "performance",
        _is("performance"),
        "others change the clock while a burst runs",
        _echo("performance", f"{_CPUS}/cpu*/cpufreq/scaling_governor"),
    ),
    Setting(
        "turbo",
        f"{_CPUS}/intel_pstate/no_turbo",
        "1",
        _is("1"),
        "turbo changes the clock with the load of other cores",
        _echo("1", f"{_CPUS}/intel_pstate/no_turbo"),
    ),
    Setting(
        "boost",
        f"{_CPUS}/cpufreq/boost",
        "0",
        _is("0"),
        "boost changes the clock with the load of other cores",
        _echo("0", f"{_CPUS}/cpufreq/boost"),
    ),
    Setting(
        "smt",
        f"{_CPUS}/smt/control",
        "off",
        _is("off", "forceoff", "notsupported", "notimplemented"),
        "another thread on the core takes part of it",
        _echo("off", f"{_CPUS}/smt/control"),
    ),
)


@dataclass(frozen=True)
class Adjustment:
    """One file that does not hold what serves best."""

    setting: Setting
    path: Path
    now: str


def value(path: Path) -> str | None:
    """Return what a setting's file holds, None where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def changes(root: Path, keep: frozenset[str] = frozenset()) -> list[Adjustment]:
    """Return the files below root that do not serve, but for settings to keep, in order."""
    return [
        Adjustment(setting, path, now)
        for setting in SETTINGS
        if setting.name not in keep
        for path in setting.files(root)
        if (now := value(path)) is not None and not setting.serves(now)
    ]


COLUMNS = ["setting", "file", "now", "wanted", "state", "why", "by_hand"]
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 10  # s for a command to end after an interrupt


def tune() -> pd.DataFrame:
    """Return a row a setting's file: what it holds now, what serves best, whether that differs."""
    root = paths.sysroot()
    rows = []
    for setting in SETTINGS:
        for path in setting.files(root):
            now = value(path)
            fits = now is not None and setting.serves(now)
            rows.append(
                {
                    "setting": setting.name,
                    "file": str(path),
                    "now": now,
                    "wanted": setting.wanted,
                    "state": "ok" if fits else "unreadable" if now is None else "would change",
                    "why": setting.why,
                    "by_hand": "" if fits else setting.command,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def run(command: Sequence[str], keep: Sequence[str] = ()) -> tuple[int, list[str]]:
    """Run a command on a machine that is set up; returns its exit code and what to tell of it.

    keep names settings to leave alone. Under sudo the command runs as the user who called it.
    Everything is put back when the command ends, or when this process is told to. InputError
    without root, for an unknown setting or command, and where settings are still changed.
    """
    for name in keep:
        if name not in {s.name for s in SETTINGS}:
            raise unknown("setting", name, [s.name for s in SETTINGS])
    if not command or shutil.which(command[0]) is None:
        raise InputError(f"no command {command[0] if command else ''!r} to run")
    _need_root()
    left = journal()
    if left is not None:
        raise InputError(
            f"settings are still changed, since {left['command']!r} was run (process "
            f"{left['pid']}): wait for it, or put them back by `loopwright tune --restore`"
        )
    told: list[str] = []
    with _applied(changes(paths.sysroot(), frozenset(keep)), command, told):
        code = _wait(subprocess.Popen(command, **_caller()))
    return code, told


def restore() -> list[str]:
    """Put back what a killed process left changed; returns what to tell of it."""
    left = journal()
    if left is None:
        return ["nothing is changed: there is nothing to put back"]
    if left["boot"] != _boot():
        _journal_path().unlink()
        return ["the machine was booted since: its settings are its own again"]
    _need_root()
    if _alive(left["pid"]):
        raise InputError(
            f"process {left['pid']} is still running {left['command']!r} with these settings; end "
            "it, and it puts them back"
        )
    told: list[str] = []
    _put_back(left["changes"], told)
    return told or ["all settings are as they were"]


def journal() -> dict[str, Any] | None:
    """Return the journal of settings that are changed now, None where there is none."""
    try:
        found: dict[str, Any] = json.loads(_journal_path().read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{_journal_path()} cannot be read ({error}); look at it") from None
    return found


def _journal_path() -> Path:
    """Return where the journal is: with the user who called sudo, so that doctor finds it."""
    user = os.environ.get("SUDO_UID", "")
    if user.isdecimal() and not os.environ.get("XDG_STATE_HOME"):
        home = Path(pwd.getpwuid(int(user)).pw_dir)
        return home / ".local" / "state" / "loopwright" / "tune.json"
    return paths.state_dir() / "tune.json"


def _need_root() -> None:
    if os.geteuid() != 0 and paths.sysroot() == Path("/"):
        program = Path(sys.argv[0]).absolute()
        raise InputError(f"settings of the machine are root's: sudo {program} tune ...")


def _boot() -> str:
    return value(Path("/proc/sys/kernel/random/boot_id")) or ""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return "tune" in (value(Path(f"/proc/{pid}/cmdline")) or "tune")


@contextmanager
def _applied(
    found: Sequence[Adjustment], command: Sequence[str], told: list[str]
) -> Iterator[None]:
    """Make changes, and unmake them at the end; signals wait while either is done."""
    before = [[str(c.path), c.now] for c in found]
    try:
        with _unhurried():
            _write_journal(
                {
                    "pid": os.getpid(),
                    "boot": _boot(),
                    "command": " ".join(command),
                    "changes": before,
                }
            )
            for change in found:
                _set(change.path, change.setting.wanted, told)
        yield
    finally:
        with _unhurried():
            _put_back(before, told)


@contextmanager
def _unhurried() -> Iterator[None]:
    """Let signals that end the process wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _put_back(before: Sequence[Sequence[str]], told: list[str]) -> None:
    """Write old values, the last changed first; what cannot be stays in the journal."""
    failed = []
    for name, old in reversed(before):
        path = Path(name)
        if value(path) != old and not _set(path, old, told):
            failed.append([name, old])
    if not failed:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _journal_path().unlink()
        return
    left = journal()
    if left is not None:
        _write_journal({**left, "changes": failed[::-1]})
    told.append("not all settings are as they were: try `loopwright tune --restore`")


def _set(path: Path, wanted: str, told: list[str]) -> bool:
    try:
        path.write_text(wanted + "\n")
    except OSError as error:
        told.append(f"{path} cannot be set to {wanted}: {error.strerror or error}")
        return False
    return True


def _write_journal(content: dict[str, Any]) -> None:
    """Write the journal to the disk, whole or not at all."""
    path = _journal_path()
    part = path.with_suffix(".part")
    try:
        for folder in [p for p in reversed(path.parents) if not p.exists()]:
            folder.mkdir()
            _give(folder)
        with part.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        _give(part)
        part.replace(path)
    except OSError as error:
        raise InputError(
            f"the journal {path} cannot be written ({error.strerror or error}), and without it "
            "nothing is changed; XDG_STATE_HOME names another folder"
        ) from None


def _give(path: Path) -> None:
    """Make a file the user's who called sudo."""
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", -1)))


def _caller() -> dict[str, Any]:
    """Return how a command is started as the user who called sudo."""
    user = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not user.isdecimal():
        return {}
    entry = pwd.getpwuid(int(user))
    environment = {**os.environ, "HOME": entry.pw_dir, "USER": entry.pw_name}
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return {
        "user": entry.pw_uid,
        "group": entry.pw_gid,
        "extra_groups": groups,
        "env": environment,
    }


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a command; an interrupt gives it time to end, before it is made to."""
    try:
        code = process.wait()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(_GRACE)
        process.kill()
        process.wait()
        raise
    return code if code >= 0 else 128 - code
