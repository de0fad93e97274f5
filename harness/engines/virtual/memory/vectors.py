"""Checks whether the lanes that compiler hints join can be accessed at once.

The rule is that of the hardware.  Of each group of lanes, those that are not masked off lie side by side in memory, in
their order, and the group begins at a multiple of its size.  The mask has all of a group or none.  A hint that is false
for other lanes only, or that widens no access, does no harm and is not judged.

A load whose lanes do not lie side by side gets wrong values for some of them, no more.  They count once a store keeps
them.  Kernels for matrices often load columns beyond the end from anywhere, and mask them off in the store.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.ttir.wide_accesses import WideAccess
from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.events import BrokenGroups
from harness.engines.virtual.numbers.elements import Array
from harness.model.run import HintBreach


@dataclass(frozen=True, slots=True)
class _WrongLanes:
    """The lanes of the last execution of a load whose values are wrong on hardware."""

    numbers: Array
    """The programs that ran side by side."""
    lanes: Array
    """A mask of programs and of lanes along the vectors' axis."""
    record: Callable[[], None]


class VectorChecks:
    """The checks of one machine."""

    def __init__(self, wide: Mapping[int, WideAccess]) -> None:
        self._wide = wide
        self._wrong: dict[int, _WrongLanes] = {}
        """By the id of the load."""

    def __bool__(self) -> bool:
        return bool(self._wide)

    def check(self, memory: Memory, access: BlockAccess, operation: Operation) -> None:
        """Record the groups of lanes of an access that cannot be joined, if it is one that hints make wider."""
        wide = self._wide.get(id(operation))
        if wide is not None:
            self._wrong.pop(id(operation), None)
            self._check_wide(memory, access, wide)

    def check_kept(self, access: BlockAccess, operation: Operation) -> None:
        """Record the wrong lanes of earlier loads that a store keeps."""
        for number, wrong in list(self._wrong.items()):
            axis = (self._wide[number].stores or {}).get(id(operation))
            if axis is not None and wrong.numbers is access.numbers and _meets(wrong.lanes, access.mask, axis):
                wrong.record()
                del self._wrong[number]

    def _check_wide(self, memory: Memory, access: BlockAccess, wide: WideAccess) -> None:
        groups = _Groups.of(memory, access, wide)
        for breach, broken in () if groups is None else groups.broken():

            def record(breach: HintBreach = breach, broken: BrokenGroups = broken) -> None:
                memory.events.false_hint(access.place, wide.to_blame(breach), breach, wide.vector.lanes, broken)

            if groups is not None and breach is HintBreach.APART and wide.stores is not None:
                self._wrong[id(wide.operation)] = _WrongLanes(access.numbers, groups.wrong_lanes(), record)
            else:
                record()


def _meets(lanes: Array, mask: Array | None, axis: int) -> bool:
    """Return True if a store has one of these lanes along an axis."""
    if mask is None:
        return bool(lanes.any())
    others = tuple(at for at in range(1, mask.ndim) if at != axis + 1)
    return bool((mask.any(axis=others) & lanes).any())


@dataclass(frozen=True, slots=True)
class _Groups:
    """The lanes of an access in groups that hints join: a last axis of lanes, and before it an axis of groups."""

    access: BlockAccess
    size: int
    """Bytes of an element."""
    base: int
    """The address of element 0."""
    shape: tuple[int, ...]
    """Of the lanes before they were grouped."""
    elements: Array
    active: Array

    @classmethod
    def of(cls, memory: Memory, access: BlockAccess, wide: WideAccess) -> "_Groups | None":
        """Return the groups; None for accesses through a null pointer."""
        argument = memory.arguments[access.pointers.argument]
        if argument.buffer is None:
            return None
        index, mask, width = access.pointers.index(), access.mask, wide.vector.lanes
        axis, extent = 1 + wide.vector.axis, access.kind.shape[wide.vector.axis]
        shape = list(np.broadcast_shapes(index.shape, (1,) * index.ndim if mask is None else mask.shape))
        shape[axis] = extent

        def grouped(lanes: Array) -> Array:
            last = np.moveaxis(np.broadcast_to(lanes, shape), axis, -1)
            return last.reshape(*last.shape[:-1], extent // width, width)

        elements = grouped(index)
        active = np.ones_like(elements, np.bool_) if mask is None else grouped(mask)
        base = argument.buffer.address + argument.first_byte
        return cls(access, access.pointers.element_bytes, base, tuple(shape), elements, active)

    @property
    def _first(self) -> Array:
        """The place of the first lane of each group that is not masked off."""
        return np.argmax(self.active, axis=-1)[..., None]

    def _strays(self) -> Array:
        """Return a mask of the lanes that do not lie in memory where the first lane's vector has them."""
        starts = self.elements - np.arange(self.elements.shape[-1])
        return self.active & (starts != np.take_along_axis(starts, self._first, -1))

    def wrong_lanes(self) -> Array:
        """Return a mask of programs and of lanes along the vectors' axis."""
        strays = self._strays()
        lanes = strays.reshape(*strays.shape[:-2], -1)
        return np.asarray(lanes.any(axis=tuple(range(1, lanes.ndim - 1))))

    def broken(self) -> Iterator[tuple[HintBreach, BrokenGroups]]:
        width = self.elements.shape[-1]
        first, strays = self._first, self._strays()
        counts = self.active.sum(axis=-1)
        start = np.take_along_axis(self.elements, first, -1)[..., 0] - first[..., 0]
        beyond = (start * self.size + self.base) % (width * self.size)
        misaligned = (counts > 0) & (beyond > 0)
        if misaligned.any():
            yield HintBreach.MISALIGNED, self._groups(misaligned, start, beyond)
        apart = strays.any(axis=-1) & ~misaligned
        if apart.any():
            stray = np.argmax(strays, axis=-1)[..., None]
            pair = (np.take_along_axis(self.elements, lane, -1)[..., 0] for lane in (first, stray))
            yield HintBreach.APART, self._groups(apart, *pair, (stray - first)[..., 0])
        uneven = (counts > 0) & (counts < width)
        if uneven.any():
            yield HintBreach.UNEVEN, self._groups(uneven, counts)

    def _groups(self, chosen: Array, *seen: Array) -> BrokenGroups:
        numbers = self.access.numbers if len(chosen) == len(self.access.numbers) else self.access.numbers[:1]
        programs = np.broadcast_to(numbers.reshape(-1, *(1,) * (chosen.ndim - 1)), chosen.shape)
        lanes_each = self.access.lanes_each(self.shape)
        return BrokenGroups(programs[chosen] - 1, tuple(fact[chosen] for fact in seen), lanes_each)
