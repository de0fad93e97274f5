"""Checks whether the lanes that compiler hints join can be accessed at once.

The rule is that of the hardware.  Of each group of lanes, those that are not masked off lie side by side in memory, in
their order, and the group begins at a multiple of its size.  The mask has all of a group or none.  A hint that is false
for other lanes only, or that widens no access, does no harm and is not judged.
"""

from collections.abc import Iterator

import numpy as np

from harness.engines.ttir.wide_accesses import WideAccess
from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.events import BrokenGroups
from harness.engines.virtual.numbers.elements import Array
from harness.model.run import HintBreach

_FAR = np.iinfo(np.int64).max


def check_vectors(memory: Memory, access: BlockAccess, wide: WideAccess) -> None:
    """Record the groups of lanes of an access that cannot be joined."""
    for breach, broken in _broken(memory, access, wide):
        memory.events.false_hint(access.place, wide.to_blame(breach), breach, wide.vector.lanes, broken)


def _broken(memory: Memory, access: BlockAccess, wide: WideAccess) -> Iterator[tuple[HintBreach, BrokenGroups]]:
    argument = memory.arguments[access.pointers.argument]
    if argument.buffer is None:
        return
    width, size = wide.vector.lanes, access.pointers.element_bytes
    index, mask = access.pointers.index(), access.mask
    axis, extent = 1 + wide.vector.axis, access.kind.shape[wide.vector.axis]
    shape = list(np.broadcast_shapes(index.shape, (1,) * index.ndim if mask is None else mask.shape))
    shape[axis] = extent

    def grouped(lanes: Array) -> Array:
        """Return an axis of groups and a last axis of their lanes, in place of the vectors' axis."""
        last = np.moveaxis(np.broadcast_to(lanes, shape), axis, -1)
        return last.reshape(*last.shape[:-1], extent // width, width)

    elements = grouped(index)
    starts = elements - np.arange(width)
    active = np.ones_like(starts, np.bool_) if mask is None else grouped(mask)
    counts = active.sum(axis=-1)
    lowest, highest = np.where(active, starts, _FAR).min(axis=-1), np.where(active, starts, -_FAR).max(axis=-1)
    beyond = (lowest * size + argument.buffer.address + argument.first_byte) % (width * size)
    lanes_each = access.lanes_each(tuple(shape))

    def groups(chosen: Array, *seen: Array) -> BrokenGroups:
        numbers = access.numbers if len(chosen) == len(access.numbers) else access.numbers[:1]
        programs = np.broadcast_to(numbers.reshape(-1, *(1,) * (chosen.ndim - 1)), chosen.shape)
        return BrokenGroups(programs[chosen] - 1, tuple(fact[chosen] for fact in seen), lanes_each)

    apart = (counts > 0) & (lowest != highest)
    if apart.any():
        first = np.argmax(active, axis=-1)[..., None]
        stray = np.argmax(active & (starts != np.take_along_axis(starts, first, -1)), axis=-1)[..., None]
        pair = (np.take_along_axis(elements, lane, -1)[..., 0] for lane in (first, stray))
        yield HintBreach.APART, groups(apart, *pair, (stray - first)[..., 0])
    misaligned = (counts > 0) & ~apart & (beyond > 0)
    if misaligned.any():
        yield HintBreach.MISALIGNED, groups(misaligned, lowest, beyond)
    uneven = (counts > 0) & (counts < width)
    if uneven.any():
        yield HintBreach.UNEVEN, groups(uneven, counts)
