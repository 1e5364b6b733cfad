"""The report's page in a real browser, opened from the file system."""

import re

import browsing
import pandas as pd
import pytest
import reports
from browsing import SIZES

import loopwright as lw
from loopwright import kernels
from loopwright.reporting import findings
from loopwright.reporting.report import report

EVERY = tuple(kernel.id for kernel in kernels.every())


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((*reports.VARIANTS,), id="three"),
        pytest.param(EVERY, id="all", marks=pytest.mark.slow(minutes=15)),
    ],
)
def drawn(request):
    """Return the ids of the kernels that are on the page."""
    return request.param


@pytest.fixture(scope="module")
def page(drawn, tmp_path_factory):
    if drawn == EVERY:
        out = tmp_path_factory.mktemp("page")
        report([], out, quick=True, log=lambda _: None)
    else:
        out = reports.three(tmp_path_factory)
    return out / "index.html"


@pytest.fixture(params=SIZES, ids=str)
def opened(request, chromium, page):
    return browsing.opened(chromium, page, SIZES[request.param])


@pytest.fixture
def unfolded(opened):
    opened.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    return opened


def test_the_page_is_one_file_of_sensible_size(page):
    text = page.read_text()
    assert page.stat().st_size < 5_000_000
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert "url(http" not in text
    assert "@import" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_what_the_figures_assume_is_in_page_text_and_table(page):
    shown = lw.sources("x86_64/clear_user/immediates", microarch="zen2")
    [assumed] = shown[shown["least_cycles"].notna()].to_dict("records")
    table = pd.read_csv(page.parent / "assumptions.csv")
    [kept] = table.query("variant == 'immediates' and microarch == 'zen2'").to_dict("records")
    for key in ("of", "confidence", "source", "least_cycles", "most_cycles"):
        assert kept[key] == assumed[key]
    said = f"- zen2, {assumed['of']} = {assumed['figure']}: immediates "
    said += f"{assumed['least_cycles']:g} to {assumed['most_cycles']:g}"
    assert said in " ".join((page.parent / "report.txt").read_text().split())
    assert assumed["of"] in page.read_text().partition('id="x86-64-clear-user-assumed"')[2]


def test_it_opens_without_errors_and_asks_the_network_for_nothing(opened):
    assert browsing.complaints(opened) == []


def test_it_is_no_wider_than_the_window(opened):
    assert browsing.fits(opened)


def test_the_first_screen_answers_and_the_rest_is_folded(opened):
    ends = "[...document.querySelectorAll('.answer')].map((e) => e.getBoundingClientRect().bottom)"
    assert opened.execute_script(f"return Math.max(...{ends})") <= 1000
    assert opened.execute_script("return document.documentElement.scrollHeight") <= 8000
    assert opened.execute_script("return document.querySelectorAll('details[open]').length") == 0


@browsing.behaviour
def test_the_questions_come_first_then_a_verdict_for_each_routine(opened, drawn):
    texts = [e.text for e in opened.find_elements("css selector", ".answer p:first-child")]
    asked = [thread for thread in findings.threads() if thread.kernel in drawn]
    words = {"yes", "no", "open", "contested", "unknown"}
    for text, thread in zip(texts, asked, strict=False):
        word, _, question = text.partition(" ")
        assert word in words
        assert question == thread.question
    routines = [r for name in drawn for r in kernels.load(name).routines]
    said = [text.split()[:2] for text in texts[len(asked) :]]
    assert [name for _, name in said] == routines
    assert {word for word, _ in said} <= {"ship", "split", "open", "keep", "contested", "unknown"}


@browsing.behaviour
def test_each_published_pair_has_a_name_both_figures_and_a_mark(opened, drawn):
    pairs = opened.find_elements("css selector", ".pair:not(.axis)")
    assert len(pairs) >= (10 if drawn == EVERY else 4)
    for pair in pairs:
        name = pair.find_element("tag name", "strong").text
        label = pair.find_element("tag name", "svg").get_attribute("aria-label")
        assert label.startswith(name)
        assert re.search(r"published .*\d|published no difference", label)
        marked = pair.find_elements("css selector", "rect.range")
        assert bool(marked) == ("predicted none" not in label)
        assert pair.find_elements("css selector", "circle.dot")


@browsing.behaviour
def test_a_link_from_the_first_screen_opens_its_section(opened):
    link = opened.find_element("css selector", '.answer a[href="#x86-64-csum"]')
    link.click()
    part = opened.find_element("css selector", "details:has(#x86-64-csum)")
    browsing.wait_until(opened, lambda: part.get_attribute("open") is not None)


