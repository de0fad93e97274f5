"""What a historical bug is, and the file that lists them: which releases, which op, and what a sighting looks like.

The file says where to search and how to recognise the bug; it builds no trigger into the search.
"""

import json
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.errors import ReplayError, SuiteError, unknown
from harness.model.verdict import Signature
from harness.wire import from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One way in which a bug shows; each part is a pattern as of a shell."""

    oracle: str
    kernel: str = "*"
    place: str = "*"
    """Source line, result or message class, as the signature has it."""

    def fits(self, signature: Signature) -> bool:
        """Whether a failure with this signature is the bug."""
        pairs = ((signature.oracle, self.oracle), (signature.kernel, self.kernel), (signature.place, self.place))
        return all(fnmatchcase(said, pattern) for said, pattern in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoricalBug:
    """One bug of one library."""

    id: str
    what: str
    """In a few words: `overlapping stores of dx`."""
    distribution: str
    """On PyPI."""
    last_bad: str
    first_fixed: str
    link: str
    """The public fix or issue."""
    suite: str = ""
    """The suite file that guards the op; empty where none can."""
    ops: tuple[str, ...] = ()
    device: str = "rtx-pro-6000"
    shows: tuple[Mark, ...] = ()
    """Any of them is a sighting."""
    beside: tuple[str, ...] = ()
    """What else the releases need, as `--with` takes it."""
    not_searched: str = ""
    """Why it cannot be searched for, where it cannot."""

    def release(self, version: str) -> tuple[str, ...]:
        """What `--with` says for one release."""
        return (f"{self.distribution}=={version}", *self.beside)

    def is_shown_by(self, signature: Signature) -> bool:
        """Whether a failure with this signature is a sighting."""
        return any(mark.fits(signature) for mark in self.shows)


def read(path: Path) -> tuple[HistoricalBug, ...]:
    """The bugs that a file lists.

    Raises:
        SuiteError: it cannot be read, or an entry is not a bug; the text names the entry and the field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(f"cannot read the list of bugs {path}: {error.strerror}") from error
    except ValueError as error:
        raise SuiteError(f"{path} is not TOML: {error}") from error
    match document:
        case {"bug": list(entries)}:
            return tuple(_bug(entry, f"{path}: bug {number}") for number, entry in enumerate(entries, 1))
        case _:
            raise SuiteError(f"{path} lists no bugs: each begins with [[bug]]")


def choose(bugs: tuple[HistoricalBug, ...], ids: tuple[str, ...]) -> tuple[HistoricalBug, ...]:
    """Those that are named, in the order named; all where none is.

    Raises:
        UsageError: there is no bug of that name.
    """
    by_id = {bug.id: bug for bug in bugs}
    for name in ids:
        if name not in by_id:
            raise unknown("bug", name, by_id)
    return tuple(by_id[name] for name in ids) or bugs


def _bug(entry: Any, place: str) -> HistoricalBug:
    try:
        bug = from_json(json.dumps(entry), HistoricalBug)
    except ReplayError as error:
        raise SuiteError(f"{place}: {error}") from None
    if not bug.not_searched and not (bug.suite and bug.ops and bug.shows):
        raise SuiteError(f"{place} ({bug.id}): needs suite, ops and shows, or says in not_searched why it has none")
    return bug
