"""Loads from tensor memory that no `tcgen05.wait::ld` has completed: their cells must not be written."""

from dataclasses import dataclass, field

import numpy as np

from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array

CellIndex = tuple[Array, Array, Array]
"""CTA, lane and column of cells, as arrays that broadcast together."""


@dataclass(slots=True, eq=False)
class PendingRead:
    """One `tcgen05.ld` of some warps."""

    instruction: PtxInstruction
    warps: Array
    """Counted through the wave, along the first axis of the index."""
    index: CellIndex

    def touches(self, index: CellIndex) -> bool:
        """Return True if cells are among those that are read."""
        if not np.intersect1d(self.index[2], index[2]).size or not np.intersect1d(self.index[0], index[0]).size:
            return False
        return bool(np.isin(_numbers(index), _numbers(self.index)).any())


@dataclass(slots=True)
class PendingReads:
    """The loads of a wave."""

    _reads: list[PendingRead] = field(default_factory=list[PendingRead])

    def add(self, instruction: PtxInstruction, warps: Array, index: CellIndex) -> None:
        self._reads.append(PendingRead(instruction, warps, index))

    def complete(self, warps: Array) -> None:
        """All loads of some warps are complete."""
        left = list[PendingRead]()
        for read in self._reads:
            waits = ~np.isin(read.warps, warps)
            if waits.any():
                ctas, lanes, columns = (part[waits] if len(part) > 1 else part for part in read.index)
                left.append(PendingRead(read.instruction, read.warps[waits], (ctas, lanes, columns)))
        self._reads = left

    def of(self, index: CellIndex) -> PendingRead | None:
        """Return a load of some of these cells."""
        return next((read for read in self._reads if read.touches(index)), None)


def _numbers(index: CellIndex) -> Array:
    ctas, lanes, columns = np.broadcast_arrays(*index)
    return (ctas.astype(np.int64) << 16 | lanes << 9 | columns).reshape(-1)
