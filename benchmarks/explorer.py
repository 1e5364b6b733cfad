"""How fast the loop explorer answers in a browser: milliseconds, medians of some runs.

usage: python benchmarks/explorer.py, after `make explorer`
"""

import shutil
import statistics
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

PAGE = Path(__file__).resolve().parent.parent / "out" / "explorer" / "index.html"
RUNS = 9
CORES = "zen4,zen2,skylake,sandybridge"
# 20 instructions, of which the first constant changes as by a key stroke.
LOOP = "b8{:02x}000000" + "4801d04883c201480fafc14889c6" * 4 + "4883c20148ffc975ba"
ANSWERED = "return performance.getEntriesByName('answered').at(-1)?.startTime"
KEY = """
const done = arguments[1];
performance.clearMarks();
const begin = performance.now();
location.hash = arguments[0];
const look = () => {
  const mark = performance.getEntriesByName('answered').at(-1);
  if (mark) done(mark.startTime - begin); else setTimeout(look, 1);
};
look();
"""


def main() -> None:
    """Open the page, wait for its first figures, then change a loop."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        first = []
        for _ in range(RUNS):
            browser.get("about:blank")
            browser.get(PAGE.as_uri())
            first.append(WebDriverWait(browser, 60).until(lambda b: b.execute_script(ANSWERED)))
        keys = []
        for number in range(3 * RUNS):
            link = f"text={LOOP.format(number + 1)}&cores={CORES}&focus=zen4&at=0"
            keys.append(browser.execute_async_script(KEY, link))
        print(f"first figures after the page opens: {statistics.median(first):.0f} ms")
        late = statistics.median(keys[RUNS:])
        print(f"64 offsets on 4 cores after a key, 20 instructions: {late:.0f} ms")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
