"""Keep what tests measure, and what they change of settings, out of the user's own files."""

import importlib
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from checkout import ROOT

# Tests of one folder take values from those of another, whichever of them is run.
sys.path += [str(path) for path in sorted(Path(__file__).parent.iterdir()) if path.is_dir()]

# Seconds since 1970 after which no further test begins; make test-slow says it.
UNTIL = float(os.environ.get("LOOPWRIGHT_TESTS_UNTIL") or "inf")


# Files that take longest, of which each CPU begins one first, so that none waits at the end.
FIRST = [
    "test_calibrate",
    "test_cluster",
    "test_calibrate_arm64",
    "test_doubtful_forms",
    "test_wheel",
    "test_page",
    "test_patching",
    "test_disks",
    "test_verify",
    "test_stored",
]


def pytest_collection_modifyitems(items):
    """Order files; those of equal rank stay as they are."""
    rank = {name: n for n, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(FIRST)))


def pytest_runtest_setup():
    if time.time() > UNTIL:
        pytest.skip("no time left for it here: `make test-slow` runs it")


@pytest.fixture(scope="session", autouse=True)
def _own_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("own")
        patch.setenv("LOOPWRIGHT_RESULTS", str(folder / "results.sqlite"))
        yield


@pytest.fixture(autouse=True)
def _fresh_results(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "results.sqlite"))


@pytest.fixture(scope="session")
def validation():
    """Return what imports a program of validation/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        # Both, since a program's own change of the path would end with the test that took it.
        patch.syspath_prepend(ROOT / "models" / "derive")
        patch.syspath_prepend(ROOT / "validation")
        yield importlib.import_module


@pytest.fixture(scope="session", params=["x86_64", "arm64"])
def kmod_built(request, tmp_path_factory):
    """Return a kernel, and the module with all variants built for it."""
    import kmod_guest

    from loopwright.portable import kmod

    folder = kmod_guest.kernel(request.param)
    return folder, kmod.build(folder, tmp_path_factory.mktemp("kmod") / request.param)


@pytest.fixture(scope="session")
def chromium():
    """Return a browser without a window."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("no chromium and chromedriver here: run scripts/setup --tests")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
