"""One launch in native code: builds the table of words from the bound arguments, calls the code, reports events.

If the code bails out, memory is restored to its contents before the launch.  A large launch is split among threads.
Each has shadow memory of its own, so two threads may miss that their programs meet in memory.  The shadows show it
afterwards, and that is a bailout too.  So a clean launch has the same bits and events on any number of cores.
"""

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.engines.ttir.ir import Function
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.machine import Value
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector, Place
from harness.engines.virtual.memory.huge_pages import prefer_huge_pages, zeros
from harness.engines.virtual.memory.touched_pages import touched_spans
from harness.engines.virtual.native import calling_convention
from harness.engines.virtual.native.calling_convention import ParameterSlot, Word
from harness.engines.virtual.native.cores import Cores, NativeScratch
from harness.engines.virtual.native.llvm_jit import Code
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.operations.memory import ODD_FILL
from harness.model.case import LaneFill

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel's loaded machine code and the source places of its loads."""

    code: Code
    arena_bytes: int
    places: Sequence[Place]
    slots: tuple[ParameterSlot, ...]
    is_best: bool
    """It is not worth compiling again."""


def pointee_bytes(kernel: Function) -> tuple[int, ...]:
    """Return the sizes of the elements that a kernel's pointer parameters lead to; 0 if unknown."""
    kinds = (parameter.type.pointee for parameter in kernel.parameters if parameter.type.is_pointer)
    return tuple(0 if kind is None else kind.bytes for kind in kinds)


def elements_match(sizes_in_kernel: Sequence[int], arguments: Sequence[Argument]) -> bool:
    """Return True if the kernel uses all arguments in elements of their own size, at aligned addresses.

    A cell of the shadow is then one element.
    """
    sizes: dict[int, int] = {}
    if len(sizes_in_kernel) != len(arguments):
        return False
    for argument, size_in_kernel in zip(arguments, sizes_in_kernel, strict=True):
        if argument.buffer is None:
            continue
        size = argument.element_bytes
        if size_in_kernel != size or argument.first_byte % size:
            return False
        if sizes.setdefault(argument.buffer.address, size) != size:
            return False
    return True


def tracked(arguments: Sequence[Argument]) -> frozenset[int]:
    """Numbers of the arguments whose memory the kernel may store to, through them or through aliases."""
    return frozenset(
        number for number, argument in enumerate(arguments) if argument.buffer and argument.buffer.track_readers
    )


_CELLS_AT_ONCE = 1 << 16
"""Cells of shadow memory that are compared at once: they fit into a core's cache."""
_NULL = (0,) * len(Word)


Run = Callable[[int, int, int], int]
"""The machine code: takes the table's address, the first program and the one after the last; see `kernel.SIGNATURE`."""


@dataclass(slots=True)
class _Part:
    """Neighbouring programs of a launch, which one thread runs, with shadow memory of their own."""

    first: int
    last: int
    scratch: NativeScratch
    counters: Array
    words: Array
    shadows: dict[int, Array]
    """By address of a storage."""

    def run(self, code: Run) -> bool:
        """Return True unless a program bails out."""
        return not code(self.words.ctypes.data, self.first, self.last)


@dataclass(frozen=True, slots=True)
class _Copy:
    """What memory held before the launch.  ctypes moves small memory in less time than NumPy."""

    address: int
    content: Array

    def fill(self, first: int, last: int) -> None:
        """Copy the bytes from `first` up to but excluding `last`."""
        ctypes.memmove(self.content.ctypes.data + first, self.address + first, last - first)

    def restore(self) -> None:
        ctypes.memmove(self.address, self.content.ctypes.data, len(self.content))


