"""The morning's page as a person opens it: from disk, on a phone and on a wide screen, light and dark."""

from pathlib import Path

import pytest

from harness.reports.html.morning_page import write_morning_page
from harness.reports.morning import MorningContents
from tests.reports import nights
from tests.reports.axe import violations
from tests.reports.chromium import INSTALL, Browser, find
from tests.reports.nights import STEADY
from tests.reports.samples import STRAY, VALUES
from tests.reports.test_page_in_browser import LISTED, TOO_WIDE, UNSEEN, WIDTHS, choose

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(find() is None, reason=f"no Chromium here: {INSTALL}, or set HARNESS_CHROMIUM"),
]
PAGES = ("index.html", "history.html", f"bugs/{STEADY.id}.html", f"bugs/{nights.LOST.id}.html")
UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true })"
FIRST_NEW = "document.querySelector('article.finding .message').getBoundingClientRect().bottom"


@pytest.fixture
def folder(morning: MorningContents, tmp_path: Path) -> Path:
    write_morning_page(morning, tmp_path / "page")
    return tmp_path / "page"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_each_page_is_readable_in_both_colour_schemes(browser: Browser, folder: Path, width: int, page: str) -> None:
    browser.resize(width)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open((folder / page).as_uri())
        browser.value(UNFOLD)
        assert violations(browser) == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True
    assert (browser.value(TOO_WIDE), browser.value(UNSEEN)) == ([], 0)
    assert browser.requested() == [(folder / page).as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_new_bug_is_on_the_first_screen(browser: Browser, folder: Path, width: int) -> None:
    browser.resize(width, 900)
    browser.open((folder / "index.html").as_uri())
    assert browser.value(f"{FIRST_NEW} <= innerHeight") is True


def test_words_and_lists_filter_rows_and_cards(browser: Browser, folder: Path) -> None:
    browser.open((folder / "index.html").as_uri())
    choose(browser, "state", "new")
    assert set(browser.value(LISTED)) == {VALUES.id, STRAY.id, nights.LOST.id}
    assert browser.value("document.querySelectorAll('article.finding:not([hidden])').length") == 3
    browser.click("input[type=search]")
    browser.ask("Input.insertText", text="float64")
    assert browser.value(LISTED) == [VALUES.id]
    browser.click("button[type=reset]")
    browser.wait("document.getElementById('shown').textContent === '8 of 8 shown'")


def test_a_bug_is_two_clicks_from_the_first_page_and_back(browser: Browser, folder: Path) -> None:
    browser.open((folder / "index.html").as_uri())
    browser.follow(f'#all-findings a[href="bugs/{STEADY.id}.html"]')
    assert browser.value("location.pathname").endswith(f"bugs/{STEADY.id}.html")
    browser.follow(f'nav a[href="../index.html#bug-{STEADY.id}"]')
    assert browser.value("location.pathname").endswith("index.html")


def test_the_pages_are_complete_without_their_script(browser: Browser, folder: Path) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open((folder / "index.html").as_uri())
        assert browser.value("document.getElementById('controls').hidden") is True
        assert len(browser.value(LISTED)) == 8
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)
