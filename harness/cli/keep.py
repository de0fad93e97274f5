"""`harness keep`."""

import argparse
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_libraries
from harness.cli.finding_choice import add_finding, locate, read_whole_finding
from harness.documents import files
from harness.documents.finding import regression_document
from harness.errors import UsageError
from harness.libraries import portable
from harness.suite_files import REGRESSIONS, SHIPPED, project_of
from harness.wording import visible

KEPT = Path(SHIPPED, REGRESSIONS)


def run(options: argparse.Namespace) -> ExitStatus:
    """Copy a finding to the folder whose cases harness fuzz and pytest replay first."""
    path = locate(options.file)
    finding = read_whole_finding(path, options.finding)
    project = project_of(path.parent)
    folder = Path(options.folder) if options.folder else _regressions_of(project)
    libraries = tuple(portable(spec, project) for spec in options.libraries or finding.libraries)
    kept = folder / f"{finding.id}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write(regression_document(finding, libraries), kept)
    except OSError as error:
        raise UsageError(f"cannot write {kept}: {error.strerror}: name another folder by --in") from None
    print(visible(str(kept)))
    return ExitStatus.CLEAN


def _regressions_of(project: Path) -> Path:
    """Return the folder of regressions in the project of a finding, as a relative path if it is in this folder."""
    folder = project / KEPT
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def add_options(parser: Parser) -> None:
    parser.epilog = """\
example:
  harness keep 88892a72 --with fla-core==0.6.0   the release that fixed it

exit status: 0 it is kept; 2 usage or harness error
"""
    add_finding(parser)
    parser.add_argument(
        "--in",
        dest="folder",
        metavar="FOLDER",
        help=f"where to (default: {KEPT}, in the project of the finding)",
    )
    add_libraries(parser)
