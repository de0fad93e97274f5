"""Executes a launch of the virtual GPU as PTX, and turns what the machine saw into memory events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.engines.ptx.device_arguments import DeviceArguments
from harness.engines.ptx.launch import PtxLaunch, pack_parameters
from harness.engines.ptx.memories import REGION_SPACING, Flaw, Flaws, GlobalMemory, GlobalWatch
from harness.engines.ptx.ptx_builds import PtxBuild
from harness.engines.ptx.ptx_kernel import PtxInstruction, PtxKernel
from harness.engines.ptx.threads import Array, LaunchShape
from harness.engines.ptx.wave_runner import StuckThreads
from harness.engines.ptx.whole_words import WholeWords
from harness.engines.virtual.executors import ExecutionOutcome
from harness.engines.virtual.memory.addresses import Addresses
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.pointers import choices_of
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.occupancy import Occupancy
from harness.engines.virtual.synchronisation.residency import MOST_SHOWN, ResidentLaunch, ThresholdSearch
from harness.model.run import (
    Access,
    AccessSite,
    AddressSpace,
    CompiledFlaw,
    Deadlocked,
    MemoryEvent,
    Residency,
    Source,
    Wait,
)

STEPS_PER_TRIP = 40
"""The steps of a wave that are allowed for each trip of a loop of TTIR: bounded loops are steps here, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxExecutor:
    """Executes a launch as PTX."""

    launch: PreparedLaunch
    build: PtxBuild
    events: EventCollector
    resident: ResidentLaunch
    """The launch, with the numbers of programs that the GPU holds."""
    add_event: Callable[[MemoryEvent], None]
    number: int
    """The index of the launch in its case."""
    content_of: Callable[[Buffer], Array] = lambda buffer: buffer.bytes
    """Returns the bytes that stand for a buffer."""
    words: dict[int, WholeWords] = field(default_factory=dict[int, WholeWords])
    """What `words_of` has returned, by the identity of the buffer."""

    def run(self) -> ExecutionOutcome:
        self.build.require_room(self.launch.device)
        kernel, flaws = self.build.kernel, Flaws()
        before = self._contents() if self.launch.may_wait else []
        capacity = self.resident.capacity if self.launch.may_wait else 0
        try:
            stuck, arguments = self._execute(flaws, capacity)
        finally:
            for words in self.words.values():
                words.write_back()
            for key, flaw in flaws.seen.items():
                self.add_event(self._event(kernel, flaw, flaws.counts[key]))
        if stuck is None:
            return ExecutionOutcome(executor="ptx")
        waits = (*self._barrier_waits(kernel, stuck), *self._polls(stuck, arguments))
        ends_with, limit = Residency.NONE, 0
        if stuck.polled:
            search = ThresholdSearch(len(self.launch.ids), lambda resident: self._completes(resident, before))
            ends_with, limit = search.threshold(capacity)
        return ExecutionOutcome(executor="ptx", deadlocked=self._deadlock(stuck, waits, ends_with, limit))

    def _contents(self) -> list[tuple[Array, Array]]:
        """Return the bytes of all buffers, each with a copy."""
        contents = (self.words_of(buffer).content for buffer in self.launch.binding.buffers)
        return [(content, content.copy()) for content in contents]

    def words_of(self, buffer: Buffer) -> WholeWords:
        """Return the bytes that stand for a buffer, in whole words."""
        if id(buffer) not in self.words:
            self.words[id(buffer)] = WholeWords.around(self.content_of(buffer))
        return self.words[id(buffer)]

    def _completes(self, resident: int, before: Sequence[tuple[Array, Array]]) -> bool:
        """Return True if the launch completes with so many resident programs, from the contents `before`."""
        for content, bytes_before in before:
            content[:] = bytes_before
        return self._execute(Flaws(), resident, is_watched=False)[0] is None

    def _execute(
        self, flaws: Flaws, resident: int, *, is_watched: bool = True
    ) -> tuple[StuckThreads | None, DeviceArguments]:
        """Execute the launch with a number of resident programs, or 0 if no program waits for others."""
        launch, build = self.launch, self.build
        grid = launch.context.grid
        arguments = DeviceArguments(launch.binding, launch.module.kernel, build, grid.programs, self.words_of)
        watch = _Watch(self, arguments.memory, arguments.buffers)
        arguments.memory.find = watch.find
        stuck = PtxLaunch(
            prepared=build.prepared,
            shape=LaunchShape(
                grid=(grid.x * build.num_ctas, grid.y, grid.z),
                threads=build.kernel.threads,
                cluster=build.num_ctas,
                sms=launch.device.sm_count,
            ),
            memory=arguments.memory,
            parameters=pack_parameters(build.kernel, arguments.values),
            shared_bytes=build.shared_bytes,
            watch=watch if is_watched else GlobalWatch(),
            flaws=flaws,
            most_ctas=resident * build.num_ctas,
            order=launch.ids,
            step_limit=launch.context.step_limit * STEPS_PER_TRIP,
        ).run()
        return stuck, arguments

    def source(self, location: str) -> Source | None:
        """Return the line of Python of an instruction."""
        return self.build.kernel.sources.get(location)

    def _event(self, kernel: PtxKernel, flaw: Flaw, count: int) -> CompiledFlaw:
        def source(instruction: PtxInstruction | None) -> Source | None:
            return None if instruction is None else kernel.sources.get(instruction.location)

        return CompiledFlaw(
            kind=flaw.kind,
            site=AccessSite(
                kernel=self.launch.kernel, launch=self.number, argument="", source=source(flaw.instruction)
            ),
            opcode=flaw.instruction.opcode,
            text=flaw.text,
            count=count,
            program=flaw.cta // self.build.num_ctas,
            warp=flaw.warp,
            earlier=source(flaw.other),
            earlier_opcode="" if flaw.other is None else flaw.other.opcode,
            earlier_warp=flaw.other_warp,
        )

    def _barrier_waits(self, kernel: PtxKernel, stuck: StuckThreads) -> tuple[Wait, ...]:
        """Return the waits at barriers; those of threads that wait for a thread which polls are left out."""
        polling = {program for part in stuck.polled for program in part.places[0].tolist()}
        at: dict[int, tuple[PtxInstruction, list[int]]] = {}
        for instruction, cta, _ in stuck.waiting:
            if (program := cta // self.build.num_ctas) in polling:
                continue
            _, waiting = at.setdefault(id(instruction), (instruction, []))
            if program not in waiting:
                waiting.append(program)
        return tuple(
            Wait(
                argument=instruction.opcode,
                index=(),
                cells=1,
                source=kernel.sources.get(instruction.location),
                programs=len(waiting),
                first_programs=tuple(waiting[:MOST_SHOWN]),
            )
            for instruction, waiting in sorted(at.values(), key=lambda item: -len(item[1]))[:MOST_SHOWN]
        )

    def _polls(self, stuck: StuckThreads, arguments: DeviceArguments) -> tuple[Wait, ...]:
        """Return the cells that programs poll, those of most programs first."""
        groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
        cells: dict[int, list[tuple[int, int]]] = {}
        for number, part in enumerate(stuck.polled):
            for program, offset in part.places.T.tolist():
                cells.setdefault(program, []).append((number, offset))
        for program, read in sorted(cells.items()):
            groups.setdefault(tuple(read), []).append(program)
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_SHOWN]
        return tuple(self._poll(stuck, arguments, read, programs) for read, programs in ordered)

    def _poll(
        self, stuck: StuckThreads, arguments: DeviceArguments, cells: Sequence[tuple[int, int]], programs: list[int]
    ) -> Wait:
        number, offset = cells[0]
        part = stuck.polled[number]
        name, index = part.region.name, ()
        buffer = arguments.buffers.get(part.region.number)
        for argument in self.launch.binding.arguments:
            if buffer is not None and argument.buffer is buffer:
                name, index = argument.name, argument.index_of((offset - argument.first_byte) // argument.element_bytes)
                break
        return Wait(
            argument=name,
            index=index,
            cells=len(cells),
            source=self.source(part.instruction.location),
            programs=len(programs),
            first_programs=tuple(programs[:MOST_SHOWN]),
        )

    def _deadlock(self, stuck: StuckThreads, waits: tuple[Wait, ...], ends_with: Residency, limit: int) -> Deadlocked:
        # Only a launch whose programs wait for each other has computed its occupancy, which takes a whole compilation.
        occupancy = self.resident.occupancy() if stuck.polled else Occupancy(programs=1, limited_by="")
        return Deadlocked(
            kernel=self.launch.kernel,
            waits=waits,
            programs=self.launch.context.grid.programs,
            resident=stuck.ctas // self.build.num_ctas or 1,
            not_started=stuck.not_started // self.build.num_ctas,
            sm_count=self.launch.device.sm_count,
            programs_per_sm=occupancy.programs,
            limited_by=occupancy.limited_by,
            ends_with=ends_with,
            limit=limit,
        )


class _Watch(GlobalWatch):
    """Turns stray accesses into events of the nearest buffer, and finds memory that is no argument."""

    def __init__(self, executor: PtxExecutor, memory: GlobalMemory, buffers: dict[int, Buffer]) -> None:
        self._executor = executor
        self._memory = memory
        self._buffers = buffers
        binding = executor.launch.binding
        self._arguments = binding.arguments
        self._addresses = Addresses(binding.arguments, executor.launch.context.poison_of)

    def find(self, address: int) -> bool:
        """Add the region of the storage that holds an address of this process; False if none does."""
        if address < REGION_SPACING:
            return False
        before = len(self._arguments)
        pointers = self._addresses.pointers(np.array([address]), 1)
        ((_, chosen),) = choices_of(pointers)
        argument = self._arguments[chosen.argument]
        buffer = argument.buffer
        if buffer is None:
            del self._arguments[before:]
            return False
        number = len(self._buffers)
        self._buffers[number] = buffer
        words = self._executor.words_of(buffer)
        self._memory.add("", words.content, number, address=buffer.address, filler_bytes=words.filler_bytes)
        return True

    def stray(self, instruction: PtxInstruction, addresses: Array, programs: Array, size_bytes: int) -> None:
        """Record accesses that belong to no region, in elements of the nearest argument."""
        del size_bytes
        direction = {"st": Access.STORE, "atom": Access.ATOMIC, "red": Access.ATOMIC}.get(
            instruction.root, Access.STORE if instruction.words[-1] == "bulk_group" else Access.LOAD
        )
        region, number = self._nearest(int(addresses[0]))
        space = AddressSpace.OUTSIDE_STORAGE
        if region is None:
            space = AddressSpace.NULL if abs(int(addresses[0])) < REGION_SPACING else AddressSpace.UNKNOWN_POINTER
            elements = np.zeros(len(addresses), np.int64)
        else:
            argument = self._arguments[number]
            elements = (addresses - region - argument.first_byte) // argument.element_bytes
        # Threads may hold the same element: count it once for each program.
        distinct = np.unique(np.stack([programs, elements]), axis=1)
        programs, elements = distinct
        self._executor.events.stray((instruction.location, number, direction, space), elements, programs, 1)

    def _nearest(self, address: int) -> tuple[int | None, int]:
        """Return the address of the nearest buffer and the number of an argument in it."""
        for region in self._memory.regions:
            buffer = self._buffers.get(region.number)
            if buffer is None or abs(address - region.address) >= REGION_SPACING // 2:
                continue
            for number, argument in enumerate(self._arguments):
                if argument.buffer is buffer:
                    return region.address, number
        null = next((number for number, argument in enumerate(self._arguments) if argument.buffer is None), None)
        if null is None:
            self._arguments.append(Argument("a null pointer", None, 0, 1, (), ()))
            null = len(self._arguments) - 1
        return None, null
