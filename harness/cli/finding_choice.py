"""Which findings of a file a command takes: its arguments `FILE` and `--finding`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from harness.cli.command import Parser
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ShardReport
from harness.documents.finding import FindingDocument
from harness.errors import ReplayError, UsageError, unknown
from harness.findings import store
from harness.findings.recorded_cases import Recorded, read
from harness.findings.report_merging import report_in
from harness.model.finding import Finding

T = TypeVar("T")
R = TypeVar("R", Recorded, Finding)
FINDING_HELP = "take this finding of a report, by its number (from 1) or its id"


def add_finding(parser: Parser, *, optional: bool = False) -> None:
    parser.add_argument(
        "file",
        metavar="ID|FILE",
        nargs="?" if optional else None,
        help="the id of a stored finding; or a finding, report or case as JSON",
    )
    parser.add_argument("--finding", metavar="N|ID", help=FINDING_HELP)


def add_trust(parser: Parser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run suites and libraries outside this project, too, which a file of somebody else may name",
    )


def locate(name: str) -> Path:
    """Return the file of that name, or else the stored finding with that id.

    Raises:
        UsageError: neither exists.
    """
    return store.locate(name)


def readable(reader: Callable[[Path], T], file: Path) -> T:
    """Read a file, with a remedy in the text of the error.

    Raises:
        ReplayError: the file cannot be read.
    """
    try:
        return reader(file)
    except ReplayError as error:
        raise ReplayError(f"{error}: name the id of a stored finding, or a file that harness fuzz wrote") from None


def read_findings(file: Path, wanted: str | None) -> tuple[Recorded, ...]:
    """Return the cases of a file, each once; or only the one that `--finding` names.

    Raises:
        ReplayError: the file cannot be read.
        UsageError: the file holds no such finding, or none at all.
    """
    return _chosen(readable(read, file), file, wanted)


def recorded_in(name: str | None) -> tuple[Recorded, ...]:
    """Return the cases of every finding of a file or folder, or of the nearest store if none is named.

    Raises:
        ReplayError: a file cannot be read.
        UsageError: there is no finding.
    """
    if name is not None and (not Path(name).is_dir() or (Path(name) / store.FINDING).is_file()):
        return read_findings(locate(name), None)
    folder = store.nearest() if name is None else Path(name)
    files_in_store = sorted(folder.glob(f"[!.]*/{store.FINDING}"))
    if not files_in_store:
        raise UsageError(f"{folder} holds no findings: there is nothing to replay")
    cases = (recorded for file in files_in_store for recorded in readable(read, file))
    return tuple({recorded.id: recorded for recorded in cases}.values())


def read_one_finding(file: Path, wanted: str | None) -> Recorded:
    """Return the only case of a file, or the one that `--finding` names.

    Raises:
        ReplayError: the file cannot be read.
        UsageError: there is no such finding, or more than one.
    """
    return _only(read_findings(file, wanted), file)


def read_whole_finding(file: Path, wanted: str | None) -> Finding:
    """Return the only finding of a file, or the one that `--finding` names, with all that is known about it.

    Raises:
        ReplayError: the file cannot be read, or holds a case without a finding.
        UsageError: there is no such finding, or more than one.
    """
    document = readable(lambda path: files.read(path, CampaignReport, ShardReport, FindingDocument), file)
    findings = (document.finding,) if isinstance(document, FindingDocument) else report_in(document).findings
    return _only(_chosen(findings, file, wanted), file)


def _chosen(findings: Sequence[R], file: Path, wanted: str | None) -> tuple[R, ...]:
    if not findings:
        raise UsageError(f"{file} holds no findings: there is nothing to replay")
    by_id = {finding.id: finding for finding in reversed(findings)}
    if wanted is None:
        return tuple(reversed(by_id.values()))
    if wanted in by_id:
        return (by_id[wanted],)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(findings):
        return (findings[int(wanted) - 1],)
    raise unknown("finding", wanted, [*by_id, *(str(number + 1) for number in range(len(findings)))])


def _only(findings: tuple[R, ...], file: Path) -> R:
    if len(findings) != 1:
        ids = ", ".join(finding.id for finding in findings)
        raise UsageError(f"{file} holds {len(findings)} findings: choose one with --finding ({ids})")
    return findings[0]
