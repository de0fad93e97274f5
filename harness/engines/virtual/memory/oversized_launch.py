"""The parts of an oversized launch: a sample of its programs, and a memory that checks bounds only.

The sample has the first and the last programs, where an index overflows.  A wrapped index that is negative strays, and
is seen.  A wrapped index inside the tensor shows in values alone, which no oracle compares in an oversized case.
"""

import numpy as np

from harness.engines.virtual.grid import spread
from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.rows import Rows
from harness.engines.virtual.memory.shadow import Clash, Reads, Shadow
from harness.engines.virtual.numbers.elements import Array

MOST_ACCESSES = 1_000
"""Block accesses of one launch: about 0.15 s on one core."""


def sampled_ids(programs: int) -> Array:
    """Return the ids of the first two programs, the last two, and those at the quarters."""
    return np.array(spread(programs), np.int64)


class AccessLimitReached(Exception):
    """The sampled programs have made `MOST_ACCESSES` accesses."""


class SampledMemory(Memory):
    """Checks bounds only, and ends the launch after `MOST_ACCESSES`."""

    def __init__(self, arguments: list[Argument], events: EventCollector) -> None:
        super().__init__(arguments, events)
        self._left = MOST_ACCESSES
        for argument in arguments:
            if argument.buffer is not None:
                argument.buffer.shadow = NoShadow(argument.buffer.cell_bytes)

    def load(self, access: BlockAccess, other: Array) -> Array:
        self._count_access()
        return super().load(access, other)

    def store(self, access: BlockAccess, values: Array) -> None:
        self._count_access()
        super().store(access, values)

    def atomic(self, access: BlockAccess) -> tuple[Rows, Array | None]:
        self._count_access()
        return super().atomic(access)

    def _count_access(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise AccessLimitReached


class NoShadow(Shadow):
    """A shadow that remembers nothing: a sample of programs cannot show which programs meet."""

    def __init__(self, cell_bytes: int) -> None:
        super().__init__(0, cell_bytes, track_readers=False)

    def refine(self, cell_bytes: int) -> None:
        self.cell_bytes = cell_bytes

    def load(self, starts: Array, width: int, programs: Array, load: int) -> None: ...

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        del starts, width, programs
        return None, None, None
