"""Pages in a real browser, opened from the file system, and the checks of each."""

import json
from itertools import pairwise

import pytest
from quick import some

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}

# Sizes for tests of a page's behaviour, not of its layout: the phone is for `make test-slow`.
behaviour = pytest.mark.parametrize("opened", some(SIZES, {"desktop"}), indirect=True)


def opened(chromium, page, size):
    """Return the browser with a page opened in a window of a size."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get("about:blank")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    chromium.get(page.as_uri())
    return chromium


def complaints(browser):
    """Return the browser's messages about a page, and the URLs that it asked the network for."""
    messages = [entry["message"] for entry in browser.get_log("browser")]
    urls = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    return messages + [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]


def fits(browser):
    """True if a page is no wider than its window."""
    return browser.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def wait_until(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda _: condition())


def low_contrast(browser, scheme):
    """Return texts that do not stand out in a colour scheme (WCAG AA: 4.5 to 1)."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    return browser.execute_script(CONTRAST)


CONTRAST = """
const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const low = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || e.closest('script, noscript') || !e.getClientRects().length)
    continue;
  const svg = e.closest('svg');
  const ink = parse(svg ? getComputedStyle(e).fill : getComputedStyle(e).color);
  const [a, b] = [light(ink), light(behind(svg ? svg.parentElement : e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) low.add(`${e.tagName}.${e.className} ${e.textContent}`);
}
return [...low];
"""

READER = """
    const all = (s) => [...document.querySelectorAll(s)];
    const name = (e) => e.getAttribute('aria-label') || e.alt || '';
    return {
      lang: document.documentElement.lang,
      viewport: Boolean(document.querySelector('meta[name=viewport]')),
      headings: all('h1, h2, h3, h4').filter((e) => e.offsetParent).map((e) => +e.tagName[1]),
      unnamed: all('img, svg[role=img]').filter((e) => !name(e)).length,
      pictures: all('svg[role=img]').length,
      uncaptioned: all('table').filter((t) => !t.caption).length,
      unscoped: all('th').filter((t) => !t.scope).length,
      unlabelled: all('select, input').filter((e) => !e.labels.length).length,
      landmarks: ['header', 'main', 'nav'].filter((s) => !document.querySelector(s)),
      live: all('[aria-live]').length,
      boxes: all('.scroll').filter((e) => e.tabIndex !== 0 || !name(e)).length,
    };
    """


def readable(browser):
    """Assert that a page has the marks that a screen reader needs; return their counts."""
    page = browser.execute_script(READER)
    assert (page["lang"], page["viewport"]) == ("en", True)
    assert page["headings"][0] == 1
    assert page["headings"].count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(page["headings"]))
    for defect in ("unnamed", "uncaptioned", "unscoped", "unlabelled", "landmarks", "boxes"):
        assert not page[defect], defect
    return page
