"""recipe/recipe.yaml, for conda: its versions are pyproject's, and its steps make what it tests."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from checkout import ROOT

RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
STEPS = RECIPE["build"]["script"]


def test_the_recipe_has_the_versions_of_pyproject():
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    crate = tomllib.loads((ROOT / "models/pipeline/Cargo.toml").read_text())["package"]
    needs, by_pip = RECIPE["requirements"], re.findall(r"\S+==\S+", " ".join(STEPS))
    python = f"python {made['project']['requires-python']}"
    assert RECIPE["context"]["version"] == crate["version"]
    assert python in needs["host"]
    assert python in needs["run"]
    pinned = [need.replace(" ", "") for need in needs["run"] if need != python]
    assert sorted(pinned + by_pip) == sorted(made["project"]["dependencies"])
    assert made["build-system"]["requires"][0].replace("==", " ==") in needs["host"]


@pytest.mark.slow
def test_the_steps_of_the_recipe_make_what_it_tests(tmp_path):
    prefix = tmp_path / "prefix"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    [site] = prefix.glob("lib/python*/site-packages")
    # What the recipe requires; a path that a .pth file names has no .pth files of its own.
    Path(site, "required.pth").write_text(sysconfig.get_path("purelib") + "\n")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOOPWRIGHT", "PYTHON"))}
    kept |= {"PREFIX": str(prefix), "PYTHON": str(prefix / "bin" / "python")}
    kept |= {"PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"}

    def run(step, folder):
        command = ["bash", "-euo", "pipefail", "-c", step]
        return subprocess.run(
            command, cwd=folder, env=kept, capture_output=True, text=True, check=False
        )

    for step in STEPS:
        done = run(step, ROOT)
        assert done.returncode == 0, done.stderr
    said = [run(step, tmp_path) for step in RECIPE["tests"][0]["script"]]
    assert [done.returncode for done in said] == [0] * len(said), said
    assert RECIPE["context"]["version"] in said[0].stdout
    assert "zen2" in said[1].stdout
