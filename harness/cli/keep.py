"""`harness keep`."""

import argparse
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_libraries
from harness.cli.finding_choice import locate, readable
from harness.documents import files
from harness.documents.finding import FindingDocument, regression_document
from harness.errors import UsageError
from harness.suite_files import project_of

REGRESSIONS = Path("suites", "regressions")


def run(given: argparse.Namespace) -> ExitStatus:
    """Copy a finding to the folder whose cases pytest replays first."""
    path = locate(given.file)
    finding = readable(lambda file: files.read(file, FindingDocument), path).finding
    folder = Path(given.folder) if given.folder else _regressions_of(path)
    kept = folder / f"{finding.id}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write(regression_document(finding, tuple(given.libraries)), kept)
    except OSError as error:
        raise UsageError(f"cannot write {kept}: {error.strerror}: name another folder by --in") from None
    print(kept)
    return ExitStatus.CLEAN


def _regressions_of(finding: Path) -> Path:
    """Return the folder of regressions in the project of a finding, as a relative path if it is in this folder."""
    folder = project_of(finding.parent) / REGRESSIONS
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def add_options(parser: Parser) -> None:
    parser.epilog = """\
example:
  harness keep cf4e6df9 --with fla-core==0.6.0   replay it with the release that fixed it
"""
    parser.add_argument("file", metavar="ID|FILE", help="the id of a stored finding, or its file or folder")
    parser.add_argument(
        "--in",
        dest="folder",
        metavar="FOLDER",
        help=f"where to (default: {REGRESSIONS}, in the project of the finding)",
    )
    add_libraries(parser)
