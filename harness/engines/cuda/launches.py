"""Records the launches of one case on the hardware GPU: their facts, the last writer of each tensor, and faults.

The GPU is synchronised before and after each launch.  So an error or a hang belongs to the kernel that caused it, also
if that is one of torch's own.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from harness.engines.cuda.captured_launches import CapturedGraph, CapturedLaunch
from harness.engines.cuda.memory.redzones import Damage, RedzoneMemory
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.triton.foreign_arguments import foreign_arguments
from harness.engines.triton.kernel_facts import KernelFacts, launch_of, options_of, read_kernel_facts, unread_launch
from harness.engines.triton.scratch_checks import ScratchRequest, allocated, scratch_source
from harness.engines.triton.triton_seam import ChosenConfig
from harness.engines.ttir.kept_modules import KeptModules
from harness.engines.ttir.reach import reach_of
from harness.errors import CannotExecute
from harness.execution import flight_recorder
from harness.model.run import AccessSite, ForeignArgument, Launch, ScratchFault, Trampled


@dataclass(slots=True)
class CudaCaseLaunches:
    """The launches of one case so far."""

    finds_writer: bool = False
    """If True, redzones are checked after each launch, to find the kernel that damages one."""
    launches: list[Launch] = field(default_factory=list[Launch])
    memory: list[Trampled] = field(default_factory=list[Trampled])
    scratch: list[ScratchFault] = field(default_factory=list[ScratchFault])
    foreign: list[ForeignArgument] = field(default_factory=list[ForeignArgument])
    main_has_allocator: bool = False
    """True if the main thread had an allocator of scratch memory before the case."""
    writers: dict[int, tuple[str, str]] = field(default_factory=dict[int, "tuple[str, str]"])
    """By address of a storage, the kernel and argument that stored into it last."""
    unchecked: str = ""
    """Why a sanitizer may have missed an access, for the first such access; empty if there is none."""
    unfinished: str | None = None
    """The kernel that was launched and has not finished."""


class WatchedLaunches:
    """The launch callback of a worker process."""

    def __init__(self, arch: int, chosen: Callable[[], ChosenConfig], memory: RedzoneMemory) -> None:
        self.case_launches = CudaCaseLaunches()
        self._arch = arch
        self._chosen = chosen
        self._memory = memory
        self._builds: dict[tuple[str, ...], _Build] = {}
        self._modules = KeptModules()
        self._launching = threading.local()
        """In each thread, the request of its launch under way; None if that is not followed."""

    def allocate(self, allocator: Callable[[int, int, int], object], size: int, align: int, stream: int) -> object:
        """Return the scratch memory that Triton's launcher asks this thread's allocator for, after checks of it."""
        case, request = self.case_launches, getattr(self._launching, "request", None)
        if request is None:  # a launch that is not followed, as in the capture of a CUDA graph
            return allocator(size, align, stream)
        asked = self._scratch_request(request, size, align)
        elsewhere = "in the main thread" if case.main_has_allocator else ""
        scratch = allocated(asked, lambda: allocator(size, align, stream), elsewhere, case.scratch.append)
        case.scratch += scratch.flaws(tensors_of(request), is_emulated=False)
        scratch.fill()
        return scratch.buffer

    def __call__(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Launch, synchronise and record the launch."""
        case_launches = self.case_launches
        name = request.source.fn.__name__
        build = self._build(request)
        case_launches.launches.append(self._launch_of(request, build))
        if build.facts is not None:
            number = len(case_launches.launches) - 1
            case_launches.foreign += foreign_arguments(request, build.facts.module.kernel, number)
        tensors = tensors_of(request)
        with flight_recorder.synchronising(flight_recorder.EARLIER_WORK):
            torch.cuda.synchronize()
        case_launches.unfinished = name
        recorded = flight_recorder.launching(name, request.grid, f"num_warps: {request.metadata.num_warps}")
        self._launching.request = request
        try:
            with recorded, self._memory.launching():
                launch()
        finally:
            self._launching.request = None
        with flight_recorder.synchronising(name):
            torch.cuda.synchronize()
        case_launches.unfinished = None
        for key, tensor in tensors.items():
            is_stored = build.written is None or key in build.written
            if reason := self._memory.unchecked_reason(tensor, is_stored=is_stored):
                access = "stores to" if is_stored else "loads from"
                case_launches.unchecked = case_launches.unchecked or f"{name} {access} {key}, {reason}"
            if is_stored:
                case_launches.writers[_address(tensor)] = (name, key)
        if case_launches.finds_writer and not case_launches.memory:
            case_launches.memory += (self._trampled(damage, name, tensors) for damage in self._memory.damages())

    def capture(self, graph: CapturedGraph, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Launch into a graph, and note the launch."""
        tensors, build = tensors_of(request), self._build(request)
        captured = CapturedLaunch(
            launch=self._launch_of(request, build),
            arguments={_address(tensor): key for key, tensor in reversed(tensors.items())},
            stored=frozenset(
                _address(tensor) for key, tensor in tensors.items() if build.written is None or key in build.written
            ),
        )
        launch()
        graph.launches.append(captured)

    def replay(self, graph: CapturedGraph, replay: Callable[[], None]) -> None:
        """Replay a graph, synchronise and record its launches."""
        case_launches, first = self.case_launches, len(self.case_launches.launches)
        case_launches.launches += (captured.launch for captured in graph.launches)
        with flight_recorder.synchronising(flight_recorder.EARLIER_WORK):
            torch.cuda.synchronize()
        case_launches.unfinished = graph.name
        with flight_recorder.launching(graph.name, graph.launches[0].launch.grid, "replay of a CUDA graph"):
            replay()
        with flight_recorder.synchronising(graph.name):
            torch.cuda.synchronize()
        case_launches.unfinished = None
        for captured in graph.launches:
            named = ((address, key) for address, key in captured.arguments.items() if address in captured.stored)
            case_launches.writers |= {address: (captured.kernel, key) for address, key in named}
        if case_launches.finds_writer and not case_launches.memory:
            case_launches.memory += (_trampled_by(graph, damage, first) for damage in self._memory.damages())

    def trampled_by_unknown_kernel(self, damage: Damage) -> Trampled:
        """Return the event for damage that no launch of the rerun repeated."""
        return self._trampled(damage, "", {})

    def _scratch_request(self, request: LaunchRequest, size: int, align: int) -> ScratchRequest:
        facts = self._build(request).facts
        site = AccessSite(
            kernel=request.source.fn.__name__,
            launch=len(self.case_launches.launches) - 1,
            argument="",
            source=None if facts is None else scratch_source(facts.module),
        )
        per_program = int(request.metadata.global_scratch_size)
        return ScratchRequest(site=site, size_bytes=size, align=align, bytes_per_program=per_program)

    def _trampled(self, damage: Damage, kernel: str, tensors: dict[str, torch.Tensor]) -> Trampled:
        named = (key for key, tensor in tensors.items() if _address(tensor) == damage.address)
        launches = self.case_launches.launches
        site = AccessSite(
            kernel=kernel,
            launch=max(0, len(launches) - 1),
            argument=next(named, "a tensor"),
            source=launches[-1].source if kernel and launches else None,
        )
        return Trampled(site=site, region=damage.region, cells=damage.cells, element=damage.element)

    def _launch_of(self, request: LaunchRequest, build: "_Build") -> Launch:
        facts, scratch_bytes = build.facts, self._scratch_bytes(request)
        if facts is None:
            return unread_launch(request, self._arch, self._chosen(), scratch_bytes)
        return launch_of(facts, request, self._chosen(), scratch_bytes)

    def _build(self, request: LaunchRequest) -> "_Build":
        options = options_of(request.metadata)
        key = (request.ttir, *map(str, options.values()))
        if key not in self._builds:
            self._builds[key] = _Build.of(request.ttir, self._arch, options, self._modules)
        return self._builds[key]

    @staticmethod
    def _scratch_bytes(request: LaunchRequest) -> int:
        x, y, z = request.grid
        metadata = request.metadata
        return x * y * z * getattr(metadata, "num_ctas", 1) * int(getattr(metadata, "global_scratch_size", 0) or 0)


def _trampled_by(graph: CapturedGraph, damage: Damage, first: int) -> Trampled:
    """Return the event for damage that a replay does; `first` is the index of the graph's first launch in the case."""
    index = graph.writer(damage.address)
    suspects = graph.launches if index is None else graph.launches[index : index + 1]
    named = (launch.arguments[damage.address] for launch in suspects if damage.address in launch.arguments)
    site = AccessSite(
        kernel=graph.name if index is None else suspects[0].kernel,
        launch=first + (index or 0),
        argument=next(named, "a tensor"),
        source=None if index is None else suspects[0].launch.source,
    )
    return Trampled(site=site, region=damage.region, cells=damage.cells, element=damage.element)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass(frozen=True, slots=True)
class _Build:
    facts: KernelFacts | None
    """None if the TTIR is missing or cannot be parsed; the kernel runs anyway."""
    written: frozenset[str] | None
    """The parameters through which it may store; None if unknown."""

    @classmethod
    def of(cls, ttir: str, arch: int, options: dict[str, object], modules: KeptModules) -> "_Build":
        try:
            facts = read_kernel_facts(ttir, arch, options, modules)
        except CannotExecute:
            return cls(None, None)
        slots = reach_of(facts.module.kernel).written
        parameters = facts.module.kernel.parameters
        return cls(
            facts,
            None if slots is None else frozenset(parameter.name for parameter in parameters if parameter.slot in slots),
        )
