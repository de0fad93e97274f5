"""The finding: a confirmed, minimised failure; the unit of reports."""

from dataclasses import dataclass

from harness.model.case import Case
from harness.model.run import Launch
from harness.model.verdict import Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bug: the smallest case known to show it, and how it was met."""

    fail: Fail
    """As the oracle judged the smallest case."""
    case: Case
    """The smallest case with this signature."""
    launch: Launch | None
    """The launch at fault in the smallest case, where one is."""
    first_case: Case
    """The case in which it was first seen."""
    sightings: int
    """How many cases of the search showed it."""
    confirmed: bool
    """It repeated alone in a fresh process."""
    needs: Case | None = None
    """An earlier case that must run first in the same process, where it does not repeat alone."""
    libraries: tuple[str, ...] = ()
    """The releases under test, as given to `--with`."""

    @property
    def id(self) -> str:
        """Eight hex digits: those of the smallest case."""
        return self.case.digest
