"""`harness report`."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_known
from harness.cli.output import print_progress, write_text
from harness.cli.report_contents import contents_of
from harness.errors import MissingPart
from harness.extras import require
from harness.findings.store import FOLDER as STORE
from harness.reports import markdown
from harness.reports.contents import ReportContents
from harness.reports.junit import junit
from harness.reports.sarif import sarif
from harness.suite_files import project_of

PAGE = "report.html"
STDOUT = "-"


def run(given: argparse.Namespace) -> ExitStatus:
    """Write a report of all findings: as a page, and as Markdown, JUnit XML and SARIF."""
    contents = contents_of(given.paths, given.known, earlier=given.history)
    others = [name for name in (given.markdown, given.junit, given.sarif) if name]
    if given.output or not others:
        _write(given.output or PAGE, _page(contents))
    elif STDOUT not in others:
        _write_page_if_possible(contents)
    if given.markdown:
        _write(given.markdown, markdown.summary(contents))
    if given.junit:
        _write(given.junit, junit(contents))
    if given.sarif:
        _write(given.sarif, sarif(contents, project_of(Path.cwd())))
    for complaint in contents.damaged:
        print_progress(f"not readable: {complaint}")
    return ExitStatus.CLEAN


def _write_page_if_possible(contents: ReportContents) -> None:
    """Write the page next to other files.  It needs an extra, and they do not."""
    try:
        text = _page(contents)
    except MissingPart as missing:
        print_progress(f"no page: {missing}")
    else:
        _write(PAGE, text)


def _page(contents: ReportContents) -> str:
    require("report", "the page of harness report")
    from harness.reports.html.page import page  # noqa: PLC0415 - it needs the extra

    return page(contents, datetime.now(UTC))


def _write(name: str, text: str) -> None:
    if name == STDOUT:
        sys.stdout.write(text)
    else:
        write_text(Path(name), text)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness report                               report.html, of stored findings
  harness report new.json --history old.json   what is new, and what is gone
  harness report --markdown sum.md --junit j.xml   report.html, and for CI
  harness report --markdown -                  to standard output, and no page

exit status: 0 the report was written, whatever it says; 2 usage error
"""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FOLDER|FILE|ID",
        help=f"folders of findings, single findings, or reports of harness fuzz --json (default: {STORE})",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the page (default: {PAGE}; - for standard output)")
    parser.add_argument("--markdown", metavar="FILE", help="a summary as Markdown; - for standard output")
    parser.add_argument("--junit", metavar="FILE", help="the findings as failed tests; - for standard output")
    parser.add_argument("--sarif", metavar="FILE", help="SARIF 2.1.0 for code scanning; - for standard output")
    parser.add_argument(
        "--history",
        nargs="+",
        action="extend",
        default=[],
        metavar="OLDER",
        help="earlier reports as JSON, the oldest first, to show what is new and what is gone",
    )
    add_known(parser)
