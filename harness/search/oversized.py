"""Oversized cases: a tensor has more than 2^31 elements, so that 32-bit index arithmetic overflows.

Each is made from a case of usual size.  Owns the choice of the tensor that grows, how far, and along which dims.
`harness.execution.oversized_tensors` runs such a case without the memory or the time that its tensors would take.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from hypothesis import strategies as st

from harness.model.case import Case, GradMode, Scale, ValueDistribution
from harness.model.input_spec import Shaped
from harness.model.op import Dim, Op

ONE_IN = 32
"""One case in so many is oversized, for each set of dims that can make the op oversized."""
INDEX_LIMIT = 2**31
"""The first element index that a signed 32-bit integer cannot hold."""
WIDE = st.sampled_from((True, True, True, False))
LARGEST_SHARE = 3 / 2
SHARES = st.sampled_from((33 / 32, LARGEST_SHARE))
"""The tensor's elements as a multiple of `INDEX_LIMIT`: more than a tile beyond it, and less than twice as many."""
MAX_ELEMENTS = 4 * INDEX_LIMIT
"""The limit for every tensor of an oversized case: address space is finite, too."""

GrowingDims = tuple[str, ...]
"""The growing dims of some of the op's tensors.  They grow until the largest of these tensors is oversized."""


def growing_dim_sets(op: Op) -> tuple[GrowingDims, ...]:
    """Return each set of growing dims by which a tensor can reach 2^31 elements, in the order of the inputs.

    There is none for an op without kernels: only their accesses are judged there.
    """
    if not op.launches:
        return ()
    most = {name: dim.largest if dim.grows else dim.high for name, dim in op.dims.items()}
    growing = (
        _growing_dims(op, tensor)
        for tensor in _tensors(op).values()
        if prod(tensor.extents(most)) > LARGEST_SHARE * INDEX_LIMIT
    )
    return tuple(dict.fromkeys(dims for dims in growing if dims))


def why_never_oversized(op: Op) -> str:
    """Return why no input of the op can have 2^31 elements; empty if one can."""
    if not op.launches:
        return "the op may run without a kernel"
    if growing_dim_sets(op):
        return ""
    if not any(dim.grows for dim in op.dims.values()):
        return "no dim grows"
    return "no input with a dim that grows reaches 2^31 elements"


@st.composite
def oversized_cases(draw: st.DrawFn, op: Op, usual: Case) -> Case:
    """Draw the case with dims grown until a tensor is oversized, or the case itself if no tensor can be.

    One dim of the tensor grows as far as needed.  If its range ends before, the next dim grows too.  Dims that may not
    grow are mostly at their largest, since tensors with so many elements are usually wide.
    """
    known = growing_dim_sets(op)
    if not known:
        return usual
    growing = draw(st.sampled_from(known))
    first = draw(st.sampled_from(growing))
    share = draw(SHARES)
    sizes = {
        name: draw(_other_sizes(dim, usual.dims[name], name in growing))
        for name, dim in op.dims.items()
        if name != first
    }
    absent = _absent(op, usual, growing)
    tensors = [
        tensor for name, tensor in _tensors(op).items() if name not in absent and _growing_dims(op, tensor) == growing
    ]
    order = (first, *(name for name in growing if name != first))
    start = {name: sizes.get(name, op.dims[name].low) for name in op.dims}
    dims = grown(op, start, tensors, order, share) or grown(op, _at_largest_choices(op, start), tensors, order, share)
    if dims is None:
        return usual
    oversized = replace(
        usual,
        dims=dims,
        absent=absent,
        layouts={},
        values=ValueDistribution.NORMAL,
        grad_mode=GradMode.ENABLED,
        frozen=(),
        scale=Scale.OVERSIZED,
    )
    return oversized if op.allows(oversized) and _fits(op, oversized) else usual


def grown(
    op: Op, dims: Mapping[str, int], tensors: Sequence[Shaped], order: GrowingDims, share: float
) -> Mapping[str, int] | None:
    """Return the dims with those of `order` grown in turn until a tensor is oversized; None if none ever is."""
    sizes = dict(dims)
    for name in order:

        def largest(size: int, name: str = name) -> int:
            return max((prod(tensor.extents({**sizes, name: size})) for tensor in tensors), default=0)

        range_ = range(_least_growth(op.dims[name], sizes[name]), op.dims[name].largest + 1)
        index = bisect_right(range_, int(share * INDEX_LIMIT), key=largest)
        if index < len(range_):
            return {**sizes, name: range_[index]}
        sizes[name] = op.dims[name].largest
    return None


def _least_growth(dim: Dim, size: int) -> int:
    """Return the size itself, or the first one beyond all choices."""
    return dim.high + 1 if dim.choices else size


def _at_largest_choices(op: Op, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes with the largest choice of each dim that has choices: growing dims alone fell short."""
    return {name: max(dim.choices) if dim.choices else sizes[name] for name, dim in op.dims.items()}


def _other_sizes(dim: Dim, usual: int, grows_too: bool) -> st.SearchStrategy[int]:  # noqa: FBT001 - of a row of arguments
    """Draw the size of a dim other than the one that grows first."""
    if dim.choices:
        return st.just(usual)
    if not dim.grows:
        return WIDE.map(lambda wide: dim.high if wide else usual)
    return st.sampled_from((dim.low, usual, dim.high)) if grows_too else st.just(dim.low)


def _absent(op: Op, usual: Case, growing: GrowingDims) -> tuple[str, ...]:
    """Return the absent inputs, so that at least one tensor that grows is present."""
    candidates = [name for name, tensor in _tensors(op).items() if _growing_dims(op, tensor) == growing]
    if any(name not in usual.absent for name in candidates):
        return usual.absent
    return tuple(name for name in usual.absent if name != candidates[0])


def _fits(op: Op, case: Case) -> bool:
    return all(prod(tensor.extents(case.dims)) <= MAX_ELEMENTS for tensor in _tensors(op).values())


def _growing_dims(op: Op, tensor: Shaped) -> GrowingDims:
    return tuple(name for name, dim in op.dims.items() if dim.grows and name in tensor.dims_of_shape)


def _tensors(op: Op) -> dict[str, Shaped]:
    return {name: declared for name, declared in op.inputs.items() if isinstance(declared, Shaped)}
