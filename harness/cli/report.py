"""`harness report`."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_known
from harness.cli.report_contents import contents_of
from harness.errors import UsageError
from harness.extras import require
from harness.findings.store import FOLDER as STORE
from harness.reports import markdown
from harness.reports.contents import ReportContents
from harness.reports.junit import junit

PAGE = "report.html"
STDOUT = "-"


def run(given: argparse.Namespace) -> ExitStatus:
    """Write a report of all findings: as a page, as Markdown, as JUnit XML."""
    contents = contents_of(given.paths, given.known, earlier=given.history)
    if given.output or not (given.markdown or given.junit):
        _write(given.output or PAGE, _page(contents))
    if given.markdown:
        _write(given.markdown, markdown.summary(contents))
    if given.junit:
        _write(given.junit, junit(contents))
    for complaint in contents.damaged:
        print(f"not readable: {complaint}", file=sys.stderr)
    return ExitStatus.CLEAN


def _page(contents: ReportContents) -> str:
    require("report", "the page of harness report")
    from harness.reports.html.page import page  # noqa: PLC0415 - it needs the extra

    return page(contents, datetime.now(UTC))


def _write(name: str, text: str) -> None:
    if name == STDOUT:
        sys.stdout.write(text)
        return
    path = Path(name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print(path, file=sys.stderr)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness report                                          report.html, of all stored findings
  harness report new.json --history old.json              what is new against an earlier report, and what is gone
  harness report --markdown summary.md --junit junit.xml  for a CI system; no page unless -o asks for it

exit status: 0 the report was written, whatever it says; 2 usage error
"""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FOLDER|REPORT",
        help=f"folders of findings, or reports of harness fuzz --json (default: {STORE})",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the page (default: {PAGE}; - for standard output)")
    parser.add_argument("--markdown", metavar="FILE", help="a summary as Markdown; - for standard output")
    parser.add_argument("--junit", metavar="FILE", help="the findings as failed tests; - for standard output")
    parser.add_argument(
        "--history",
        nargs="+",
        action="extend",
        default=[],
        metavar="OLDER",
        help="earlier reports as JSON, the oldest first, to show what is new and what is gone",
    )
    add_known(parser)
