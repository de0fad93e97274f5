"""Executes the launches of one case and keeps their facts: what Triton's driver talks to."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import CannotExecute
from harness.model.case import LaneFill, ProgramOrder, Scale
from harness.model.device import DeviceProfile
from harness.model.kernel_resources import Resources
from harness.model.run import Deadlocked, Launch, MemoryEvent, Unsupported
from harness.ops.poison import Poison
from harness.virtual.binding import Binding
from harness.virtual.driver.builds import BUILD_SUFFIX, KEPT_VARIABLE, RESOURCES_SUFFIX
from harness.virtual.driver.driver import LaunchRequest
from harness.virtual.driver.kernel_facts import Described, described_as, launch_of, options_of, shape_digest
from harness.virtual.driver.triton_seam import Chosen, ask_for_scratch, version
from harness.virtual.grid import LaunchGrid, program_ids
from harness.virtual.machine import (
    STEP_LIMIT,
    STEP_LIMIT_VARIABLE,
    Machine,
    Runaway,
    RunawayKernel,
    RunsAway,
    Stopped,
)
from harness.virtual.memory.accesses import Memory
from harness.virtual.memory.events import EventCollector
from harness.virtual.memory.oversized_launch import Enough, SampledMemory, sampled_ids
from harness.virtual.native.policy import Executing, NativeCode, Work
from harness.virtual.operations.table import HANDLERS
from harness.virtual.synchronisation.occupancy import Occupancy, occupancy
from harness.virtual.synchronisation.race_filter import FilteredMemory
from harness.virtual.synchronisation.race_recheck import RecheckedLaunch, screened_memory
from harness.virtual.synchronisation.residency import ResidentLaunch, stuck_error
from harness.virtual.ttir.ir import Module
from harness.virtual.ttir.parser import parse
from harness.virtual.ttir.reach import reach_of
from harness.virtual.ttir.waiting_kernels import may_wait

WANTS_SCRATCH = frozenset({"tt.make_tensor_descriptor", "ttng.tensormap_create"})
"""Operations for which the compiler may ask scratch memory; only kernels with one are compiled whole at once."""


@dataclass(slots=True)
class VirtualCaseLaunches:
    """What one case launched so far."""

    lane_fill: LaneFill = LaneFill.ZERO
    order: ProgramOrder = ProgramOrder.FORWARD
    seed: int = 0
    """Decides a shuffled order."""
    scale: Scale = Scale.USUAL
    launches: list[Launch] = field(default_factory=list[Launch])
    memory: list[MemoryEvent] = field(default_factory=list[MemoryEvent])
    unsupported: Unsupported | None = None
    deadlocked: Deadlocked | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    writers: dict[int, tuple[str, str]] = field(default_factory=dict[int, "tuple[str, str]"])
    """By address of a storage, the kernel and argument that stored to it last."""

    @property
    def halted(self) -> Unsupported | Deadlocked | None:
        """What ended the case inside a launch, whatever the library made of it."""
        return self.unsupported or self.deadlocked

    def add_seconds(self, part: str, seconds: float) -> None:
        """Account for time spent."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds


