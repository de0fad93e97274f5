"""Tensor memory: its cells and their allocation.

Each CTA has 128 lanes of 512 columns, with cells of 32 bits.  An address holds the lane in its upper 16 bits and the
column in its lower ones.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.engines.ptx.memories import FRESH_BYTE, Flaw, Flaws
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.tensor_queue import TensorQueue
from harness.engines.ptx.tensor_reads import CellIndex, PendingReads
from harness.engines.ptx.threads import WARP, Array, LaunchShape
from harness.errors import CannotExecute

LANES = 128
COLUMNS = 512
LANE_SHIFT = 16
COLUMN_MASK = 0xFFFF
LEAST_COLUMNS = 32
_FRESH_CELL = np.uint32(FRESH_BYTE * 0x01010101)


@dataclass(frozen=True, slots=True)
class _Allocation:
    count: int
    """Its columns."""
    instruction: PtxInstruction


class TensorMemory:
    """The tensor memory of the CTAs of a wave."""

    def __init__(self, shape: LaunchShape, flaws: Flaws, ids: Array) -> None:
        """`ids` are the linear ids of the CTAs."""
        self._shape = shape
        self._flaws = flaws
        self._ids = ids
        self.queue = TensorQueue(shape.threads)
        """Products and copies from shared memory that have not landed."""
        self.reads = PendingReads()
        self._allocations: dict[tuple[int, int], _Allocation] = {}
        """By CTA in the wave and first column."""
        self._relinquished: set[int] = set()

    @cached_property
    def cells(self) -> Array:
        """The cells, with the axes CTA, lane, column."""
        return np.full((len(self._ids), LANES, COLUMNS), _FRESH_CELL, np.uint32)

    @cached_property
    def _is_allocated(self) -> Array:
        """For each CTA and column."""
        return np.zeros((len(self._ids), COLUMNS), np.bool_)

    def report(self, instruction: PtxInstruction, kind: str, thread: int, text: str) -> None:
        """Record a flaw of one thread."""
        cta, own = divmod(thread, self._shape.threads)
        self._flaws.add(Flaw(kind, instruction, int(self._ids[cta]), own // WARP, text))

    def index(self, instruction: PtxInstruction, thread: int, ctas: Array, lanes: Array, columns: Array) -> CellIndex:
        """Return the index of cells, and record a use of columns that are not allocated.

        Args:
            instruction: the one that uses the cells.
            thread: one that executes it.
            ctas: places in the wave; they broadcast with the lanes and the columns.
            lanes: of each CTA.
            columns: of each CTA.
        """
        outside = (columns >= COLUMNS) | ~self._is_allocated[ctas, columns % COLUMNS]
        if outside.any():
            first = int(np.broadcast_to(columns, outside.shape)[outside][0])
            self.report(instruction, "outside allocated tensor memory", thread, f"column {first}")
        return ctas, lanes % LANES, columns % COLUMNS

    def write(self, instruction: PtxInstruction, thread: int, index: CellIndex, values: Array) -> None:
        """Set cells, and record a write to cells that a load may still read."""
        read = self.reads.of(index)
        if read is not None:
            cta, own = divmod(thread, self._shape.threads)
            flaw = Flaw(
                kind="written during a load",
                instruction=instruction,
                cta=int(self._ids[cta]),
                warp=own // WARP,
                text="no tcgen05.wait::ld came before",
                other=read.instruction,
                other_warp=int(read.warps[0]) % (self._shape.threads // WARP),
            )
            self._flaws.add(flaw)
        self.cells[index] = values

    # --- allocation ---

    def allocate(self, instruction: PtxInstruction, warp: int, count: int) -> int:
        """Return the first column of an allocation.

        Raises:
            CannotExecute: the number of columns is not allowed, or there are not as many left.
        """
        thread = warp * WARP
        cta = thread // self._shape.threads
        if cta in self._relinquished:
            self.report(instruction, "allocation after it was relinquished", thread, f"{count} columns")
        if count < LEAST_COLUMNS or count > COLUMNS or count & (count - 1):
            raise CannotExecute(f"an allocation of {count} columns of tensor memory")
        for first in range(0, COLUMNS, count):
            if not self._is_allocated[cta, first : first + count].any():
                self._is_allocated[cta, first : first + count] = True
                self._allocations[cta, first] = _Allocation(count, instruction)
                return first
        self.report(instruction, "tensor memory exhausted", thread, f"{count} more columns")
        raise CannotExecute(f"an allocation of {count} more columns of tensor memory, which waits for ever")

    def free(self, instruction: PtxInstruction, warp: int, first: int, count: int) -> None:
        """Free an allocation, whose content is lost."""
        cta = warp * WARP // self._shape.threads
        allocation = self._allocations.get((cta, first))
        if allocation is None or allocation.count != count:
            self.report(instruction, "freed tensor memory is not allocated", warp * WARP, f"{count} from {first}")
            return
        del self._allocations[cta, first]
        self._is_allocated[cta, first : first + count] = False
        self.cells[cta, :, first : first + count] = _FRESH_CELL

    def relinquish(self, warp: int) -> None:
        """A warp gives up its CTA's right to allocate."""
        self._relinquished.add(warp * WARP // self._shape.threads)

    def finish(self) -> None:
        """The wave has ended: record what was not freed."""
        for (cta, _), allocation in self._allocations.items():
            thread = cta * self._shape.threads
            self.report(allocation.instruction, "tensor memory not freed", thread, f"{allocation.count} columns")
