"""`harness report --merge`: one report of shards, or of several machines."""

import argparse
from datetime import date
from pathlib import Path

from harness.cli.command import ExitStatus
from harness.cli.common_options import json_path
from harness.cli.search_output import print_report, status_of, write
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ShardReport
from harness.errors import UsageError, store_error
from harness.findings import store
from harness.findings.known_issues import read_known_issues
from harness.findings.report_merging import merge_documents
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources, render
from harness.search.session import prepared


def merge(options: argparse.Namespace) -> ExitStatus:
    """Merge reports into one, store its findings, and print it."""
    if not options.paths:
        raise UsageError("--merge needs the reports to merge: what harness fuzz --json wrote")
    output, lcov_path = json_path(options.json), json_path(options.lcov, "lcov")
    issues = read_known_issues(options.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    documents = [files.read(Path(path), ShardReport, CampaignReport) for path in options.paths]
    report = merge_documents(documents, issues)
    _store(report)
    if output is not None:
        write(report, output)
    print_report(report, Sources(), lcov_path)
    return status_of(report, Severity(options.fail_on))


def _store(report: CampaignReport) -> None:
    folder = prepared(store.FOLDER.parent) / store.FOLDER.name
    try:
        store.save(report.findings, folder, lambda finding: render(finding, Sources()).plain, report.versions)
    except OSError as error:
        raise store_error(error, folder) from None
