"""The page as a person opens it: from disk, in headless Chromium, on a phone and on a wide screen, light and dark."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.documents.campaign import VerdictCount
from harness.model.finding import Finding
from harness.model.picture import ElementSpan, Spread
from harness.model.verdict import Outcome
from harness.oracles import registry
from harness.reports.contents import ReportContents, ReportedBug, ReportedCampaign
from harness.reports.html.page import page
from tests.reports.axe import violations
from tests.reports.chromium import INSTALL, Browser, find
from tests.reports.samples import BESIDE, OVERLAP, REPORT, STRAY, VALUES, WRONG
from tests.search.fakes import OP

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(find() is None, reason=f"no Chromium here: {INSTALL}, or set HARNESS_CHROMIUM"),
]

LISTED = "Array.from(document.querySelectorAll('#all-findings tbody tr:not([hidden]) a')).map(one => one.textContent)"
SHOWN = "Array.from(document.querySelectorAll('article.finding:not([hidden]) a.id')).map(one => one.textContent)"
IN_VIEW = """
(one => { const box = one.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight / 2; })
(document.querySelector(':target'))
"""
WIDTHS = (400, 1280)
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
IN_SIGHT = """
Array.from(document.querySelectorAll('#all-findings tbody tr')).flatMap(row => [row.cells[3], row.cells[4]])
  .map(cell => cell.getBoundingClientRect()).filter(box => box.width > 20 && box.right <= innerWidth).length
"""
CLIPPED = """
Array.from(document.querySelectorAll('svg')).flatMap(svg => {
  const view = svg.viewBox.baseVal;
  return Array.from(svg.querySelectorAll('text')).filter(text => {
    const box = text.getBBox();
    return box.width && (box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height);
  }).map(text => text.textContent);
})
"""
CUT = """
Array.from(document.querySelectorAll('#grid ~ .scroll, .pictures .scroll'))
  .filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)
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


