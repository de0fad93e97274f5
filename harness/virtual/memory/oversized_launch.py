"""How a launch of a giant case is executed: a few of its programs, of each no more than so many accesses, no shadow.

The first and the last programs are among them: where an index overflows, it does so there.  A wrapped index that is
negative strays and is seen; one that lands in the tensor again shows in values alone, and nobody compares those.
"""

import numpy as np

from harness.virtual.memory.accesses import Memory, Step
from harness.virtual.memory.arguments import Argument
from harness.virtual.memory.events import EventCollector
from harness.virtual.memory.rows import Rows
from harness.virtual.memory.shadow import Clash, Reads, Shadow
from harness.virtual.numbers.elements import Array

ACCESSES = 1_000
"""Of one launch: about 0.15 s on one core."""


def sampled_ids(programs: int) -> Array:
    """The first two, the last two, and those at the quarters."""
    quarters = (programs * part // 4 for part in (1, 2, 3))
    wanted = {0, 1, *quarters, programs - 2, programs - 1}
    return np.array(sorted(number for number in wanted if 0 <= number < programs), np.int64)


class Enough(Exception):
    """The programs have made as many accesses as a giant case's may."""


class SampledMemory(Memory):
    """Checks bounds alone, and ends the launch after `ACCESSES`."""

    def __init__(self, arguments: list[Argument], events: EventCollector) -> None:
        super().__init__(arguments, events)
        self._left = ACCESSES
        for argument in arguments:
            if argument.buffer is not None:
                argument.buffer.shadow = NoShadow(argument.buffer.granule)

    def load(self, step: Step, other: Array) -> Array:
        """As `Memory` does, once less."""
        self._spend()
        return super().load(step, other)

    def store(self, step: Step, values: Array) -> None:
        """As `Memory` does, once less."""
        self._spend()
        super().store(step, values)

    def atomic(self, step: Step) -> tuple[Rows, Array | None]:
        """As `Memory` does, once less."""
        self._spend()
        return super().atomic(step)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Enough


class NoShadow(Shadow):
    """Remembers nothing: who stored what is told of whole launches only."""

    def __init__(self, granule: int) -> None:
        super().__init__(0, granule, track_readers=False)

    def refine(self, granule: int) -> None:
        """There are no cells."""
        self.granule = granule

    def load(self, starts: Array, width: int, programs: Array, load: int) -> None:
        """Nothing is known."""

    def store(self, starts: Array, width: int, programs: Array) -> tuple[Clash | None, Clash | None, Reads | None]:
        """Nothing is known."""
        del starts, width, programs
        return None, None, None
