"""A virtual GPU in the test process: Triton launches kernels on it, and the test checks its events."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from harness.engines.comparison.launches import LaunchComparison
from harness.engines.cuda.gpus.inventory import real_gpus
from harness.engines.cuda.repeated_launches import HardwareMachine
from harness.engines.triton import triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import LaunchHandler, LaunchRequest, VirtualDriver
from harness.engines.ttir.parser import parse
from harness.engines.virtual import machine
from harness.engines.virtual.engine_settings import EngineSettings
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.engines.virtual.operations.table import HANDLERS
from harness.errors import CannotExecute, LaunchStuck
from harness.execution.poison import FreshMemory
from harness.model.case import LaneFill, ProgramOrder
from harness.model.device import Architecture, DeviceProfile
from harness.model.kernel_resources import Resources
from harness.model.run import Deadlocked, Launch, MemoryEvent, Unsupported

ORDERS = list(ProgramOrder)
ONE_PER_SM = 32
"""The number of warps with which an SM of the test GPU holds one program.  The GPU has four SMs."""


PROCESSORS = {(9, 4): "gfx942"}
"""Capabilities of AMD GPUs."""


def profile(capability: tuple[int, int], sm_count: int = 4) -> DeviceProfile:
    processor = PROCESSORS.get(capability, "")
    return DeviceProfile(
        processor=processor,
        warp_size=64 if processor else 32,
        slug="test-gpu",
        name="Test GPU",
        architecture=Architecture.CDNA3 if processor else Architecture.BLACKWELL,
        capability=capability,
        sm_count=sm_count,
        shared_bytes_per_block=101_376,
        shared_bytes_per_sm=102_400,
        l2_bytes=1 << 20,
        registers_per_sm=65_536,
        max_threads_per_sm=1536,
        memory_bytes=1 << 30,
        sm_clock_khz=2_000_000,
        memory_clock_khz=10_000_000,
        memory_bus_bits=512,
        source="made up",
    )


def line_of(file: str, comment: str) -> int:
    """Return the only line of a file that ends with a comment."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {comment}"))
    return found


def counters(count: int = 1) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


@dataclass
class Gpu:
    """The virtual GPU of one test."""

    launches: Launches
    chooser: triton_seam.ConfigChooser
    fresh: FreshMemory
    monkeypatch: pytest.MonkeyPatch
    builds: Path

    @property
    def case_launches(self) -> VirtualCaseLaunches:
        return self.launches.case_launches

    @property
    def memory(self) -> list[MemoryEvent]:
        return self.case_launches.memory

    @property
    def seen(self) -> list[Launch]:
        return self.case_launches.launches

    def begin(self, lane_fill: LaneFill = LaneFill.ZERO, order: ProgramOrder = ProgramOrder.FORWARD) -> None:
        """Forget earlier launches, as for a new case."""
        self.launches.case_launches = VirtualCaseLaunches(lane_fill=lane_fill, order=order)

    def change_settings(self, **changes: Any) -> None:
        self.launches.settings = replace(self.launches.settings, **changes)

    def in_chunks_of(self, elements: int) -> None:
        """Limit the elements of a block that are executed side by side.  With 1, programs run one after the other."""
        self.monkeypatch.setattr(machine, "CHUNK_ELEMENTS", elements)

    def deadlock(self, launch: Callable[[], object]) -> Deadlocked:
        """Return the deadlock of a launch."""
        with pytest.raises(LaunchStuck):
            launch()
        assert self.case_launches.deadlocked is not None
        return self.case_launches.deadlocked

    def unsupported(self, launch: Callable[[], object]) -> Unsupported:
        """Return the report of a launch that cannot be executed."""
        with pytest.raises(CannotExecute):
            launch()
        assert self.case_launches.unsupported is not None
        return self.case_launches.unsupported


def dependences(gpu: Gpu) -> set[tuple[str, int | None]]:
    """Return argument and line of each event, which must all be order dependences."""
    assert {type(event).__name__ for event in gpu.memory} == {"OrderDependence"}
    return {(event.site.argument, event.site.source and event.site.source.line) for event in gpu.memory}


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


Model = tuple[int, int] | DeviceProfile
"""A capability of NVIDIA's GPUs, or a GPU of the catalogue."""


