"""The threads that run side by side: their registers, their numbers, and which of them an instruction acts on.

A wave is several CTAs.  Each row of the register file is an array with one element for each thread: CTA by CTA, warp by
warp, lane by lane.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from harness.engines.ptx.async_work import AsyncWork
from harness.engines.ptx.barriers import Barriers
from harness.engines.ptx.flow import RegisterFile
from harness.engines.ptx.memories import Memories
from harness.engines.ptx.ptx_kernel import (
    Address,
    Immediate,
    Negated,
    Operand,
    PtxKernel,
    Register,
    Sink,
    Special,
    Symbol,
)
from harness.engines.ptx.threads import ROW_TYPES, WARP, Array, LaunchShape
from harness.errors import CannotExecute

NANOSECONDS_PER_CLOCK_READ = 1000
"""Every read of a clock advances it by this much, so loops that wait for a time end."""


class Wave:
    """The CTAs of a launch that run side by side."""

    def __init__(
        self,
        kernel: PtxKernel,
        registers: RegisterFile,
        shape: LaunchShape,
        ctas: Array,
        memories: Memories,
        asynchronous: AsyncWork,
    ) -> None:
        """`ctas` are linear CTA ids, whole clusters."""
        self.kernel = kernel
        self.shape = shape
        self.ctas = ctas
        self.memories = memories
        self.asynchronous = asynchronous
        self.barriers = Barriers(len(ctas), shape, memories.flaws, asynchronous, ctas)
        self.warps = shape.threads // WARP
        self.size = len(ctas) * shape.threads
        self.mask: Array | None = None
        """The threads that the instruction under way acts on; None for all."""
        self.clock_reads = 0
        self.registers = registers
        self._files = {bits: np.zeros((count, self.size), ROW_TYPES[bits]) for bits, count in registers.rows.items()}
        self.rows: Mapping[int, list[Array]] = {bits: list(file) for bits, file in self._files.items()}

    # --- numbers of threads ---

    @cached_property
    def cta(self) -> Array:
        """For each thread, the place of its CTA in the wave."""
        return np.repeat(np.arange(len(self.ctas)), self.shape.threads)

    @cached_property
    def warp(self) -> Array:
        """For each thread, the number of its warp in its CTA."""
        return self.thread // WARP

    @cached_property
    def thread(self) -> Array:
        """For each thread, its number in its CTA."""
        return np.tile(np.arange(self.shape.threads), len(self.ctas))

    @cached_property
    def lane(self) -> Array:
        return (self.thread % WARP).astype(np.uint32)

    def mask_of_active(self) -> Array:
        """Return the mask of the threads that the instruction acts on, as a copy."""
        return np.ones(self.size, np.bool_) if self.mask is None else self.mask.copy()

    def active(self) -> Array:
        """Return the indices of the threads that the instruction acts on."""
        if self.mask is None:
            return np.arange(self.size)
        return np.flatnonzero(self.mask)

    def active_warps(self, opcode: str) -> Array:
        """Return the warps, counted through the wave, that execute an instruction of whole warps.

        Raises:
            CannotExecute: a part of a warp executes it.
        """
        if self.mask is None:
            return np.arange(self.size // WARP)
        by_warp = self.mask.reshape(-1, WARP)
        whole = by_warp.all(axis=1)
        if (by_warp.any(axis=1) != whole).any():
            raise CannotExecute(f"{opcode} in a part of a warp")
        return np.flatnonzero(whole)

    # --- special registers ---

    def special(self, name: str) -> Array:
        """Return a special register as unsigned numbers, one for each thread.

        Raises:
            CannotExecute: the register is not known.
        """
        value = self._special(name)
        return np.broadcast_to(value, (self.size,))

    def _special(self, name: str) -> Array:
        x, y, _ = self.shape.grid
        ids = self.ctas
        match name:
            case "%tid.x":
                return self.thread.astype(np.uint32)
            case "%tid.y" | "%tid.z":
                return np.uint32(0)  # type: ignore[return-value]
            case "%warpid":
                return self.warp.astype(np.uint32)
            case "%laneid":
                return self.lane
            case "%ntid.x":
                return np.uint32(self.shape.threads)  # type: ignore[return-value]
            case "%ntid.y" | "%ntid.z":
                return np.uint32(1)  # type: ignore[return-value]
            case "%ctaid.x":
                return self.each_cta(ids % x)
            case "%ctaid.y":
                return self.each_cta(ids // x % y)
            case "%ctaid.z":
                return self.each_cta(ids // (x * y))
            case "%nctaid.x" | "%nctaid.y" | "%nctaid.z":
                return np.uint32(self.shape.grid["xyz".index(name[-1])])  # type: ignore[return-value]
            case "%cluster_ctarank" | "%cluster_ctaid.x":
                return self.each_cta(ids % self.shape.cluster)
            case "%cluster_nctarank" | "%cluster_nctaid.x":
                return np.uint32(self.shape.cluster)  # type: ignore[return-value]
            case "%clusterid.x":
                return self.each_cta(ids % x // self.shape.cluster)
            case "%clusterid.y":
                return self.each_cta(ids // x % y)
            case "%clusterid.z":
                return self.each_cta(ids // (x * y))
            case "%nclusterid.x":
                return np.uint32(x // self.shape.cluster)  # type: ignore[return-value]
            case "%smid":
                return self.each_cta(ids % self.shape.sms)
            case "%nsmid":
                return np.uint32(self.shape.sms)  # type: ignore[return-value]
            case "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo":
                self.clock_reads += 1
                return np.uint64(self.clock_reads * NANOSECONDS_PER_CLOCK_READ)  # type: ignore[return-value]
            case "%dynamic_smem_size" | "%total_smem_size":
                return np.uint32(self.memories.shared.size_bytes)  # type: ignore[return-value]
            case "%lanemask_lt":
                return (np.uint32(1) << self.lane) - np.uint32(1)
            case "%lanemask_eq":
                return np.uint32(1) << self.lane
            case _:
                raise CannotExecute(f"the PTX register {name}")

    def each_cta(self, numbers: Array) -> Array:
        """Return one number for each CTA as one for each thread."""
        return np.repeat(numbers.astype(np.uint32), self.shape.threads)


Effect = Callable[[Wave], None]
"""What an instruction does to the threads of `Wave.mask`."""
Read = Callable[[Wave], Array]
"""Returns an operand, one value for each thread, or one for all."""
Write = Callable[[Wave, Array], None]
"""Sets a register of the threads of `Wave.mask`; the values are those of all threads."""


class RegisterRows:
    """Makes readers and writers of operands, for the register file of one kernel."""

    def __init__(self, registers: RegisterFile, kernel: PtxKernel, addresses: Mapping[str, int]) -> None:
        """`addresses` are those of variables, by name."""
        self._registers = registers
        self.kernel = kernel
        self._addresses = addresses

    def row(self, register: Register) -> tuple[int, int]:
        """Return width and number of a register's row."""
        return register.bits, self._registers.row[register]

    def reader(self, operand: Operand, dtype: type[Any]) -> Read:
        """Return a reader of an operand as a type; of a wider register its low bits."""
        match operand:
            case Register():
                return self._register_reader(operand, dtype)
            case Negated():
                inner = self._register_reader(operand.register, np.bool_)
                return lambda wave: ~inner(wave)
            case Immediate():
                constant = immediate(operand.value, dtype)
                return lambda wave: constant
            case Special():
                name = operand.name
                return lambda wave: wave.special(name).astype(dtype)
            case Symbol():
                address = immediate(self.address_of(operand), dtype)
                return lambda wave: address
            case _:
                raise CannotExecute(f"the PTX operand {operand}")

    def address_of(self, symbol: Symbol) -> int:
        if symbol.name not in self._addresses:
            raise CannotExecute(f"the PTX variable {symbol.name}")
        return self._addresses[symbol.name]

    def _register_reader(self, register: Register, dtype: type[Any]) -> Read:
        bits, number = self.row(register)
        wanted = np.dtype(dtype)
        if wanted == np.bool_:
            if bits == 1:
                return lambda wave: wave.rows[1][number]
            return lambda wave: wave.rows[bits][number] != 0
        if bits == 1:
            return lambda wave: wave.rows[1][number].astype(wanted)
        if wanted.itemsize * 8 == bits:
            return lambda wave: wave.rows[bits][number].view(wanted)
        unsigned = np.dtype(f"u{wanted.itemsize}")
        return lambda wave: wave.rows[bits][number].astype(unsigned).view(wanted)

    def writer(self, operand: Operand) -> Write:
        """Return a writer of a register.  Values of another width are truncated, or extended by their sign."""
        match operand:
            case Sink():
                return lambda wave, values: None
            case Register():
                pass
            case _:
                raise CannotExecute(f"the PTX result {operand}")
        bits, number = self.row(operand)
        if bits == 1:

            def write_predicate(wave: Wave, values: Array) -> None:
                put(wave, wave.rows[1][number], values.astype(np.bool_, copy=False))

            return write_predicate
        dtype = np.dtype(ROW_TYPES[bits])

        def write(wave: Wave, values: Array) -> None:
            if values.dtype.itemsize == dtype.itemsize and values.dtype != np.bool_:
                values = values.view(dtype)
            elif values.dtype.kind == "f":
                values = values.view(f"u{values.dtype.itemsize}").astype(dtype)
            else:
                values = values.astype(dtype)
            put(wave, wave.rows[bits][number], values)

        return write

    def address(self, operand: Operand) -> tuple[Read, int]:
        """Return a reader of an address as 64 bits, and the space that a variable in it names; 0 for none."""
        assert isinstance(operand, Address)
        base, offset = operand.base, operand.offset
        if isinstance(base, Immediate):
            fixed = np.int64(base.value + offset)
            return (lambda wave: fixed), 0
        if isinstance(base, Symbol):
            fixed = np.int64(self.address_of(base) + offset)
            return (lambda wave: fixed), 0
        assert isinstance(base, Register)
        dtype = np.uint32 if base.bits == 32 else np.uint64
        read = self.reader(base, dtype)
        if base.bits == 32:
            return (lambda wave: (read(wave) + np.uint32(offset % (1 << 32))).astype(np.int64)), 0
        return (lambda wave: (read(wave) + np.uint64(offset % (1 << 64))).view(np.int64)), 0


def put(wave: Wave, row: Array, values: Array) -> None:
    """Set a row for the threads of the mask."""
    if wave.mask is None:
        row[...] = values
    else:
        np.copyto(row, values, where=wave.mask)


def immediate(value: int, dtype: type[Any]) -> Array:
    """Return a constant's bits as a number of a type."""
    wanted = np.dtype(dtype)
    if wanted == np.bool_:
        return np.array([bool(value)])
    bits = 8 * wanted.itemsize
    return np.array([value % (1 << bits)], f"u{wanted.itemsize}").view(wanted)
