"""Dims from the shapes that a test used: axes that always had one size become one dim, with the test's name for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.drafts.seen_calls import ArgumentKind, SeenCall
from harness.model.input_spec import Extent

Axis = tuple[str, int]
"""A tensor, and the number of its axis."""
Sizes = tuple[int | None, ...]
"""The size of one thing in each call; None where it was not given."""
LETTERS = ("B", "T", "H", "K", "M", "N", "P", "Q", "R", "S", "U", "V", "W")
WIDEST, LONGEST, MOST = 1024, 2048, 64
"""The largest sizes that a draft tries: of the last dim, of the longest other one, and of the rest."""
LEAST_WIDE, LEAST_LONG = 16, 256
"""The smallest limits of the first two: a test is often short."""
CLEAR = 8
"""A number of a call with at least this value is a size if it always equals one."""
MOST_FACTOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDims:
    """The dims of a draft."""

    ranges: Mapping[str, str]
    """By dim, its declaration."""
    extents: Mapping[Axis, Extent]
    seen: Mapping[str, Sizes]
    """By dim, the sizes of the calls."""

    def shape(self, tensor: str, rank: int) -> tuple[Extent, ...]:
        return tuple(self.extents[tensor, axis] for axis in range(rank))

    def equal_to(self, numbers: Sizes) -> str | None:
        """Return the dim that a number of the calls always equals; None if that may be chance."""
        is_clear = len({number for number in numbers if number is not None}) > 1 or (numbers[0] or 0) >= CLEAR
        return next((name for name, sizes in self.seen.items() if is_clear and _agree(sizes, numbers)), None)

    @property
    def constant(self) -> Mapping[int, str]:
        """The dims that always had one size, by that size, if no other dim had it."""
        names_of: dict[int, list[str]] = {}
        for name, sizes in self.seen.items():
            for size in {size for size in sizes if size is not None}:
                names_of.setdefault(size, []).append(name)
        alone = {size: names[0] for size, names in names_of.items() if len(names) == 1 and size >= CLEAR}
        return {size: name for size, name in alone.items() if set(self.seen[name]) <= {size, None}}

    def bound_of(self, largest: Sizes) -> Extent:
        """Return the limit of integers with these largest values: a dim that they stay below, or else a number."""
        most = max(value for value in largest if value is not None)
        above = [
            name
            for name, sizes in self.seen.items()
            if all(
                value is None or (size is not None and value < size) for value, size in zip(largest, sizes, strict=True)
            )
            and any(
                value is not None and size is not None and 2 * value >= size
                for value, size in zip(largest, sizes, strict=True)
            )
        ]
        return min(above, key=lambda name: max(size or 0 for size in self.seen[name]), default=most + 1)


def dims_of(calls: Sequence[SeenCall], ranks: Mapping[str, int], taken: frozenset[str]) -> SeenDims:
    """Return the dims of calls whose tensors have these ranks.  `taken` are names of parameters."""
    groups = list(_grouped(calls, ranks))
    derived = _derived([sizes for _, sizes in groups])
    kept = [group for number, group in enumerate(groups) if number not in derived]
    outermost = next((tensor for tensor, rank in ranks.items() if rank), "")
    feature = (outermost, ranks.get(outermost, 0) - 1)
    names = iter(_names(kept, calls, taken, feature))
    name_of = {number: next(names) for number in range(len(groups)) if number not in derived}
    extents = {axis: name_of.get(number, 1) for number, (axes, _) in enumerate(groups) for axis in axes}
    for number, text in derived.items():
        extents |= dict.fromkeys(
            groups[number][0], text.format(**{f"n{index}": name for index, name in name_of.items()})
        )
    widest = max(ranks.values(), default=0)
    last = {extents[tensor, rank - 1] for tensor, rank in ranks.items() if 0 < rank == widest}
    seen = {name_of[number]: sizes for number, (_, sizes) in enumerate(groups) if number in name_of}
    return SeenDims(ranges=_ranges(seen, last), extents=extents, seen=seen)


def _grouped(calls: Sequence[SeenCall], ranks: Mapping[str, int]) -> Iterator[tuple[list[Axis], Sizes]]:
    """Yield the axes that always have one size, with it."""
    axes = {
        (tensor, axis): tuple(_size(call, tensor, axis) for call in calls)
        for tensor, rank in ranks.items()
        for axis in range(rank)
    }
    groups: list[tuple[list[Axis], Sizes]] = []
    for axis, sizes in axes.items():
        fitting = [number for number, group in enumerate(groups) if _may_join(axis, sizes, *group)]
        if not fitting:
            groups.append(([axis], sizes))
            continue
        index = min(fitting, key=lambda number: _distance(axis, groups[number][0], ranks))
        members, known = groups[index]
        merged = tuple(size if size is not None else other for size, other in zip(known, sizes, strict=True))
        groups[index] = ([*members, axis], merged)
    yield from groups


def _size(call: SeenCall, tensor: str, axis: int) -> int | None:
    argument = call.arguments.get(tensor)
    return argument.shape[axis] if argument is not None and argument.kind is ArgumentKind.TENSOR else None


def _may_join(axis: Axis, sizes: Sizes, members: Sequence[Axis], other_sizes: Sizes) -> bool:
    if not _agree(sizes, other_sizes):
        return False
    varies = len({size for size in sizes if size is not None}) > 1
    return varies or not any(tensor == axis[0] for tensor, _ in members)


def _agree(sizes: Sizes, other_sizes: Sizes) -> bool:
    """Return True if the sizes are equal in all calls that have both, and some have."""
    both = [pair for pair in zip(sizes, other_sizes, strict=True) if None not in pair]
    return bool(both) and all(size == other for size, other in both)


def _distance(axis: Axis, members: Sequence[Axis], ranks: Mapping[str, int]) -> int:
    """Return how far the place of an axis is from that of its likes, from the left or from the right."""
    from_left = min(abs(axis[1] - other) for _, other in members)
    from_right = min(abs(ranks[axis[0]] - axis[1] - (ranks[tensor] - other)) for tensor, other in members)
    return min(from_left, from_right) if any(ranks[tensor] == ranks[axis[0]] for tensor, _ in members) else from_right


def _names(
    groups: Sequence[tuple[list[Axis], Sizes]], calls: Sequence[SeenCall], taken: frozenset[str], feature: Axis
) -> list[str]:
    """Return a name for each group: that of a number of the test that always equals it, or else a letter."""
    variables = dict.fromkeys(name for call in calls for name in call.sizes)
    numbers = {name: tuple(call.sizes.get(name) for call in calls) for name in variables}
    used = set(taken)
    names: list[str] = []
    for axes, sizes in groups:
        equal = (name for name, values in numbers.items() if values == sizes and name not in used)
        own = [name for name in equal if _is_dim_name(name)]
        letters = ["D", *LETTERS] if feature in axes else [*LETTERS, "D"]
        free = (name for name in (*letters, *(f"N{index}" for index in range(99))) if name not in {*used, *numbers})
        name = own[0] if own else next(free)
        used.add(name)
        names.append(name)
    return names


def _is_dim_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z]\w*", name) is not None and name not in {"i", "j", "seed", "gradients"}


def _derived(groups: Sequence[Sizes]) -> dict[int, str]:
    """Return the extents that follow from others, by group: `{n0}*{n2}`, `2*{n1}`.  Only what several calls show."""
    derived: dict[int, str] = {}
    for number, sizes in enumerate(groups):
        if len({size for size in sizes if size is not None}) > 1:
            independent = {index: base for index, base in enumerate(groups) if index not in {number, *derived}}
            bases = {index: base for index, base in independent.items() if None not in base}
            if text := _arithmetic(sizes, bases):
                derived[number] = text
    return derived


def _arithmetic(sizes: Sizes, bases: Mapping[int, Sizes]) -> str | None:
    for index, base in bases.items():
        for factor in range(2, MOST_FACTOR + 1):
            if _agree(sizes, tuple(factor * (size or 0) for size in base)):
                return f"{factor}*{{n{index}}}"
    for (index, base), (other, other_sizes) in combinations(bases.items(), 2):
        if {1} not in (set(base), set(other_sizes)) and _agree(sizes, products(base, other_sizes)):
            return f"{{n{index}}}*{{n{other}}}"
    return None


def products(sizes: Sizes, other_sizes: Sizes) -> Sizes:
    """Return the product of two sizes in each call."""
    return tuple((size or 0) * (other or 0) for size, other in zip(sizes, other_sizes, strict=True))


def _ranges(seen: Mapping[str, Sizes], last: set[Extent]) -> dict[str, str]:
    largest = {name: max((size for size in sizes if size is not None), default=1) for name, sizes in seen.items()}
    inner = [name for name in largest if name not in last] or list(largest)
    longest = max(inner, key=lambda name: largest[name], default="")
    texts: dict[str, str] = {}
    for name, size in largest.items():
        if name == longest:
            texts[name] = f"tokens({min(LONGEST, max(LEAST_LONG, size))})"
        elif name in last:
            texts[name] = f"width({min(WIDEST, max(LEAST_WIDE, size))})"
        else:
            texts[name] = f"Dim(low=1, high={min(MOST, max(2, size))})"
    return texts
