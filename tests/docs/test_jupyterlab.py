"""A notebook in JupyterLab, in a real browser: opened, run, and drawn again by a choice."""

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from checkout import ROOT
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="apt install chromium chromium-driver"),
]
NOTEBOOK = ROOT / "notebooks" / "your_own_loop.py"
PATIENCE = 120  # s

PROMPTS = "return [...document.querySelectorAll('.jp-InputPrompt')].map(e => e.textContent)"
ROWS = """
const tables = [...document.querySelectorAll('.jp-OutputArea-output table')];
return tables.length ? [...tables.at(-1).rows].map(
    row => [...row.cells].map(cell => cell.textContent).join(' ')) : [];
"""
CHOICES = ".jp-Notebook .widget-dropdown select"
ERRORS = ".jp-RenderedError, [data-mime-type='application/vnd.jupyter.stderr']"


def wait(what: str, condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain for {what}"
        time.sleep(0.5)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """Run JupyterLab on a notebook that was never run; return the address to open it at."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    import jupytext  # takes a second, of every run that collects tests

    jupytext.write(jupytext.read(NOTEBOOK), folder / f"{NOTEBOOK.stem}.ipynb")
    address_file = tmp_path / "runtime"
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(address_file),
        "LOOPWRIGHT_RESULTS": str(tmp_path / "results.sqlite"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    port = 18000 + os.getpid() % 2000
    options = [
        "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=", "--LabApp.news_url=None",
    ]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", str(folder), *options],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://localhost:{port}"

    def answers() -> bool:
        assert server.poll() is None, "JupyterLab ended"
        try:
            return bool(urllib.request.urlopen(f"{address}/api").status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        wait("JupyterLab", answers)
        yield f"{address}/lab/tree/{NOTEBOOK.stem}.ipynb?reset"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def browser() -> Iterator[WebDriver]:
    """Return a headless browser."""
    options = Options()
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.add_argument("--window-size=1500,1200")
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def choose(browser: WebDriver, menu: str, entry: str) -> None:
    """Choose an entry of JupyterLab's menu bar."""
    for selector, name in ((".lm-MenuBar-item", menu), (".lm-Menu-item", entry)):
        wait(name, partial(_named, browser, selector, name))
        _named(browser, selector, name)[0].click()
        time.sleep(0.5)


def scroll(browser: WebDriver, to: int) -> None:
    """Scroll the notebook, of which JupyterLab draws only what can be seen."""
    script = "document.querySelector('.jp-WindowedPanel-outer').scrollTop = arguments[0]"
    browser.execute_script(script, to)
    time.sleep(0.5)


def _named(browser: WebDriver, selector: str, name: str) -> list[WebElement]:
    found = browser.find_elements(By.CSS_SELECTOR, selector)
    return [e for e in found if e.text.strip().startswith(name)]


def test_a_notebook_runs_in_the_browser_and_draws_by_choice(lab, browser):
    browser.get(lab)
    wait("the notebook", lambda: browser.find_elements(By.CSS_SELECTOR, ".jp-Notebook .jp-Cell"))
    wait("the kernel", lambda: "Idle" in browser.page_source)
    choose(browser, "Run", "Run All Cells")
    wait("the last cell", lambda: any("[10]" in p for p in browser.execute_script(PROMPTS)))
    assert not browser.find_elements(By.CSS_SELECTOR, ERRORS)

    wait("the prediction", lambda: any(row.startswith("0 2.00 2.00") for row in _table(browser)))
    wait("the choices", lambda: _choices(browser))
    _, _, offset = _choices(browser)
    Select(offset).select_by_visible_text("40")
    wait(
        "the table of offset 40",
        lambda: any(row.startswith("40 2.00 2.00 balanced") for row in _table(browser)),
    )


def _choices(browser: WebDriver) -> list[WebElement]:
    """Scroll to the three drop-downs of the notebook, and return them."""
    tall = browser.execute_script(
        "return document.querySelector('.jp-WindowedPanel-outer').scrollHeight"
    )
    for to in range(0, tall, 600):
        scroll(browser, to)
        found = browser.find_elements(By.CSS_SELECTOR, CHOICES)
        if len(found) == 3:
            return found
    return []


def _table(browser: WebDriver) -> list[str]:
    """Return the rows of the last table, the prediction with and without a front end."""
    scroll(browser, 1 << 20)
    rows: list[str] = browser.execute_script(ROWS)
    return rows
