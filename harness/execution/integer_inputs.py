"""Integers of a case: labels, slots, masks, boundaries of sequences and sizes of groups.

Kernels go wrong at the ends of a range, at edges of tiles and where neighbours are equal.  So the numbers are uniform
only in some cases, and the first and the last legal one are nearly always among them.
"""

from collections.abc import Callable, Mapping
from math import prod

import torch

from harness.errors import CannotExecute
from harness.execution.oversized_tensors import LARGE as LARGE_ELEMENTS
from harness.execution.oversized_tensors import sparse
from harness.model.input_spec import Integer, Integers, Segments, Sizes, extent_of

INTEGER_DTYPES: Mapping[Integer, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
}
AT_EDGES = (1 / 8, 1 / 8, 1.0)
"""The share of integers at edges of tiles, one of these by the seed."""
LEAST_TILE = 4
"""The smallest tile with edges for integers, as a power of two: 2^4."""
PLAIN = 5
"""So many cases have no pattern for each one that has a given pattern."""
IGNORED_SHARES = (0.0, 1 / 8, 1 / 8, 1.0)
"""The share of integers that are to be ignored, one of these by the seed."""
ALWAYS = 8
"""From so many elements on, the least and the largest integer are among them; of fewer, in every second case."""
FEW = 1024
"""The number of elements at each end of an oversized tensor of integers that hold the largest one."""
SHORT = 8
"""The average length of sequences whose boundaries are all near one end."""


def draw_integers(
    declared: Integers, dims: Mapping[str, int], generator: torch.Generator, *, is_sparse: bool, is_oversized: bool
) -> torch.Tensor:
    """Return integers: uniform ones, of which an eighth or all are at edges of tiles, or a pattern, all by the seed.

    A pattern makes them all equal, equal but for one or for a block, alternating, or sorted.  If the input has a value
    to ignore, none, an eighth, all, or those at an end of each row have it.  Those of an oversized case always have the
    largest one among them, and nothing to ignore.
    """
    low, high = extent_of(declared.low, dims), extent_of(declared.high, dims)
    shape, dtype = declared.extents(dims), INTEGER_DTYPES[declared.dtype]
    if is_sparse:
        return _sparse_integers(shape, dtype, low, high)
    high = max(high, low + 1)
    if declared.distinct:
        integers = _distinct_integers(shape, low, high, generator, by_row=declared.distinct == "rows").to(dtype)
    else:
        integers = torch.randint(low, high, shape, generator=generator, dtype=dtype)
        at_edges = AT_EDGES[_below(len(AT_EDGES), generator)]
        edges = _at_edges(integers, low, high, generator)
        integers = torch.where(torch.rand(shape, generator=generator) < at_edges, edges, integers)
    ignored = None if is_oversized or declared.ignore is None else _ignored(shape, generator)
    if is_oversized:  # the last one is what exceeds 32 bits, times a stride, and few programs run
        if declared.distinct:
            _put_largest_first(integers, by_row=declared.distinct == "rows")
        else:
            integers.view(-1)[:1] = integers.view(-1)[-1:] = high - 1
    elif not declared.distinct:  # the last one is among distinct ones
        integers = _with_pattern(integers, low, high - 1, generator)
    if declared.ascending and integers.dim():
        integers = integers.sort(-1).values
    if ignored is not None and declared.ignore is not None:
        integers[ignored] = extent_of(declared.ignore, dims)
    return integers


