"""Keep what tests measure, and what they change of settings, out of the user's own files."""

import gc
import importlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from checkout import ROOT
from seen import Loudness

# Tests of one folder take values from those of another, whichever of them is run.
sys.path += [str(path) for path in sorted(Path(__file__).parent.iterdir()) if path.is_dir()]

# Seconds since 1970 after which no further test begins; make test-slow says it. A test that is
# slow(minutes=N) begins only where N minutes are left.
UNTIL = float(os.environ.get("LOOPWRIGHT_TESTS_UNTIL") or "inf")
LOUDNESS = Loudness()

# A shell has what it starts in the background ignore SIGINT, and with it what tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# As the command line does: most collections would find nothing.
gc.set_threshold(200_000)

# Files that take longest: begun first, so that no worker is left alone with one at the end.
FIRST = [
    "test_report", "test_calibrate", "test_bare", "test_emulated", "test_baseline", "test_smt",
    "test_check_kernels", "test_bare_verb", "test_check", "test_transformations", "test_threads",
    "test_import_answers", "test_check_large", "test_terminal", "test_wheel", "test_core_sheet",
    "test_cluster", "test_cores", "test_kit",
]  # fmt: skip


# Files whose slow tests are worth most, where there is time for some of them alone.
SLOW_FIRST = [
    "test_golden", "test_verify", "test_patching", "test_partial", "test_doubtful_forms",
    "test_calibrate_arm64", "test_check", "test_stored", "test_rename_rules", "test_cluster",
    "test_journal", "test_improved_loops", "test_kit", "test_sanitize", "test_harness",
    "test_notebooks", "test_docs", "test_check_kernels", "test_cores", "test_memory_rules",
    "test_memory_rules_arm64", "test_report", "test_patch_trees", "test_smt",
    "test_front_end_fit", "test_model_accuracy", "test_wheel", "test_page", "test_emulated",
]  # fmt: skip


def pytest_collection_modifyitems(config, items):
    """Order files; those of equal rank stay as they are."""
    first = FIRST if "not slow" in config.getoption("markexpr") else SLOW_FIRST
    rank = {name: n for n, name in enumerate(first)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(first)))


def pytest_runtest_setup(item):
    slow = item.get_closest_marker("slow")
    minutes = slow.kwargs.get("minutes", 0) if slow else 0
    if time.time() + 60 * minutes > UNTIL:
        pytest.skip("no time left for it here: `make test-slow` runs it")
    measures = item.get_closest_marker("measures")
    if measures:
        needs_quiet = not measures.kwargs.get("loud")
        if why := LOUDNESS.of(needs_quiet=needs_quiet, in_time=slow is None):
            pytest.skip(why)


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


@pytest.fixture
def models_held(monkeypatch):
    """Have models right on the cores of made-up loops."""
    from made_up import RECORDS, held_to

    from loopwright.judging import model_accuracy

    monkeypatch.setattr(model_accuracy, "records", lambda: held_to(RECORDS))


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
