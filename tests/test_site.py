"""The documentation builds as a site, strictly; its pages have no dead link, and no barrier that axe knows."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.reports.axe import RULES, violations
from tests.reports.chromium import INSTALL, Browser, find

ROOT = Path(__file__).resolve().parent.parent
LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "srcset")}
"""Tags and attributes whose address a browser requests with the page."""

MAIN = (
    "index.html",
    "tutorial/index.html",
    "how-to/index.html",
    "how-to/read-a-finding.html",
    "how-to/suites.html",
    "reference/commands.html",
    "reference/suite-api.html",
    "explanation/limits.html",
    "results/index.html",
)
"""The pages that a browser opens."""
WIDTHS = (400, 1280)
SCHEMES = {"light": "default", "dark": "slate"}
"""Material's names."""
DRAWN = """
new Promise(done => {
  const isDrawn = () => document.body.dataset.mdColorScheme === '%s';
  const look = times => isDrawn() || times > 200 ? done(isDrawn()) : setTimeout(() => look(times + 1), 20);
  look(0);
})
"""
"""True when the theme's script has chosen the colours."""
DONE_BY_BROWSERS = "scrollable-region-focusable"
"""A rule for blocks of code that scroll: Chromium and Firefox let the keyboard reach these by themselves."""
WCAG = [rule for rule in RULES if rule != "best-practice"]
"""Material repeats a label of its navigation, which the best practices of axe do not allow."""
EXECUTABLE = find()


class Page(HTMLParser):
    """The addresses and the anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.addresses: list[tuple[str, str]] = []
        """Each with its tag and attribute, as `a href`."""
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src", "srcset"}:
                self.addresses.append((f"{tag} {name}", value or ""))
            elif name in {"id", "name"} and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def pages(site: Path) -> dict[Path, Page]:
    # The page for unknown addresses has absolute links, since a server sends it at any depth.
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def test_every_page_of_the_documentation_is_on_the_site(site: Path) -> None:
    names = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
    wanted = {name.with_name("index.html") if name.name == "README.md" else name.with_suffix(".html") for name in names}
    assert {path.relative_to(site) for path in pages(site)} == wanted


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    read = pages(site)
    assert {f"{path.relative_to(site)}: {link}" for path, link in dead(read, site)} == set()


def dead(read: dict[Path, Page], site: Path) -> Iterator[tuple[Path, str]]:
    for path, page in read.items():
        for _, address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_missing = not target.is_file() or not target.is_relative_to(site)
            if is_missing or (parts.fragment and unquote(parts.fragment) not in read[target].anchors):
                yield path, address


def test_no_page_of_the_site_requests_another_server(site: Path) -> None:
    loaded = {f"{tag} {attribute}" for tag, attribute in LOADED}
    requested = {
        address
        for page in pages(site).values()
        for kind, address in page.addresses
        if kind in loaded and urlsplit(address).netloc
    }
    assert requested == set()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert EXECUTABLE is not None
    with Browser(EXECUTABLE, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of a server of the site: its script looks for the index of the search there."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason=f"no Chromium here: {INSTALL}, or set HARNESS_CHROMIUM")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("page", MAIN)
def test_axe_finds_no_barrier_on_the_site(browser: Browser, address: str, page: str, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(f"{address}/assets/site.css")
    browser.value("localStorage.clear()")  # the theme remembers the colours of the page before
    for width in WIDTHS:
        browser.resize(width)
        browser.open(f"{address}/{page}")
        assert browser.value(DRAWN % SCHEMES[scheme])
        barriers = [line for line in violations(browser, WCAG) if not line.startswith(DONE_BY_BROWSERS)]
        assert barriers == [], f"at {width} pixels"
        assert browser.complaints() == []
