"""environment.yml and pyproject.toml describe the same Python environment."""

import tomllib

import yaml

from loopwright.paths import ROOT


def _pins(requirements):
    return dict(r.split("==") for r in requirements)


def test_the_conda_environment_has_the_pins_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["optional-dependencies"].values()
    wanted = _pins([*project["dependencies"], *(r for group in groups for r in group)])
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert _pins(next(d["pip"] for d in conda if isinstance(d, dict))) == wanted


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