class Launches:
    """The launch handler of a worker process.

    `chosen` tells the autotune config under which Triton launches; `poison_of` which storages are fresh; `builds` is
    the folder in which TTIR texts are left for whoever compiles them whole.
    """

    def __init__(
        self,
        device: DeviceProfile,
        chosen: Callable[[], Chosen],
        poison_of: Callable[[int], Poison | None],
        compile_now: Callable[[str, Mapping[str, Any]], Resources],
        builds: Path | None,
    ) -> None:
        self.session = VirtualCaseLaunches()
        self.native: Executing = NativeCode()
        """Executes what it can prove clean; by default nothing."""
        self.handlers = HANDLERS
        """What the operations of launches do."""
        self._device = device
        self._arch = device.arch
        self._step_limit = int(os.environ.get(STEP_LIMIT_VARIABLE, STEP_LIMIT))
        self._chosen = chosen
        self._poison_of = poison_of
        self._compile_now = compile_now
        self._builds = builds
        self._modules: dict[tuple[str, ...], _Compiled] = {}

    def __call__(self, request: LaunchRequest) -> None:
        """Execute one launch.

        Raises:
            CannotExecute: something in the kernel is not known; the session keeps what and where.
            RunawayKernel: a loop goes on and on, and waits for nobody.
            LaunchStuck: programs wait for each other forever; the session keeps which and where.
            RuntimeError: more programs are launched cooperatively than the GPU holds.
        """
        session = self.session
        try:
            compiled = self._compiled(request)
            scratch = self._scratch(compiled, request)
            session.launches.append(launch_of(compiled.described, request, self._chosen(), scratch))
            if scratch:
                ask_for_scratch(scratch, compiled.scratch_align, request.stream)
            self._execute(compiled, request)
        except (RunsAway, Runaway) as error:
            raise RunawayKernel(self._runaway(request, error)) from None
        except CannotExecute as error:
            if session.unsupported is None:
                session.unsupported = self._explain(request, error)
            raise

    def _compiled(self, request: LaunchRequest) -> "_Compiled":
        options = options_of(request.metadata)
        key = (request.ttir, *map(str, options.values()))  # the text's hash is kept with it: nothing long is copied
        if key not in self._modules:
            began = time.perf_counter()
            described = described_as(request.ttir, self._arch, options)
            compiled = _Compiled(described, may_wait=may_wait(described.module))
            self.session.add_seconds("parse", time.perf_counter() - began)
            if any(operation.name in WANTS_SCRATCH for operation in compiled.module.kernel.body.all_operations()):
                resources = self._compile_now(request.ttir, options)
                compiled.scratch_bytes_per_program = resources.scratch_bytes_per_program
            self._leave_build(request.ttir, compiled)
            self._modules[key] = compiled
        return self._modules[key]

    def _leave_build(self, ttir: str, compiled: "_Compiled") -> None:
        if self._builds is None:
            return
        path = self._builds / f"{compiled.described.build}{BUILD_SUFFIX}"
        if not path.exists() and not path.with_suffix(RESOURCES_SUFFIX).exists():
            self._builds.mkdir(parents=True, exist_ok=True)
            content = {
                "arch": self._arch,
                "options": compiled.described.options,
                "shape": shape_digest(ttir),
                "ttir": ttir,
            }
            draft = path.with_suffix(f".{time.monotonic_ns()}")
            draft.write_text(json.dumps(content))
            draft.rename(path)

    def _scratch(self, compiled: "_Compiled", request: LaunchRequest) -> int:
        x, y, z = request.grid
        return x * y * z * getattr(request.metadata, "num_ctas", 1) * compiled.scratch_bytes_per_program

    def _execute(self, compiled: "_Compiled", request: LaunchRequest) -> None:
        grid = LaunchGrid(*request.grid)
        session = self.session
        is_giant = session.scale is Scale.GIANT
        # What a GPU refuses has no programs: beyond 2^31 of them, those here would have numbers that none has there.
        if not grid.programs or (is_giant and not grid.is_launchable):
            return
        began = time.perf_counter()
        module = compiled.module
        given = dict(zip(request.source.fn.arg_names, request.arguments, strict=False))
        bind = partial(Binding, module.kernel, request.source.signature, given, self._poison_of)
        binding = bind()
        work = Work(
            module=module, build=compiled.described.build, binding=binding, grid=grid, lane_fill=session.lane_fill
        )
        events = EventCollector()
        machine = self._machine(compiled, binding, events, grid)
        name = request.source.fn.__name__
        for argument in binding.written:
            if argument.buffer is not None:
                session.writers[argument.buffer.address] = (name, argument.name)
        launch = ResidentLaunch(
            kernel=name,
            machine=machine,
            bind=bind,
            ids=sampled_ids(grid.programs) if is_giant else program_ids(session.order, grid.programs, session.seed),
            device=self._device,
            occupancy=lambda: self._occupancy(compiled, request),
        )
        try:
            if getattr(request.metadata, "launch_cooperative_grid", False):
                launch.check_cooperative()
            if compiled.may_wait:
                if is_giant:
                    raise CannotExecute("programs that may wait for others of which only a sample runs")
                session.deadlocked = launch.run(binding, events, module.source)
            elif is_giant:
                machine.run(binding.values, launch.ids)
            else:
                self._execute_independent(work, launch, events)
        except Enough:
            session.launches[-1] = replace(session.launches[-1], cut=True)
        finally:
            session.memory += events.finish(name, len(session.launches) - 1, binding.arguments, module.source)
            session.add_seconds("execution", time.perf_counter() - began)
        if session.deadlocked is not None:
            raise stuck_error(session.deadlocked)

    def _machine(self, compiled: "_Compiled", binding: Binding, events: EventCollector, grid: LaunchGrid) -> Machine:
        memory = self._memory(compiled, binding, events)
        machine = Machine(compiled.module, memory, grid, self.session.lane_fill, self.handlers)
        machine.arch, machine.poison_of, machine.step_limit = self._arch, self._poison_of, self._step_limit
        if self.session.scale is Scale.GIANT:
            machine.most_trips = sys.maxsize  # it is cut after so many accesses
        return machine

    def _memory(self, compiled: "_Compiled", binding: Binding, events: EventCollector) -> Memory:
        """Of a giant's sample; screened, where atomics may meet or order what programs do; usually without either."""
        if self.session.scale is Scale.GIANT:
            return SampledMemory(binding.arguments, events)
        needs_order = compiled.described.atomics and not compiled.may_wait
        screened = screened_memory(reach_of(compiled.module.kernel), binding, events) if needs_order else None
        return screened or Memory(binding.arguments, events)

    def _execute_independent(self, work: Work, launch: ResidentLaunch, events: EventCollector) -> None:
        """In native code what that can prove clean, all else by the machine."""
        if self.native.execute(work, events):
            self.session.launches[-1] = replace(self.session.launches[-1], executor="native")
            return
        began = time.perf_counter()
        machine = launch.machine
        if isinstance(machine.memory, FilteredMemory):
            RecheckedLaunch(launch, machine.memory, work.binding).run(events)
        else:
            machine.run(work.binding.values, launch.ids)
        self.native.took(work, time.perf_counter() - began)

    def _occupancy(self, compiled: "_Compiled", request: LaunchRequest) -> Occupancy:
        if compiled.occupancy is None:
            resources = self._compile_now(request.ttir, compiled.described.options)
            threads = request.metadata.num_warps * self._device.warp_size
            num_ctas = getattr(request.metadata, "num_ctas", 1)
            compiled.occupancy = occupancy(replace(resources, threads=threads), self._device, num_ctas)
        return compiled.occupancy

    def _runaway(self, request: LaunchRequest, error: CannotExecute) -> str:
        source = parse(request.ttir).source(error.location) if isinstance(error, Stopped) else None
        place = f" ({source})" if source else ""
        return f"{request.source.fn.__name__}: {error.what}{place}; {STEP_LIMIT_VARIABLE} sets another limit"

    def _explain(self, request: LaunchRequest, error: CannotExecute) -> Unsupported:
        source = None
        if isinstance(error, Stopped):
            source = parse(request.ttir).source(error.location)
        name = request.source.fn.__name__
        kept = _keep(name, request.ttir)
        return Unsupported(what=error.what, kernel=name, source=source, triton_version=version, ttir_file=kept)


def _keep(kernel: str, ttir: str) -> str:
    """Write the text where whoever reads the report finds it; returns the file, or nothing where none is wanted."""
    folder = os.environ.get(KEPT_VARIABLE)
    if not folder:
        return ""
    file = Path(folder) / f"{kernel}-{hashlib.sha256(ttir.encode()).hexdigest()[:12]}.ttir"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(ttir, encoding="utf-8")
    return str(file)


@dataclass(slots=True)
class _Compiled:
    described: Described
    may_wait: bool
    """Whether its programs may wait for each other, and need turns."""
    scratch_bytes_per_program: int = 0
    scratch_align: int = 128
    occupancy: Occupancy | None = None
    """None as long as nobody asked."""

    @property
    def module(self) -> Module:
        return self.described.module
