"""Executes a launch of the virtual GPU as PTX, and turns what the machine saw into memory events."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.device_arguments import DeviceArguments
from harness.engines.ptx.launch import PtxLaunch, pack_parameters
from harness.engines.ptx.memories import REGION_SPACING, Flaw, Flaws, GlobalMemory, GlobalWatch
from harness.engines.ptx.ptx_builds import PtxBuild
from harness.engines.ptx.ptx_kernel import PtxInstruction, PtxKernel
from harness.engines.ptx.threads import Array, LaunchShape
from harness.engines.ptx.wave_runner import StuckThreads
from harness.engines.virtual.executors import ExecutionOutcome
from harness.engines.virtual.memory.addresses import Addresses
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.pointers import choices_of
from harness.engines.virtual.prepared_launch import PreparedLaunch
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
MOST_SHOWN = 4
"""The instructions of a deadlock, and the programs at each, that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxExecutor:
    """Executes a launch as PTX."""

    launch: PreparedLaunch
    build: PtxBuild
    events: EventCollector
    most_ctas: Callable[[], int]
    """Returns how many CTAs the GPU holds at a time, for a kernel whose programs may wait for each other."""
    add_event: Callable[[MemoryEvent], None]
    number: int
    """The index of the launch in its case."""
    content_of: Callable[[Buffer], Array] = lambda buffer: buffer.bytes
    """Returns the bytes that stand for a buffer."""

    def run(self) -> ExecutionOutcome:
        launch, build = self.launch, self.build
        kernel, grid = build.kernel, launch.context.grid
        arguments = DeviceArguments(launch.binding, launch.module.kernel, build, grid.programs, self.content_of)
        watch = _Watch(self, arguments.memory, arguments.buffers)
        arguments.memory.find = watch.find
        flaws = Flaws()
        ptx = PtxLaunch(
            prepared=build.prepared,
            shape=LaunchShape(
                grid=(grid.x * build.num_ctas, grid.y, grid.z),
                threads=kernel.threads,
                cluster=build.num_ctas,
                sms=launch.device.sm_count,
            ),
            memory=arguments.memory,
            parameters=pack_parameters(kernel, arguments.values),
            shared_bytes=build.shared_bytes,
            watch=watch,
            flaws=flaws,
            most_ctas=self.most_ctas() if launch.may_wait else 0,
            order=launch.ids,
            step_limit=launch.context.step_limit * STEPS_PER_TRIP,
        )
        try:
            stuck = ptx.run()
        finally:
            for key, flaw in flaws.seen.items():
                self.add_event(self._event(kernel, flaw, flaws.counts[key]))
        return ExecutionOutcome(executor="ptx", deadlocked=None if stuck is None else self._deadlock(kernel, stuck))

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

    def _deadlock(self, kernel: PtxKernel, stuck: StuckThreads) -> Deadlocked:
        at: dict[int, tuple[PtxInstruction, list[int]]] = {}
        for instruction, cta, _ in stuck.waiting:
            _, waiting = at.setdefault(id(instruction), (instruction, []))
            if (program := cta // self.build.num_ctas) not in waiting:
                waiting.append(program)
        waits = tuple(
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
        programs, resident = self.launch.context.grid.programs, len({cta for _, cta, _ in stuck.waiting})
        return Deadlocked(
            kernel=self.launch.kernel,
            waits=waits,
            programs=programs,
            resident=resident // self.build.num_ctas or 1,
            not_started=0,
            sm_count=self.launch.device.sm_count,
            programs_per_sm=1,
            limited_by="",
            ends_with=Residency.NONE,
            limit=0,
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
        self._memory.add("", self._executor.content_of(buffer), number, address=buffer.address)
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
