"""The launch handler of the virtual GPU: executes the launches of one case and keeps their facts."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness import wire
from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.builds import BUILD_SUFFIX, RESOURCES_SUFFIX
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.triton.foreign_arguments import foreign_arguments
from harness.engines.triton.kernel_facts import (
    KernelFacts,
    build_digest,
    options_of,
    read_kernel_facts,
    shape_digest,
)
from harness.engines.triton.later_stages import ASSEMBLY
from harness.engines.triton.scratch_checks import SCRATCH_OPERATIONS, ScratchRequest, allocated, scratch_source
from harness.engines.triton.stage_process import compiled_text
from harness.engines.triton.triton_seam import (
    ChosenConfig,
    ConfigBuild,
    allocate_scratch,
    version,
)
from harness.engines.ttir.block_lines import BlockLines
from harness.engines.ttir.flows import steered_accesses
from harness.engines.ttir.ir import operation_names
from harness.engines.ttir.kept_modules import KeptModules
from harness.engines.ttir.parser import parse
from harness.engines.ttir.waiting_kernels import may_wait
from harness.engines.virtual.binding import Binding, exact_scalar, scalar
from harness.engines.virtual.engine_settings import STEP_LIMIT_VARIABLE, EngineSettings
from harness.engines.virtual.executors import ExecutionOutcome, Executor, choose_executor
from harness.engines.virtual.grid import LaunchGrid, program_ids
from harness.engines.virtual.machine import (
    CannotExecuteAt,
    Handler,
    LaunchContext,
    RunawayKernel,
    TooManyTrips,
    TooManyTripsAt,
)
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.oversized_launch import sampled_ids
from harness.engines.virtual.memory.stored_tensors import StoredTensor, stored_tensor
from harness.engines.virtual.native.native_code import ExecutorMode, NativeBackend, NativeCode
from harness.engines.virtual.native.repeated_launch import LaunchValues
from harness.engines.virtual.operations.exact_handlers import exact_handlers
from harness.engines.virtual.operations.memory import ODD_FILL
from harness.engines.virtual.operations.rounding_growth import RoundingGrowth
from harness.engines.virtual.operations.table import HANDLERS
from harness.engines.virtual.plain_arguments import PlainArguments
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.repeated_kernel import KeptLaunch, RepeatedKernel
from harness.engines.virtual.synchronisation.occupancy import Occupancy, occupancy
from harness.engines.virtual.synchronisation.residency import ResidentLaunch, stuck_error
from harness.engines.virtual.synchronisation.thread_races import MOST_TRACED_LAUNCHES, ThreadRaceCheck
from harness.errors import CannotExecute
from harness.execution.exact_memory import ExactMemory
from harness.execution.execution_hooks import launch_watchers, with_failed_kernel
from harness.execution.oversized_tensors import unknown_values
from harness.execution.poison import Poison
from harness.execution.unwritten_memory import LastStore
from harness.model.case import LaneFill, ProgramOrder, Scale
from harness.model.device import DeviceProfile
from harness.model.executed_lines import ExecutedLines, FileLines
from harness.model.kernel_resources import Resources
from harness.model.run import (
    AccessSite,
    Deadlocked,
    Ending,
    Launch,
    MemoryEvent,
    PartlyStored,
    Source,
    UninitialisedRead,
    Unsupported,
)


def _begin_watched(request: LaunchRequest) -> dict[str, torch.Tensor]:
    """Show the launch's tensors to whoever watches, and return them; none if nobody does."""
    tensors = tensors_of(request) if launch_watchers else {}
    for watcher in launch_watchers:
        watcher.before(tensors)
    return tensors


def _end_watched(tensors: dict[str, torch.Tensor], launch: PreparedLaunch) -> None:
    stored = tuple(argument.name for argument in launch.binding.written) if launch_watchers else ()
    for watcher in launch_watchers:
        watcher.after(tensors, stored)


