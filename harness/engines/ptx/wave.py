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
from harness.engines.ptx.tensor_memory import TensorMemory
from harness.engines.ptx.threads import ROW_TYPES, WARP, Array, LaunchShape
from harness.errors import CannotExecute

AXES = "xyz"
NANOSECONDS_PER_CLOCK_READ = 1000
"""Every read of a clock advances it by this much, so loops that wait for a time end."""


class Wave:
    """The CTAs of a launch that run side by side."""

    def __init__(
        self,
        registers: RegisterFile,
        shape: LaunchShape,
        ctas: Array,
        memories: Memories,
        asynchronous: AsyncWork,
    ) -> None:
        """`ctas` are linear CTA ids, whole clusters."""
        self.shape = shape
        self.ctas = ctas
        self.memories = memories
        self.asynchronous = asynchronous
        self.barriers = Barriers(len(ctas), shape, memories.flaws, asynchronous, ctas)
        self.tensor = TensorMemory(shape, memories.flaws, ctas)
        self.warps = shape.threads // WARP
        self.size = len(ctas) * shape.threads
        self.mask: Array | None = None
        """The threads that the instruction under way acts on; None for all."""
        self.clock_reads = 0
        self.kept: dict[object, object] = {}
        """What an executor of instructions keeps for the wave."""
        self.registers = registers
        self._files = {bits: np.zeros((count, self.size), ROW_TYPES[bits]) for bits, count in registers.rows.items()}
        self.rows: Mapping[int, list[Array]] = {bits: list(file) for bits, file in self._files.items()}

    @property
    def files(self) -> tuple[Array, ...]:
        """The rows of each width, as the rows of one array."""
        return tuple(self._files.values())

    @cached_property
    def carry(self) -> Array:
        """For each thread, the carry of its last instruction that leaves one."""
        return np.zeros(self.size, np.bool_)

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
        root, _, axis = name.partition(".")
        if (read := _SPECIAL.get(root)) is not None:
            return read(self)
        if (coordinates := _COORDINATES.get(root)) is not None and axis in AXES:
            return coordinates(self)[AXES.index(axis)]
        raise CannotExecute(f"the PTX register {name}")

    def read_clock(self) -> Array:
        """Return a clock that every read advances."""
        self.clock_reads += 1
        return np.array([self.clock_reads * NANOSECONDS_PER_CLOCK_READ], np.uint64)

    def coordinates(self, ids: Array) -> tuple[Array, Array, Array]:
        """Return for each thread the place on the grid of its CTA, given by its linear id."""
        x, y, _ = self.shape.grid
        return self.each_cta(ids % x), self.each_cta(ids // x % y), self.each_cta(ids // (x * y))

    def each_cta(self, numbers: Array) -> Array:
        """Return one number for each CTA as one for each thread."""
        return np.repeat(numbers.astype(np.uint32), self.shape.threads)


def _numbers(*numbers: int) -> tuple[Array, ...]:
    return tuple(np.array([number], np.uint32) for number in numbers)


_SPECIAL: Mapping[str, Callable[[Wave], Array]] = {
    "%warpid": lambda wave: wave.warp.astype(np.uint32),
    "%laneid": lambda wave: wave.lane,
    "%cluster_ctarank": lambda wave: wave.each_cta(wave.ctas % wave.shape.cluster),
    "%cluster_nctarank": lambda wave: _numbers(wave.shape.cluster)[0],
    "%smid": lambda wave: wave.each_cta(wave.ctas % wave.shape.sms),
    "%nsmid": lambda wave: _numbers(wave.shape.sms)[0],
    "%dynamic_smem_size": lambda wave: _numbers(wave.memories.shared.size_bytes)[0],
    "%total_smem_size": lambda wave: _numbers(wave.memories.shared.size_bytes)[0],
    "%lanemask_lt": lambda wave: (np.uint32(1) << wave.lane) - np.uint32(1),
    "%lanemask_eq": lambda wave: np.uint32(1) << wave.lane,
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"), Wave.read_clock),
}
"""The special registers of one number, by name."""
_COORDINATES: Mapping[str, Callable[[Wave], tuple[Array, ...]]] = {
    "%tid": lambda wave: (wave.thread.astype(np.uint32), *_numbers(0, 0)),
    "%ntid": lambda wave: _numbers(wave.shape.threads, 1, 1),
    "%ctaid": lambda wave: wave.coordinates(wave.ctas),
    "%nctaid": lambda wave: _numbers(*wave.shape.grid),
    "%cluster_ctaid": lambda wave: (wave.each_cta(wave.ctas % wave.shape.cluster), *_numbers(0, 0)),
    "%cluster_nctaid": lambda wave: _numbers(wave.shape.cluster, 1, 1),
    "%clusterid": lambda wave: (wave.coordinates(wave.ctas)[0] // wave.shape.cluster, *wave.coordinates(wave.ctas)[1:]),
    "%nclusterid": lambda wave: _numbers(wave.shape.grid[0] // wave.shape.cluster, *wave.shape.grid[1:]),
}
"""The special registers of three numbers, by name without the axis."""

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
                return lambda _: constant
            case Special():
                name = operand.name
                return lambda wave: wave.special(name).astype(dtype)
            case Symbol():
                address = immediate(self.address_of(operand), dtype)
                return lambda _: address
            case _:
                raise CannotExecute(f"the PTX operand {operand}")

    def address_of(self, symbol: Symbol) -> int:
        if symbol.name not in self._addresses:
            raise CannotExecute(f"the PTX variable {symbol.name}")
        return self._addresses[symbol.name]

    def known_address(self, symbol: Symbol) -> int | None:
        """Return the address of a variable; None for the name of anything else."""
        return self._addresses.get(symbol.name)

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
                return lambda *_: None
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

    def address(self, operand: Operand) -> Read:
        """Return a reader of an address as 64 bits."""
        assert isinstance(operand, Address)
        base, offset = operand.base, operand.offset
        if isinstance(base, Immediate | Symbol):
            first = base.value if isinstance(base, Immediate) else self.address_of(base)
            fixed = np.array([first + offset], np.int64)
            return lambda _: fixed
        assert isinstance(base, Register)
        dtype = np.uint32 if base.bits == 32 else np.uint64
        read = self.reader(base, dtype)
        if base.bits == 32:
            return lambda wave: (read(wave) + np.uint32(offset % (1 << 32))).astype(np.int64)
        return lambda wave: (read(wave) + np.uint64(offset % (1 << 64))).view(np.int64)


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
