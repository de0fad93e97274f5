"""Loads and stores between registers and tensor memory: `tcgen05.ld`, `tcgen05.st`, and the waits for them.

A warp moves a tile of 16 or 32 lanes.  Cells of a store are set at `tcgen05.wait::st`.  Registers of a load are set at
once: `ptxas` lets each use of them wait, which Triton relies on.  `tcgen05.wait::ld` allows the cells to be written.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.engines.ptx.lane_accesses import report
from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.matrices import RegisterGroup, write_registers
from harness.engines.ptx.ptx_kernel import Address, Immediate, Operand, PtxInstruction, RegisterVector, parts
from harness.engines.ptx.tensor_memory import COLUMN_MASK, LANE_SHIFT, LANES
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute

_SHAPES = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"}
_HALVES = 2
"""The 16-bit elements that a packing load joins, from neighbouring columns."""
_HALF_BITS = 16


@cache
def tile(shape: str, repeats: int) -> tuple[Array, Array]:
    """Return lane and column of each register, with the axes thread and register.

    The second half of a `16x32bx2` tile is 32 lanes further here; its place is in the instruction.
    """
    thread = np.arange(WARP)[:, None]
    match shape:
        case "32x32b":
            lane, column = thread, np.arange(repeats)[None, :]
        case "16x32bx2":
            lane, column = thread % 16 + 32 * (thread // 16), np.arange(repeats)[None, :]
        case "16x64b":
            lane, column = thread // 4 + 8 * (thread % 2), (thread >> 1) % 2 + 2 * np.arange(repeats)[None, :]
        case "16x128b":
            register = np.arange(2 * repeats)[None, :]
            lane, column = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
        case _:
            register = np.arange(4 * repeats)[None, :]
            lane = thread // 4 + 8 * (register // 2 % 2)
            column = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    return np.broadcast_arrays(lane, column)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What one instruction moves."""

    instruction: PtxInstruction
    lanes: Array
    columns: Array
    is_packed: bool
    """A register holds the lower halves of two cells."""


def _form(instruction: PtxInstruction) -> _Form:
    words = instruction.words
    shape = next((word for word in words if word in _SHAPES), None)
    repeats = next((int(word[1:]) for word in words if word[0] == "x" and word[1:].isdigit()), 0)
    if shape is None or not repeats:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    lanes, columns = tile(shape, repeats)
    is_packed = "pack::16b" in words or "unpack::16b" in words
    if shape == "16x32bx2":
        at = next(number for number, part in enumerate(instruction.operands) if isinstance(part, Address))
        split = instruction.operands[at + 1]
        assert isinstance(split, Immediate)
        second = lanes >= 32
        columns = columns * (_HALVES if is_packed else 1) + second * (split.value & COLUMN_MASK)
        lanes = lanes % 32 + second * (split.value >> LANE_SHIFT)
    elif is_packed:
        columns = columns * _HALVES
    return _Form(instruction, lanes, columns, is_packed)


