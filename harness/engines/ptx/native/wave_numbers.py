"""The numbers that native functions get of one wave: addresses of its rows and memories, and their sizes."""

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from harness.engines.ptx.native import warp_code
from harness.engines.ptx.race_shadow import RaceShadow
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Wave


class WaveNumbers:
    """The array of numbers of one wave, and what keeps the memory behind it alive."""

    def __init__(self, wave: Wave) -> None:
        self.values: Array = np.zeros(warp_code.SLOTS, np.int64)
        self.address: int = self.values.ctypes.data
        self._wave = wave
        self._kept: list[object] = []
        self._fill()
        if isinstance(shadow := wave.asynchronous.shadow, RaceShadow):
            self._fill_shadow(shadow)

    @classmethod
    def of(cls, wave: Wave) -> "WaveNumbers":
        known = wave.kept.get(cls)
        if not isinstance(known, cls):
            known = wave.kept[cls] = cls(wave)
        return known

    def _fill(self) -> None:
        wave, values = self._wave, self.values
        shared = wave.memories.shared
        values[warp_code.WARPS], values[warp_code.THREADS] = wave.size // WARP, wave.size
        values[warp_code.SHARED], values[warp_code.WRITTEN] = shared.content.ctypes.data, shared.written.ctypes.data
        values[warp_code.SHARED_BYTES], values[warp_code.SHARED_STRIDE] = shared.size_bytes, shared.stride
        values[warp_code.CTA_WARPS] = wave.shape.threads // WARP
        values[warp_code.PARAMETERS] = wave.memories.parameters.ctypes.data
        for bits, slot in warp_code.FILES.items():
            if wave.rows.get(bits):
                values[slot] = wave.rows[bits][0].ctypes.data

    def _fill_shadow(self, shadow: RaceShadow) -> None:
        tables = shadow.tables
        slots = (
            (warp_code.WRITER, tables.writer),
            (warp_code.WRITTEN_AT, tables.written_at),
            (warp_code.WRITTEN_BY, tables.written_by),
            (warp_code.IS_ASYNC, tables.is_async),
            (warp_code.READ_AT, tables.read_at),
            (warp_code.READ_BY, tables.read_by),
            (warp_code.CLOCK, tables.clock),
        )
        for slot, table in slots:
            self.values[slot] = table.ctypes.data
        self.values[warp_code.AGENTS], self.values[warp_code.CELLS] = tables.read_at.shape

    def set_slow(self, slow: Callable[[int, int], int]) -> None:
        """Set the function that executes one instruction for one warp."""
        called = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(slow)
        self._kept.append(called)
        self.values[warp_code.SLOW] = ctypes.cast(called, ctypes.c_void_p).value or 0

    def need(self, specials: Sequence[str]) -> None:
        """Compute special registers that have not been used so far."""
        for name in specials:
            slot = warp_code.FIRST_SPECIAL + warp_code.SPECIALS.index(name)
            if not self.values[slot]:
                row = np.ascontiguousarray(self._wave.special(name), np.uint32)
                self._kept.append(row)
                self.values[slot] = row.ctypes.data
