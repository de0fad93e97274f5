"""Historical bugs, and the file that lists them with their releases, ops and failure patterns.

The file says where to search and how to recognise the bug.  It does not help the search to trigger it.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.errors import ReplayError, SuiteError, unknown
from harness.model.verdict import Signature
from harness.oracles import registry
from harness.wire import from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class BugPattern:
    """A pattern of the failures that show a bug; each part is a shell pattern."""

    oracle: str
    kernel: str = "*"
    place: str = "*"
    """The source line, result or message class in the signature."""

    def matches(self, signature: Signature) -> bool:
        """Return True if a failure with this signature is the bug."""
        if signature.oracle in registry.family(self.oracle):
            signature = replace(signature, oracle=self.oracle)
        pairs = ((signature.oracle, self.oracle), (signature.kernel, self.kernel), (signature.place, self.place))
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoricalBug:
    """One bug of one library."""

    id: str
    what: str
    """A short description: `overlapping stores of dx`."""
    distribution: str
    """The package on PyPI."""
    last_bad: str
    first_fixed: str
    """Empty if no release has the fix: then nothing is compared."""
    link: str
    """The public fix or issue."""
    suite: str = ""
    """The suite file that has the ops; empty if there is none."""
    ops: tuple[str, ...] = ()
    device: str = "rtx-pro-6000"
    shows: tuple[BugPattern, ...] = ()
    """A failure that matches any of them shows the bug."""
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Values to try for environment variables, as `--env` takes them."""
    beside: tuple[str, ...] = ()
    """Other libraries that the releases need, as `--with` takes them."""
    not_searched: str = ""
    """The reason, if it cannot be searched for."""

    def release(self, version: str) -> tuple[str, ...]:
        """Return the values of `--with` for one release."""
        return (f"{self.distribution}=={version}", *self.beside)

    def is_shown_by(self, signature: Signature) -> bool:
        """Return True if a failure with this signature shows the bug."""
        return any(pattern.matches(signature) for pattern in self.shows)


def read(path: Path) -> tuple[HistoricalBug, ...]:
    """Read the bugs that a file lists.

    Raises:
        SuiteError: the file cannot be read, or an entry is invalid; the message names the entry and the field.
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
    """Return the bugs with these ids, in the order given, or all if none is given.

    Raises:
        UsageError: no bug has such an id.
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
