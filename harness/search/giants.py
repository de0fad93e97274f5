"""Giant cases: a case whose largest tensor has more than 2^31 elements, made of one of usual size.

Index arithmetic in 32 bits overflows there, and nowhere else.  Owns how far and along which dim a case grows; running
one is `harness.ops.giant`'s business, and takes neither the memory nor the time that its tensors would.
"""

from bisect import bisect_right
from dataclasses import replace
from math import prod

from hypothesis import strategies as st

from harness.model.case import Case, Scale, Values
from harness.model.inputs import Tensor
from harness.model.op import Op

ONE_IN = 32
"""So many cases are drawn for one that is giant."""
SCALES = st.sampled_from((Scale.USUAL,) * (ONE_IN - 1) + (Scale.GIANT,))
INDEX_LIMIT = 2**31
"""Element indices of 32 bits end here."""
WIDE = st.sampled_from((True, True, True, False))
SHARES = st.sampled_from((33 / 32, 3 / 2))
"""How many times that the largest tensor has: so many that more than a tile lies beyond, and less than twice."""
LARGEST_DIM = 2**32


@st.composite
def giants(draw: st.DrawFn, op: Op, usual: Case) -> Case:
    """The case with one dim grown until its largest tensor is giant; the case itself where no dim of its op grows.

    The other dims are at their largest most of the time: what has so many elements is usually wide, too.
    """
    growing = tuple(name for name, dim in op.dims.items() if dim.grows)
    if not growing:
        return usual
    name = draw(st.sampled_from(growing))
    share = draw(SHARES)
    dims = {
        other: dim.high if not dim.choices and other not in growing and draw(WIDE) else usual.dims[other]
        for other, dim in op.dims.items()
    }
    size = grown(op, {**dims, name: op.dims[name].low}, usual.absent, name, int(share * INDEX_LIMIT))
    if size is None:
        return usual
    giant = replace(usual, dims={**dims, name: size}, layouts={}, values=Values.NORMAL, scale=Scale.GIANT)
    return giant if op.allows(giant) else usual


def grown(op: Op, dims: dict[str, int], absent: tuple[str, ...], name: str, elements: int) -> int | None:
    """The size of dim `name` with which the largest tensor has just more than `elements`; None if it never has."""
    tensors = [
        declared for tensor, declared in op.inputs.items() if isinstance(declared, Tensor) and tensor not in absent
    ]

    def largest(size: int) -> int:
        return max((prod(tensor.extents({**dims, name: size})) for tensor in tensors), default=0)

    sizes = range(op.dims[name].low, LARGEST_DIM)
    at = bisect_right(sizes, elements, key=largest)
    return sizes[at] if at < len(sizes) else None
