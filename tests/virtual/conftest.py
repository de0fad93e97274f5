"""A virtual GPU in the test process: Triton launches onto it, and the test looks at what it saw."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from harness.cuda.comparison.launches import BothGpus
from harness.cuda.gpus.inventory import real_gpus
from harness.errors import CannotExecute, LaunchStuck
from harness.model.case import LaneFill, ProgramOrder
from harness.model.device import Architecture, DeviceProfile
from harness.model.kernel_resources import Resources
from harness.model.run import Deadlocked, Launch, MemoryEvent, Unsupported
from harness.ops.poison import FreshMemory
from harness.virtual import machine
from harness.virtual.driver import triton_seam
from harness.virtual.driver.compiler_process import compile_resources
from harness.virtual.driver.driver import LaunchHandler, LaunchRequest, VirtualDriver
from harness.virtual.launches import Launches, VirtualCaseLaunches
from harness.virtual.operations.table import HANDLERS
from harness.virtual.ttir.parser import parse

ORDERS = list(ProgramOrder)
ONE_PER_SM = 32
"""Warps of which an SM of the test GPU holds one program's; it has four SMs."""


def profile(capability: tuple[int, int], sm_count: int = 4) -> DeviceProfile:
    return DeviceProfile(
        slug="test-gpu",
        name="Test GPU",
        architecture=Architecture.BLACKWELL,
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
    """The only line of a file that ends with a comment."""
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
    def session(self) -> VirtualCaseLaunches:
        return self.launches.session

    @property
    def memory(self) -> list[MemoryEvent]:
        return self.session.memory

    @property
    def seen(self) -> list[Launch]:
        return self.session.launches

    def begin(self, lane_fill: LaneFill = LaneFill.ZERO, order: ProgramOrder = ProgramOrder.FORWARD) -> None:
        """Forget what was seen, as for a new case."""
        self.launches.session = VirtualCaseLaunches(lane_fill=lane_fill, order=order)

    def in_chunks_of(self, elements: int) -> None:
        """Let only so many elements of a block be executed side by side: 1 runs one program after the other."""
        self.monkeypatch.setattr(machine, "CHUNK_ELEMENTS", elements)

    def deadlock(self, launch: Callable[[], object]) -> Deadlocked:
        """How a launch that must not end got stuck."""
        with pytest.raises(LaunchStuck):
            launch()
        assert self.session.deadlocked is not None
        return self.session.deadlocked

    def unsupported(self, launch: Callable[[], object]) -> Unsupported:
        """What a launch that must not be executable was reported as."""
        with pytest.raises(CannotExecute):
            launch()
        assert self.session.unsupported is not None
        return self.session.unsupported


def dependences(gpu: Gpu) -> set[tuple[str, int | None]]:
    """Argument and line of each event, which must all be order dependences."""
    assert {type(event).__name__ for event in gpu.memory} == {"OrderDependence"}
    return {(event.site.argument, event.site.source and event.site.source.line) for event in gpu.memory}


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


class Drivers:
    """One driver for each capability and session: a kernel that was compiled once refers to its driver for good."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], VirtualDriver] = {}
        self.listener: LaunchHandler | None = None

    def get(self, capability: tuple[int, int]) -> VirtualDriver:
        if capability not in self._made:
            self._made[capability] = VirtualDriver(profile(capability), self._heard)
        return self._made[capability]

    def _heard(self, request: LaunchRequest) -> None:
        assert self.listener is not None
        self.listener(request)


@pytest.fixture(scope="session")
def drivers() -> Drivers:
    return Drivers()


class RealGpuBeside:
    """Repeats on the real GPU what tests launch on the virtual one, and fails a test whose launches differ there."""

    def __init__(self, arch: int, cache: Path) -> None:
        self._arch, self._cache = arch, cache
        self._both: list[BothGpus] = []
        self.operations: set[str] = set()
        """Names of operations of kernels that were compared."""

    def put(self, launches: Launches) -> LaunchHandler:
        both = BothGpus(launches, self._arch, self._cache)
        self._both.append(both)

        def launch(request: LaunchRequest) -> None:
            if launches.handlers is not HANDLERS:  # rounded at random: no GPU leaves that
                launches(request)
                return
            before = both.launches
            both(request)
            if both.launches > before:
                functions = parse(request.ttir).functions.values()
                self.operations |= {one.name for function in functions for one in function.body.all_operations()}

        return launch

    def finish(self) -> None:
        """Fail if something differed that rounding does not explain."""
        both, self._both = self._both, []
        unexplained = [found for one in both for found in one.differences if not found.is_explained]
        assert not unexplained


@pytest.fixture(scope="session")
def real_gpu_beside(kernel_cache: Path) -> Iterator[RealGpuBeside | None]:
    """Only where HARNESS_BESIDE names a folder: there it leaves the names of operations that were compared."""
    folder = os.environ.get("HARNESS_BESIDE")
    if folder is None:
        yield None
        return
    found = RealGpuBeside(real_gpus()[0].arch, kernel_cache / "real")
    yield found
    Path(folder, f"operations-{os.getpid()}").write_text("\n".join(sorted(found.operations)), encoding="utf-8")


@pytest.fixture
def beside(real_gpu_beside: RealGpuBeside | None, request: pytest.FixtureRequest) -> Iterator[RealGpuBeside | None]:
    if real_gpu_beside is None or request.node.get_closest_marker("alone"):
        yield None
        return
    yield real_gpu_beside
    real_gpu_beside.finish()


MakeGpu = Callable[[tuple[int, int]], Gpu]


@pytest.fixture
def make_gpu(
    kernel_cache: Path, drivers: Drivers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: RealGpuBeside | None
) -> MakeGpu:
    """Puts a virtual GPU of a capability in place; a kernel must not be launched on two of them."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(kernel_cache))
    for kind, name in ((Autotuner, "run"), (Autotuner, "_bench"), (JITFunction, "run"), (JITFunction, "_do_compile")):
        monkeypatch.setattr(kind, name, getattr(kind, name))  # put back what a chooser stands in for
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    torch.manual_seed(0)

    def make(capability: tuple[int, int]) -> Gpu:
        chooser, fresh = triton_seam.ConfigChooser(), FreshMemory()
        driver = drivers.get(capability)
        arch = driver.profile.arch

        def compile_now(ttir: str, options: Mapping[str, Any]) -> Resources:
            return compile_resources(ttir, arch, options)

        launches = Launches(
            driver.profile, lambda: chooser.chosen, fresh.poison_of, compile_now, builds=tmp_path / "builds"
        )
        drivers.listener = launches if beside is None else beside.put(launches)
        triton_seam.set_driver(driver)
        triton_seam.compile_to_ttir_only()
        chooser.install()
        return Gpu(launches, chooser, fresh, monkeypatch, tmp_path / "builds")

    return make


@pytest.fixture
def gpu(make_gpu: MakeGpu) -> Gpu:
    """One of capability 12.0."""
    return make_gpu((12, 0))


@pytest.fixture(params=ORDERS)
def any_order(gpu: Gpu, request: pytest.FixtureRequest) -> Gpu:
    """Whichever program begins first, nothing may change."""
    gpu.begin(order=request.param)
    return gpu
