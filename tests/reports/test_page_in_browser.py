"""The page as a person opens it: from disk, in headless Chromium, on a phone and on a wide screen, light and dark."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.reports.contents import ReportContents
from harness.reports.html.page import page
from tests.reports.chromium import INSTALL, Browser, find

EXECUTABLE = find()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.skipif(EXECUTABLE is None, reason=f"no Chromium here: {INSTALL}, or set HARNESS_CHROMIUM"),
]

WIDTHS = (400, 1400)
ANCHORS = """
Array.from(document.querySelectorAll('a[href^="#"]'))
  .map(link => link.getAttribute('href').slice(1)).filter(name => document.getElementById(name) === null)
"""
TOO_WIDE = """
Array.from(document.querySelectorAll('body *')).filter(one => {
  const box = one.getBoundingClientRect();
  return box.right > document.documentElement.clientWidth + 1 && !one.closest('.scroll, .code, .skip');
}).map(one => one.outerHTML.slice(0, 80))
"""
UNSEEN = """
Array.from(document.querySelectorAll('svg')).filter(one => {
  const box = one.getBoundingClientRect();
  return box.width < 8 || box.height < 8 || one.querySelector('rect, circle, path') === null;
}).length
"""
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
                        return Array.from(canvas.getImageData(0, 0, 1, 1).data); };
  const light = colour => colour.slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = one => { for (; one; one = one.parentElement) {
    const found = rgb(getComputedStyle(one).backgroundColor); if (found[3] === 255) return found; }
    return [255, 255, 255, 255]; };
  const bad = [];
  for (const one of document.querySelectorAll('body *')) {
    const words = Array.from(one.childNodes).some(node => node.nodeType === 3 && node.textContent.trim());
    if (!words || one.closest('.skip, title, desc, style')) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(rgb(one.closest('svg') ? style.fill : style.color)), light(behind(one))].sort();
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(ratio.toFixed(2) + ' ' + one.outerHTML.slice(0, 90));
  }
  return bad;
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert EXECUTABLE is not None
    with Browser(EXECUTABLE, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def file(whole: ReportContents, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(page(whole, datetime(2030, 1, 2, tzinfo=UTC)), encoding="utf-8")
    return path


def test_the_page_opens_from_disk_without_error_or_request(browser: Browser, file: Path) -> None:
    browser.resize(WIDTHS[-1])
    browser.open(file.as_uri())
    assert browser.value("document.title") == "3 findings: 2 errors, 1 warning · kernel-harness"
    assert browser.value("document.compatMode") == "CSS1Compat"
    assert browser.requested() == [file.as_uri()]
    assert browser.complaints() == []


def test_every_anchor_resolves(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    assert browser.value(ANCHORS) == []
    link = """document.querySelector('tbody a[href^="#finding-"]')"""
    browser.value(f"{link}.click()")
    assert browser.value("location.hash") == browser.value(f"{link}.getAttribute('href')")
    assert browser.value("document.querySelector(':target').getBoundingClientRect().height") > 0


def test_the_reproducer_unfolds(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    height = "document.querySelector('details').getBoundingClientRect().height"
    folded = browser.value(height)
    browser.value("document.querySelector('summary').click()")
    assert browser.value("document.querySelector('details').open") is True
    assert browser.value(height) > folded
    assert "print('again')" in browser.value("document.querySelector('details').innerText")


@pytest.mark.parametrize("width", WIDTHS)
def test_only_scrolling_parts_are_wider_than_the_screen(browser: Browser, file: Path, width: int) -> None:
    browser.resize(width)
    browser.open(file.as_uri())
    browser.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True
    assert browser.value(TOO_WIDE) == []
    assert browser.value(UNSEEN) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(browser: Browser, file: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(file.as_uri())
    dark = browser.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark is (scheme == "dark")
    assert browser.value(CONTRAST) == []


def test_a_console_error_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='none.png'><script>none()</script>", encoding="utf-8")
    browser.open(bad.as_uri())
    assert len(browser.complaints()) >= 2
    assert (tmp_path / "none.png").as_uri() in browser.requested()
