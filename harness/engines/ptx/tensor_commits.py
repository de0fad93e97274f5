"""`tcgen05.commit`: an mbarrier hears that the products and copies of tensor memory so far have landed.

They land as late as that allows, so a wait that is missing shows as old data.  Arrivals keep the order of the commits.
"""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.async_work import BarrierKey
from harness.engines.ptx.memories import SHARED_WINDOW
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave


@dataclass(frozen=True, slots=True)
class _Commit:
    """Arrivals at mbarriers, in the queue after the work that they wait for."""

    wave: Wave
    threads: Array
    barriers: tuple[list[BarrierKey], ...]
    """For each thread, where it arrives."""

    def land(self, chosen: Array) -> None:
        for at in np.flatnonzero(chosen).tolist():
            for key in self.barriers[at]:
                self._arrive(int(self.threads[at]), key)

    def _arrive(self, thread: int, key: BarrierKey) -> None:
        wave = self.wave
        # Triton invalidates barriers that it has no reason to wait for.
        if key not in wave.barriers.objects:
            return
        mask = np.zeros(wave.size, np.bool_)
        mask[thread] = True
        wave.asynchronous.shadow.arrived(mask, key)
        wave.barriers.objects[key].pending -= 1
        wave.barriers.settle(key)


@dataclass(frozen=True, slots=True)
class _Landing:
    """Lands the queue up to a commit."""

    wave: Wave
    ctas: Array
    """A mask."""
    before: int
    """How much work had been issued."""

    def land(self) -> None:
        self.wave.tensor.queue.land(self.ctas, self.before)


def commit_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `tcgen05.commit`: an arrival, at the mbarrier of each CTA that a multicast names."""
    address = rows.address(instruction.operands[0])
    targets = rows.reader(instruction.operands[1], np.uint16) if len(instruction.operands) > 1 else None

    def effect(wave: Wave) -> None:
        addresses = np.broadcast_to(address(wave), (wave.size,)) & (SHARED_WINDOW - 1)
        ranks = None if targets is None else np.broadcast_to(targets(wave), (wave.size,))
        threads = wave.active()
        barriers = list[list[BarrierKey]]()
        for thread in threads.tolist():
            own = wave.barriers.key(int(wave.cta[thread]), int(addresses[thread]))
            barriers.append([own] if ranks is None else _keys(wave, own, int(ranks[thread])))
            for key in barriers[-1]:
                wave.barriers.at(key, instruction)
        queue, ctas = wave.tensor.queue, np.zeros(len(wave.ctas), np.bool_)
        ctas[wave.cta[threads]] = True
        queue.issue(_Commit(wave, threads, tuple(barriers)))
        wave.asynchronous.bulk.append(_Landing(wave, ctas, queue.issued))

    return effect


def _keys(wave: Wave, own: BarrierKey, ranks: int) -> list[BarrierKey]:
    """Return the mbarriers at one address in the CTAs of a cluster; `ranks` has a bit for each."""
    first = own[0] // wave.shape.cluster * wave.shape.cluster
    return [(first + rank, own[1]) for rank in range(wave.shape.cluster) if ranks >> rank & 1]
