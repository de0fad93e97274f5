"""Promising cases: those of a campaign that are worth trying first in the next one."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from harness.model.case import Case

MOST_KEPT = 16
"""The most promising cases that are kept of one op on one device."""


class Promise(StrEnum):
    """Why a case is promising, the best reason first."""

    NEAR_TOLERANCE = "near tolerance"
    """Its error is the largest of its op and device within the tolerance, and more than half of it."""
    NEW_LINE = "new line"
    """It was the first of its campaign that executed some line of a kernel."""
    NEW_LAUNCH = "new launch"
    """It was the first of its campaign that launched some kernel with such a grid, config and constants."""


PROMISES = tuple(Promise)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisingCase:
    """One promising case."""

    op: str
    device: str
    """The slug."""
    reason: Promise
    case: Case
    error: float = 0.0
    """In units of the tolerance, of a case near it; 0 for others."""


def best_promising(rows: Iterable[PromisingCase]) -> tuple[PromisingCase, ...]:
    """Return the best rows of each op and device, in order: each case once, with its best reason.

    Only the case with the largest error counts as near the tolerance.  Among equals the smallest cases come first.
    """
    by_pair: dict[tuple[str, str], dict[str, PromisingCase]] = {}
    for row in sorted(rows, key=_rank):
        kept = by_pair.setdefault((row.op, row.device), {})
        is_second = row.reason is Promise.NEAR_TOLERANCE and any(other.reason is row.reason for other in kept.values())
        if not is_second and len(kept) < MOST_KEPT:
            kept.setdefault(row.case.digest, row)
    return tuple(row for _, kept in sorted(by_pair.items()) for row in kept.values())


def _rank(row: PromisingCase) -> tuple[int, float, int, int, str]:
    dims = row.case.dims.values()
    return PROMISES.index(row.reason), -row.error, prod(dims), sum(dims), row.case.digest
