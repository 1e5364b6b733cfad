"""The page of a scan in a real browser, opened from the file system."""

import re

import browsing
import pytest
import scan_pages
from browsing import SIZES, wait_until
from quick import some

from loopwright.cli import run

ROWS = ".loops > tbody > tr:not(.detail)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "scan.html"
    profile = folder / "profile.txt"
    profile.write_text("@[clears+8]: 75\n@[far+4]: 25\n")
    asked = ["scan", str(scan_pages.loops(folder)), "--profile", str(profile)]
    assert run([*asked, "--microarch", "zen2,sandybridge", "--html", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("builds")
    path = folder / "builds.html"
    a, b = (scan_pages.loops(folder, skip, f"{skip}.o") for skip in (0, 57))
    assert run(["scan", str(a), str(b), "--microarch", "zen2", "--html", str(path)]) == 0
    return path


@pytest.fixture(scope="module", params=some([2000, 1000], {1000}))
def many(request, tmp_path_factory):
    """Return a page of loops, and how many they are."""
    folder = tmp_path_factory.mktemp("many")
    path = folder / "many.html"
    asked = [
        "scan",
        str(scan_pages.many(folder, request.param // 2)),
        "--microarch",
        "zen2",
        "--html",
        str(path),
    ]
    assert run(asked) == 0
    return path, request.param


@pytest.fixture(params=SIZES, ids=str)
def opened(request, chromium, page):
    return browsing.opened(chromium, page, SIZES[request.param])


def texts(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return browser.execute_script(script, selector)


def cells(browser, head):
    """Return the cells of a column, by its head."""
    script = """
    const heads = [...document.querySelectorAll('.loops > thead th')].map((e) => e.textContent);
    const at = heads.indexOf(arguments[0]);
    return [...document.querySelectorAll(arguments[1])].map((row) => row.cells[at].textContent);
    """
    return browser.execute_script(script, head, ROWS)


def choose(browser, name, value):
    """Set a filter as a user does, and wait until the page has followed."""
    script = """
    const field = document.querySelector('.filters').elements[arguments[0]];
    field.value = arguments[1];
    field.dispatchEvent(new Event('input', { bubbles: true }));
    """
    browser.execute_script("document.getElementById('shown').textContent = ''")
    browser.execute_script(script, name, value)
    wait_until(browser, lambda: browser.find_element("id", "shown").text)


def open_first(browser):
    """Open the loop of the first row; its name."""
    button = browser.find_element("css selector", f"{ROWS} > th button")
    browser.execute_script("arguments[0].click()", button)
    wait_until(browser, lambda: texts(browser, ".opened h3"))
    return texts(browser, ".opened h3")[0]


def test_it_opens_without_errors_and_asks_the_network_for_nothing(opened):
    assert open_first(opened) == "clears"
    opened.execute_script("document.querySelector('details.timeline').open = true")
    wait_until(opened, lambda: texts(opened, "#t-chart td"))
    assert browsing.complaints(opened) == []


def test_nothing_is_out_of_sight(opened):
    open_first(opened)
    opened.execute_script("document.querySelector('details.timeline').open = true")
    wait_until(opened, lambda: texts(opened, "#t-chart td"))
    assert browsing.fits(opened)
    cut = """
    const seen = (e) => e.getClientRects().length && !e.closest('.chart');
    return [...document.querySelectorAll('main td, main th, main svg')].filter(seen)
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
      .map((e) => e.textContent.trim().slice(0, 40));
    """
    if opened.execute_script("return innerWidth") < 500:
        assert opened.execute_script(cut) == []


def test_what_a_screen_reader_needs_is_there(opened):
    open_first(opened)
    assert browsing.readable(opened)["pictures"] == 2 + 2  # maps, and the strips of a loop
    names = opened.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map((e) => e.ariaLabel)"
    )
    assert any("zen2: 4 loops by address; 1 hurt, " in name for name in names)
    assert any("1.00 at 0 to 48; 2.00 at 49 to 63. Here, at 57: 2.00" in name for name in names)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(opened, scheme):
    open_first(opened)
    opened.execute_script("document.querySelector('details.timeline').open = true")
    assert browsing.low_contrast(opened, scheme) == []


@browsing.behaviour
def test_filters_change_the_rows_and_say_so(opened):
    assert len(cells(opened, "core")) == 8
    choose(opened, "core", "zen2")
    assert cells(opened, "core") == ["zen2"] * 4
    assert len(texts(opened, "#maps figure")) == 1
    choose(opened, "state", "h")
    assert cells(opened, "state") == ["hurt"]
    assert opened.find_element("id", "shown").text == "1 of 8 rows shown"
    choose(opened, "state", "")
    choose(opened, "name", "FAR")
    assert texts(opened, f"{ROWS} > th") == ["far"]
    choose(opened, "name", "")
    choose(opened, "fix", "align 16")
    assert [fix.split(",")[0] for fix in cells(opened, "fix")] == ["align 16"]
    shared = opened.execute_script("return location.href")
    opened.get("about:blank")
    opened.get(shared)
    assert opened.find_element("id", "shown").text == "1 of 8 rows shown"
    opened.execute_script("document.querySelector('.filters button').click()")
    wait_until(opened, lambda: len(cells(opened, "core")) == 8)


@browsing.behaviour
def test_the_table_sorts_by_the_head_that_is_pressed(opened):
    assert cells(opened, "would save, %")[:2] == ["37.50", "0.00"]
    for head, first in (("address", "descending"), ("loop", "ascending")):
        script = """
        [...document.querySelectorAll('.loops > thead th')]
          .find((e) => e.textContent === arguments[0]).querySelector('button').click();
        """
        orders = []
        for _ in range(2):
            opened.execute_script(script, head)
            orders.append(texts(opened, f"{ROWS} > th"))
        assert orders[0] != orders[1]
        sorts = opened.execute_script(
            "return [...document.querySelectorAll('.loops th[aria-sort]')].map((e) => e.ariaSort)"
        )
        assert sorts == ["ascending" if first == "descending" else "descending"]
    # What has no figure is last, whichever way it is sorted.
    for _ in range(2):
        opened.execute_script(script, "cycles/iteration")
        assert cells(opened, "cycles/iteration")[-2:] == ["\N{EM DASH}"] * 2


@browsing.behaviour
def test_a_loop_is_opened_with_all_that_is_known_of_it(opened):
    open_first(opened)
    edges = texts(opened, ".code tr.edge.hurts")
    assert edges == ["64-byte boundary at 0x40, which hurts on zen2"]
    rows = texts(opened, ".code tbody tr")
    assert rows.index(edges[0]) == 1
    assert "48 c7 07 00 00 00 00movq $0, (%rdi)" in rows[0]
    assert "75 % of all cycles" in opened.find_element("css selector", ".opened").text.replace(
        ".00", ""
    )
    assert "`" not in opened.find_element("css selector", ".opened").text
    bars = "return document.querySelectorAll('.opened svg.strip rect').length"
    assert opened.execute_script(bars) == 2 * 64
    own = texts(opened, ".opened svg.strip rect.own.h title")
    assert own == ["code offset 57: 2.00 cycles an iteration"]


@browsing.behaviour
def test_its_timeline_steps_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    open_first(opened)
    opened.execute_script("document.querySelector('details.timeline').open = true")
    wait_until(opened, lambda: texts(opened, "#t-chart td"))
    choice = Select(opened.find_element("css selector", ".timeline select"))
    assert choice.first_selected_option.text == "zen2 at offset 57, where it lies: 2.00 cycles"
    chart = opened.find_element("id", "t-chart")
    chart.send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert opened.find_element("id", "t-events").text.startswith("Cycle 2.")
    slow = chart.text
    choice.select_by_visible_text("zen2 at offset 0, its best one: 1.00 cycles")
    assert chart.text != slow
    origin = opened.find_element("id", "t-origin").text
    assert re.search(r"predict --hex [0-9a-f]{32} --microarch zen2 --offset 0", origin)
    # When its row is closed the viewer is kept for the next one.
    opened.execute_script("document.querySelector('.loops button[aria-expanded=true]').click()")
    assert not texts(opened, ".opened")
    assert texts(opened, "#home #t-chart")


@browsing.behaviour
def test_the_map_is_walked_by_keyboard_and_opens_loops(opened):
    from selenium.webdriver.common.keys import Keys

    zen2 = next(
        box
        for box in opened.find_elements("css selector", ".map-box")
        if "zen2" in box.accessible_name
    )
    zen2.send_keys(Keys.ARROW_RIGHT)
    said = opened.find_element("id", "pointed").text
    assert said.startswith("clears at 0x39: hurt, 2.00 cycles an iteration on zen2, 1.00 at its")
    assert "75.00 % of all cycles" in said
    zen2.send_keys(Keys.ENTER)
    wait_until(opened, lambda: texts(opened, ".opened h3") == ["clears"])
    assert "loop=zen2" in opened.execute_script("return location.hash")
    focused = "return document.activeElement.getAttribute('aria-expanded')"
    assert opened.execute_script(focused) == "true"


def test_of_two_builds_it_shows_what_changed(chromium, builds):
    browser = browsing.opened(chromium, builds, SIZES["desktop"])
    assert cells(browser, "change")[0] == "hurt"
    assert "same" not in cells(browser, "change")
    assert cells(browser, "slower, %")[0] == "+100.0"
    choose(browser, "state", "")
    assert "same" in cells(browser, "change")
    assert open_first(browser) == "clears"
    assert len(texts(browser, ".opened svg.strip")) == 2
    assert len(texts(browser, ".opened table.code")) == 2
    assert texts(browser, ".opened .here") == ["here 57", "here 0"]
    # There is one viewer: the timeline of the other build takes it over.
    place = ".opened details.timeline[open] #t-chart caption"
    script = "document.querySelectorAll('details.timeline')[arguments[0]].open = true"
    browser.execute_script(script, 0)
    wait_until(browser, lambda: texts(browser, place) == ["clears on zen2 at code offset 57"])
    browser.execute_script(script, 1)
    wait_until(browser, lambda: texts(browser, place) == ["clears on zen2 at code offset 0"])
    assert browsing.complaints(browser) == []


def test_a_page_of_many_loops_is_small_and_filters(chromium, many):
    page, count = many
    assert page.stat().st_size < 200_000 + 400 * count
    browser = browsing.opened(chromium, page, SIZES["desktop"])
    assert browser.find_element("id", "shown").text == f"{count:,} of {count:,} rows shown"
    assert len(cells(browser, "core")) == 100
    choose(browser, "state", "h")
    hurt = int(browser.find_element("id", "shown").text.split()[0].replace(",", ""))
    assert 100 < hurt < count
    assert set(cells(browser, "state")) == {"hurt"}
    script = "[...document.querySelectorAll('.pager button')].at(-1).click()"
    browser.execute_script(script)
    assert len(cells(browser, "core")) == (hurt % 100 or 100)
    assert open_first(browser)
    assert browsing.complaints(browser) == []
