"""The file of survivors that a person has looked at: which of them compute the same as the original, and why.

An entry names a mutant by what it does to which line, so that it stays valid while lines move.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ReplayError, SuiteError
from harness.mutation.mutants import Mutant
from harness.mutation.operators import Operator
from harness.wire import from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
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


def read(path: Path) -> tuple[Argument, ...]:
    """The arguments of a file; none where there is no file.

    Raises:
        SuiteError: it cannot be read, or an entry is no argument; the text names the entry and the field.
    """
    if not path.exists():
        return ()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path} is not a list of survivors: {error}") from error
    entries = document.get("survivor", [])
    return tuple(_argument(entry, f"{path}: survivor {number}") for number, entry in enumerate(entries, 1))


def _argument(entry: Any, place: str) -> Argument:
    try:
        return from_json(json.dumps(entry), Argument)
    except ReplayError as error:
        raise SuiteError(f"{place}: {error}") from None
