"""CTAs that may wait for each other: as many run side by side as the GPU holds, and others start when these end.

CTAs that start later are a wave of their own.  Waves take turns: one runs until it ends, or until all its clusters
poll.  If all poll the same memory, and no place is free, the launch is deadlocked.
"""

from collections.abc import Callable, Sequence

from harness.engines.ptx.memories import GlobalMemory
from harness.engines.ptx.polling import Polled
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave_runner import StuckThreads, WaveRunner


class ResidentCtas:
    """The CTAs of one launch."""

    def __init__(self, ctas: Array, capacity: int, memory: GlobalMemory, start: Callable[[Array], WaveRunner]) -> None:
        """Start nothing yet.

        Args:
            ctas: linear ids, in the order in which they start; whole clusters.
            capacity: how many run side by side; whole clusters.
            memory: that of the launch.
            start: makes a wave.
        """
        self._ctas = ctas
        self._capacity = capacity
        self._memory = memory
        self._start = start
        self._started = 0
        self._runners: list[WaveRunner] = []

    def run(self) -> StuckThreads | None:
        """Execute all CTAs; return who waits for ever, if anyone does.

        Raises:
            CannotExecuteAt: an instruction cannot be executed.
        """
        while True:
            progresses = self._fill()
            if not self._runners:
                return None
            for runner in tuple(self._runners):
                if runner.is_polling and runner.polled_changes == self._memory.changes:
                    continue
                progresses = True
                stuck = runner.run()
                if stuck is not None:
                    return self._stuck(stuck.waiting, stuck.ctas, ())
                if not runner.is_polling:
                    self._runners.remove(runner)
            if not progresses:
                polled = [part for runner in self._runners for part in runner.polled]
                waiting = [part for runner in self._runners for part in runner.stuck().waiting]
                return self._stuck(waiting, sum(runner.live_ctas for runner in self._runners), polled)

    def _fill(self) -> bool:
        """Start CTAs in the places that are free; return False if there are none."""
        free = self._capacity - sum(runner.live_ctas for runner in self._runners)
        ctas = self._ctas[self._started : self._started + free]
        if free <= 0 or not len(ctas):
            return False
        self._started += len(ctas)
        self._runners.append(self._start(ctas))
        return True

    def _stuck(self, waiting: Sequence[tuple[object, int, int]], ctas: int, polled: Sequence[Polled]) -> StuckThreads:
        return StuckThreads(tuple(waiting), ctas, len(self._ctas) - self._started, tuple(polled))  # type: ignore[arg-type]
