"""Launches in which atomics may order what programs do, though none waits for another.

They run in lock-step, which gives their values.  Where two programs met in a cell there, unless both did so by atomics,
the launch is looked at again: its programs take turns, with clocks that tell what acquire and release order.  Which
program comes first decides what that shows: one that adds to a sum and then reads it learns of all before it, and of
none behind.  So there are two looks, one of them in reversed order, and what either sees is told.  Memory is put back
to what lock-step left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.binding import Binding
from harness.virtual.memory.arguments import Buffer
from harness.virtual.memory.events import EventCollector
from harness.virtual.numbers.elements import Array
from harness.virtual.synchronisation.race_filter import FilteredMemory
from harness.virtual.synchronisation.residency import ResidentLaunch
from harness.virtual.synchronisation.scheduler import Scheduler
from harness.virtual.ttir.reach import PointerReach

MOST_ACCESSES = 10_000
"""Of one look: one to two seconds on one core."""


def screened_memory(reach: PointerReach, binding: Binding, events: EventCollector) -> FilteredMemory | None:
    """The memory for a launch of a kernel with atomics; None where they can meet nothing and order nothing."""
    mixed = binding.buffers_of(reach.atomic) & binding.buffers_of(reach.plain)
    if not mixed and not binding.buffers_of(reach.stored):
        return None
    return FilteredMemory(binding.arguments, events, mixed)


@dataclass(frozen=True, slots=True)
class RecheckedLaunch:
    """One launch, ready to be run in lock-step and then to be looked at."""

    launch: ResidentLaunch
    memory: FilteredMemory
    """Of the launch's machine."""
    binding: Binding

    def run(self, events: EventCollector) -> None:
        """Execute all programs.

        Raises:
            CannotExecute: an operation is not known, or cannot be executed as it stands.
        """
        arguments = len(self.binding.arguments)
        before = _contents(self.binding.buffers)
        self.launch.machine.run(self.binding.values, self.launch.ids)
        met = self.memory.met
        if not len(met) or len(self.binding.arguments) > arguments:  # more of them by a table of addresses
            return
        ids = self._watched(met)
        after = _contents(self.binding.buffers)
        try:
            looks = [self._look(order, before) for order in (ids, ids[::-1])]
        except CannotExecute:  # such as clocks that take too much memory: what lock-step saw stands
            return
        finally:
            _put_back(self.binding.buffers, after)
        events.met_as(looks)

    def _watched(self, met: Array) -> Array:
        """All programs, or of those that met as many as make so many accesses: as if the others came later."""
        ids = self.launch.ids
        if self.memory.accesses <= MOST_ACCESSES:
            return ids
        most = max(2, len(ids) * MOST_ACCESSES // self.memory.accesses)
        distinct, first = np.unique(met, return_index=True)
        return ids[np.isin(ids, distinct[np.argsort(first)][:most])]

    def _look(self, ids: Array, before: Mapping[int, Array]) -> EventCollector:
        binding, events = self.launch.bind(), EventCollector()
        _put_back(binding.buffers, before)
        machine, at_a_time = self.launch.machine, self.launch.device.sm_count
        Scheduler(machine, binding.arguments, events, at_a_time).run(binding.values, ids)
        return events


def _contents(buffers: Iterable[Buffer]) -> dict[int, Array]:
    """Those that the kernel may change, by address."""
    return {buffer.address: buffer.bytes.copy() for buffer in buffers if buffer.track_readers}


def _put_back(buffers: Iterable[Buffer], contents: Mapping[int, Array]) -> None:
    for buffer in buffers:
        if buffer.address in contents:
            buffer.bytes[:] = contents[buffer.address]
