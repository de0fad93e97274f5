"""Checks whether the lanes that compiler hints join can be accessed at once.

The rule is that of the hardware.  Of each group of lanes, those that are not masked off lie side by side in memory, in
their order, and the group begins at a multiple of its size.  The mask has all of a group or none.  A hint that is false
for other lanes only, or that widens no access, does no harm and is not judged.
"""

from collections.abc import Iterator
from math import prod

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
        """Move the lanes of a group to a last axis."""
        last = np.moveaxis(np.broadcast_to(lanes, shape), axis, -1)
        return last.reshape(*last.shape[:-1], extent // width, width)

    starts = grouped(index) - np.arange(width)
    active = np.ones((1,) * starts.ndim, np.bool_) if mask is None else grouped(mask)
    some = np.broadcast_to(active.any(axis=-1), starts.shape[:-1])
    lowest = np.where(active, starts, _FAR).min(axis=-1)
    highest = np.where(active, starts, -_FAR).max(axis=-1)
    first_byte = lowest * size + argument.buffer.address + argument.first_byte
    lanes_each = len(access.numbers) * prod(access.kind.shape) // prod(shape)

    def groups(chosen: Array, first: Array, second: Array) -> BrokenGroups:
        programs = np.broadcast_to(_by_program(access.numbers, chosen), chosen.shape)[chosen] - 1
        return BrokenGroups(programs, (first[chosen], second[chosen]), lanes_each)

    apart = some & (lowest != highest)
    if apart.any():
        elements = starts + np.arange(width)
        at = np.argmax(active, axis=-1)[..., None]
        leader = np.take_along_axis(starts, np.broadcast_to(at, (*starts.shape[:-1], 1)), -1)
        stray = np.argmax(active & (starts != leader), axis=-1)[..., None]
        own, other = (
            np.take_along_axis(elements, np.broadcast_to(each, leader.shape), -1)[..., 0] for each in (at, stray)
        )
        yield HintBreach.APART, groups(apart, own, other)
    misaligned = some & ~apart & (first_byte % (width * size) != 0)
    if misaligned.any():
        yield HintBreach.MISALIGNED, groups(misaligned, lowest, first_byte % (width * size))
    if wide.mask is not None:
        counts = np.broadcast_to(active, starts.shape).sum(axis=-1)
        uneven = (counts > 0) & (counts < width)
        if uneven.any():
            yield HintBreach.UNEVEN, groups(uneven, counts, np.full_like(counts, width))


def _by_program(numbers: Array, like: Array) -> Array:
    """Return the programs' numbers along the leading axis of an array; the first if it has one entry for all."""
    own = numbers if like.shape[0] == len(numbers) else numbers[:1]
    return own.reshape(-1, *(1,) * (like.ndim - 1))
