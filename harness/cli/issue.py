"""`harness issue`."""

import argparse
import sys
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.finding_choice import add_finding, locate, read_whole_finding
from harness.cli.output import print_progress, write_text
from harness.findings.store import nearest
from harness.reports.contents import ReportedBug, read_contents
from harness.reports.issue_text import issue_body, issue_text, issue_title


def run(given: argparse.Namespace) -> ExitStatus:
    """Print a finding as Markdown for an issue tracker."""
    bug = _bug(locate(given.file), given.finding)
    match given.part:
        case "title":
            text = f"{issue_title(bug)}\n"
        case "body":
            text = issue_body(bug)
        case _:
            text = issue_text(bug)
    if given.output:
        write_text(given.output, text)
    else:
        sys.stdout.write(text)
    if not bug.files and given.part != "title":
        print_progress(f"no reproducer is stored: run harness repro {bug.finding.id} first, and the text holds it")
    return ExitStatus.CLEAN


def _bug(path: Path, wanted: str | None) -> ReportedBug:
    finding = read_whole_finding(path, wanted)
    contents = read_contents((path,), folder=nearest())
    return next((bug for bug in contents.bugs if bug.finding.id == finding.id), ReportedBug(finding=finding))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness issue cf4e6df9                      where, smallest case, …
  harness issue cf4e6df9 --body -o issue.md   without the title, into a file
  harness issue report.json --finding 2       one of a report

Run harness repro, harness region and harness bisect first: the text then holds their results.

exit status: 0 the text was written; 2 usage error
"""
    add_finding(parser)
    parts = parser.add_mutually_exclusive_group()
    for part in ("title", "body"):
        parts.add_argument(f"--{part}", dest="part", action="store_const", const=part, help=f"only the {part}")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file (default: standard output)")
