"""Tensor cores of one warp: `mma.sync`, and `ldmatrix` and `stmatrix`, which move its operands.

Products are summed in float64 and rounded once to the type of the sum.  A GPU sums in blocks and truncates, so it
differs by a few units in the last place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engines.ptx.fragments import left_fragment, right_fragment, sum_fragment
from harness.engines.ptx.lane_accesses import report
from harness.engines.ptx.ptx_kernel import Operand, PtxInstruction, parts
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.engines.virtual.numbers import float8
from harness.errors import CannotExecute

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s32": 32, "f64": 64}
TENSOR_FLOAT_MASK = np.uint32(0xFFFFE000)
"""The bits of a float32 that a tensor core reads as tf32."""


def matrix_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return the effect of an instruction on matrices that one warp holds; None for another instruction."""
    match instruction.root:
        case "mma":
            return None if "block_scale" in instruction.words else _multiply(instruction, rows)
        case "ldmatrix":
            return _load_matrices(instruction, rows)
        case "stmatrix":
            return _store_matrices(instruction, rows)
        case _:
            return None


def numbers_of(raw: Array, kind: str) -> Array:
    """Return the elements of registers as float64, or as int64 for integers.

    Args:
        raw: registers of 32 or 64 bits, along the last axis.
        kind: the type of the elements; one more axis has those of one register.
    """
    raw = np.ascontiguousarray(raw)
    match kind:
        case "f16":
            return raw[..., None].view(np.float16).astype(np.float64)
        case "bf16":
            return (
                (raw[..., None].view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
            )
        case "tf32":
            return (raw & TENSOR_FLOAT_MASK).view(np.float32)[..., None].astype(np.float64)
        case "f32":
            return raw.view(np.float32)[..., None].astype(np.float64)
        case "f64":
            return raw.view(np.float64)[..., None]
        case "s8" | "u8":
            return raw[..., None].view(np.int8 if kind == "s8" else np.uint8).astype(np.int64)
        case "s32":
            return raw.view(np.int32)[..., None].astype(np.int64)
        case "e4m3" | "e5m2":
            name = "f8E4M3FN" if kind == "e4m3" else "f8E5M2"
            return float8.decode(raw[..., None].view(np.uint8), name).astype(np.float64)
        case _:
            raise CannotExecute(f"matrices of {kind}")


def registers_of(values: Array, kind: str) -> Array:
    """Return sums as registers; the last axis has the elements of one register."""
    match kind:
        case "f32":
            return values[..., 0].astype(np.float32).view(np.uint32)
        case "f64":
            return np.ascontiguousarray(values[..., 0]).view(np.uint64)
        case "f16":
            return np.ascontiguousarray(values.astype(np.float32).astype(np.float16)).view(np.uint32)[..., 0]
        case "s32":
            return values[..., 0].astype(np.uint64).astype(np.uint32)
        case _:
            raise CannotExecute(f"sums of {kind}")


def gather(raw: Array, fragment: tuple[Array, Array], shape: tuple[int, int], kind: str) -> Array:
    """Return matrices from the registers of warps: `raw` has the axes warp, lane, register."""
    row, column = fragment
    values = numbers_of(raw, kind)
    matrices = np.zeros((len(raw), *shape), values.dtype)
    matrices[:, row, column] = values
    return matrices


def scatter(matrices: Array, fragment: tuple[Array, Array], kind: str) -> Array:
    """Return the registers of warps that hold matrices."""
    row, column = fragment
    return registers_of(matrices[:, row, column], kind)


@dataclass(frozen=True, slots=True)
class RegisterGroup:
    """Some registers of the lanes of a warp."""

    reads: tuple[Read, ...]
    dtype: type[Any]

    @classmethod
    def of(cls, operand: Operand, bits: int, rows: RegisterRows) -> "RegisterGroup":
        dtype = np.uint64 if bits == 64 else np.uint32
        return cls(tuple(rows.reader(part, dtype) for part in parts(operand)), dtype)

    def read(self, wave: Wave, warps: Array) -> Array:
        """Return the registers of these warps, with the axes warp, lane, register."""
        whole = np.empty((wave.size, len(self.reads)), self.dtype)
        for number, read in enumerate(self.reads):
            whole[:, number] = read(wave)
        return whole.reshape(-1, WARP, len(self.reads))[warps]


def write_registers(wave: Wave, operand: Operand, rows: RegisterRows) -> Callable[[Array, Array], None]:
    """Return a function that writes registers of some warps, with the axes warp, lane, register."""
    writers = [rows.writer(part) for part in parts(operand)]

    def write(warps: Array, registers: Array) -> None:
        whole = np.zeros((wave.size // WARP, WARP), registers.dtype)
        for number, writer in enumerate(writers):
            whole[warps] = registers[:, :, number]
            writer(wave, whole.reshape(-1))

    return write


def product(left: Array, right: Array, addend: Array) -> Array:
    """Return `left @ right + addend` for stacks of matrices, in float64 or in int64."""
    return np.matmul(left, right) + addend


def _multiply(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    words = instruction.words
    shape = next((found for word in words if (found := _SHAPE.match(word))), None)
    kinds = [word for word in words if word in _WIDTHS]
    if shape is None or len(kinds) != 4 or not {"row", "col"} <= set(words) or "sp" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    height, width, depth = (int(number) for number in shape.groups())
    out, left_kind, right_kind, in_kind = kinds
    if (height, width) not in {(16, 8), (8, 8)} or (height == 8 and left_kind != "f64"):
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    bits = _WIDTHS[left_kind]
    left_at = left_fragment(depth, bits) if height == 16 else _small_left(depth)
    right_at = right_fragment(depth, bits)
    destination, left, right, addend = instruction.operands[:4]
    groups = [
        RegisterGroup.of(operand, _WIDTHS[kind], rows)
        for operand, kind in ((left, left_kind), (right, right_kind), (addend, in_kind))
    ]
    saturates = "satfinite" in words

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        first, second, third = (group.read(wave, warps) for group in groups)
        a = gather(first, left_at, (height, depth), left_kind)
        b = gather(second, right_at, (depth, width), right_kind)
        c = gather(third, sum_fragment(height, width, _WIDTHS[in_kind]), (height, width), in_kind)
        total = product(a, b, c)
        if saturates and out == "s32":
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        write_registers(wave, destination, rows)(warps, scatter(total, sum_fragment(height, width, _WIDTHS[out]), out))

    return effect


def _small_left(depth: int) -> tuple[Array, Array]:
    lanes = np.arange(WARP)[:, None, None]
    del depth
    return lanes >> 2, lanes & 3


def _load_matrices(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    count, transposed = matrix_form(instruction, "m8n8", "b16")
    address = rows.address(instruction.operands[1])
    writers = [rows.writer(part) for part in parts(instruction.operands[0])]

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        places = _row_places(wave, instruction, (address(wave), warps, count))
        wave.asynchronous.shadow.loaded(instruction, _row_threads(warps, count), places.reshape(-1), 16)
        halves = wave.memories.shared.view(np.uint16)[places[..., None] // 2 + np.arange(8)]
        if transposed:
            halves = halves.swapaxes(-1, -2)
        # A lane gets two neighbours of one row.
        registers = np.ascontiguousarray(halves).view(np.uint32).reshape(len(warps), count, WARP)
        whole = np.zeros((wave.size // WARP, WARP), np.uint32)
        for number, write in enumerate(writers):
            whole[warps] = registers[:, number]
            write(wave, whole.reshape(-1))

    return effect


def _store_matrices(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    has_bytes = "b8" in instruction.words
    count, transposed = matrix_form(instruction, *(("m16n8", "b8", "trans") if has_bytes else ("m8n8", "b16")))
    address = rows.address(instruction.operands[0])
    reads = [rows.reader(part, np.uint32) for part in parts(instruction.operands[1])]

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        places = _row_places(wave, instruction, (address(wave), warps, count))
        registers = np.stack(
            [np.broadcast_to(read(wave), (wave.size,)).reshape(-1, WARP)[warps] for read in reads], axis=1
        )
        shared = wave.memories.shared
        stored = _rows_of_bytes(registers) if has_bytes else _rows_of_halves(registers, transposed=transposed)
        words = np.ascontiguousarray(stored).view(np.uint32).reshape(-1)
        at = (places[..., None] + 4 * np.arange(4)).reshape(-1)
        threads = np.repeat(_row_threads(warps, count), 4)
        wave.asynchronous.shadow.stored(instruction, threads, at, 4, words)
        shared.view(np.uint32)[at // 4] = words
        shared.written[places[..., None] + np.arange(16)] = True

    return effect


def _rows_of_halves(registers: Array, *, transposed: bool) -> Array:
    """Return the rows of matrices of 8 x 8 elements of 16 bits; `registers` has the axes warp, matrix, lane."""
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape[:2], 8, 8)
    return halves.swapaxes(-1, -2) if transposed else halves


def _rows_of_bytes(registers: Array) -> Array:
    """Return the transposed rows of matrices of 16 x 8 bytes; `registers` has the axes warp, matrix, lane.

    Lane `4 * g + t` holds columns `2 * t` and `2 * t + 1` of row `g`, then of row `g + 8`.
    """
    held = np.ascontiguousarray(registers).view(np.uint8).reshape(*registers.shape[:2], 8, 4, 2, 2)
    return held.transpose(0, 1, 3, 5, 4, 2).reshape(*registers.shape[:2], 8, 16)


def matrix_form(instruction: PtxInstruction, *known: str) -> tuple[int, bool]:
    """Return how many matrices `ldmatrix` or `stmatrix` moves, and whether it transposes them.

    Args:
        instruction: it.
        known: the words of the form that the caller moves.

    Raises:
        CannotExecute: it has another form.
    """
    words = instruction.words
    if not set(known) <= set(words):
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    return next(int(word[1]) for word in words if word in {"x1", "x2", "x4"}), "trans" in words


def _row_threads(warps: Array, count: int) -> Array:
    """Return for each row of each matrix the thread that has its address."""
    return (warps[:, None] * WARP + np.arange(8 * count)).reshape(-1)


def _row_places(wave: Wave, instruction: PtxInstruction, matrices: tuple[Array, Array, int]) -> Array:
    """Return the places in shared memory of the eight rows of each matrix: axes warp, matrix, row.

    `matrices` are the addresses of all lanes, the warps, and how many matrices each has.
    """
    addresses, warps, count = matrices
    lanes = np.broadcast_to(addresses, (wave.size,)).reshape(-1, WARP)[warps, : 8 * count]
    threads = _row_threads(warps, count)
    flat = lanes.reshape(-1)
    if (flat & 15).any():
        thread = int(threads[np.flatnonzero(flat & 15)[0]])
        report(wave, instruction, "misaligned", thread, "a row of a matrix at no multiple of 16 bytes")
        raise CannotExecute(f"a misaligned access: {instruction}")
    shared = wave.memories.shared
    places, outside = shared.offsets(flat, wave.cta[threads], 16)
    if outside is not None:
        thread = int(threads[np.flatnonzero(outside)[0]])
        report(wave, instruction, "outside shared memory", thread, f"of {shared.size_bytes} bytes")
        places = np.where(outside, 0, places)
    return places.reshape(len(warps), count, 8)
