"""The file of survivors that a person has looked at: which of them compute the same as the original, and why.

An entry names a mutant by what it does to which line, so that it stays valid while lines move.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import tables
from harness.errors import ReplayError, SuiteError
from harness.mutation.mutants import Mutant
from harness.mutation.operators import Operator
from harness.wire import from_json

FILE = "mutants.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalentMutant:
    """What is known of one survivor."""

    operator: Operator
    function: str
    before: str
    """The changed lines as they are, each without the blanks around it."""
    after: str
    equivalent: bool
    """No run can tell it from the original."""
    reason: str
    nth: int = 1
    """Which one, where several places in the function have these lines."""

    def fits(self, mutant: Mutant) -> bool:
        """Whether it speaks of this mutant."""
        return (
            self.operator is mutant.operator
            and self.function == mutant.function
            and self.nth == mutant.nth
            and plain(self.before) == plain(mutant.before)
            and plain(self.after) == plain(mutant.after)
        )


def plain(lines: str) -> str:
    """Lines without the blanks around each."""
    return "\n".join(line.strip() for line in lines.strip().splitlines())


def files_for(suites: Iterable[str]) -> tuple[Path, ...]:
    """The files of that name beside suite files and one folder above, each once."""
    beside = (Path(suite).absolute().parent for suite in suites)
    found = dict.fromkeys(folder / FILE for one in beside for folder in (one, one.parent))
    return tuple(path for path in found if path.is_file())


def read(path: Path) -> tuple[EquivalentMutant, ...]:
    """The arguments of a file.

    Raises:
        SuiteError: it cannot be read, or an entry is no argument; the text names the entry and the field.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path} is not a list of survivors: {error}") from error
    found = tables.entries(document, "survivor", path, SuiteError)
    return tuple(_argument(entry, f"{path}: survivor {number}") for number, entry in enumerate(found, 1))


def _argument(entry: Any, place: str) -> EquivalentMutant:
    try:
        return from_json(json.dumps(entry), EquivalentMutant)
    except ReplayError as error:
        raise SuiteError(f"{place}: {error}") from None
