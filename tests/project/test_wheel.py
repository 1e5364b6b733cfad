"""A wheel holds all that the package needs: it works in an empty folder, without the checkout."""

import csv
import io
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from checkout import ROOT, run_here

MOST_INSTALLED = 60_000_000  # bytes, of the wheel and what it needs
SHOWN = ["x86_64/copy_user/loop32", "--microarch", "all", "--csv"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "-w", folder, ROOT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("*.whl")
    return built


def environment(folder):
    """Return the variables of somebody who has an empty home and no checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOOPWRIGHT", "PYTHON"))}
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        kept[name] = str(folder / "home")
    return kept


def fresh(folder, wheel, *options):
    """Install the wheel into a new virtual environment and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    done = subprocess.run([*command, *options, wheel], capture_output=True, text=True, check=False)
    return python, done


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return what runs loopwright from the wheel, with the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    python, done = fresh(folder, wheel, "--no-deps", "--no-index")
    assert done.returncode == 0, done.stderr
    # A path that a .pth file names has no .pth files of its own: the checkout stays out.
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    empty = folder / "empty"
    empty.mkdir()

    def run(*arguments, program="loopwright"):
        return subprocess.run(
            [python.parent / program, *arguments],
            cwd=empty,
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )

    run.empty = empty
    return run


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def here(*arguments):
    """Return what the checkout prints."""
    done = run_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_of_the_checkout_is_imported(installed):
    script = "import loopwright, loopwright_pipeline; from loopwright import paths; " + (
        "print(loopwright.__file__, loopwright_pipeline.__file__, paths.HOME, paths.build_dir())"
    )
    said = installed("-c", script, program="python").stdout.split()
    assert len(said) == 4
    assert not [path for path in said if Path(path).is_relative_to(ROOT)]


def test_predictions_are_those_of_the_checkout(installed):
    done = installed("predict", *SHOWN)
    assert done.stderr == ""
    assert done.stdout == here("predict", *SHOWN)
    assert len([row for row in rows(done.stdout) if row["cycles"]]) > 10


def test_every_kernel_and_core_is_there(installed):
    for kind in ("kernels", "variants", "microarchs", "parameters"):
        assert installed("list", kind, "--csv").stdout == here("list", kind, "--csv")


@pytest.mark.slow
def test_variants_are_checked_with_a_harness_that_is_built_in_the_cache(installed):
    done = installed("check", "x86_64/put_event/masked", "--json")
    assert done.returncode == 0, done.stderr
    assert {row["passed"] for row in json.loads(done.stdout)} == {True}
    assert not list(installed.empty.iterdir())


def test_what_was_published_and_a_trace_are_there(installed):
    script = (
        "import loopwright as lw; print(len(lw.published()), len(lw.trace('x86_64/csum/adc4', 64)))"
    )
    published, steps = map(int, installed("-c", script, program="python").stdout.split())
    assert published > 20
    assert steps > 10


@pytest.mark.slow
def test_a_kit_and_a_module_are_packed(installed):
    done = installed("kit", "-o", "kit.tar.gz")
    assert done.returncode == 0, done.stderr
    here("kit", "-o", str(installed.empty / "checkout.tar.gz"))
    packed = [installed.empty / name for name in ("kit.tar.gz", "checkout.tar.gz")]
    assert packed[0].read_bytes() == packed[1].read_bytes()
    done = installed("kmod", "source", "-o", "kmod", "x86_64/put_event")
    assert done.returncode == 0, done.stderr
    assert (installed.empty / "kmod" / "Makefile").is_file()
    assert (installed.empty / "kmod" / "harness_chains.S").is_file()


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "loopwright"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(tracked) - set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_a_report_is_written(installed):
    done = installed("report", "arm64/copy_user", "-o", "out", "--no-measure")
    assert done.returncode == 0, done.stderr
    assert "<html" in (installed.empty / "out" / "index.html").read_text()


@pytest.mark.slow
def test_pip_gets_the_dependencies_that_the_wheel_names(wheel, tmp_path):
    python, done = fresh(tmp_path, wheel)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no package index is reached from here")
    assert done.returncode == 0, done.stderr
    packages = next((tmp_path / "venv").glob("lib/*/site-packages"))
    assert sum(file.stat().st_size for file in packages.rglob("*")) < MOST_INSTALLED

    def run(*command):
        return subprocess.run(
            [python.parent / "loopwright", *command],
            **{"cwd": tmp_path, "env": environment(tmp_path), "capture_output": True, "text": True},
        )

    assert run("predict", *SHOWN).stdout == here("predict", *SHOWN)
    scan = "scan", "/bin/true", "--microarch", "zen2", "--csv"
    assert run(*scan).stdout == here(*scan)
    assert run("core", "zen2", "--csv").stdout == here("core", "zen2", "--csv")
    refused = run("check", "x86_64/csum")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'loopwright[measure]'" in refused.stderr
