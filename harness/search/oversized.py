"""Giant cases: a case with a tensor of more than 2^31 elements, made of one of usual size.

Index arithmetic in 32 bits overflows there, and nowhere else.  Owns which tensor grows, how far and along which dims;
`harness.ops.oversized_tensors` runs such a case without the memory or the time that its tensors would take.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from hypothesis import strategies as st

from harness.model.case import Case, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Dim, Op

ONE_IN = 32
"""So many cases are drawn for one that is giant, in each way that the op can be giant."""
INDEX_LIMIT = 2**31
"""Element indices of 32 bits end here."""
WIDE = st.sampled_from((True, True, True, False))
SHARES = st.sampled_from((33 / 32, 3 / 2))
"""How many times that the tensor has: so many that more than a tile lies beyond, and less than twice."""
ROOM = 4 * INDEX_LIMIT
"""No other tensor has more elements: address space ends, too."""

Way = tuple[str, ...]
"""The growing dims of some of the op's tensors, of which the largest becomes giant."""


def scales(op: Op) -> st.SearchStrategy[Scale]:
    """Giant once in 32 for each way: sequences and their states grow apart from each other."""
    giant = min(len(ways(op)), ONE_IN - 1)
    return _scales(giant)


@lru_cache(maxsize=ONE_IN)
def _scales(giant: int) -> st.SearchStrategy[Scale]:
    return st.sampled_from((Scale.USUAL,) * (ONE_IN - giant) + (Scale.GIANT,) * giant)


def ways(op: Op) -> tuple[Way, ...]:
    """Each set of growing dims with a tensor that reaches 2^31 elements by them, in the order of the inputs."""
    most = {name: dim.largest if dim.grows else dim.high for name, dim in op.dims.items()}
    found = (_growing(op, tensor) for tensor in _tensors(op).values() if prod(tensor.extents(most)) > 2 * INDEX_LIMIT)
    return tuple(dict.fromkeys(way for way in found if way))


@st.composite
def giants(draw: st.DrawFn, op: Op, usual: Case) -> Case:
    """The case with dims grown until a tensor is giant; the case itself where none can be.

    One dim of the tensor grows as far as it must, and where it may not so far, the next.  Dims that do not grow are at
    their largest most of the time: what has so many elements is usually wide, too.
    """
    known = ways(op)
    if not known:
        return usual
    way = draw(st.sampled_from(known))
    first = draw(st.sampled_from(way))
    share = draw(SHARES)
    sizes = {name: draw(_beside(dim, usual.dims[name], name in way)) for name, dim in op.dims.items() if name != first}
    given = _given(op, usual, way)
    tensors = [tensor for name, tensor in _tensors(op).items() if name not in given and _growing(op, tensor) == way]
    order = (first, *(name for name in way if name != first))
    dims = grown(op, {name: sizes.get(name, op.dims[name].low) for name in op.dims}, tensors, order, share)
    if dims is None:
        return usual
    giant = replace(usual, dims=dims, absent=given, layouts={}, values=ValueDistribution.NORMAL, scale=Scale.GIANT)
    return giant if op.allows(giant) and _has_room(op, giant) else usual


def grown(op: Op, dims: Mapping[str, int], tensors: list[Tensor], order: Way, share: float) -> Mapping[str, int] | None:
    """The dims with those of `order` grown, one after the other, till a tensor is giant; None if none ever is."""
    made = dict(dims)
    for name in order:

        def largest(size: int, name: str = name) -> int:
            return max((prod(tensor.extents({**made, name: size})) for tensor in tensors), default=0)

        sizes = range(made[name], op.dims[name].largest + 1)
        at = bisect_right(sizes, int(share * INDEX_LIMIT), key=largest)
        if at < len(sizes):
            return {**made, name: sizes[at]}
        made[name] = op.dims[name].largest
    return None


def _beside(dim: Dim, usual: int, in_way: bool) -> st.SearchStrategy[int]:  # noqa: FBT001 - of a row of arguments
    """The sizes of a dim beside the one that grows first."""
    if dim.choices:
        return st.just(usual)
    if not dim.grows:
        return WIDE.map(lambda wide: dim.high if wide else usual)
    return st.sampled_from((dim.low, usual, dim.high)) if in_way else st.just(dim.low)


def _given(op: Op, usual: Case, way: Way) -> tuple[str, ...]:
    """What is absent: not all tensors of the way."""
    of_way = [name for name, tensor in _tensors(op).items() if _growing(op, tensor) == way]
    if any(name not in usual.absent for name in of_way):
        return usual.absent
    return tuple(name for name in usual.absent if name != of_way[0])


def _has_room(op: Op, case: Case) -> bool:
    return all(prod(tensor.extents(case.dims)) <= ROOM for tensor in _tensors(op).values())


def _growing(op: Op, tensor: Tensor) -> Way:
    return tuple(name for name, dim in op.dims.items() if dim.grows and name in tensor.named)


def _tensors(op: Op) -> dict[str, Tensor]:
    return {name: declared for name, declared in op.inputs.items() if isinstance(declared, Tensor)}