@pytest.fixture
def file(whole: ReportContents, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(page(whole, datetime(2030, 1, 2, tzinfo=UTC)), encoding="utf-8")
    return path


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A page with most oracles on two devices, and with pictures of large tensors."""
    verdicts = tuple(
        VerdictCount(op=OP.id, device=device, oracle=oracle.name, outcome=Outcome.PASS, cases=123)
        for oracle in registry.ALL[:28]
        for device in ("b200", "rtx-pro-6000")
    )
    tall = replace(WRONG, spread=Spread(shape=(1 << 24, 3), marks=((0, 0, 4.0),)), worst=(0, 0))
    span = replace(BESIDE, elements=ElementSpan(shape=(4, 8), extent=1 << 30, storage=(0, 1 << 30), touched=(0, 9)))
    far = replace(span, elements=replace(span.elements, touched=((1 << 30) + 1000, (1 << 30) + 1016)))
    finding = replace(VALUES, fail=replace(VALUES.fail, pictures=(tall, span, far)))
    campaign = ReportedCampaign(name="nightly", report=replace(REPORT, verdicts=verdicts))
    path = tmp_path / "crowded.html"
    contents = ReportContents(bugs=(ReportedBug(finding=finding), ReportedBug(finding=OVERLAP)), campaigns=(campaign,))
    path.write_text(page(contents, datetime(2030, 1, 2, tzinfo=UTC)), encoding="utf-8")
    return path


def test_no_label_grid_or_picture_is_cut_on_a_wide_screen(browser: Browser, crowded: Path) -> None:
    browser.resize(1280)
    browser.open(crowded.as_uri())
    assert (browser.value(CLIPPED), browser.value(CUT)) == ([], [])


def test_kernel_and_place_are_in_sight_on_a_phone(browser: Browser, file: Path) -> None:
    browser.resize(400)
    browser.open(file.as_uri())
    assert browser.value(IN_SIGHT) == 6


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_barrier(browser: Browser, file: Path, width: int, scheme: str) -> None:
    browser.resize(width)
    browser.prefer(scheme)
    browser.open(file.as_uri())
    browser.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert violations(browser) == []


def test_axe_finds_a_planted_barrier(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><title>bad</title><main><h1>bad</h1><input></main>", encoding="utf-8")
    browser.open(bad.as_uri())
    assert {line.partition(":")[0] for line in violations(browser)} == {"html-has-lang", "label"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("finding", [VALUES, STRAY, OVERLAP], ids=["first", "second", "last"])
def test_a_click_on_a_listed_finding_leads_to_it(browser: Browser, file: Path, width: int, finding: Finding) -> None:
    browser.resize(width)
    browser.open(file.as_uri())
    browser.click(f'#all-findings a[href="#finding-{finding.id}"]')
    browser.wait(f"location.hash === '#finding-{finding.id}'")
    browser.wait(IN_VIEW)


def test_search_shows_the_findings_that_hold_all_words(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    browser.click("input[type=search]")
    browser.ask("Input.insertText", text="WRITE-overlap layernorm")
    assert browser.value(LISTED) == browser.value(SHOWN) == [OVERLAP.id]
    assert browser.value("document.getElementById('shown').textContent") == "1 of 3 shown"
    browser.click("button[type=reset]")
    browser.wait("document.getElementById('shown').textContent === '3 of 3 shown'")
    assert browser.value(LISTED) == browser.value(SHOWN) == [VALUES.id, STRAY.id, OVERLAP.id]


def test_lists_filter_the_findings(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    choose(browser, "severity", "error")
    assert browser.value(LISTED) == browser.value(SHOWN) == [VALUES.id, STRAY.id]
    choose(browser, "state", "flaky")
    assert browser.value(LISTED) == browser.value(SHOWN) == [VALUES.id]
    choose(browser, "state", "known")
    assert browser.value(LISTED) == browser.value(SHOWN) == []


def choose(browser: Browser, name: str, value: str) -> None:
    browser.value(
        f"(one => {{ one.value = '{value}'; one.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
        f"(document.querySelector('select[name={name}]'))"
    )


def test_a_link_to_a_filtered_finding_shows_it(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    choose(browser, "severity", "error")
    browser.click(f'section[aria-labelledby=known] a[href="#finding-{OVERLAP.id}"]')
    browser.wait(f"{SHOWN}.includes('{OVERLAP.id}')")
    browser.wait(IN_VIEW)


def test_a_click_on_a_heading_sorts_the_findings(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    browser.click("#all-findings th:nth-child(3) button")
    assert browser.value(LISTED) == [STRAY.id, VALUES.id, OVERLAP.id]
    browser.click("#all-findings th:nth-child(8) button")
    assert browser.value(LISTED) == [STRAY.id, VALUES.id, OVERLAP.id], "not repeated, then 3 of 10, then 5 of 5"
    browser.click("#all-findings th:nth-child(8) button")
    assert browser.value(LISTED) == [OVERLAP.id, VALUES.id, STRAY.id]
    assert browser.value("document.querySelector('#all-findings th:nth-child(8)').ariaSort") == "descending"


def test_a_button_copies_the_command(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    browser.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.click("article .command + .copy")
    browser.wait("document.getElementById('status').textContent")
    assert browser.value("document.getElementById('status').textContent") == f"Copied harness replay {VALUES.id}"
    assert browser.value("navigator.clipboard.readText()") == f"harness replay {VALUES.id}"


def test_the_page_is_complete_without_its_script(browser: Browser, file: Path) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(file.as_uri())
        assert browser.value("document.getElementById('controls').hidden") is True
        assert browser.value("document.querySelectorAll('button.copy').length") == 0
        assert browser.value(LISTED) == browser.value(SHOWN) == [VALUES.id, STRAY.id, OVERLAP.id]
        browser.click(f'#all-findings a[href="#finding-{STRAY.id}"]')
        browser.wait(f"location.hash === '#finding-{STRAY.id}'")
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_a_console_error_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='none.png'><script>none()</script>", encoding="utf-8")
    browser.open(bad.as_uri())
    assert len(browser.complaints()) >= 2
    assert (tmp_path / "none.png").as_uri() in browser.requested()
