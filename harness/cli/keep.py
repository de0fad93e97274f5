"""`harness keep`."""

import argparse
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_libraries
from harness.cli.finding_choice import locate
from harness.documents import files
from harness.documents.finding import FindingDocument, regression_document

REGRESSIONS = Path("suites", "regressions")


def run(given: argparse.Namespace) -> ExitStatus:
    """Copy a finding to the folder whose cases pytest replays first."""
    finding = files.read(locate(given.file), FindingDocument).finding
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{finding.id}.json"
    files.write(regression_document(finding, tuple(given.libraries)), kept)
    print(kept)
    return ExitStatus.CLEAN


def add_options(parser: Parser) -> None:
    parser.epilog = """\
example:
  harness keep 342c34cb --with fla-core==0.6.0   replay it with the release that fixed it
"""
    parser.add_argument("file", metavar="ID|FILE", help="the id of a stored finding, or its file or folder")
    parser.add_argument(
        "--in", dest="folder", default=str(REGRESSIONS), metavar="FOLDER", help="where to (default: %(default)s)"
    )
    add_libraries(parser)
