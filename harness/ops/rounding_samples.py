"""How often the definition runs with random rounding before a result is called right or wrong."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.model.run import Result
from harness.ops.tolerance import Array, Errors, Truth, error_of, largest_error_of

DOUBTFUL = 100.0
"""So many times the tolerance is no matter of rounding."""


def is_right(result: Result) -> bool:
    """Whether a result is within its tolerance, as a whole and in every tile."""
    return result.whole.ratio <= 1 and result.worst_tile.ratio <= 1 and not result.nonfinite


def is_doubtful(result: Result) -> bool:
    """Whether a result is beyond its tolerance by no more than a close decision may be that rounding turned over.

    A softmax of scores far apart, a maximum, a clamp: most runs with random rounding see nothing of it.
    """
    return 1 < max(result.whole.ratio, result.worst_tile.ratio) < DOUBTFUL and not result.nonfinite


def are_right(results: Iterable[Result]) -> bool:
    """Whether more rounding, which only ever allows more, would change nothing."""
    return all(map(is_right, results))


def are_certain(results: Iterable[Result]) -> bool:
    """Whether none is so near its tolerance that a rare decision of rounding could explain it."""
    return not any(map(is_doubtful, results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How often the definition runs with random rounding, and what is made of those runs."""

    limits: tuple[tuple[int, int], ...]
    """Results of up to so many elements get so many runs."""
    otherwise: int
    """Larger ones get so many."""
    error: Callable[[Sequence[Array], Truth], Errors]
    judges_noise: bool
    settles: Callable[[Iterable[Result]], bool]
    """Whether results judged by it need no more runs."""
    has_baseline: bool = True
    """Whether the definition runs in the case's own type, too."""
    moves_terms: bool = False
    """Whether terms of sums are moved, too: it doubles what a sum takes, and matters where they cancel."""
    may_blame: bool = True
    """Whether it may be the last word on a result that is wrong."""

    def runs(self, elements: int) -> int:
        """How many runs results of so many elements get."""
        return next((count for limit, count in self.limits if elements <= limit), self.otherwise)


UNROUNDED = Sampling(limits=(), otherwise=0, error=error_of, judges_noise=True, settles=are_right, may_blame=False)
"""Where no other run is compared with this one's tolerances: the eager baseline explains most errors."""
BARE = replace(UNROUNDED, has_baseline=False)
"""And most results need not even that: they are as near as their type can tell."""
USUALLY = Sampling(limits=((256, 8), (4096, 4)), otherwise=1, error=error_of, judges_noise=True, settles=are_certain)
IN_DOUBT = Sampling(
    limits=((1 << 16, 32), (1 << 20, 8)),
    otherwise=4,
    error=largest_error_of,
    judges_noise=False,
    settles=are_certain,
    moves_terms=True,
)
"""For a result that is beyond its tolerance."""
