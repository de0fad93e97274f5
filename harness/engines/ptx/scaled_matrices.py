"""Tensor cores of one warp with a scale for each block of an operand: `mma.sync … block_scale`, of sm_120."""

import re

import numpy as np

from harness.engines.ptx.fragments import left_fragment, right_fragment, sum_fragment
from harness.engines.ptx.matrices import RegisterGroup, gather, product, scatter, write_registers
from harness.engines.ptx.ptx_kernel import Immediate, Operand, PtxInstruction, RegisterVector, parts
from harness.engines.ptx.small_floats import numbers_of_bytes, scales_of
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.errors import CannotExecute

_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_SCALES = frozenset({"ue8m0", "ue4m3"})
_ELEMENTS = frozenset({"e4m3", "e5m2", "e2m1"})
HEIGHT, WIDTH = 16, 8


def scaled_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return the effect of a product with scaled blocks; None for another instruction.

    Raises:
        CannotExecute: it has a form that is not known.
    """
    words = instruction.words
    if words[0] != "mma" or "block_scale" not in words:
        return None
    shape = next((found for word in words if (found := re.match(r"m16n8k(\d+)$", word))), None)
    vectors = next((count for word, count in _VECTORS.items() if word in words), 1)
    kinds = [word for word in words if word in _ELEMENTS]
    scale_kind = next((word for word in words if word in _SCALES), "")
    if shape is None or len(kinds) != 2 or not scale_kind or "f32" not in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    depth = int(shape[1])
    bits = 4 if any("f4" in word for word in words if word.startswith("kind::mxf4")) else 8
    destination, left, right, addend, left_scale, left_at, right_scale, right_at = instruction.operands
    groups = [RegisterGroup.of(operand, 32, rows) for operand in (left, right, addend)]
    scales = (
        _Scales.of(left_scale, left_at, vectors, rows),
        _Scales.of(right_scale, right_at, vectors, rows),
    )

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        first, second, third = (group.read(wave, warps) for group in groups)
        a = _matrix(first, left_fragment(depth, bits), (HEIGHT, depth), kinds[0], bits)
        b = _matrix(second, right_fragment(depth, bits), (depth, WIDTH), kinds[1], bits)
        c = gather(third, sum_fragment(HEIGHT, WIDTH, 32), (HEIGHT, WIDTH), "f32")
        block = depth // vectors
        row_scales = scales_of(scales[0].rows(wave, warps), scale_kind)
        column_scales = scales_of(scales[1].columns(wave, warps), scale_kind)
        a = a * np.repeat(row_scales, block, axis=2)
        b = b * np.repeat(column_scales, block, axis=2).swapaxes(1, 2)
        total = product(a, b, c)
        write_registers(wave, destination, rows)(warps, scatter(total, sum_fragment(HEIGHT, WIDTH, 32), "f32"))

    return effect


def _matrix(raw: Array, fragment: tuple[Array, Array], shape: tuple[int, int], kind: str, bits: int) -> Array:
    row, column = fragment
    each = 32 // bits
    codes = (raw[..., None] >> (np.arange(each, dtype=np.uint32) * np.uint32(bits))) & np.uint32((1 << bits) - 1)
    matrices = np.zeros((len(raw), *shape))
    matrices[:, row, column] = numbers_of_bytes(codes.astype(np.uint8), kind, is_padded=bits > 4)
    return matrices


class _Scales:
    """The register that holds scales, which of its bytes count, and which threads of a quad hold them."""

    def __init__(self, read: Read, byte: int, thread: int, vectors: int) -> None:
        self._read, self._byte, self._thread, self._vectors = read, byte, thread, vectors

    @classmethod
    def of(cls, register: Operand, selector: Operand, vectors: int, rows: RegisterRows) -> "_Scales":
        if not isinstance(selector, RegisterVector):
            raise CannotExecute("a PTX scale without a selector")
        numbers = [number.value for number in selector.parts if isinstance(number, Immediate)]
        if len(numbers) != 2:
            raise CannotExecute("a PTX scale whose selector is a register")
        return cls(rows.reader(parts(register)[0], np.uint32), numbers[0], numbers[1], vectors)

    def _bytes(self, wave: Wave, warps: Array) -> Array:
        """Return the scale bytes of all lanes: axes warp, lane, block."""
        values = np.broadcast_to(self._read(wave), (wave.size,)).reshape(-1, WARP)[warps]
        shifts = (np.arange(self._vectors, dtype=np.uint32) + np.uint32(self._byte)) * np.uint32(8)
        return (values[..., None] >> shifts & np.uint32(0xFF)).astype(np.uint8)

    def rows(self, wave: Wave, warps: Array) -> Array:
        """Return the scales of the left operand: two threads of each quad hold those of two rows."""
        lanes = np.arange(8) * 4 + 2 * self._thread
        held = self._bytes(wave, warps)
        return np.concatenate([held[:, lanes], held[:, lanes + 1]], axis=1)

    def columns(self, wave: Wave, warps: Array) -> Array:
        """Return the scales of the right operand: one thread of each quad holds those of a column."""
        return self._bytes(wave, warps)[:, np.arange(8) * 4 + self._thread]
