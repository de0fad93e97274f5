"""`harness report --issue`: one finding as Markdown for an issue tracker."""

import argparse
import sys
from pathlib import Path

from harness.cli.command import ExitStatus
from harness.cli.finding_choice import locate, read_whole_finding
from harness.cli.output import print_progress, write_text
from harness.errors import UsageError
from harness.findings.store import nearest
from harness.reports.contents import ReportedBug, read_contents
from harness.reports.issue_text import issue_body, issue_text, issue_title
from harness.wording import visible


def issue(options: argparse.Namespace) -> ExitStatus:
    """Print a finding as Markdown for an issue tracker."""
    if len(options.paths) != 1:
        raise UsageError("--issue needs one finding: its id, or the file that holds it")
    bug = _bug(locate(options.paths[0]), options.finding)
    match options.part:
        case "title":
            text = f"{issue_title(bug)}\n"
        case "body":
            text = issue_body(bug)
        case _:
            text = issue_text(bug)
    if options.output:
        write_text(Path(options.output), text)
    else:
        sys.stdout.write(visible(text))
    if not bug.files and options.part != "title":
        print_progress(f"no reproducer is stored: run harness repro {bug.finding.id} first, and the text holds it")
    return ExitStatus.CLEAN


def _bug(path: Path, wanted: str | None) -> ReportedBug:
    finding = read_whole_finding(path, wanted)
    contents = read_contents((path,), folder=nearest())
    return next((bug for bug in contents.bugs if bug.finding.id == finding.id), ReportedBug(finding=finding))