class Drivers:
    """One driver per model and test session, since a compiled kernel keeps its driver."""

    def __init__(self) -> None:
        self._made: dict[Model, VirtualDriver] = {}
        self.listener: LaunchHandler | None = None

    def get(self, model: Model) -> VirtualDriver:
        if model not in self._made:
            device = model if isinstance(model, DeviceProfile) else profile(model)
            self._made[model] = VirtualDriver(device, self._on_launch)
        return self._made[model]

    def _on_launch(self, request: LaunchRequest) -> None:
        assert self.listener is not None
        self.listener(request)


@pytest.fixture(scope="session")
def drivers() -> Drivers:
    return Drivers()


class HardwareRepeater:
    """Repeats the launches of tests on the hardware GPU, and fails a test whose launches differ there."""

    def __init__(self, arch: int, cache: Path) -> None:
        self._arch, self._cache = arch, cache
        self._comparisons: list[LaunchComparison] = []
        self.operations: set[str] = set()
        """Names of operations of kernels that were compared."""

    def wrap(self, launches: Launches) -> LaunchHandler:
        comparison = LaunchComparison(launches, HardwareMachine("the GPU", self._arch, self._cache))
        self._comparisons.append(comparison)

        def launch(request: LaunchRequest) -> None:
            if launches.handlers is not HANDLERS:  # no GPU rounds at random
                launches(request)
                return
            before = comparison.launches
            comparison(request)
            if comparison.launches > before:
                functions = parse(request.ttir).functions.values()
                self.operations |= {one.name for function in functions for one in function.body.all_operations()}

        return launch

    def finish(self) -> None:
        """Fail if rounding does not explain a difference."""
        comparisons, self._comparisons = self._comparisons, []
        unexplained = [found for one in comparisons for found in one.differences if not found.is_explained]
        assert not unexplained


@pytest.fixture(scope="session")
def hardware_repeater(kernel_cache: Path) -> Iterator[HardwareRepeater | None]:
    """None unless HARNESS_BESIDE names a folder, which then gets the names of compared operations."""
    folder = os.environ.get("HARNESS_BESIDE")
    if folder is None:
        yield None
        return
    found = HardwareRepeater(real_gpus()[0].arch, kernel_cache / "real")
    yield found
    Path(folder, f"operations-{os.getpid()}").write_text("\n".join(sorted(found.operations)), encoding="utf-8")


@pytest.fixture
def repeater(
    hardware_repeater: HardwareRepeater | None, request: pytest.FixtureRequest
) -> Iterator[HardwareRepeater | None]:
    if hardware_repeater is None or request.node.get_closest_marker("alone"):
        yield None
        return
    yield hardware_repeater
    hardware_repeater.finish()


MakeGpu = Callable[[Model], Gpu]


@pytest.fixture
def make_gpu(
    kernel_cache: Path,
    drivers: Drivers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    repeater: HardwareRepeater | None,
) -> MakeGpu:
    """Installs a virtual GPU of a model.  A kernel must not be launched on two of them."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(kernel_cache))
    for kind, name in ((Autotuner, "run"), (Autotuner, "_bench"), (JITFunction, "run"), (JITFunction, "_do_compile")):
        monkeypatch.setattr(kind, name, getattr(kind, name))  # restore what a `ConfigChooser` replaces
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    torch.manual_seed(0)

    def make(model: Model) -> Gpu:
        chooser, fresh = triton_seam.ConfigChooser(), FreshMemory()
        driver = drivers.get(model)
        arch = driver.profile.arch

        def compile_now(ttir: str, options: Mapping[str, Any]) -> Resources:
            return compile_resources(ttir, arch, options)

        settings = EngineSettings(executor=ExecutorMode.NUMPY, builds=tmp_path / "builds")
        launches = Launches(driver.profile, lambda: chooser.chosen, fresh.poison_of, compile_now, settings)
        drivers.listener = launches if repeater is None else repeater.wrap(launches)
        triton_seam.set_driver(driver)
        triton_seam.compile_to_ttir_only()
        chooser.install()
        return Gpu(launches, chooser, fresh, monkeypatch, tmp_path / "builds")

    return make


@pytest.fixture
def gpu(make_gpu: MakeGpu) -> Gpu:
    """A virtual GPU of capability 12.0."""
    return make_gpu((12, 0))


@pytest.fixture
def amd_gpu(make_gpu: MakeGpu) -> Gpu:
    """A virtual GPU of AMD's."""
    return make_gpu((9, 4))


@pytest.fixture(params=ORDERS)
def any_order(gpu: Gpu, request: pytest.FixtureRequest) -> Gpu:
    """A virtual GPU, for each order of programs: results must not depend on it."""
    gpu.begin(order=request.param)
    return gpu
