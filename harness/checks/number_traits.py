"""What the numbers of samples have in common: that rows are sorted, that integers differ or bound packed sequences.

Chance sorts a few numbers, too.  So a trait counts only if chance gives it to one sample of a hundred at most.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import torch

LEAST_EVIDENCE = math.log(100)
MOST_ROWS = 64
"""So many rows of a sample are evidence enough."""
FEWEST_WRITTEN = 3
"""From so many numbers on, sorted ones that somebody wrote down are sorted on purpose."""
DECIMALS = 3
"""Random numbers have more digits than numbers that somebody writes down."""


def is_sorted(value: torch.Tensor) -> bool:
    """Return True if each row is sorted, along the last axis."""
    return bool(value.dim()) and bool((value.diff(dim=-1) >= 0).all())


def is_ascending(values: Sequence[torch.Tensor]) -> bool:
    """Return True if each row, along the last axis, is sorted in all samples, and hardly by chance."""
    if not all(map(is_sorted, values)):
        return False
    rows = [row for value in values for row in _rows(value)]
    if sum(map(_orders, rows)) >= LEAST_EVIDENCE:
        return True
    return all(
        row.is_floating_point() and len(row) >= FEWEST_WRITTEN and _is_written(row) and bool((row.diff() > 0).all())
        for row in rows
    )


def has_distinct_rows(values: Sequence[torch.Tensor]) -> bool:
    """Return True if no number occurs twice in a row, along the last axis."""
    return all(bool((value.sort(dim=-1).values.diff(dim=-1) > 0).all()) for value in values if value.dim())


def differs_by_purpose(values: Sequence[torch.Tensor], span: int) -> bool:
    """Return True if the integers of each row, of `span` possible ones, all differ, and hardly by chance."""
    rows = [row for value in values if value.dim() for row in _rows(value)]
    return has_distinct_rows(values) and sum(_surprise(len(row), span) for row in rows) >= LEAST_EVIDENCE


def total_of(values: Sequence[torch.Tensor], sizes: Mapping[str, Sequence[int]]) -> str:
    """Return the size at which boundaries of packed sequences end, as an extent; empty if they are no boundaries.

    Args:
        values: the integers of an input, in each sample.
        sizes: the dims' sizes in each sample.  The extent is one of them, or a product of two: batch times length.
    """
    if not all(value.dim() == 1 and len(value) > 1 and _is_boundary(value) for value in values):
        return ""
    ends = tuple(int(value[-1]) for value in values)
    for name, found in sizes.items():
        if tuple(found) == ends:
            return name
    for (name, found), (other, more) in product(sizes.items(), repeat=2):
        if tuple(size * factor for size, factor in zip(found, more, strict=True)) == ends:
            return f"{name}*{other}"
    return ""


def _is_boundary(value: torch.Tensor) -> bool:
    return int(value[0]) == 0 and int(value[-1]) > 1 and is_sorted(value)


def _rows(value: torch.Tensor) -> Sequence[torch.Tensor]:
    return list(value.reshape(-1, value.shape[-1])[:MOST_ROWS])


def _orders(row: torch.Tensor) -> float:
    """Return the logarithm of the number of orders that a row's numbers could have."""
    counts = row.unique_consecutive(return_counts=True)[1]
    return math.lgamma(len(row) + 1) - float(torch.lgamma(counts.double() + 1).sum())


def _surprise(count: int, span: int) -> float:
    """Return minus the logarithm of the chance that so many random integers of `span` values all differ."""
    if count > span:
        return 0.0
    return -sum(math.log1p(-taken / span) for taken in range(min(count, span)))


def _is_written(row: torch.Tensor) -> bool:
    return bool(torch.allclose(row, row.double().round(decimals=DECIMALS).to(row.dtype), rtol=1e-6, atol=0))
