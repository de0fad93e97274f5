"""What a search prints and writes at its end, and the exit status that follows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.cli.command import ExitStatus
from harness.cli.output import console, print_lines, show, write_text
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.errors import HarnessError, StoreError, store_error
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources, render
from harness.reports.lcov import lcov
from harness.reports.line_table import line_table
from harness.reports.summary import shows_too_little, summary


def print_report(report: CampaignReport, sources: Sources, lcov_path: Path | None = None) -> None:
    """Print the findings, and the summary below them; with a path, the executed lines of kernels too.

    Raises:
        UsageError: the file of executed lines cannot be written.
    """
    screen = console()
    for finding in report.findings:
        show(screen, render(finding, sources, report.known_findings))
    if lcov_path is not None:
        print_lines(line_table(report.kernel_lines))
    print_lines(summary(report))
    if lcov_path is not None:
        write_text(lcov_path, lcov(report.kernel_lines))


def print_notice(text: str) -> None:
    show(Console(stderr=True, highlight=False), Text(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The files that a search writes for the user; None for one that was not asked for."""

    json: Path | None = None
    lcov: Path | None = None


class FirstError:
    """Keeps the first error that must not end a search: after one of a full disk, the rest is still printed."""

    def __init__(self) -> None:
        self.error: HarnessError | None = None

    def attempt(self, write: Callable[[], object]) -> None:
        """Write something, and keep the error of the store if it is the first."""
        try:
            write()
        except StoreError as error:
            self.keep(error)

    def keep(self, error: HarnessError | None) -> None:
        """Keep an error, if there is one and it is the first."""
        self.error = self.error or error

    def raise_kept(self) -> None:
        """Raise the error that was kept, if there is one.

        Raises:
            HarnessError: that one.
        """
        if self.error is not None:
            raise self.error


def write(document: object, path: Path) -> None:
    """Write a document.

    Raises:
        StoreError: the disk is full, or the folder is gone.
    """
    try:
        files.write(document, path)
    except OSError as error:
        raise store_error(error, path) from None


def status_of(report: CampaignReport, fail_on: Severity) -> ExitStatus:
    """Return the exit status of a search."""
    if report.failures(fail_on):
        return ExitStatus.FINDINGS
    if report.suite_errors or report.missing:
        return ExitStatus.ERROR
    if report.interrupted:
        return ExitStatus.INTERRUPTED
    is_partial = shows_too_little(report) or report.unchecked_ops or report.unchecked_regressions
    return ExitStatus.NOTHING_CHECKED if is_partial else ExitStatus.CLEAN
