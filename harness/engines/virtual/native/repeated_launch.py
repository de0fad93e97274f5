"""A launch in native code that differs from an earlier one in addresses, poison and numbers alone.

`NativeLaunch` makes a table of words from bound arguments.  Here the table of the earlier launch is filled in place,
and one piece of memory holds all shadows and all copies of what the launch may store to.
"""

import ctypes
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.huge_pages import LARGE_BYTES
from harness.engines.virtual.native.calling_convention import HEADER_WORDS, ParameterSlot, Word
from harness.engines.virtual.native.cores import Cores, NativeScratch
from harness.engines.virtual.native.native_launch import (
    CALL,
    LoadedKernel,
    Run,
    report_uninitialised,
    signed,
)
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.execution.poison import Poison

if TYPE_CHECKING:
    from harness.engines.virtual.memory.arguments import Argument
    from harness.engines.virtual.numbers.elements import Array

MOST_BYTES = LARGE_BYTES
"""Memory that a repeated launch may store to.  For more, the time of preparing a launch does not matter."""
_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A storage that the launch may store to."""

    argument: int
    """The first argument that lies in it."""
    size_bytes: int
    saved: int
    """Where its copy begins in the memory of the launch."""


@dataclass(frozen=True, slots=True)
class LaunchValues:
    """What differs among launches of one pattern."""

    grid: tuple[int, int, int]
    fill: int
    """The value of undefined lanes."""
    addresses: Sequence[int]
    """Of the storages, one for each pointer parameter."""
    poisons: Sequence[Poison | None]
    """Of the same storages."""
    numbers: Sequence[int]
    """The words of the other parameters."""


class RepeatedLaunch:
    """The table of one pattern of arguments."""

    def __init__(self, launch: PreparedLaunch, slots: Sequence[ParameterSlot]) -> None:
        arguments = launch.binding.arguments
        self.arguments: Sequence[Argument] = tuple(arguments)
        """Of the first launch of the pattern."""
        self.written = tuple(
            number
            for number, argument in enumerate(arguments)
            if any(argument is each for each in launch.binding.written)
        )
        """The arguments through which the kernel may store, by number."""
        self._words = array(
            "q", bytes(8 * (HEADER_WORDS + sum(1 if slot.argument is None else len(Word) for slot in slots)))
        )
        self._numbers = tuple(slot.first_word for slot in slots if slot.argument is None)
        self._pointers = tuple(
            (slot.first_word, arguments[slot.argument].first_byte, arguments[slot.argument].element_bytes)
            for slot in slots
            if slot.argument is not None
        )
        self.entered = bytearray(launch.module.block_count)
        """The flags of the blocks that programs of the last launch entered."""
        self._counters = array("q")
        self._records: Array = np.zeros(1, np.int64)
        self._code: LoadedKernel | None = None
        self._call: Run
        self._tracked: list[_Tracked] = []
        self._shadow_words: list[tuple[int, int]] = []
        """The words that hold addresses of shadow cells, and where these are in the memory of the launch."""
        self._shadow_bytes = self._place_shadows(slots)
        self._bytes = self._place_copies()
        self._space = -1
        """The address of the memory of the last launch."""

    def _place_shadows(self, slots: Sequence[ParameterSlot]) -> int:
        """Give each storage that is tracked its shadow; return the bytes of all."""
        end, begins = 0, dict[int, int]()
        for slot in slots:
            if slot.argument is None:
                continue
            argument = self.arguments[slot.argument]
            buffer, covered = argument.buffer, argument.covered
            assert buffer is not None
            self._words[slot.first_word + Word.EXTENT] = argument.extent
            self._words[slot.first_word + Word.COVERED] = 0 if covered is None else covered.ctypes.data
            if not buffer.track_readers:
                continue
            if buffer.address not in begins:
                begins[buffer.address] = end
                self._tracked.append(_Tracked(slot.argument, buffer.size_bytes, 0))
                end += _whole_lines(buffer.size_bytes // argument.element_bytes * 4)
            cell = begins[buffer.address] + argument.first_byte // argument.element_bytes * 4
            self._shadow_words.append((slot.first_word + Word.SHADOW, cell))
        return end

    def _place_copies(self) -> int:
        """Give each storage that is tracked its copy, after the shadows; return where the last one ends."""
        end = self._shadow_bytes
        for number, tracked in enumerate(self._tracked):
            self._tracked[number] = _Tracked(tracked.argument, tracked.size_bytes, end)
            end += _whole_lines(tracked.size_bytes)
        return end

    @classmethod
    def of(cls, launch: PreparedLaunch, slots: Sequence[ParameterSlot], cores: Cores) -> "RepeatedLaunch | None":
        """Return the table of a launch that native code has executed; None if it is too large to matter."""
        arguments = launch.binding.arguments
        if any(argument.buffer is None for argument in arguments) or cores.parts_of(sys.maxsize, arguments) > 1:
            return None
        repeated = cls(launch, slots)
        return repeated if repeated._bytes <= MOST_BYTES else None

    def run(self, code: LoadedKernel, values: LaunchValues, scratch: NativeScratch) -> bool:
        """Run the launch; return False after a bailout, with memory as before."""
        self._use(code)
        self._fill(code, values, scratch)
        ctypes.memset(self._space, 0, self._shadow_bytes)
        for tracked in self._tracked:
            ctypes.memmove(self._space + tracked.saved, values.addresses[tracked.argument], tracked.size_bytes)
        x, y, z = values.grid
        if not self._call(self._words.buffer_info()[0], 0, x * y * z):
            return True
        for tracked in self._tracked:
            ctypes.memmove(values.addresses[tracked.argument], self._space + tracked.saved, tracked.size_bytes)
        return False

    @property
    def has_events(self) -> bool:
        """True if the last launch, which has just ended, has anything to report."""
        return any(self._counters) or bool(self._records[0])

    def report(self, events: EventCollector) -> None:
        """Report the events of the last launch, which has just ended."""
        assert self._code is not None
        for place, lanes in zip(self._code.places, self._counters, strict=False):
            if lanes:
                events.undefined(place, lanes)
        report_uninitialised([self._records], self._code.places, events)

    # --- the table ---

    def _use(self, code: LoadedKernel) -> None:
        if code is not self._code:
            self._code, self._call = code, CALL(code.code.address)
            self._counters = array("q", bytes(8 * max(1, len(code.places))))
            self._words[4] = self._counters.buffer_info()[0]
            self._words[7] = ctypes.addressof(ctypes.c_char.from_buffer(self.entered))

    def _fill(self, code: LoadedKernel, values: LaunchValues, scratch: NativeScratch) -> None:
        words = self._words
        words[0], words[1], words[2] = values.grid
        words[3] = scratch.arena.address(code.arena_bytes)
        if any(self._counters):
            self._counters[:] = array("q", bytes(8 * len(self._counters)))
        words[5], words[6] = values.fill, scratch.fresh_records()
        self._records = scratch.records
        self.entered[:] = bytes(len(self.entered))
        for (word, first_byte, element_bytes), address, poison in zip(
            self._pointers, values.addresses, values.poisons, strict=True
        ):
            words[word] = address + first_byte
            words[word + Word.PATTERN] = 0 if poison is None else signed(poison.pattern)
            words[word + Word.FRESH] = poison is not None and poison.size == element_bytes
        for word, number in zip(self._numbers, values.numbers, strict=True):
            words[word] = number
        space = scratch.space.address(self._bytes)
        if space != self._space:
            self._space = space
            for word, cell in self._shadow_words:
                words[word] = space + cell


def _whole_lines(size_bytes: int) -> int:
    return -(-size_bytes // _LINE_BYTES) * _LINE_BYTES
