"""Which findings of a file a command takes: its arguments `FILE` and `--finding`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.cli.command import Parser
from harness.errors import ReplayError, UsageError, unknown
from harness.findings import store
from harness.findings.recorded_cases import Recorded, read

T = TypeVar("T")


def add_finding(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="ID|FILE", help="the id of a stored finding; or a finding, report or case as JSON"
    )
    parser.add_argument(
        "--finding", metavar="N|ID", help="take this finding of a report, by its number (from 1) or its id"
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
    recorded = readable(read, file)
    if not recorded:
        raise UsageError(f"{file} holds no findings: there is nothing to replay")
    by_id = {one.id: one for one in reversed(recorded)}
    if wanted is None:
        return tuple(reversed(by_id.values()))
    if wanted in by_id:
        return (by_id[wanted],)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(recorded):
        return (recorded[int(wanted) - 1],)
    raise unknown("finding", wanted, [*by_id, *(str(number + 1) for number in range(len(recorded)))])


def read_one_finding(file: Path, wanted: str | None) -> Recorded:
    """Return the only case of a file, or the one that `--finding` names.

    Raises:
        ReplayError: the file cannot be read.
        UsageError: there is no such finding, or more than one.
    """
    recorded = read_findings(file, wanted)
    if len(recorded) != 1:
        ids = ", ".join(one.id for one in recorded)
        raise UsageError(f"{file} holds {len(recorded)} findings: choose one with --finding ({ids})")
    return recorded[0]
