"""environment.yml and pyproject.toml describe the same Python environment."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from checkout import ROOT

import loopwright as lw
from loopwright.code import binding


def _pins(requirements):
    return dict(r.split("==") for r in requirements if not r.startswith("loopwright["))


def test_the_conda_environment_has_the_pins_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["optional-dependencies"].values()
    wanted = _pins([*project["dependencies"], *(r for group in groups for r in group)])
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert _pins(next(d["pip"] for d in conda if isinstance(d, dict))) == wanted


def test_setup_installs_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (installed,) = re.findall(r"install -e '\.\[([\w,]+)\]'", (ROOT / "scripts/setup").read_text())
    assert set(installed.split(",")) == set(project["optional-dependencies"])


def test_the_conda_environment_has_the_python_that_pyproject_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert f"python {project['requires-python']}" in conda


def test_the_conda_environment_has_the_native_tools_that_setup_installs():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    setup = (ROOT / "scripts/setup").read_text()
    for debian, name in {
        "llvm-19": "llvm-tools-19",
        "gcc-aarch64-linux-gnu": "gcc_linux-aarch64",
        "perl": "perl",
        "git": "git",
    }.items():
        assert debian in setup
        assert name in conda


def test_there_is_one_version():
    crate = tomllib.loads((ROOT / "models/pipeline/Cargo.toml").read_text())["package"]
    assert lw.__version__ == crate["version"]
    assert binding.version() == crate["version"]
    for other in ("pyproject.toml", "models/pipeline/pyproject.toml", "CITATION.cff"):
        assert not re.search(r"^version\b", (ROOT / other).read_text(), re.M), other


def test_the_newest_release_of_the_changelog_is_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *releases = re.findall(r"^## (\S+)(?: - (\d{4}-\d\d-\d\d))?$", text, re.M)
    assert first == ("Unreleased", "")
    version, date = releases[0]
    assert version == lw.__version__
    assert date


def _rust_version() -> str:
    package = tomllib.loads((ROOT / "models/pipeline/Cargo.toml").read_text())["package"]
    return str(package["rust-version"])


def test_the_readme_names_the_oldest_rust_that_builds_the_simulator():
    assert f"Rust {_rust_version()}" in (ROOT / "README.md").read_text()
    lock = tomllib.loads((ROOT / "models/pipeline/Cargo.lock").read_text())
    assert lock["package"], "the versions that this was tried with"


def _programs(folder: Path, cargo: str) -> str:
    """Return a PATH with this machine's programs, another cargo, and none that installs."""
    folder.mkdir()
    for place in ("/bin", "/usr/bin", "/usr/local/bin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if program.name not in ("apt-get", "sudo", "rustup", "cargo") and not link.exists():
                link.symlink_to(program)
    (folder / "cargo").write_text(f"#!/bin/sh\n{cargo}\n")
    (folder / "cargo").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("option", "cargo", "said"),
    [
        ("--system-only", "echo cargo 1.84.9", "cargo"),
        ("--lint", 'case "$1" in fmt) exit 1 ;; *) echo cargo 1.999.0 ;; esac', "rustfmt"),
        ("--lint", 'case "$1" in clippy) exit 1 ;; *) echo cargo 1.999.0 ;; esac', "clippy"),
    ],
)
def test_setup_names_what_of_rust_is_missing_or_too_old(tmp_path, option, cargo, said):
    done = subprocess.run(
        [ROOT / "scripts/setup", option],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": _programs(tmp_path / "bin", cargo)},
    )
    assert done.returncode == 2
    (packages,) = re.findall(r"system packages to install:(.*)", done.stderr)
    assert said in packages


def test_lint_asks_for_what_it_needs_and_does_not_go_on_without_it():
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert "scripts/setup --lint" in recipe
    for tool in ("ruff check", "mypy", "clang-format", "fmt) --check", "clippy)", "shellcheck"):
        assert tool in recipe
    assert "||" not in recipe
    assert not re.search(r"\bif\b", recipe)
    assert "make lint" in (ROOT / ".ci/run").read_text()