def test_unfolded_nothing_overflows(unfolded):
    # The timeline's chart alone is larger than a window, and scrolls.
    over = """
    const block = (e) => getComputedStyle(e).display !== 'inline';
    const wide = (e) => block(e) && e.scrollWidth > e.clientWidth + 1;
    const right = (e) => e.getBoundingClientRect().right > innerWidth + 1;
    return [...document.querySelectorAll('body *')]
      .filter((e) => e.getClientRects().length && !e.closest('.chart, svg svg, svg *'))
      .filter((e) => (!e.closest('svg') && wide(e)) || right(e))
      .map((e) => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 40)}`);
    """
    assert unfolded.execute_script(over) == []


def test_what_a_screen_reader_needs_is_there(unfolded):
    found = browsing.readable(unfolded)
    assert found["pictures"] >= 4
    assert found["live"] == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(unfolded, scheme):
    assert browsing.low_contrast(unfolded, scheme) == []


def shown(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.offsetParent)"
    return browser.execute_script(f"{script}.map((e) => ({{...e.dataset}}))", selector)


@browsing.behaviour
def test_filters_change_the_rows_and_say_so(unfolded):
    opened = unfolded
    from selenium.webdriver.support.ui import Select

    rows = "#x86-64-clear-user-throughput tbody tr"
    before = shown(opened, rows)
    core = Select(opened.find_element("name", "core"))
    core.select_by_visible_text("zen2")
    after = shown(opened, rows)
    assert 0 < len(after) < len(before)
    assert {row["core"] for row in after} == {"zen2"}
    figures = shown(opened, "main figure")
    assert {figure["core"] for figure in figures if "core" in figure} == {"zen2"}
    # Strips of sizes have all cores in one figure.
    assert any("core" not in figure for figure in figures)
    Select(opened.find_element("name", "model")).select_by_visible_text("pipeline")
    assert {row["model"] for row in shown(opened, rows)} == {"pipeline"}
    Select(opened.find_element("name", "variant")).select_by_visible_text(
        "x86_64/clear_user/immediates"
    )
    assert len(shown(opened, rows)) == 1
    assert shown(opened, "section.kernel") == [{"kernel": "x86_64/clear_user"}]
    said = opened.find_element("id", "shown").text
    assert re.fullmatch(r"\d+ of \d+ rows, \d+ of \d+ figures shown", said)
    # A click by the driver would meet the page while it still scrolls there smoothly.
    opened.execute_script("document.querySelector('.filters button').click()")
    browsing.wait_until(opened, lambda: len(shown(opened, rows)) == len(before))


@browsing.behaviour
def test_tables_sort_by_the_head_that_is_pressed(unfolded):
    opened = unfolded
    table = opened.find_element("id", "x86-64-clear-user-throughput")
    head = table.find_elements("css selector", "thead th")[5]
    script = "return [...arguments[0].tBodies[0].rows].map((r) => +r.cells[5].dataset.order)"
    orders = []
    for state in ("ascending", "descending"):
        opened.execute_script("arguments[0].click()", head.find_element("tag name", "button"))
        assert head.get_attribute("aria-sort") == state
        orders.append(opened.execute_script(script, table))
    assert orders[0] == sorted(orders[0])
    assert orders[1] == sorted(orders[0], reverse=True)
    assert orders[0] != orders[1]


@browsing.behaviour
def test_the_timeline_steps_by_keyboard_and_shows_what_is_chosen(unfolded):
    opened = unfolded
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    Select(opened.find_element("id", "t-variant")).select_by_visible_text(
        "x86_64/clear_user/immediates"
    )
    Select(opened.find_element("id", "t-core")).select_by_visible_text("zen2")
    offset = Select(opened.find_element("id", "t-offset"))
    assert any("best, 1.00 cycles" in option.text for option in offset.options)
    events = opened.find_element("id", "t-events")
    slider = opened.find_element("id", "t-cycle")
    slider.send_keys(Keys.HOME)
    first = events.text
    slider.send_keys(Keys.ARROW_RIGHT)
    assert events.text.startswith("Cycle 1.")
    assert events.text != first
    chart = opened.find_element("id", "t-chart")
    chart.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert events.text.startswith("Cycle 3.")
    marked = opened.find_element("css selector", "#t-chart thead .now")
    assert marked.get_attribute("textContent") == "3"
    slow = chart.text
    offset.select_by_value(
        next(o.get_attribute("value") for o in offset.options if "best" in o.text)
    )
    assert chart.text != slow
    assert "movq $0, (%rdi)" in chart.text
    chart.send_keys(Keys.END)
    assert "retired" in events.text
