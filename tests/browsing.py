"""Pages in a real browser, opened from the file system."""

import json

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def opened(chromium, page, size):
    """Open a page in a window of one of SIZES, and return the browser; its logs begin there."""
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get("about:blank")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    chromium.get(page.as_uri())
    return chromium


def errors(chromium):
    """Return what the browser has complained of."""
    return [entry["message"] for entry in chromium.get_log("browser")]


def asked(chromium):
    """Return the addresses that the page has asked a network for."""
    messages = [json.loads(one["message"])["message"] for one in chromium.get_log("performance")]
    sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [message["params"]["request"]["url"] for message in sent]
    return [url for url in urls if not url.startswith(("file:", "data:"))]


def fits(chromium):
    """Say whether the page is no wider than the window."""
    return chromium.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
