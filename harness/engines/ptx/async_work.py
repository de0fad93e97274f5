"""Asynchronous work: copies and products that have been issued and have not landed.

Work lands as late as the waits of the kernel allow: a copy of `cp.async` at the wait for its group, a bulk copy when no
thread can run without it.  So a wait that is missing shows as old data, every time.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from harness.engines.ptx.groups import WorkGroups
from harness.engines.ptx.ptx_kernel import PtxInstruction, Register
from harness.engines.ptx.threads import Array


@runtime_checkable
class CopiedResults(Protocol):
    """Work that hears of copies of the registers that it will write."""

    def copied(self, source: Register, destination: Register, threads: Array) -> None: ...


class Pending(Protocol):
    """Work that lands when somebody waits for it."""

    def land(self) -> None: ...


BarrierKey = tuple[int, int]
"""A CTA's place in the wave, and the number of a named barrier or the address of an mbarrier there."""


class AsyncWork:
    """The asynchronous work of a wave."""

    def __init__(self, shadow: "SharedShadow", seed: int = 0) -> None:
        self.shadow = shadow
        self.copies = WorkGroups()
        """Copies of `cp.async`."""
        self.products = WorkGroups()
        """Products of `wgmma`."""
        self.stores = WorkGroups()
        """Bulk copies from shared to global memory."""
        self.tensor_stores = WorkGroups()
        """Stores to tensor memory, which land at `tcgen05.wait::st`."""
        self.bulk: list[Pending] = []
        """Work that completes an mbarrier."""
        self._draws = np.random.default_rng(seed)

    def land_next(self) -> bool:
        """Land one piece of work that completes an mbarrier, in a drawn order; False if there is none."""
        if not self.bulk:
            return False
        self.bulk.pop(int(self._draws.integers(len(self.bulk)))).land()
        return True

    def finish(self) -> None:
        """The wave has ended: land what is left."""
        while self.land_next():
            pass

    def copied(self, source: Register, destination: Register, threads: Array) -> None:
        """Threads copy a register, which may be the result of a product that has not landed."""
        for work in self.products.works:
            if isinstance(work, CopiedResults):
                work.copied(source, destination, threads)


class SharedShadow:
    """Hears of everything that touches or orders shared memory; this one sees nothing."""

    def snapshot(self) -> object:
        """Return what has happened before now."""

    def loaded(self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int) -> None:
        """Threads load from places in shared memory."""

    def stored(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, values: Array | None = None
    ) -> None:
        """Threads store; `values` has the bits of each one's element, if there is one element for each thread."""

    def updated(self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int) -> None:
        """Threads update by an atomic."""

    def landed(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, issued: object
    ) -> None:
        """A copy that threads issued lands; `issued` is the snapshot at the issue."""

    def signalled(self, thread: int, barrier: BarrierKey) -> None:
        """A bulk copy that a thread issued has landed, and an mbarrier hears of it."""

    def read_late(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, issued: object
    ) -> None:
        """Asynchronous work that threads issued reads."""

    def arrived(self, threads: Array, barrier: BarrierKey) -> None:
        """Threads arrive at a barrier."""

    def met(self, threads: Array | None, barrier: BarrierKey | None = None) -> None:
        """Threads go on after a barrier; None for all threads, each at the barrier of its CTA."""

    def ended(self, threads: Array) -> None:
        """Threads have ended."""

    def fenced(self, threads: Array) -> None:
        """Threads make what they know of visible to asynchronous work."""

    def initialised(self, threads: Array, barrier: BarrierKey) -> None:
        """A thread makes an mbarrier."""

    def completed(self, barrier: BarrierKey) -> None:
        """The phase of an mbarrier is complete."""

    def waited(self, threads: Array, barrier: BarrierKey) -> None:
        """Threads go on after a phase of an mbarrier."""
