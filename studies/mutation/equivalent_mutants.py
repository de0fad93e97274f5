"""The file of survivors that a person has examined: which are equivalent to the original, and why.

An entry names a mutant by its change to a line, not by a line number, so it stays valid while lines move.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import tables
from harness.errors import ReplayError, SuiteError
from harness.wire import from_json
from studies.mutation.mutants import Mutant
from studies.mutation.operators import Operator

FILE = "mutants.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalentMutant:
    """An explanation of one survivor."""

    operator: Operator
    function: str
    before: str
    """The changed lines in the original, without leading and trailing blanks."""
    after: str
    equivalent: bool
    """True: no run can distinguish it from the original.  False: the survivor is a gap in the search."""
    reason: str
    nth: int = 1
    """Its number, if several places in the function have these lines."""

    def matches(self, mutant: Mutant) -> bool:
        """Return True if the entry is about this mutant."""
        return (
            self.operator is mutant.operator
            and self.function == mutant.function
            and self.nth == mutant.nth
            and stripped(self.before) == stripped(mutant.before)
            and stripped(self.after) == stripped(mutant.after)
        )


def stripped(lines: str) -> str:
    """Return the lines without leading and trailing blanks."""
    return "\n".join(line.strip() for line in lines.strip().splitlines())


def files_for(suites: Iterable[Path]) -> tuple[Path, ...]:
    """Return the existing files named `mutants.toml` in the suites' folders and one folder above, each once."""
    folders = (suite.absolute().parent for suite in suites)
    places = dict.fromkeys(place / FILE for folder in folders for place in (folder, folder.parent))
    return tuple(path for path in places if path.is_file())


def read(path: Path) -> tuple[EquivalentMutant, ...]:
    """Read the explanations of a file.

    Raises:
        SuiteError: the file cannot be read, or an entry is invalid; the message names the entry and the field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path} is not a list of survivors: {error}") from error
    entries = tables.entries(document, "survivor", path, SuiteError)
    return tuple(_explanation(entry, f"{path}: survivor {number}") for number, entry in enumerate(entries, 1))


def _explanation(entry: Any, place: str) -> EquivalentMutant:
    try:
        return from_json(json.dumps(entry), EquivalentMutant)
    except ReplayError as error:
        raise SuiteError(f"{place}: {error}") from None
