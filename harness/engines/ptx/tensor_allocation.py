"""`tcgen05.alloc`, `dealloc` and `relinquish_alloc_permit`, which whole warps execute."""

import numpy as np

from harness.engines.ptx.lane_accesses import LaneAccess, store_lanes
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.tensor_memory import COLUMN_MASK
from harness.engines.ptx.threads import WARP
from harness.engines.ptx.wave import Effect, RegisterRows, Wave


def allocation_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of an instruction that allocates or frees tensor memory."""
    match instruction.words[1]:
        case "alloc":
            return _allocate(instruction, rows)
        case "dealloc":
            return _free(instruction, rows)
        case _:
            return lambda wave: _relinquish(wave, instruction)


def _allocate(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`tcgen05.alloc`: columns, whose address goes to shared memory."""
    target, count = rows.address(instruction.operands[0]), rows.reader(instruction.operands[1], np.uint32)
    access = LaneAccess(instruction, target, np.uint32, 1, "shared")

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        leaders = warps * WARP
        counts = np.broadcast_to(count(wave), (wave.size,))
        addresses = np.broadcast_to(target(wave), (wave.size,))[leaders]
        tensor = wave.tensor
        columns = [tensor.allocate(instruction, warp, int(counts[warp * WARP])) for warp in warps.tolist()]
        store_lanes(wave, access, leaders, addresses, np.array(columns, np.uint32))

    return effect


def _free(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    address, count = (rows.reader(operand, np.uint32) for operand in instruction.operands[:2])

    def effect(wave: Wave) -> None:
        addresses, counts = (np.broadcast_to(read(wave), (wave.size,)) for read in (address, count))
        for warp in wave.active_warps(instruction.opcode).tolist():
            first = int(addresses[warp * WARP]) & COLUMN_MASK
            wave.tensor.free(instruction, warp, first, int(counts[warp * WARP]))

    return effect


def _relinquish(wave: Wave, instruction: PtxInstruction) -> None:
    for warp in wave.active_warps(instruction.opcode).tolist():
        wave.tensor.relinquish(warp)
