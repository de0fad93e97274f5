"""The number of runs of the definition with random rounding before a result is called right or wrong."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.execution.tolerance import Array, Errors, Truth, error_of, largest_error_of
from harness.model.run import Result

DOUBTFUL = 100.0
"""Errors of at least this many tolerances cannot be a matter of rounding."""


def is_doubtful(result: Result) -> bool:
    """Return True if a result is beyond its tolerance, but by less than a close decision may cause.

    Rounding may turn over a decision in a softmax of distant scores, a maximum or a clamp.  Most runs with random
    rounding do not show that.
    """
    return 1 < max(result.whole.ratio, result.worst_tile.ratio) < DOUBTFUL and not result.nonfinite


def are_right(results: Iterable[Result]) -> bool:
    """Return True if more samples would change nothing: they only ever widen tolerances."""
    return all(result.is_right for result in results)


def are_certain(results: Iterable[Result]) -> bool:
    """Return True if no result is so near its tolerance that a rare decision of rounding may explain it."""
    return not any(map(is_doubtful, results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The number of runs of the definition with random rounding, and their conversion to a tolerance."""

    limits: tuple[tuple[int, int], ...]
    """Pairs of a number of elements and a number of runs: results of up to so many elements get so many runs."""
    otherwise: int
    """The number of runs of larger results."""
    error: Callable[[Sequence[Array], Truth], Errors]
    checks_noise: bool
    """True if rows are checked although random rounding leaves no digit of them."""
    settles: Callable[[Iterable[Result]], bool]
    """True for results that need no further sampling."""
    has_baseline: bool = True
    """True if the definition also runs in the case's own type."""
    moves_terms: bool = False
    """True if terms of sums are rounded at random too, which doubles the cost of a sum.  It matters if terms cancel."""
    may_blame: bool = True
    """True if it may be the last sampling of a wrong result."""
    looks: tuple[int, ...] = ()
    """The numbers of runs after which results may be found right already, as `error_so_far` says."""

    def runs(self, elements: int) -> int:
        return next((count for limit, count in self.limits if elements <= limit), self.otherwise)

    def error_so_far(self, results: Sequence[Array], truth: Truth, runs: int) -> Errors:
        """Return the least error that all `runs` may have, of which these are the first.

        A tolerance with that error and that number of runs is at most the one that follows from all of them.  So a
        result within it is right whatever the other runs show.
        """
        errors = self.error(results, truth)
        if len(results) == runs or self.error is largest_error_of:
            return errors
        return errors.times(math.sqrt(len(results) / runs))


UNROUNDED = Sampling(limits=(), otherwise=0, error=error_of, checks_noise=True, settles=are_right, may_blame=False)
"""The eager baseline alone, which explains most errors, if no other run uses this run's tolerances."""
BARE = replace(UNROUNDED, has_baseline=False)
"""Not even the baseline: most results are as near to the truth as their type can represent."""
USUALLY = Sampling(
    limits=((256, 8), (4096, 4)),
    otherwise=1,
    error=error_of,
    checks_noise=True,
    settles=are_certain,
    looks=(1, 2, 4),
)
IN_DOUBT = Sampling(
    limits=((1 << 16, 32), (1 << 20, 8)),
    otherwise=4,
    error=largest_error_of,
    checks_noise=False,
    settles=are_certain,
    moves_terms=True,
    looks=(4, 8, 16),
)
"""The sampling of results that are beyond their tolerance."""
