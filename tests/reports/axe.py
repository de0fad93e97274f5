"""The accessibility checker axe-core, run in an open page: https://github.com/dequelabs/axe-core."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from tests.reports.chromium import Browser

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
RUN = """
axe.run(document, {runOnly: %s, resultTypes: ['violations']}).then(found => found.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))
"""


@cache
def source() -> str:
    """Return the text of axe-core, which a package of Python ships."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser, rules: Sequence[str] = RULES) -> list[str]:
    """Return a line for each element that breaks one of the rules."""
    browser.value(f"{source()};0")
    found: list[str] = browser.value(RUN % list(rules))
    return found
