"""`harness merge`."""

import argparse
from datetime import date
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_fail_on, add_known, json_path
from harness.cli.search_output import print_report, status_of, write
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ShardReport
from harness.errors import store_error
from harness.findings import store
from harness.findings.known_issues import read_known_issues
from harness.findings.report_merging import merge_documents
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources, render
from harness.search.session import prepared


def run(given: argparse.Namespace) -> ExitStatus:
    """Merge reports into one, store its findings, and print it."""
    path = json_path(given.json)
    issues = read_known_issues(given.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    documents = [files.read(one, ShardReport, CampaignReport) for one in given.reports]
    report = merge_documents(documents, issues)
    _store(report)
    if path is not None:
        write(report, path)
    print_report(report, Sources())
    return status_of(report, Severity(given.fail_on))


def _store(report: CampaignReport) -> None:
    folder = prepared(store.FOLDER.parent) / store.FOLDER.name
    try:
        store.save(report.findings, folder, lambda finding: render(finding, Sources()).plain, report.versions)
    except OSError as error:
        raise store_error(error, folder) from None


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness merge shard-*.json --json merged.json     the shards of one search
  harness merge h100.json b200.json --json m.json   searches on two machines

A chunk or report that is given twice counts once.  The findings go into .harness/findings too.

exit status: that of the whole search, as of harness fuzz; 2 also if a shard or a chunk is missing
"""
    parser.add_argument(
        "reports", nargs="+", type=Path, metavar="REPORT", help="what harness fuzz --json wrote, sharded or not"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the merged report as JSON")
    add_known(parser)
    add_fail_on(parser)