class NativeLaunch:
    """One launch, bound to its arguments."""

    def __init__(
        self, kernel: LoadedKernel, values: Sequence[Value], arguments: Sequence[Argument], grid: LaunchGrid
    ) -> None:
        self._kernel = kernel
        self._values = values
        self._arguments = arguments
        self._grid = grid
        self._saved: list[_Copy] = []

    def run(self, cores: Cores, lane_fill: LaneFill, events: EventCollector, entered: bytearray) -> bool:
        """Run the launch; returns False after a bailout.  On success, reports its loads' events to `events`.

        Sets the flags of the blocks that programs enter.
        """
        count = cores.parts_of(self._grid.programs, self._arguments)
        bounds = [self._grid.programs * number // count for number in range(count + 1)]
        flags = ctypes.addressof(ctypes.c_char.from_buffer(entered))
        parts = [
            self._part(first, last, scratch, ODD_FILL if lane_fill is LaneFill.ODD else 0, flags)
            for (first, last), scratch in zip(pairwise(bounds), cores.scratch(count), strict=True)
        ]
        self._save(parts[0].shadows, cores, count)
        code = CALL(self._kernel.code.address)
        is_clean = all(cores.map(lambda part: part.run(code), parts))
        if not is_clean or _meet([part.shadows for part in parts], cores):
            self._restore()
            return False
        places = self._kernel.places
        for place, *lanes in zip(places, *(part.counters.tolist() for part in parts), strict=False):
            if any(lanes):
                events.undefined(place, sum(lanes))
        report_uninitialised([part.scratch.records for part in parts], places, events)
        return True

    # --- the table ---

    def _part(self, first: int, last: int, scratch: NativeScratch, fill: int, flags: int) -> _Part:
        counters = np.zeros(max(1, len(self._kernel.places)), np.int64)
        shadows: dict[int, Array] = {}
        words = [self._grid.x, self._grid.y, self._grid.z, scratch.arena.address(self._kernel.arena_bytes)]
        words += (counters.ctypes.data, fill, scratch.fresh_records(), flags)
        for entry, value in zip(self._kernel.slots, self._values, strict=True):
            if entry.argument is not None:
                words += self._pointer(entry.argument, shadows)
            else:
                assert isinstance(value, np.ndarray)
                words.append(word_of_number(value))
        return _Part(first, last, scratch, counters, np.array(words, np.int64), shadows)

    def _pointer(self, number: int, shadows: dict[int, Array]) -> tuple[int, ...]:
        argument = self._arguments[number]
        buffer = argument.buffer
        if buffer is None:
            return _NULL
        covered = argument.covered
        poison = buffer.poison
        is_fresh = poison is not None and poison.size == argument.element_bytes
        return (
            buffer.address + argument.first_byte,
            argument.extent,
            0 if covered is None else covered.ctypes.data,
            _shadow(argument, buffer, shadows) if buffer.track_readers else 0,
            signed(poison.pattern) if poison is not None else 0,
            int(is_fresh),
        )

    # --- going back ---

    def _save(self, shadows: Iterable[int], cores: Cores, count: int) -> None:
        sizes = {one.buffer.address: one.buffer.size_bytes for one in self._arguments if one.buffer}
        self._saved = [_Copy(address, np.empty(sizes[address], np.uint8)) for address in shadows]
        for copy in self._saved:
            prefer_huge_pages(copy.address, len(copy.content))

        def fill(part: int) -> None:
            for copy in self._saved:
                size = len(copy.content)
                copy.fill(size * part // count, size * (part + 1) // count)

        cores.map(fill, range(count))

    def _restore(self) -> None:
        for copy in self._saved:
            copy.restore()


def _shadow(argument: Argument, buffer: Buffer, shadows: dict[int, Array]) -> int:
    """Return the address of the shadow cell of an argument's first element."""
    size = argument.element_bytes
    if buffer.address not in shadows:
        shadows[buffer.address] = zeros(buffer.size_bytes // size, np.int32)
    return shadows[buffer.address].ctypes.data + argument.first_byte // size * 4


def _meet(shadows: Sequence[Mapping[int, Array]], cores: Cores) -> bool:
    """Return True if a part of the programs touched a cell that another part stored to."""
    if len(shadows) == 1:
        return False
    spans: list[tuple[int, int, int]] = []
    for address in shadows[0]:
        touching = sum(touched_spans(part[address], _CELLS_AT_ONCE).astype(np.int64) for part in shadows)
        firsts = np.flatnonzero(touching > 1) * _CELLS_AT_ONCE
        spans += [(address, first, first + _CELLS_AT_ONCE) for first in firsts.tolist()]

    def meets(span: tuple[int, int, int]) -> bool:
        address, first, last = span
        one, *others = (part[address][first:last] for part in shadows)
        stored, touched = one < 0, one != 0
        for other in others:
            other_touched = other != 0
            both = touched & other_touched
            if both.any() and (both & (stored | (other < 0))).any():
                return True
            touched |= other_touched
            stored |= other < 0
        return False

    return any(cores.map(meets, spans))


def report_uninitialised(tables: Sequence[Array], places: Sequence[Place], events: EventCollector) -> None:
    """Report the records of uninitialised reads that native code has written."""
    counts = [int(table[0]) for table in tables]
    if not any(counts):
        return
    elements, programs, sites = (
        np.concatenate([table[first : first + count] for table, count in zip(tables, counts, strict=True)])
        for first in calling_convention.RECORD_COLUMNS
    )
    for site in np.unique(sites).tolist():
        is_here = sites == site
        events.uninitialised(places[site], elements[is_here], programs[is_here])


def word_of_number(value: Array) -> int:
    """Return a number in its parameter's type as a word."""
    (number,) = value.tolist()
    return signed(struct.unpack("<Q", struct.pack("<d", number))[0]) if isinstance(number, float) else int(number)


def signed(bits: int) -> int:
    """Return 64 bits as the integer that they are with a sign."""
    return bits - (1 << 64) if bits >> 63 else bits