@dataclass(frozen=True, slots=True, eq=False)
class _Tiles:
    """The tiles that some warps move."""

    form: _Form
    warps: Array
    addresses: Array
    """One for each warp."""

    def index(self, wave: Wave, chosen: Array) -> tuple[Array, Array, Array]:
        """Return the index of the cells, with the axes warp, thread, register, half; the last if they are packed."""
        warps, addresses = self.warps[chosen], self.addresses[chosen].astype(np.int64)[:, None, None]
        lanes = self.form.lanes + (addresses >> LANE_SHIFT)
        columns = self.form.columns + (addresses & COLUMN_MASK)
        first = int(warps[0]) * WARP
        quarter = (wave.warp[warps * WARP] % (LANES // WARP))[:, None, None]
        if (lanes // WARP != quarter).any():
            report(wave, self.form.instruction, "lanes of another warp", first, f"lane {int(lanes.flat[0])}")
        ctas = wave.cta[warps * WARP][:, None, None]
        if self.form.is_packed:
            ctas, lanes, columns = ctas[..., None], lanes[..., None], columns[..., None] + np.arange(_HALVES)
        return wave.tensor.index(self.form.instruction, first, ctas, lanes, columns)


def _tiles(instruction: PtxInstruction, rows: RegisterRows, wave: Wave, form: _Form, address: Operand) -> _Tiles:
    warps = wave.active_warps(instruction.opcode)
    addresses = np.broadcast_to(rows.address(address)(wave), (wave.size,)).reshape(-1, WARP)[warps]
    if (addresses != addresses[:, :1]).any():
        raise CannotExecute(f"{instruction.opcode} with several addresses in a warp")
    return _Tiles(form, warps, addresses[:, 0].copy())


def load_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `tcgen05.ld`, also with a reduction of each thread's registers."""
    form = _form(instruction)
    reduction = _Reduction.of(instruction) if "red" in instruction.words else None
    at = next(number for number, part in enumerate(instruction.operands) if isinstance(part, Address))
    destination = RegisterVector(tuple(part for operand in instruction.operands[:at] for part in parts(operand)))

    def effect(wave: Wave) -> None:
        tiles = _tiles(instruction, rows, wave, form, instruction.operands[at])
        index = tiles.index(wave, np.ones(len(tiles.warps), np.bool_))
        registers = wave.tensor.cells[index]
        wave.tensor.reads.add(instruction, tiles.warps, index)
        if form.is_packed:
            registers = registers[..., 0] & np.uint32(0xFFFF) | registers[..., 1] << np.uint32(_HALF_BITS)
        if reduction is not None:
            registers = np.concatenate((registers, reduction.of_registers(registers)), axis=2)
        write_registers(wave, destination, rows)(tiles.warps, registers)

    return effect


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The smallest or the largest of a thread's registers."""

    kind: str
    is_largest: bool
    is_absolute: bool
    keeps_nan: bool

    @classmethod
    def of(cls, instruction: PtxInstruction) -> "_Reduction":
        words = instruction.words
        if instruction.kind not in {"f32", "u32", "s32"}:
            raise CannotExecute(f"the PTX instruction {instruction.opcode}")
        return cls(instruction.kind, "max" in words, "abs" in words, "NaN" in words)

    def of_registers(self, registers: Array) -> Array:
        """Reduce the last axis to one register."""
        values = np.ascontiguousarray(registers).view(DTYPES[self.kind])
        values = np.abs(values) if self.is_absolute else values
        if self.kind != "f32" or self.keeps_nan:
            reduced = (np.maximum if self.is_largest else np.minimum).reduce(values, axis=2)
        else:
            reduced = (np.fmax if self.is_largest else np.fmin).reduce(values, axis=2)
        return reduced.view(np.uint32)[..., None]


def store_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `tcgen05.st`."""
    form = _form(instruction)
    group = RegisterGroup.of(instruction.operands[-1], 32, rows)

    def effect(wave: Wave) -> None:
        tiles = _tiles(instruction, rows, wave, form, instruction.operands[0])
        wave.asynchronous.tensor_stores.issue(wave.mask_of_active(), _Store(wave, tiles, group.read(wave, tiles.warps)))

    return effect


@dataclass(frozen=True, slots=True, eq=False)
class _Store:
    wave: Wave
    tiles: _Tiles
    registers: Array

    def land(self, landing: Array) -> None:
        wave = self.wave
        chosen = landing.reshape(-1, WARP)[:, 0][self.tiles.warps]
        if not chosen.any():
            return
        registers = self.registers[chosen]
        if self.tiles.form.is_packed:
            registers = np.stack((registers & np.uint32(0xFFFF), registers >> np.uint32(_HALF_BITS)), axis=-1)
        index = self.tiles.index(wave, chosen)
        wave.tensor.write(self.tiles.form.instruction, int(self.tiles.warps[0]) * WARP, index, registers)


def wait_effect(instruction: PtxInstruction) -> Effect:
    """Return the effect of `tcgen05.wait`: all loads or stores of the threads are complete."""
    if instruction.words[1] == "wait::ld":
        return lambda wave: wave.tensor.reads.complete(wave.active_warps(instruction.opcode))

    def effect(wave: Wave) -> None:
        wave.asynchronous.tensor_stores.commit(wave.mask_of_active())
        wave.asynchronous.tensor_stores.wait(wave.mask_of_active(), 0)

    return effect
