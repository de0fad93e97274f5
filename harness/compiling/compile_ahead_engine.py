"""The compile-ahead engine: it compiles the kernels of a case into Triton's cache and launches nothing.

The workers on the hardware GPU then load these builds.  Library and host code run on the CPU, as on the virtual GPU,
and see the device that the cuda engine emulates.  Results are uninitialised memory, which no oracle judges.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.compiling.build_lots import BuildLots
from harness.engines.cuda.emulated_limits import SharedMemoryCheck
from harness.engines.cuda.emulation import emulated_profile, gpu_of_worker
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.instrumented_builds import enable_instrumentation
from harness.engines.triton import triton_seam
from harness.engines.triton.deferred_builds import BuildCollector
from harness.engines.triton.driver import LaunchHandler, LaunchRequest, VirtualDriver, device_properties
from harness.engines.triton.later_stages import target
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import VirtualCaseLaunches
from harness.execution.execution import DrawnTensors, Execution
from harness.execution.gpu_judging import MOST_WITH_ROWS
from harness.execution.reruns import asks_for_other_rows
from harness.execution.row_trials import arrangements
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPILE_AHEAD
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.run import Completed, Ending, Run

LOCKS = "being-compiled"
"""The folder of Triton's cache that holds a lock for each build."""
NOT_LOADED = (0, 0, 0, 0)
"""Module, function, registers and spills of a kernel that is not loaded."""


class CompileAheadEngine(VirtualEngine):
    """Emulates the device that the cuda engine would emulate, and compiles the kernels that a case launches."""

    traits = COMPILE_AHEAD

    def __init__(self) -> None:
        super().__init__(make_execution=Uncompared)
        self._collector = BuildCollector()

    _gpu: RealGpu
    _instrumentation: Instrumenting | None
    """Triton's own sanitizer that is compiled into each kernel.  Set by `emulate`, like `_gpu` and `_lots`."""
    _lots: BuildLots

    def emulate(self, device: DeviceProfile) -> None:
        """Show the device to host code; compile to binaries for the hardware GPU, in the cuda engine's cache."""
        os.environ["TRITON_CACHE_DIR"] += triton_seam.FULL_CACHE_SUFFIX
        self._gpu = gpu_of_worker(os.environ)
        self._instrumentation = enable_instrumentation(self._gpu, os.environ)
        self._lots = BuildLots(Path(os.environ["TRITON_CACHE_DIR"]) / LOCKS)
        super().emulate(emulated_profile(device, self._gpu))
        self._collector.install()

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        del on_launch  # nothing is launched
        triton_seam.set_driver(CompilingDriver(device, self._gpu.arch))
        SharedMemoryCheck(device, self._gpu, self._instrumentation).install()
        triton_seam.query_ptxas_version(self._gpu.arch)
        triton_seam.build_utilities()

    def assemble(self, assembly: KernelAssembly) -> None:
        """Assemble kernels this way; called before the only case of a process."""
        triton_seam.assemble_otherwise(assembly, self._gpu.arch)

    def run(self, op: Op, case: Case) -> Run:
        """Compile the kernels that the case, and its row check, launch.

        `seconds["compile"]` is how long it waited for compilers.
        """
        if case.scale is Scale.OVERSIZED:  # the cuda engine does not run such cases
            return Run(case=case, engine=self.traits.name, ending=Completed())
        execution = self._execution
        assert isinstance(execution, Execution)
        ending, seconds = self._compile(case, partial(execution.run_unread, op, case))
        if isinstance(ending, Completed) and self._instrumentation is None and _may_check_rows(op, case):
            for arrangement in arrangements(op, case)[2]:
                seconds += self._compile(arrangement.case, partial(execution.run_rows_unread, op, arrangement))[1]
        return Run(case=case, engine=self.traits.name, ending=ending, seconds={"compile": seconds})

    def _compile(self, case: Case, call: Callable[[], Ending]) -> tuple[Ending, float]:
        """Compile what a call of this case launches; return how it ended, and the seconds of compilation."""
        with self._launching(case) as launches, self._collector.collecting() as builds:
            ending = call()
        if not builds:
            return ending, launches.seconds.get("front_end", 0.0)
        began = perf_counter()
        self._lots.compile_all(builds.values())
        # What did not compile, or has no result yet on which host code depends, is compiled at its call.
        with self._launching(case):
            ending = call()
        return ending, perf_counter() - began

    @contextmanager
    def _launching(self, case: Case) -> Generator[VirtualCaseLaunches]:
        """Hold the state of one run of a case, which compiles the configs that it launches alone."""
        with self._state_for(case) as launches:
            self._chooser.compiles_all = False
            yield launches


def _may_check_rows(op: Op, case: Case) -> bool:
    """Return True if the cuda engine may run rows of the case in other company."""
    return asks_for_other_rows(op, case) and op.largest_input(case.dims) <= MOST_WITH_ROWS


class Uncompared(Execution):
    """Runs cases whose values do not matter: large inputs are zeros, which take no memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.drawing = DrawnTensors.on(None)


class CompilingDriver(VirtualDriver):
    """Launches nothing.  Reports a profile, and compiles for `arch` whatever the profile's architecture is."""

    def __init__(self, profile: DeviceProfile, arch: int) -> None:
        super().__init__(profile, _execute_nothing)
        self._target = target(arch)
        self.utils = _Utilities(profile)
        self.launcher_cls = _make_launcher

    def get_current_target(self) -> Any:
        """Return the hardware's compile target."""
        return self._target


class _Utilities:
    """`driver.active.utils`."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        del device
        return device_properties(self._profile)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Load nothing; return `NOT_LOADED` and the maximal number of threads in a block."""
        del name, binary, shared, device
        return *NOT_LOADED, self._profile.max_threads_per_block

    def unload_module(self, module: int) -> None:
        pass


def _make_launcher(source: Any, metadata: Any) -> Callable[..., None]:
    """Compile the C launcher, which workers on the GPU then find in the cache; return one that does nothing."""
    triton_seam.build_launcher(source, metadata)
    return _launch_nothing


def _launch_nothing(*_: object) -> None:
    pass


def _execute_nothing(request: LaunchRequest) -> None:
    del request
