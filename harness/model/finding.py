"""The finding: a confirmed, minimised failure; the unit of reports."""

import hashlib
from dataclasses import dataclass
from math import sqrt

from harness.model.case import Case
from harness.model.picture import Picture
from harness.model.run import Launch
from harness.model.verdict import Fail, Signature

Z = 1.96
"""Standard normal deviate of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCount:
    """How often the same case showed the failure when it ran alone, each time in a fresh process."""

    shown: int
    runs: int
    otherwise: str = ""
    """What the other runs came to: `passed`, or the failure that they showed instead."""

    @property
    def is_flaky(self) -> bool:
        """Whether it was both seen and not seen."""
        return 0 < self.shown < self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Between which rates the true one lies, with 95 % confidence.

        E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
        """
        if not self.runs:
            return 0.0, 1.0
        rate, spread = self.shown / self.runs, Z * Z / self.runs
        middle = rate + spread / 2
        reach = Z * sqrt(rate * (1 - rate) / self.runs + spread / (4 * self.runs))
        return max(0.0, (middle - reach) / (1 + spread)), min(1.0, (middle + reach) / (1 + spread))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.shown} of {self.runs} times alone (rate {100 * low:.0f} to {100 * high:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A stretch of the kernel's source, kept because the library may be gone when the finding is read."""

    file: str
    """As a reader knows it: `fla/modules/layernorm.py`."""
    first: int
    """The number of the first line."""
    lines: tuple[str, ...]
    """As they stand, indented as in the file."""


NEVER_REPEATED = ReplayCount(shown=0, runs=0)


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
    repeats: ReplayCount = NEVER_REPEATED
    """Of the reported case."""
    cases: tuple[Case, ...] = ()
    """Every case of the search that showed it, in the order of their sightings."""
    needs: Case | None = None
    """An earlier case that must run first in the same process, where it does not repeat alone."""
    libraries: tuple[str, ...] = ()
    """The releases under test, as given to `--with`."""
    where: tuple[str, ...] = ()
    """The options with which cases run where it was found: `("--engine", "cuda")`; empty for the virtual GPU."""
    first_pictures: tuple[Picture, ...] = ()
    """Where in the tensors of the first case: larger ones, which show more of a pattern than the smallest do."""
    excerpt: Excerpt | None = None
    """Around the line at fault, where the source was at hand."""

    @property
    def id(self) -> str:
        """Eight hex digits: equal for equal signatures and smallest cases."""
        return identity(self.fail.signature, self.case)


def identity(signature: Signature, case: Case) -> str:
    """Eight hex digits that name a finding."""
    parts = (signature.oracle, signature.severity, signature.op, signature.kernel, signature.place, case.digest)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
