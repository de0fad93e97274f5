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
        found: dict[int, list[str]] = {}
        for name, sizes in self.seen.items():
            for size in {size for size in sizes if size is not None}:
                found.setdefault(size, []).append(name)
        alone = {size: names[0] for size, names in found.items() if len(names) == 1 and size >= CLEAR}
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
        fitting = [index for index, (members, its) in enumerate(groups) if _may_join(axis, members, sizes, its)]
        if not fitting:
            groups.append(([axis], sizes))
            continue
        index = min(fitting, key=lambda one: _distance(axis, groups[one][0], ranks))
        members, its = groups[index]
        merged = tuple(one if one is not None else other for one, other in zip(its, sizes, strict=True))
        groups[index] = ([*members, axis], merged)
    yield from groups


def _size(call: SeenCall, tensor: str, axis: int) -> int | None:
    argument = call.arguments.get(tensor)
    return argument.shape[axis] if argument is not None and argument.kind is ArgumentKind.TENSOR else None


def _may_join(axis: Axis, members: Sequence[Axis], sizes: Sizes, theirs: Sizes) -> bool:
    if not _agree(sizes, theirs):
        return False
    varies = len({size for size in sizes if size is not None}) > 1
    return varies or not any(tensor == axis[0] for tensor, _ in members)


def _agree(sizes: Sizes, others: Sizes) -> bool:
    """Return True if the sizes are equal in all calls that have both, and some have."""
    both = [(one, other) for one, other in zip(sizes, others, strict=True) if one is not None and other is not None]
    return bool(both) and all(one == other for one, other in both)


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
        own = [name for name, its in numbers.items() if name not in used and its == sizes and _is_dim_name(name)]
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
    found: dict[int, str] = {}
    for number, sizes in enumerate(groups):
        if len({size for size in sizes if size is not None}) > 1:
            others = {one: its for one, its in enumerate(groups) if one not in {number, *found} and None not in its}
            if text := _arithmetic(sizes, others):
                found[number] = text
    return found


def _arithmetic(sizes: Sizes, others: Mapping[int, Sizes]) -> str | None:
    for one, its in others.items():
        for factor in range(2, MOST_FACTOR + 1):
            if _agree(sizes, tuple(factor * (size or 0) for size in its)):
                return f"{factor}*{{n{one}}}"
    for (one, its), (other, theirs) in combinations(others.items(), 2):
        both = tuple((size or 0) * (second or 0) for size, second in zip(its, theirs, strict=True))
        if {1} not in (set(its), set(theirs)) and _agree(sizes, both):
            return f"{{n{one}}}*{{n{other}}}"
    return None


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