def _distinct_integers(
    shape: tuple[int, ...], low: int, high: int, generator: torch.Generator, *, by_row: bool
) -> torch.Tensor:
    """Return integers that differ from each other, as far as there are enough, the last legal one among them."""
    columns = shape[-1] if shape else 1
    count = prod(shape)
    rows = count // columns if by_row and columns else min(count, 1)
    each = columns if by_row else count
    span = high - low
    drawn: list[torch.Tensor] = []
    for _ in range(rows):
        chosen = distinct(span, min(each, span), generator)
        if chosen.numel() and not bool((chosen == span - 1).any()):
            chosen[_below(chosen.numel(), generator)] = span - 1
        repeats = -(-each // max(chosen.numel(), 1))
        drawn.append(chosen.repeat(repeats)[:each])
    return low + (torch.cat(drawn).view(shape) if drawn else torch.zeros(shape, dtype=torch.int64))


def _put_largest_first(integers: torch.Tensor, *, by_row: bool) -> None:
    """Exchange the first integer and the largest one, of the first row or of all."""
    flat = integers.view(-1)[: integers.shape[-1] if by_row and integers.dim() else None]
    if flat.numel():
        at = int(flat.argmax())
        flat[[0, at]] = flat[[at, 0]]


def _with_pattern(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    """Return the integers with a pattern by the seed, or with the least and the largest among them."""
    count = integers.numel()
    if not count:
        return integers
    chosen = _below(PLAIN * 2 + len(_PATTERNS), generator) - PLAIN * 2
    if chosen >= 0:
        return _PATTERNS[chosen](integers, low, last, generator)
    if count >= ALWAYS or (count > 1 and _below(2, generator)):
        flat = integers.reshape(-1)
        first, second = torch.randperm(count, generator=generator)[:2].tolist() if count <= LARGE_ELEMENTS else (0, 1)
        flat[first], flat[second] = low, last
        return flat.view(integers.shape)
    return integers


def _all_equal(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    chosen = (low, last, int(integers.reshape(-1)[0]))[_below(3, generator)]
    return torch.full_like(integers, chosen)


def _all_but_one(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    usual, other = ((low, last), (last, low))[_below(2, generator)]
    equal = torch.full_like(integers, usual)
    equal.view(-1)[_below(equal.numel(), generator)] = other
    return equal


def _block(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    equal = torch.full_like(integers, low)
    begin, end = sorted(_below(equal.numel() + 1, generator) for _ in range(2))
    equal.view(-1)[begin:end] = last
    return equal


def _alternating(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    equal = torch.full_like(integers, low)
    equal.view(-1)[_below(2, generator) :: 2] = last
    return equal


def _sorted(integers: torch.Tensor, low: int, last: int, generator: torch.Generator) -> torch.Tensor:
    del low, last
    return integers.view(-1).sort(descending=bool(_below(2, generator))).values.view(integers.shape)


_PATTERNS: tuple[Callable[[torch.Tensor, int, int, torch.Generator], torch.Tensor], ...] = (
    _all_equal,
    _all_but_one,
    _block,
    _alternating,
    _sorted,
)


def _ignored(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Return the mask of the elements to ignore: scattered, or at the begin or the end of each row."""
    share = IGNORED_SHARES[_below(len(IGNORED_SHARES), generator)]
    scattered = torch.rand(shape, generator=generator) < share
    where = _below(4, generator)
    if where > 1 or not shape or not shape[-1] or share in {0.0, 1.0}:
        return scattered
    columns = torch.arange(shape[-1])
    lengths = torch.randint(shape[-1] + 1, shape[:-1], generator=generator)[..., None]
    return (columns < lengths) if where else (columns >= lengths)


def _sparse_integers(shape: tuple[int, ...], dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
    """Return the integer nearest to zero, with the largest one in the first and the last elements.

    Random numbers for billions of elements take minutes and gigabytes, and few of them are read.
    """
    nearest = min(max(low, 0), high - 1)
    if nearest:
        raise CannotExecute(f"an oversized tensor of integers from {low} to {high}, without zero,")
    integers = sparse(shape, dtype)
    flat = integers.view(-1)
    flat[:FEW] = flat[-FEW:] = high - 1
    return integers


def _at_edges(values: torch.Tensor, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Move each value up to a multiple of a random power of two, where a tile of that size begins, or one below it."""
    most = max(1, high - 1).bit_length()
    bits = torch.randint(min(LEAST_TILE, most - 1), most, values.shape, generator=generator)
    below = torch.randint(2, values.shape, generator=generator)
    at = -(-values.to(torch.int64) >> bits << bits) - below
    return at.clamp(low, max(high - 1, low)).to(values.dtype)


def draw_segments(declared: Segments, dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """Return random boundaries: by the seed anywhere, or all near one end, so a long sequence has short neighbours.

    If sequences may be empty, boundaries of every other seed may coincide with each other or with an end.  Tokens that
    may follow the last sequence do so in every other seed.
    """
    total = extent_of(declared.total, dims)
    count = declared.extents(dims)[0]
    end = total
    if declared.tail and _below(2, generator):
        end = count - 1 + _below(total - count + 2, generator) if total >= count - 1 else total
    if declared.may_be_empty and _below(2, generator):
        bounds = _any_bounds(end, count, generator)
    else:
        bounds = _increasing_bounds(end, count - 2, generator)
    return bounds.to(INTEGER_DTYPES[declared.dtype])


def _increasing_bounds(total: int, cuts: int, generator: torch.Generator) -> torch.Tensor:
    near = min(total - 1, max(cuts, SHORT * cuts))
    start, room = ((0, total - 1), (0, near), (total - 1 - near, near))[_below(3, generator)]
    return _between_ends(1 + start + distinct(room, cuts, generator), total)


def _between_ends(cuts: torch.Tensor, total: int) -> torch.Tensor:
    """Return the cuts in order, between 0 and the total."""
    return torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([total])])


def draw_sizes(declared: Sizes, dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """Return sizes of groups, by the seed about equal, any, those of a few groups, or all in one group.

    Their sum is the total; with a surplus, it is less in every other seed.
    """
    total, (count,) = extent_of(declared.total, dims), declared.extents(dims)
    dtype = INTEGER_DTYPES[declared.dtype]
    if not count:
        return torch.zeros(0, dtype=dtype)
    if declared.surplus and _below(2, generator):
        total = _below(total + 1, generator)
    match _below(4, generator):
        case 0:
            sizes = torch.full((count,), total // count)
            sizes[: total % count] += 1
        case 1:
            sizes = _between_ends(torch.randint(total + 1, (count - 1,), generator=generator), total).diff()
        case 2:
            few = torch.randint(count, (min(count, 2),), generator=generator)
            sizes = torch.zeros(count, dtype=torch.int64)
            sizes[few[0]] += total // 2
            sizes[few[-1]] += total - total // 2
        case _:
            sizes = torch.zeros(count, dtype=torch.int64)
            sizes[_below(count, generator)] = total
    return sizes.to(dtype)


def distinct(below: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return so many different integers below a limit."""
    if below <= LARGE_ELEMENTS:
        return torch.randperm(below, generator=generator)[:count]
    # A permutation of billions takes gigabytes.  Of twice as many numbers, some are equal, but never half of them.
    drawn = torch.randint(below, (2 * count,), generator=generator).unique()
    return drawn[torch.randperm(drawn.numel(), generator=generator)[:count]]


def _any_bounds(total: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return boundaries of which some often coincide, with each other or with an end."""
    cuts = torch.randint(-total // 4, total + total // 4 + 1, (count,), generator=generator).clamp(0, total)
    cuts[0], cuts[-1] = 0, total
    return cuts.sort().values


def _below(limit: int, generator: torch.Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))
