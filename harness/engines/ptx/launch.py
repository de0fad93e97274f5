"""One launch of a PTX kernel: its parameters as bytes, its memories, and the waves of its CTAs."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engines.ptx.async_work import AsyncWork, SharedShadow
from harness.engines.ptx.memories import (
    Flaws,
    GlobalMemory,
    GlobalWatch,
    LocalMemory,
    Memories,
    SharedMemory,
    add_variables,
)
from harness.engines.ptx.ptx_kernel import PtxKernel
from harness.engines.ptx.race_shadow import RaceShadow, cell_bytes_of
from harness.engines.ptx.resident_ctas import ResidentCtas
from harness.engines.ptx.threads import Array, LaunchShape
from harness.engines.ptx.wave import Wave
from harness.engines.ptx.wave_runner import PreparedKernel, StuckThreads, WaveRunner
from harness.errors import CannotExecute

MOST_THREADS = 1 << 14
"""The threads of a wave, unless programs wait for each other.  More do not fit the caches of a CPU."""
MOST_SHARED_BYTES = 8 << 20
"""The shared memory of a wave, likewise."""
STEP_LIMIT = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxLaunch:
    """A launch, ready to execute."""

    prepared: PreparedKernel
    shape: LaunchShape
    memory: GlobalMemory
    parameters: Array
    """The bytes of the parameters."""
    shared_bytes: int
    """The shared memory of a CTA."""
    watch: GlobalWatch
    flaws: Flaws
    most_ctas: int = 0
    """The CTAs that the GPU holds, of a kernel whose CTAs may wait for each other; 0 for any other kernel."""
    finds_races: bool = True
    order: Array | None = None
    """The linear ids of the programs in the order in which they begin; None for ascending."""
    seed: int = 0
    step_limit: int = STEP_LIMIT

    def run(self) -> StuckThreads | None:
        """Execute all CTAs; return who waits for ever, if anyone does.

        Raises:
            CannotExecuteAt: an instruction cannot be executed.
        """
        add_variables(self.memory, self.prepared.kernel)
        with np.errstate(all="ignore"):
            if self.most_ctas:
                return ResidentCtas(self._ctas(), self.most_ctas, self.memory, self._resident).run()
            for ctas in self._waves():
                stuck = WaveRunner(self.prepared, self._wave(ctas), self.step_limit).run()
                if stuck is not None:
                    return stuck
        return None

    def _resident(self, ctas: Array) -> WaveRunner:
        return WaveRunner(self.prepared, self._wave(ctas), self.step_limit, may_poll=True)

    def _ctas(self) -> Array:
        """Return the linear ids of the CTAs, in the order in which they begin."""
        x, y, z = self.shape.grid
        cluster = self.shape.cluster
        programs = np.arange(x * y * z // cluster) if self.order is None else self.order
        return (programs[:, None] * cluster + np.arange(cluster)).reshape(-1)

    def _waves(self) -> Sequence[Array]:
        ctas, cluster = self._ctas(), self.shape.cluster
        most = min(MOST_THREADS // self.shape.threads, MOST_SHARED_BYTES // max(1, self.shared_bytes))
        each = max(cluster, most // cluster * cluster)
        return [ctas[first : first + each] for first in range(0, len(ctas), each)]

    def _wave(self, ctas: Array) -> Wave:
        kernel = self.prepared.kernel
        size = self.shared_bytes + self.prepared.static_shared_bytes
        shared = SharedMemory(len(ctas), size, self.shape.cluster)
        memories = Memories(
            global_memory=self.memory,
            shared=shared,
            local=LocalMemory(len(ctas) * self.shape.threads, kernel.local_bytes),
            parameters=self.parameters,
            flaws=self.flaws,
            on_global=self.watch,
        )
        shadow = SharedShadow()
        if self.finds_races:
            shadow = RaceShadow(shared, self.shape, ctas, self.flaws, cell_bytes_of(kernel))
        return Wave(self.prepared.registers, self.shape, ctas, memories, AsyncWork(shadow, self.seed))


def pack_parameters(kernel: PtxKernel, values: Sequence[Any]) -> Array:
    """Return the bytes of the parameters; a value is a number, or the bytes of an aggregate.

    Raises:
        CannotExecute: there are more values than parameters.
    """
    if len(values) > len(kernel.parameters):
        raise CannotExecute(f"{len(values)} arguments for {len(kernel.parameters)} PTX parameters")
    last = kernel.parameters[-1] if kernel.parameters else None
    content = bytearray(0 if last is None else -(-(last.offset + last.size_bytes) // 16) * 16)
    for parameter, value in zip(kernel.parameters, values, strict=False):
        size = parameter.size_bytes
        if isinstance(value, bytes):
            raw = value
        elif isinstance(value, float):
            raw = struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], value)
        else:
            raw = (int(value) % (1 << 8 * size)).to_bytes(size, "little")
        content[parameter.offset : parameter.offset + len(raw)] = raw
    return np.frombuffer(bytes(content), np.uint8)
