"""The PTX engine: runs cases in this process, and executes what Triton's compiler made of each kernel."""

from collections.abc import Callable, Mapping
from typing import Any

from harness.engines.ptx.executor import PtxExecutor
from harness.engines.ptx.ptx_builds import PtxBuilds
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.kernel_facts import KernelFacts, read_signature
from harness.engines.triton.later_stages import has_layouts
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.executors import Executor
from harness.engines.virtual.launches import CompiledTtir, Launches
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.operations.table import HANDLERS
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.residency import ResidentLaunch
from harness.errors import CannotExecute
from harness.execution.reruns import Rerun
from harness.model.engine_traits import PTX
from harness.model.run import MemoryEvent, Source


class PtxLaunches(Launches):
    """The launch handler of the PTX engine."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.builds = PtxBuilds(
            self.settings.builds,
            self.settings.executor,
            lambda seconds: self.case_launches.add_seconds("ptx", seconds),
        )

    def _read_facts(self, ttir: str, options: Mapping[str, Any]) -> KernelFacts:
        """Return what the text of a kernel says.  Of one in Gluon the signature is enough: the PTX is executed."""
        try:
            return super()._read_facts(ttir, options)
        except CannotExecute:
            if not has_layouts(ttir):
                raise
            return read_signature(ttir, self.device.arch, options)

    def _executor(
        self, compiled: CompiledTtir, request: LaunchRequest, resident: ResidentLaunch, events: EventCollector
    ) -> Executor:
        launch = resident.launch
        # Exact values, random roundings and samples of programs are of TTIR.
        if launch.is_exact or launch.is_oversized or self.handlers is not HANDLERS:
            return super()._executor(compiled, request, resident, events)
        case = self.case_launches
        facts = compiled.facts
        tensor_maps = getattr(request.metadata, "tensordesc_meta", None) or ()
        build = self.builds.of(facts.build, request.ttir, self.device.arch, facts.options, tensor_maps)
        return PtxExecutor(
            launch=launch,
            build=build,
            events=events,
            resident=resident,
            add_event=case.memory.append,
            number=len(case.launches) - 1,
        )

    def _sources(self, executor: Executor, launch: PreparedLaunch) -> Callable[[str], Source | None]:
        return executor.source if isinstance(executor, PtxExecutor) else super()._sources(executor, launch)


class PtxEngine(VirtualEngine):
    """Emulates one device, and runs the PTX of its kernels.  A process has one engine."""

    traits = PTX
    reruns = frozenset[Rerun]()
    """The virtual engine has these runs; here each would cost many times as much."""
    make_launches = PtxLaunches

    def memory_events(self) -> tuple[MemoryEvent, ...]:
        """Return what memory saw in launches outside any case."""
        assert self._launches is not None, "emulate a device first"
        return tuple(self._launches.case_launches.memory)