@dataclass(slots=True)
class VirtualCaseLaunches:
    """The launches of one case so far."""

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
    stored: dict[int, StoredTensor] = field(default_factory=dict[int, StoredTensor])
    """By address of a storage of fresh memory, the view through which a launch stored to it last."""

    executed: Counter[tuple[BlockLines, bytes]] = field(default_factory=Counter[tuple[BlockLines, bytes]])
    """How many launches entered the same blocks of a kernel."""

    checks_threads: bool = True
    """False for a run that repeats another one, whose threads were checked."""
    traced: dict[str, int] = field(default_factory=dict[str, int])
    """The launches of each build whose threads were checked."""
    main_has_allocator: bool = False
    """True if the main thread had an allocator of scratch memory before the case."""
    scratch_kernels: list[str] = field(default_factory=list[str])
    """The kernels that got scratch memory so far."""

    @property
    def allocator_elsewhere(self) -> str:
        """Where an allocator is set, for a thread that has none; empty if nowhere as far as is known."""
        if self.main_has_allocator:
            return "in the main thread"
        return f"for the launch of {self.scratch_kernels[-1]} before" if self.scratch_kernels else ""

    @property
    def is_oversized(self) -> bool:
        return self.scale is Scale.OVERSIZED

    @property
    def halted(self) -> Unsupported | Deadlocked | None:
        """The ending of a case that stopped inside a launch, even if the library caught the exception."""
        return self.unsupported or self.deadlocked

    def ending(self, ending: Ending, failed: tuple[str, int] | None) -> Ending:
        """Return how the case ended, from the ending that the library shows and the kernel that failed first."""
        return self.halted or with_failed_kernel(ending, failed)

    def partly_stored(self) -> tuple[PartlyStored, ...]:
        """Return the tensors with elements that nothing has stored, while their memory is remembered."""
        return tuple(rest for tensor in self.stored.values() if (rest := tensor.rest()) is not None)

    def executed_lines(self) -> tuple[ExecutedLines, ...]:
        executed = Counter[tuple[FileLines, ...]]()
        for (lines, entered), launches in self.executed.items():
            executed[lines.executed(entered)] += launches
        return tuple(ExecutedLines(files=files, launches=launches) for files, launches in executed.items())

    def add_seconds(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds


class Launches:
    """The launch handler of a worker process.

    `chosen` returns the autotune config of the launch under way.  `poison_of` returns the poison of fresh storages.
    `compile_now` runs the whole compiler, which takes seconds.
    """

    def __init__(
        self,
        device: DeviceProfile,
        chosen: Callable[[], ChosenConfig],
        poison_of: Callable[[int], Poison | None],
        compile_now: Callable[[str, Mapping[str, Any]], Resources],
        settings: EngineSettings,
    ) -> None:
        self.on_store: Callable[[int, LastStore], None] = lambda *_: None
        """Gets the address of each storage that a launch may store to."""
        self.case_launches = VirtualCaseLaunches()
        self.handlers = HANDLERS
        """The effect of each operation; random rounding replaces it."""
        self._exact: Mapping[str, Handler] | None = None
        self._growth: RoundingGrowth | None = None
        self.device = device
        self._chosen = chosen
        self._scratch_poison: Mapping[int, Poison] = {}
        """By storage, the poison of the scratch memory of the launch under way."""
        self._poison_of = lambda address: self._scratch_poison.get(address) or poison_of(address)
        self._compile_now = compile_now
        self.use(settings)
        self._compiled_kernels: dict[tuple[str, ...], CompiledTtir] = {}

    def use(self, settings: EngineSettings) -> None:
        """Take other settings, before the first launch."""
        self.settings = settings
        native = NativeCode.passing if settings.are_builds_passing else NativeCode
        self.native: NativeBackend = native(settings.executor, settings.builds)
        """Tried before the machine."""
        self.modules = KeptModules(settings.builds)
        self._left = set[str]()
        """The builds that are in the folder."""

    @property
    def is_exact(self) -> bool:
        """True while exact values are computed too."""
        return self._exact is not None

    @contextmanager
    def exactly(self, memory: ExactMemory, growth: RoundingGrowth | None) -> Generator[None]:
        """Also compute exact values while this lasts, in the machine alone."""
        self._exact, self._growth = exact_handlers(self.handlers, memory, growth), growth
        try:
            yield
        finally:
            self._exact = self._growth = None

    def __call__(self, request: LaunchRequest) -> None:
        """Execute one launch.

        Raises:
            CannotExecute: the kernel contains something unknown; `case_launches` keeps what and its source line.
            RunawayKernel: a loop exceeds the limit of trips, and waits for no other program.
            LaunchStuck: programs wait for each other forever; `case_launches` keeps which and their source lines.
            RuntimeError: a cooperative launch has more programs than the GPU holds.
        """
        case = self.case_launches
        try:
            is_followed = self._exact is not None or bool(launch_watchers)
            with without_dispatch_modes() if is_followed else nullcontext():
                self._launch(request)
        except (TooManyTrips, TooManyTripsAt) as error:
            raise RunawayKernel(_describe_runaway(request, error)) from None
        except CannotExecute as error:
            if case.unsupported is None:
                case.unsupported = self._unsupported(request, error)
            raise

    def _launch(self, request: LaunchRequest) -> None:
        case, compiled, repeated = self.case_launches, *self._kept(request)
        scratch_bytes = self._scratch_bytes(compiled, request)
        chosen = self._chosen()
        builds = tuple(map(self._config_build, chosen.builds))
        case.launches.append(repeated.record(request, chosen, scratch_bytes, builds))
        with plain_torch():
            if not repeated.promises.are_kept(request.arguments):
                case.memory += foreign_arguments(request, compiled.facts.module.kernel, len(case.launches) - 1)
        if self._growth is not None:
            self._growth.begin(len(case.launches) - 1)
        if scratch_bytes:
            self._execute_with_scratch(compiled, repeated, request, scratch_bytes)
        else:
            self._execute(compiled, repeated, request)

    # --- scratch memory ---

    def _execute_with_scratch(
        self, compiled: "CompiledTtir", repeated: RepeatedKernel, request: LaunchRequest, size_bytes: int
    ) -> None:
        case, asked = self.case_launches, self._scratch_request(compiled, request, size_bytes)
        scratch = allocated(
            asked,
            lambda: allocate_scratch(size_bytes, asked.align, request.stream),
            case.allocator_elsewhere,
            case.memory.append,
        )
        case.scratch_kernels.append(request.source.fn.__name__)
        case.memory += scratch.flaws(tensors_of(request), is_emulated=True)
        before = len(case.memory)
        self._scratch_poison = scratch.poison()
        try:
            self._execute(compiled, repeated, request)
        finally:
            self._scratch_poison = {}
            reads = (event for event in case.memory[before:] if isinstance(event, UninitialisedRead))
            case.memory += tuple(scratch.accesses(reads))

    def _scratch_request(self, compiled: "CompiledTtir", request: LaunchRequest, size_bytes: int) -> ScratchRequest:
        site = AccessSite(
            kernel=request.source.fn.__name__,
            launch=len(self.case_launches.launches) - 1,
            argument="",
            source=scratch_source(compiled.facts.module),
        )
        return ScratchRequest(
            site=site,
            size_bytes=size_bytes,
            align=compiled.scratch_align,
            bytes_per_program=compiled.scratch_bytes_per_program,
        )

    # --- kernels ---

    def _kept(self, request: LaunchRequest) -> "tuple[CompiledTtir, RepeatedKernel]":
        """Return what launches of the request's kernel have in common; computed anew if it is another kernel."""
        kept = request.kept.get(self)
        if kept is None or not kept[1].is_of(request):
            compiled = self.compiled(request)
            kept = request.kept[self] = compiled, RepeatedKernel(compiled.facts, request)
        return kept

    def compiled(self, request: LaunchRequest) -> "CompiledTtir":
        options = options_of(request.metadata)
        # A string caches its hash, so the long text as a key costs no more than a short one.
        key = (request.ttir, *map(str, options.values()))
        if key not in self._compiled_kernels:
            began = time.perf_counter()
            facts = self._read_facts(request.ttir, options)
            compiled = CompiledTtir(
                facts,
                self._thread_check(request.ttir, facts),
                may_wait=may_wait(facts.module),
            )
            self.case_launches.add_seconds("parse", time.perf_counter() - began)
            if operation_names(facts.module) & SCRATCH_OPERATIONS:
                resources = self._compile_now(request.ttir, options)
                compiled.scratch_bytes_per_program = resources.scratch_bytes_per_program
                compiled.scratch_align = resources.scratch_align
            self._leave_build(request.ttir, facts.build, facts.options)
            self._compiled_kernels[key] = compiled
        return self._compiled_kernels[key]

    def _read_facts(self, ttir: str, options: Mapping[str, Any]) -> KernelFacts:
        """Return what the text of a kernel says.

        Raises:
            CannotExecute: it cannot be read.
        """
        return read_kernel_facts(ttir, self.device.arch, options, self.modules)

    def _config_build(self, build: ConfigBuild) -> str:
        """Leave the build of a config that is not launched, and return its digest; empty if it has no TTIR."""
        if not build.ttir:
            return ""
        options = options_of(build.metadata)
        digest = build_digest(build.ttir, self.device.arch, options)
        self._leave_build(build.ttir, digest, options)
        return digest

    def _leave_build(self, ttir: str, build: str, options: Mapping[str, Any]) -> None:
        """Write the build for the background compiler, unless it is there or has been compiled."""
        folder = self.settings.builds
        if folder is None or build in self._left:
            return
        self._left.add(build)
        path = folder / f"{build}{BUILD_SUFFIX}"
        if not path.exists() and not path.with_suffix(RESOURCES_SUFFIX).exists():
            folder.mkdir(parents=True, exist_ok=True)
            content = {
                "arch": self.device.arch,
                "options": options,
                "shape": shape_digest(ttir),
                "ttir": ttir,
            }
            # The compiler polls the folder: it must not see a file that is half written.
            wire.write_bytes([json.dumps(content).encode()], path)

    @staticmethod
    def _scratch_bytes(compiled: "CompiledTtir", request: LaunchRequest) -> int:
        x, y, z = request.grid
        return x * y * z * getattr(request.metadata, "num_ctas", 1) * compiled.scratch_bytes_per_program

    def _occupancy(self, compiled: "CompiledTtir", request: LaunchRequest) -> Occupancy:
        if compiled.occupancy is None:
            resources = self._compile_now(request.ttir, compiled.facts.options)
            threads = request.metadata.num_warps * self.device.warp_size
            num_ctas = getattr(request.metadata, "num_ctas", 1)
            compiled.occupancy = occupancy(replace(resources, threads=threads), self.device, num_ctas)
        return compiled.occupancy

    # --- executing ---

    def _execute(self, compiled: "CompiledTtir", repeated: RepeatedKernel, request: LaunchRequest) -> None:
        case = self.case_launches
        grid = LaunchGrid(*request.grid)
        # The driver refuses such a grid, so no program runs.  The ids of a sample would be ids that no program has.
        threads = request.metadata.num_warps * self.device.warp_size
        is_refused = case.is_oversized and not grid.is_launchable(self.device, threads)
        if not grid.programs or is_refused:
            return
        began = time.perf_counter()
        plain = self._plain_arguments(compiled, repeated, request)
        if plain is not None and self._repeat(compiled, repeated, request, plain):
            case.add_seconds("execution", time.perf_counter() - began)
            return
        launch = self._execute_bound(compiled, request, grid, began)
        if plain is not None and case.launches[-1].executor == "native":
            self._keep(compiled, repeated, plain, launch)

    def _execute_bound(
        self, compiled: "CompiledTtir", request: LaunchRequest, grid: LaunchGrid, began: float
    ) -> PreparedLaunch:
        """Bind the arguments of a launch and execute it; `began` is the time at which the launch did."""
        case = self.case_launches
        launch = self.prepare(compiled, request, grid)
        began += self._check_threads(compiled, launch)
        for argument in launch.binding.written:
            if argument.buffer is not None:
                self._note_store(launch.kernel, argument, argument.buffer.address, argument.buffer.poison)
        steering = _Steering.of(launch, tensors_of(request)) if case.is_oversized else None
        resident = self.resident(compiled, request, launch)
        events = EventCollector()
        executor = self._executor(compiled, request, resident, events)
        watched = _begin_watched(request)
        try:
            if getattr(request.metadata, "launch_cooperative_grid", False):
                resident.check_cooperative()
            outcome = executor.run()
            if outcome != ExecutionOutcome():
                case.launches[-1] = replace(case.launches[-1], executor=outcome.executor, cut=outcome.was_cut)
            if steering is not None:
                steering.mark_results(launch, is_whole=not outcome.was_cut and len(launch.ids) == grid.programs)
            case.deadlocked = outcome.deadlocked or case.deadlocked
        finally:
            arguments, source = launch.binding.arguments, self._sources(executor, launch)
            if steering is not None and steering.names:
                events.drop_strays(steering.accesses)
                case.launches[-1] = replace(case.launches[-1], steered_by=steering.names)
            case.memory += events.finish(launch.kernel, len(case.launches) - 1, arguments, source)
            self._count_lines(compiled, launch.context.entered)
            case.add_seconds("execution", time.perf_counter() - began)
        if case.deadlocked is not None:
            raise stuck_error(case.deadlocked)
        _end_watched(watched, launch)
        return launch

    # --- launches like an earlier one, in native code ---

    def _plain_arguments(
        self, compiled: "CompiledTtir", repeated: RepeatedKernel, request: LaunchRequest
    ) -> PlainArguments | None:
        """Return the arguments of a launch that may be like another one; None if it is executed in its own way."""
        is_usual = self.case_launches.scale is Scale.USUAL and self._exact is None and self.handlers is HANDLERS
        has_native = isinstance(self.native, NativeCode) and self.native.choice is not ExecutorMode.NUMPY
        if not is_usual or not has_native or launch_watchers or repeated.parameters is None:
            return None
        if compiled.may_wait or compiled.facts.atomics or getattr(request.metadata, "launch_cooperative_grid", False):
            return None
        with plain_torch():
            return repeated.parameters.read(request.arguments)

    def _keep(
        self, compiled: "CompiledTtir", repeated: RepeatedKernel, plain: PlainArguments, launch: PreparedLaunch
    ) -> None:
        """Keep what repeats a launch that native code has just executed."""
        assert isinstance(self.native, NativeCode)
        if (native := self.native.repeatable(launch)) is not None:
            kept = KeptLaunch(native, may_race=compiled.threads.may_race(launch))
            repeated.keep(plain.pattern, self.native, kept)

    def _repeat(
        self, compiled: "CompiledTtir", repeated: RepeatedKernel, request: LaunchRequest, plain: PlainArguments
    ) -> bool:
        """Execute a launch as an earlier one with the same pattern of arguments; return False if that is impossible.

        Memory is unchanged then.
        """
        case, kept = self.case_launches, repeated.repeatable(plain.pattern, self.native)
        if kept is None or (kept.may_race and self._is_traced(compiled)):
            return False
        table = kept.native.table
        values = LaunchValues(
            request.grid,
            ODD_FILL if case.lane_fill is LaneFill.ODD else 0,
            plain.addresses,
            [self._poison_of(address) for address in plain.addresses],
            plain.numbers,
        )
        if not kept.native.run(values):
            repeated.drop(plain.pattern)
            return False
        kernel, number = request.source.fn.__name__, len(case.launches) - 1
        case.launches[-1] = repeated.native_record(case.launches[-1])
        for at in table.written:
            self._note_store(kernel, table.arguments[at], values.addresses[at], values.poisons[at])
        if table.has_events:
            events = EventCollector()
            table.report(events)
            arguments = self._binder(compiled, request)().arguments
            case.memory += events.finish(kernel, number, arguments, compiled.facts.module.source)
        self._count_lines(compiled, table.entered)
        return True

    def _note_store(self, kernel: str, argument: Argument, address: int, poison: Poison | None) -> None:
        """Note that the launch under way may store through an argument, into the storage at an address."""
        case = self.case_launches
        number = len(case.launches) - 1
        case.writers[address] = (kernel, argument.name)
        self.on_store(address, LastStore(launch=case.launches[-1], index=number, argument=argument.name))
        if (tensor := stored_tensor(argument, address, poison, number)) is not None:
            case.stored[address] = tensor

    def _count_lines(self, compiled: "CompiledTtir", entered: bytearray) -> None:
        """Count the lines of the blocks that a launch has entered; an engine without TTIR's blocks has none."""
        if any(entered):
            self.case_launches.executed[compiled.facts.lines, bytes(entered)] += 1

    def resident(self, compiled: "CompiledTtir", request: LaunchRequest, launch: PreparedLaunch) -> ResidentLaunch:
        """Return a launch with the numbers of programs that the GPU holds."""
        return ResidentLaunch(launch=launch, occupancy=lambda: self._occupancy(compiled, request))

    def _executor(
        self, compiled: "CompiledTtir", request: LaunchRequest, resident: ResidentLaunch, events: EventCollector
    ) -> Executor:
        """Return what executes one launch."""
        del compiled, request
        return choose_executor(resident, events, self.native)

    def _sources(self, executor: Executor, launch: PreparedLaunch) -> Callable[[str], Source | None]:
        """Return what finds the line of Python of an event's location."""
        del executor
        return launch.module.source

    def _thread_check(self, ttir: str, facts: KernelFacts) -> ThreadRaceCheck:
        options = {name: value for name, value in facts.options.items() if value is not None}

        def compile_to(stage: str, numbered: str) -> str:
            return compiled_text(numbered, stage, self.device.arch, options)

        return ThreadRaceCheck(
            facts.module,
            ttir,
            num_warps=facts.options["num_warps"],
            lanes=self.device.warp_size,
            assembly=ASSEMBLY[self.device.vendor],
            compile_to=compile_to,
        )

    def _check_threads(self, compiled: "CompiledTtir", launch: PreparedLaunch) -> float:
        """Look for races between the threads of a program, before the launch changes memory; return the seconds."""
        case, build = self.case_launches, compiled.facts.build
        if not self._is_traced(compiled) or launch.is_exact or launch.is_oversized:
            return 0.0
        if not compiled.threads.may_race(launch):
            return 0.0
        case.traced[build] = case.traced.get(build, 0) + 1
        began = time.perf_counter()
        try:
            case.memory += compiled.threads.check(launch, len(case.launches) - 1)
        except CannotExecute as error:
            case.launches[-1] = replace(case.launches[-1], threads_unknown=error.what)
        seconds = time.perf_counter() - began
        case.add_seconds("threads", seconds)
        return seconds

    def _is_traced(self, compiled: "CompiledTtir") -> bool:
        """Return True if the next launch of a build is traced where the threads of a program may race."""
        case = self.case_launches
        return case.checks_threads and case.traced.get(compiled.facts.build, 0) < MOST_TRACED_LAUNCHES

    def _binder(self, compiled: "CompiledTtir", request: LaunchRequest) -> Callable[[], Binding]:
        """Return what binds the arguments of a launch."""
        arguments = dict(zip(request.source.fn.arg_names, request.arguments, strict=False))
        make_scalar = scalar if self._exact is None else exact_scalar
        kernel = compiled.facts.module.kernel
        return partial(Binding, kernel, request.source.signature, arguments, self._poison_of, make_scalar)

    def prepare(self, compiled: "CompiledTtir", request: LaunchRequest, grid: LaunchGrid) -> PreparedLaunch:
        case = self.case_launches
        module = compiled.facts.module
        bind = self._binder(compiled, request)
        return PreparedLaunch(
            kernel=request.source.fn.__name__,
            text=compiled.facts.text,
            device=self.device,
            context=LaunchContext(
                module=module,
                grid=grid,
                lane_fill=case.lane_fill,
                handlers=self.handlers if self._exact is None else self._exact,
                arch=self.device.arch,
                poison_of=self._poison_of,
                step_limit=self.settings.step_limit,
                entered=bytearray(module.block_count),
            ),
            binding=bind(),
            bind=bind,
            ids=sampled_ids(grid.programs) if case.is_oversized else program_ids(case.order, grid.programs, case.seed),
            is_oversized=case.is_oversized,
            is_long=case.scale is Scale.LONG,
            is_exact=self._exact is not None,
            may_wait=compiled.may_wait,
            has_atomics=compiled.facts.atomics,
        )

    def _unsupported(self, request: LaunchRequest, error: CannotExecute) -> Unsupported:
        kernel = request.source.fn.__name__
        return Unsupported(
            what=error.what,
            kernel=kernel,
            source=parse(request.ttir).source(error.location) if isinstance(error, CannotExecuteAt) else None,
            triton_version=version,
            ttir_file=_keep_ttir(self.settings.kept_ttir, kernel, request.ttir),
        )


def _describe_runaway(request: LaunchRequest, error: CannotExecute) -> str:
    source = parse(request.ttir).source(error.location) if isinstance(error, CannotExecuteAt) else None
    place = f" ({source})" if source else ""
    return f"{request.source.fn.__name__}: {error.what}{place}; {STEP_LIMIT_VARIABLE} sets another limit"


def _keep_ttir(folder: Path | None, kernel: str, ttir: str) -> str:
    """Write the TTIR to the folder and return the file; without a folder return an empty text."""
    if folder is None:
        return ""
    file = folder / f"{kernel}-{hashlib.sha256(ttir.encode()).hexdigest()[:12]}.ttir"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(ttir, encoding="utf-8")
    return str(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steering:
    """The unknown values that a launch of an oversized case reads, and the accesses that depend on them."""

    tensors: Mapping[str, torch.Tensor]
    reads_unknown: bool
    names: tuple[str, ...]
    accesses: frozenset[str] | None
    """Their locations; None means all."""

    @classmethod
    def of(cls, launch: PreparedLaunch, tensors: Mapping[str, torch.Tensor]) -> "_Steering":
        known = unknown_values()
        names = tuple(name for name, tensor in tensors.items() if tensor in known)
        slots = launch.binding.slots_of(names)
        accesses = steered_accesses(launch.module.kernel, slots) if names else frozenset[str]()
        if known.have_been_read:
            names, accesses = (*names, "numbers that host code reads"), None
        steers = accesses is None or bool(accesses)
        return cls(tensors=tensors, reads_unknown=bool(names), names=names if steers else (), accesses=accesses)

    def mark_results(self, launch: PreparedLaunch, *, is_whole: bool) -> None:
        """Mark what the launch stores, unless the whole launch ran on known values."""
        if is_whole and not self.reads_unknown:
            return
        written = {argument.name for argument in launch.binding.written}
        for name, tensor in self.tensors.items():
            if name in written:
                unknown_values().add(tensor)


@dataclass(slots=True)
class CompiledTtir:
    """One kernel, compiled to TTIR with one set of options."""

    facts: KernelFacts
    threads: ThreadRaceCheck
    may_wait: bool
    """A program may wait for another one."""
    scratch_bytes_per_program: int = 0
    scratch_align: int = 128
    occupancy: Occupancy | None = None
    """None until a launch needs it: it takes the whole compiler."""
