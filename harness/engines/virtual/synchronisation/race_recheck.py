"""Rechecks launches in which atomics may order conflicting accesses, although no program waits for another.

Such a launch first runs in lock-step, which gives its values.  If the race filter found conflicts, the scheduler runs
the launch again with vector clocks, which show what acquire and release order.  The result depends on the order of
programs: one that adds to a counter and then reads sees only the releases before it.  So there are two rechecks, one
in reversed order, and the conflicts of both are reported.  Afterwards memory holds the lock-step values again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.engines.ttir.reach import PointerReach
from harness.engines.virtual.binding import Binding
from harness.engines.virtual.machine import Machine
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.race_filter import FilteredMemory
from harness.engines.virtual.synchronisation.scheduler import Scheduler
from harness.errors import CannotExecute

MOST_RECHECKED_ACCESSES = 10_000
"""Accesses of one recheck, which take one to two seconds on one core."""


def filtered_memory(reach: PointerReach, binding: Binding, events: EventCollector) -> FilteredMemory | None:
    """Return the memory for a kernel with atomics; None if they cannot conflict with or order other accesses."""
    mixed = binding.buffers_of(reach.atomic) & binding.buffers_of(reach.plain)
    if not mixed and not binding.buffers_of(reach.stored):
        return None
    return FilteredMemory(binding.arguments, events, mixed)


@dataclass(frozen=True, slots=True)
class RecheckedLaunch:
    """One launch that runs in lock-step and is then rechecked for races."""

    launch: PreparedLaunch
    memory: FilteredMemory
    """The memory of the lock-step run."""

    def run(self, events: EventCollector) -> None:
        """Execute all programs.

        Raises:
            CannotExecute: an operation is unknown, or cannot be executed with these arguments.
        """
        binding = self.launch.binding
        argument_count = len(binding.arguments)
        before = _contents(binding.buffers)
        Machine(self.launch.context, self.memory).run(binding.values, self.launch.ids)
        conflicting_programs = self.memory.conflicting_programs
        # Not with tables of addresses, which add arguments during the run: their tensors have no copies in `before`.
        if not len(conflicting_programs) or len(binding.arguments) > argument_count:
            return
        ids = self._programs_to_recheck(conflicting_programs)
        after = _contents(binding.buffers)
        try:
            rechecks = [self._recheck(order, before) for order in (ids, ids[::-1])]
        except CannotExecute:  # such as clocks that take too much memory: keep the lock-step conflicts
            return
        finally:
            _restore(binding.buffers, after)
        events.replace_conflicts(rechecks)

    def _programs_to_recheck(self, conflicting_programs: Array) -> Array:
        """All programs, or as many conflicting ones as stay below `MOST_RECHECKED_ACCESSES`."""
        ids = self.launch.ids
        if self.memory.accesses <= MOST_RECHECKED_ACCESSES:
            return ids
        most = max(2, len(ids) * MOST_RECHECKED_ACCESSES // self.memory.accesses)
        distinct, first = np.unique(conflicting_programs, return_index=True)
        return ids[np.isin(ids, distinct[np.argsort(first)][:most])]

    def _recheck(self, ids: Array, before: Mapping[int, Array]) -> EventCollector:
        binding, events = self.launch.bind(), EventCollector()
        _restore(binding.buffers, before)
        resident = self.launch.device.sm_count
        Scheduler(self.launch.context, binding.arguments, events, resident).run(binding.values, ids)
        return events


def _contents(buffers: Iterable[Buffer]) -> dict[int, Array]:
    """Copies of the buffers that the kernel may change, by address."""
    return {buffer.address: buffer.bytes.copy() for buffer in buffers if buffer.track_readers}


def _restore(buffers: Iterable[Buffer], contents: Mapping[int, Array]) -> None:
    for buffer in buffers:
        if buffer.address in contents:
            buffer.bytes[:] = contents[buffer.address]
