"""`harness report`."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_fail_on, add_known
from harness.cli.finding_choice import FINDING_HELP
from harness.cli.output import print_progress, write_text
from harness.cli.report_contents import contents_of
from harness.cli.report_issue import issue
from harness.cli.report_merge import merge
from harness.errors import MissingPart, UsageError
from harness.extras import require
from harness.findings.store import FOLDER as STORE
from harness.reports import markdown
from harness.reports.checkout import checkout_of
from harness.reports.contents import ReportContents
from harness.reports.junit import junit
from harness.reports.lcov import lcov
from harness.reports.sarif import sarif
from harness.suite_files import project_of
from harness.wording import visible

PAGE = "report.html"
STDOUT = "-"
FORMS = {
    "--output": ("", "--issue"),
    "--markdown": ("",),
    "--junit": ("",),
    "--sarif": ("",),
    "--lcov": ("", "--merge"),
    "--history": ("",),
    "--json": ("--merge",),
    "--finding": ("--issue",),
    "--part": ("--issue",),
}
"""By option, the forms of the report that have it; the empty one is the report of all findings."""


def run(options: argparse.Namespace) -> ExitStatus:
    """Write a report of all findings: as a page, and as Markdown, JUnit XML, SARIF and LCOV."""
    _check_form(options)
    if options.merge:
        return merge(options)
    if options.issue:
        return issue(options)
    contents = contents_of(options.paths, options.known, earlier=options.history)
    targets = [name for name in (options.markdown, options.junit, options.sarif, options.lcov) if name]
    if options.output or not targets:
        _write_pages(options.output or PAGE, contents)
    elif STDOUT not in targets:
        _write_page_if_possible(contents)
    if options.markdown:
        _write(options.markdown, markdown.summary(contents))
    if options.junit:
        _write(options.junit, junit(contents))
    if options.sarif:
        _write(options.sarif, sarif(contents, project_of(Path.cwd())))
    if options.lcov:
        _write(options.lcov, lcov(contents.together.kernel_lines))
    for complaint in contents.damaged:
        print_progress(f"not readable: {complaint}")
    return ExitStatus.CLEAN


def _check_form(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that the chosen form of the report does not have."""
    form = "--merge" if options.merge else "--issue" if options.issue else ""
    for option, forms in FORMS.items():
        if getattr(options, option[2:]) and form not in forms:
            raise UsageError(f"{option} does not go with {form}" if form else f"{option} needs {forms[0]}")


def _write_page_if_possible(contents: ReportContents) -> None:
    """Write the page next to other files.  It needs an extra, and they do not."""
    try:
        _write_pages(PAGE, contents)
    except MissingPart as missing:
        print_progress(f"no page: {missing}")


def _write_pages(name: str, contents: ReportContents) -> None:
    """Write the page, or several if there are many findings; standard output gets one.

    Raises:
        MissingPart: the extra is not installed.
    """
    require("report", "the page of harness report")
    from harness.reports.html.page import page, pages  # noqa: PLC0415 - it needs the extra

    shown = contents, datetime.now(UTC), checkout_of(project_of(Path.cwd()))
    if name == STDOUT:
        _write(name, page(*shown))
        return
    for file, text in pages(*shown, file=name):
        _write(file, text)


def _write(name: str, text: str) -> None:
    if name == STDOUT:
        sys.stdout.write(visible(text))
    else:
        write_text(Path(name), text)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness report                               report.html, of stored findings
  harness report new.json --history old.json   what is new, back and gone
  harness report new.json --history nights     the same, of a folder's reports
  harness report --markdown sum.md --junit j.xml   report.html, and for CI
  harness report --merge shard-*.json --json all.json   one report of all
  harness report 88892a72 --issue -o issue.md  a finding for an issue tracker

--merge stores the findings in .harness/findings, and counts what is given twice once.  --issue has the results of
harness repro, harness region and harness bisect, if they ran before.

exit status: 0 the report was written, whatever it says; 2 usage error; with --merge that of the whole search, as of
harness fuzz, and 2 also if a shard or a chunk is missing
"""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FOLDER|FILE|ID",
        help=f"folders of findings, single findings, or reports of harness fuzz --json (default: {STORE})",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"the page (default: {PAGE}; - for standard output), or the text of --issue (default: standard output)",
    )
    parser.add_argument("--markdown", metavar="FILE", help="a summary as Markdown; - for standard output")
    parser.add_argument(
        "--junit", metavar="FILE", help="a test for each op, which fails with its findings; - for standard output"
    )
    parser.add_argument("--sarif", metavar="FILE", help="SARIF 2.1.0 for code scanning; - for standard output")
    parser.add_argument("--lcov", metavar="FILE", help="executed lines of kernels, LCOV; - for standard output")
    parser.add_argument(
        "--history",
        nargs="+",
        action="extend",
        default=[],
        metavar="OLDER",
        help="earlier reports as JSON, the oldest first, or a folder of them, in the order of their numbers; "
        "to show what is new, back and gone",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--merge", action="store_true", help="merge the named reports into one, and print it")
    form.add_argument("--issue", action="store_true", help="print the named finding for an issue tracker")
    parser.add_argument("--part", choices=("title", "body"), help="with --issue: only the title, or only the body")
    parser.add_argument("--finding", metavar="N|ID", help=FINDING_HELP)
    parser.add_argument("--json", metavar="FILE", help="with --merge: also write the merged report as JSON")
    add_known(parser)
    add_fail_on(parser)
