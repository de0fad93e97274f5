"""The shadow of shared memory: which warp touched each cell last, and what each warp knows of the others.

Knowledge is a vector clock: for each warp, how far it is ordered after every other one.  A barrier joins the clocks of
its warps.  Two accesses to a cell, one of them a store, race if the later warp does not know of the earlier access.
Threads of one warp do not race.  Bulk copies are an agent of their own, which a thread knows of after it has waited at
the copy's mbarrier.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.async_work import BarrierKey, SharedShadow
from harness.engines.ptx.memories import Flaw, Flaws, SharedMemory
from harness.engines.ptx.ptx_kernel import PtxInstruction, PtxKernel
from harness.engines.ptx.threads import WARP, Array, LaunchShape

NOBODY = -1
RACE = "race in shared memory"
UNFENCED = "missing proxy fence"
ENDED_CTA = "shared memory of a CTA that has ended"
UNWRITTEN = "uninitialised shared memory"
_WIDTHS = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2}


def cell_bytes_of(kernel: PtxKernel) -> int:
    """Return the size of the smallest element that a kernel moves to or from shared memory, at most 4."""
    sizes = [
        1 if instruction.root == "cp" else _WIDTHS.get(instruction.kind, 4)
        for instruction in kernel.instructions
        if instruction.root in {"ld", "st", "atom", "red"} and not {"global", "param", "local"} & set(instruction.words)
    ]
    return min(sizes, default=4)


@dataclass(frozen=True, slots=True)
class ShadowTables:
    """What a shadow knows: by cell, and as `clock` by cluster, agent and agent."""

    writer: Array
    """The agent of the last store, as int16; -1 for none."""
    written_at: Array
    written_by: Array
    """The number of the instruction of the last store."""
    is_async: Array
    read_at: Array
    """By agent and cell, its clock at its last load."""
    read_by: Array
    clock: Array


class RaceShadow(SharedShadow):
    """Finds races between warps, reads of memory that nothing has written, and missing proxy fences."""

    def __init__(self, shared: SharedMemory, shape: LaunchShape, ctas: Array, flaws: Flaws, cell_bytes: int) -> None:
        """`ctas` are the linear ids of the wave's CTAs."""
        self._shared, self._shape, self._ctas, self._flaws = shared, shape, ctas, flaws
        self.cell_bytes = cell_bytes
        self._warps = shape.threads // WARP
        each = self._warps + 1
        self._agents = each * shape.cluster
        clusters = len(ctas) // shape.cluster
        cells = len(shared.content) // cell_bytes
        self._clock = np.zeros((clusters, self._agents, self._agents), np.int32)
        own = np.arange(self._agents)
        self._clock[:, own, own] = 1
        self._fenced = np.zeros((clusters, self._agents), np.int32)
        self._writer = np.full(cells, NOBODY, np.int16)
        self._written_at = np.zeros(cells, np.int32)
        self._written_by = np.zeros(cells, np.int32)
        self._is_async = np.zeros(cells, np.bool_)
        self._last = np.zeros(cells, np.int32)
        self._ended = np.zeros(len(ctas) * shape.threads, np.bool_)
        self._has_ended = np.zeros(len(ctas), np.bool_)
        self._read_at = np.zeros((self._agents, cells), np.int32)
        self._read_by = np.zeros(cells, np.int32)
        self._instructions: list[PtxInstruction] = []
        self._numbers: dict[int, int] = {}
        self._arriving: dict[BarrierKey, Array] = {}
        self._complete: dict[BarrierKey, Array] = {}

    @property
    def tables(self) -> ShadowTables:
        """The arrays that native code checks and updates."""
        return ShadowTables(
            self._writer,
            self._written_at,
            self._written_by,
            self._is_async,
            self._read_at,
            self._read_by,
            self._clock,
        )

    # --- threads as agents ---

    def _agents_of(self, threads: Array) -> tuple[Array, Array]:
        """Return cluster and agent of each thread."""
        cta, thread = np.divmod(threads, self._shape.threads)
        cluster, rank = np.divmod(cta, self._shape.cluster)
        return cluster, rank * (self._warps + 1) + thread // WARP

    def _bulk_agents(self, threads: Array) -> tuple[Array, Array]:
        cluster, rank = np.divmod(threads // self._shape.threads, self._shape.cluster)
        return cluster, rank * (self._warps + 1) + self._warps

    def _warps_of(self, threads: Array) -> Iterable[tuple[int, int]]:
        """Yield cluster and agent of each warp with a thread in the mask."""
        first = np.flatnonzero(threads.reshape(-1, WARP).any(axis=1)) * WARP
        clusters, agents = self._agents_of(first)
        return zip(clusters.tolist(), agents.tolist(), strict=True)

    def number_of(self, instruction: PtxInstruction) -> int:
        """Return the number that stands for an instruction in the tables."""
        known = self._numbers.get(id(instruction))
        if known is None:
            known = self._numbers[id(instruction)] = len(self._instructions)
            self._instructions.append(instruction)
        return known

    def _cells(self, places: Array, size_bytes: int) -> tuple[Array, int]:
        """Return the cells of accesses, as rows."""
        count = max(1, size_bytes // self.cell_bytes)
        return (places // self.cell_bytes)[:, None] + np.arange(count), count

    # --- accesses ---

    def loaded(self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int) -> None:
        cells, count = self._cells(places, size_bytes)
        cluster, agent = (np.repeat(part, count) for part in self._agents_of(threads))
        flat = cells.reshape(-1)
        self._check_written(instruction, threads, places, size_bytes)
        self._check_lives(instruction, threads, places)
        self._check_writes(instruction, np.repeat(threads, count), flat, self._clock[cluster, agent])
        self._read_at[agent, flat] = self._clock[cluster, agent, agent]
        self._read_by[flat] = self.number_of(instruction)

    def stored(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, values: Array | None = None
    ) -> None:
        cells, count = self._cells(places, size_bytes)
        cluster, agent = (np.repeat(part, count) for part in self._agents_of(threads))
        flat, by_cell = cells.reshape(-1), np.repeat(threads, count)
        known, changes = self._clock[cluster, agent], self._changes(places, values, count)
        self._check_lives(instruction, threads, places)
        self._check_reads(instruction, by_cell[changes], flat[changes], agent[changes], known[changes])
        self._check_writes(instruction, by_cell[changes], flat[changes], known[changes])
        self._check_together(instruction, by_cell, flat, agent, None if values is None else np.repeat(values, count))
        self._set_writer(flat, agent, self._clock[cluster, agent, agent], self.number_of(instruction))

    def _changes(self, places: Array, values: Array | None, count: int) -> Array:
        """Return for each cell whether the store changes its bytes.  A store of equal bytes harms nobody."""
        if values is None:
            return np.ones(len(places) * count, np.bool_)
        held = self._shared.view(values.dtype.type)[places // values.dtype.itemsize]
        return np.repeat((held != values) | ~self._shared.written[places], count)

    def _check_together(
        self, instruction: PtxInstruction, threads: Array, cells: Array, agents: Array, values: Array | None
    ) -> None:
        """Check that no two warps store different values to one cell by one instruction."""
        order = np.arange(len(cells), dtype=np.int32)
        self._last[cells] = order
        winner = self._last[cells]
        racing: Array = np.not_equal(agents[winner], agents)
        if values is not None:
            racing &= values[winner] != values
        if racing.any():
            first = int(np.flatnonzero(racing)[0])
            other = int(agents[winner[first]])
            self._report(RACE, instruction, (int(threads[first]), int(cells[first])), (instruction, other), racing)

    def _check_lives(self, instruction: PtxInstruction, threads: Array, places: Array) -> None:
        """Check that the CTA whose memory is used has not ended."""
        if self._shape.cluster == 1 or not self._has_ended.any():
            return
        gone: Array = np.take(self._has_ended, places // self._shared.stride)
        self._report_first(ENDED_CTA, instruction, (threads, places // self.cell_bytes), gone)

    def ended(self, threads: Array) -> None:
        before = self._has_ended
        self._ended |= threads
        self._has_ended = self._ended.reshape(len(self._ctas), -1).all(axis=1)
        if self._shape.cluster > 1:
            for cta in np.flatnonzero(self._has_ended & ~before).tolist():
                self._check_peers(cta)

    def _check_peers(self, cta: int) -> None:
        """Check that a CTA that ends knows of all accesses of others to its shared memory."""
        cluster, rank = divmod(cta, self._shape.cluster)
        each, size = self._warps + 1, self._shared.stride // self.cell_bytes
        own = np.arange(rank * each, rank * each + self._warps)
        cells = slice(cta * size, (cta + 1) * size)
        for agent in (agent for agent in range(self._agents) if agent // each != rank):
            known = int(self._clock[cluster, own, agent].max())
            late = (self._read_at[agent, cells] > known) | (
                (self._writer[cells] == agent) & (self._written_at[cells] > known)
            )
            if late.any():
                cell = int(np.flatnonzero(late)[0]) + cta * size
                is_read = self._read_at[agent, cell] > known
                instruction = self._instructions[(self._read_by if is_read else self._written_by)[cell]]
                thread = (cluster * self._shape.cluster + agent // each) * self._shape.threads
                self._report(ENDED_CTA, instruction, (thread, cell), (None, NOBODY), late)

    def updated(self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int) -> None:
        # Atomics of several warps on one cell are in no order, and need none.
        cells, count = self._cells(places, size_bytes)
        cluster, agent = (np.repeat(part, count) for part in self._agents_of(threads))
        flat, number = cells.reshape(-1), self.number_of(instruction)
        others = ~self._is_atomic(flat)
        known = self._clock[cluster, agent]
        self._check_writes(instruction, np.repeat(threads, count)[others], flat[others], known[others])
        self._set_writer(flat, agent, self._clock[cluster, agent, agent], number)

    def _is_atomic(self, cells: Array) -> Array:
        roots = np.array([instruction.root in {"atom", "red"} for instruction in self._instructions] or [False])
        return (self._writer[cells] != NOBODY) & roots[self._written_by[cells]]

    def landed(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, issued: object
    ) -> None:
        assert isinstance(issued, np.ndarray)
        cells, count = self._cells(places, size_bytes)
        flat, by_cell = cells.reshape(-1), np.repeat(threads, count)
        cluster, issuer = self._agents_of(by_cell)
        known = issued[cluster, issuer]
        self._check_reads(instruction, by_cell, flat, np.full(len(flat), NOBODY), known)
        self._check_writes(instruction, by_cell, flat, known)
        if "bulk" not in instruction.words:
            self._set_writer(flat, issuer, self._clock[cluster, issuer, issuer], self.number_of(instruction))
            return
        place, agent = self._bulk_agents(by_cell)
        if len(flat):  # one thread issued the whole copy
            number, own = place[0], agent[0]
            self._clock[number, own] = np.maximum(self._clock[number, own], issued[number, issuer[0]])
            self._clock[number, own, own] += 1
        self._set_writer(flat, agent, self._clock[place, agent, agent], self.number_of(instruction), is_async=True)

    def signalled(self, thread: int, barrier: BarrierKey) -> None:
        clusters, agents = self._bulk_agents(np.array([thread]))
        self._release(barrier, self._clock[clusters[0], agents[0]])

    def read_late(
        self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int, issued: object
    ) -> None:
        assert isinstance(issued, np.ndarray)
        cells, count = self._cells(places, size_bytes)
        flat, by_cell = cells.reshape(-1), np.repeat(threads, count)
        cluster, issuer = self._agents_of(by_cell)
        self._check_written(instruction, threads, places, size_bytes)
        self._check_writes(instruction, by_cell, flat, issued[cluster, issuer])
        self._check_fence(instruction, by_cell, flat, cluster)
        self._read_at[issuer, flat] = self._clock[cluster, issuer, issuer]
        self._read_by[flat] = self.number_of(instruction)

    def _set_writer(self, cells: Array, agents: Array, clocks: Array, number: int, *, is_async: bool = False) -> None:
        self._writer[cells] = agents
        self._written_at[cells] = clocks
        self._written_by[cells] = number
        self._is_async[cells] = is_async

    # --- checks ---

    def _check_writes(self, instruction: PtxInstruction, threads: Array, cells: Array, known: Array) -> None:
        """Check that the last store of each cell is known; `known` has a clock of all agents for each cell."""
        writer = self._writer[cells]
        seen = np.take_along_axis(known, np.maximum(writer, 0)[:, None].astype(np.int64), axis=1)[:, 0]
        racing = (writer != NOBODY) & (self._written_at[cells] > seen)
        self._report_first(RACE, instruction, (threads, cells), racing, (self._written_by, writer))

    def _check_reads(
        self, instruction: PtxInstruction, threads: Array, cells: Array, agents: Array, known: Array
    ) -> None:
        """Check that all loads of each cell by other agents are known."""
        for reader in range(self._agents):
            racing = (self._read_at[reader, cells] > known[:, reader]) & (agents != reader)
            self._report_first(RACE, instruction, (threads, cells), racing, (self._read_by, reader))

    def _check_fence(self, instruction: PtxInstruction, threads: Array, cells: Array, clusters: Array) -> None:
        writer = self._writer[cells]
        fenced = self._fenced[clusters, np.maximum(writer, 0)]
        missing = (writer != NOBODY) & ~self._is_async[cells] & (self._written_at[cells] > fenced)
        self._report_first(UNFENCED, instruction, (threads, cells), missing, (self._written_by, writer))

    def _check_written(self, instruction: PtxInstruction, threads: Array, places: Array, size_bytes: int) -> None:
        written = self._shared.written[places]
        for byte in range(1, size_bytes):
            written = written & self._shared.written[places + byte]
        if not written.all():
            self._report_first(UNWRITTEN, instruction, (threads, places // self.cell_bytes), ~written)

    def _report_first(
        self,
        kind: str,
        instruction: PtxInstruction,
        accesses: tuple[Array, Array],
        mask: Array,
        earlier: tuple[Array, Array | int] | None = None,
    ) -> None:
        """Record the first of the accesses in a mask, if there are any, with the number of all of them.

        `accesses` are threads and cells.  `earlier` are the numbers of the other instructions by cell, and the other
        agents by access.
        """
        if not mask.any():
            return
        first = int(mask.argmax())
        thread, cell = (int(part[first]) for part in accesses)
        other: PtxInstruction | None = None
        agent = NOBODY
        if earlier is not None:
            other = self._instructions[earlier[0][cell]]
            agent = int(np.broadcast_to(earlier[1], mask.shape)[first])
        self._report(kind, instruction, (thread, cell), (other, agent), mask)

    def _report(
        self,
        kind: str,
        instruction: PtxInstruction,
        place: tuple[int, int],
        earlier: tuple[PtxInstruction | None, int],
        mask: Array,
    ) -> None:
        """Record a flaw of a thread at a cell; `earlier` is the other instruction and agent, `mask` has all like it."""
        (thread, cell), (other, agent) = place, earlier
        cta, own = divmod(thread, self._shape.threads)
        address = cell * self.cell_bytes % self._shared.stride
        warp = agent % (self._warps + 1) if agent != NOBODY else NOBODY
        self._flaws.add(
            Flaw(
                kind,
                instruction,
                int(self._ctas[cta]),
                own // WARP,
                f"at address {address:#x}",
                other,
                NOBODY if warp == self._warps else warp,
            ),
            int(mask.sum()),
        )

    # --- order ---

    def snapshot(self) -> object:
        return self._clock.copy()

    def arrived(self, threads: Array, barrier: BarrierKey) -> None:
        for cluster, agent in self._warps_of(threads):
            self._release(barrier, self._clock[cluster, agent])
            self._clock[cluster, agent, agent] += 1

    def _release(self, barrier: BarrierKey, clock: Array) -> None:
        known = self._arriving.get(barrier)
        self._arriving[barrier] = clock.copy() if known is None else np.maximum(known, clock)

    def met(self, threads: Array | None, barrier: BarrierKey | None = None) -> None:
        if threads is None:
            each = self._warps + 1
            for rank in range(self._shape.cluster):
                own = np.arange(rank * each, rank * each + self._warps)
                joined = self._clock[:, own].max(axis=1, keepdims=True)
                self._clock[:, own] = joined
                self._clock[:, own, own] += 1
            return
        assert barrier is not None
        clock = self._arriving.pop(barrier)
        self._acquire(threads, clock)

    def _acquire(self, threads: Array, clock: Array) -> None:
        for cluster, agent in self._warps_of(threads):
            self._clock[cluster, agent] = np.maximum(self._clock[cluster, agent], clock)

    def fenced(self, threads: Array) -> None:
        for cluster, agent in self._warps_of(threads):
            self._fenced[cluster] = np.maximum(self._fenced[cluster], self._clock[cluster, agent])
            self._clock[cluster, agent, agent] += 1

    def initialised(self, threads: Array, barrier: BarrierKey) -> None:
        del threads
        self._arriving.pop(barrier, None)
        self._complete.pop(barrier, None)

    def completed(self, barrier: BarrierKey) -> None:
        clock = self._arriving.pop(barrier, None)
        if clock is None:
            return
        known = self._complete.get(barrier)
        self._complete[barrier] = clock if known is None else np.maximum(known, clock)

    def waited(self, threads: Array, barrier: BarrierKey) -> None:
        if (clock := self._complete.get(barrier)) is not None:
            self._acquire(threads, clock)
