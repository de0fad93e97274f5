"""One launch in native code: builds the table of words from the bound arguments, calls the code, reports events.

If the code bails out, memory is restored to its contents before the launch.
"""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.engines.ttir.ir import Function
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.machine import Value
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector, Place
from harness.engines.virtual.native import calling_convention
from harness.engines.virtual.native.calling_convention import ParameterSlot, Word
from harness.engines.virtual.native.llvm_jit import Code
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.operations.memory import ODD_FILL
from harness.model.case import LaneFill

_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel's loaded machine code and the source places of its loads."""

    code: Code
    arena_bytes: int
    places: Sequence[Place]
    slots: tuple[ParameterSlot, ...]


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


_NULL = (0,) * len(Word)


class NativeScratch:
    """Memory that the launches of one process reuse, one after the other."""

    def __init__(self) -> None:
        self.records = np.zeros(0, np.int64)
        self._arena = np.zeros(0, np.int64)

    def arena(self, size_bytes: int) -> int:
        """The address of at least `size_bytes` bytes, aligned to 64."""
        if len(self._arena) * 8 < size_bytes + 64:
            self._arena = np.empty(size_bytes // 8 + 16, np.int64)
        return -(-self._arena.ctypes.data // 64) * 64

    def fresh_records(self) -> int:
        """The address of an emptied table of records."""
        if not len(self.records):
            # np.empty: pages that are never written cost no memory
            self.records = np.empty(calling_convention.RECORD_WORDS, np.int64)
        self.records[0] = 0
        return self.records.ctypes.data


class NativeLaunch:
    """One launch, bound to its arguments."""

    def __init__(
        self, kernel: LoadedKernel, values: Sequence[Value], arguments: Sequence[Argument], grid: LaunchGrid
    ) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._grid = grid
        self._shadows: dict[int, Array] = {}
        self._saved: list[tuple[Buffer, Array]] = []
        words = [grid.x, grid.y, grid.z, *(0,) * (calling_convention.HEADER_WORDS - 3)]
        for entry, value in zip(kernel.slots, values, strict=True):
            if entry.argument is not None:
                words += self._pointer(entry.argument)
            else:
                assert isinstance(value, np.ndarray)
                words.append(_number(value))
        self._words: Array = np.array(words, np.int64)

    def run(
        self,
        scratch: NativeScratch,
        lane_fill: LaneFill,
        events: EventCollector,
        entered: bytearray,
    ) -> bool:
        """Run the launch; returns False after a bailout.  On success, reports its loads' events to `events`.

        Sets the flags of the blocks that programs enter.
        """
        code = self._kernel
        self._save()
        counters = np.zeros(max(1, len(code.places)), np.int64)
        self._words[3] = scratch.arena(code.arena_bytes)
        self._words[4] = counters.ctypes.data
        self._words[5] = ODD_FILL if lane_fill is LaneFill.ODD else 0
        self._words[6] = scratch.fresh_records()
        self._words[7] = ctypes.addressof(ctypes.c_char.from_buffer(entered))
        if _CALL(code.code.address)(self._words.ctypes.data, 0, self._grid.programs):
            self._restore()
            return False
        for place, lanes in zip(code.places, counters.tolist(), strict=False):
            if lanes:
                events.undefined(place, lanes)
        _report_uninitialised(scratch.records, code.places, events)
        return True

    # --- the table ---

    def _pointer(self, number: int) -> tuple[int, ...]:
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
            self._shadow(argument, buffer) if buffer.track_readers else 0,
            _signed(poison.pattern) if poison is not None else 0,
            int(is_fresh),
        )

    def _shadow(self, argument: Argument, buffer: Buffer) -> int:
        size = argument.element_bytes
        if buffer.address not in self._shadows:
            self._shadows[buffer.address] = np.zeros(buffer.size_bytes // size, np.int32)
        return self._shadows[buffer.address].ctypes.data + argument.first_byte // size * 4

    # --- going back ---

    def _save(self) -> None:
        buffers = {argument.buffer.address: argument.buffer for argument in self._arguments if argument.buffer}
        self._saved = [(buffers[address], buffers[address].bytes.copy()) for address in self._shadows]

    def _restore(self) -> None:
        for buffer, content in self._saved:
            buffer.bytes[...] = content


def _report_uninitialised(records: Array, places: Sequence[Place], events: EventCollector) -> None:
    count = int(records[0])
    if not count:
        return
    elements, programs, sites = (records[first : first + count] for first in calling_convention.RECORD_COLUMNS)
    for site in np.unique(sites).tolist():
        is_here = sites == site
        events.uninitialised(places[site], elements[is_here], programs[is_here])


def _number(value: Array) -> int:
    (number,) = value.tolist()
    return _signed(struct.unpack("<Q", struct.pack("<d", number))[0]) if isinstance(number, float) else int(number)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
