"""On hardware: whether device or host hangs, and the line at which the device spins."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.engines.cuda import coredump
from harness.engines.cuda.emulation import worker_environment
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, HungParty, Run, TimedOut
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.engines.cuda import hanging

pytestmark = pytest.mark.gpu

SUITE = str(Path(hanging.__file__))
KERNELS = Path(__file__).with_name("hanging_kernels.py")
LIMIT_S = 15.0
"""Includes the compilation of one small kernel."""

Runs = Callable[[str], Run]


@pytest.fixture(scope="module")
def runs(gpu: RealGpu, device: DeviceProfile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Run an op in a worker with core dumps enabled."""
    scratch = tmp_path_factory.mktemp("scratch")
    dumps = tmp_path_factory.mktemp("dumps")
    spec = WorkerSpec(
        device=device,
        suites=(SUITE,),
        scratch=str(scratch),
        engine=CUDA.factory,
        environment=(*worker_environment(gpu), *coredump.environment(dumps)),
    )
    with Pool(lambda _: spec, processes=1, time_limit_s=LIMIT_S) as pool:
        yield lambda op: pool.run(Case(op=f"{SUITE}:{op}", dims={"T": 16}, dtype=DType.FP32, device=device))
    assert list(dumps.iterdir()) == []


def loop() -> range:
    """Return the lines of the loop that spins, its condition included."""
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    begin, end = (
        next(at for at, line in enumerate(lines, 1) if f"# the loop {word}" in line) for word in ("begins", "ends")
    )
    return range(begin - 1, end + 1)  # the compiler may merge the loop's read with the one before


def test_an_endless_kernel_spins_at_a_line_of_its_loop(runs: Runs) -> None:
    ending = runs("device_spins").ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel"), ending
    assert "GPU utilisation 100 %, 100 %, 100 %" in ending.evidence
    assert any("waiting for spin_kernel begins" in line for line in ending.events)
    if coredump.debugger() is None:
        pytest.skip(f"the line is not known: {ending.evidence[-1]}")
    assert ending.source is not None, ending.evidence
    assert (Path(ending.source.file).name, ending.source.line in loop()) == (KERNELS.name, True)


def test_the_gpu_is_usable_after_a_hang(runs: Runs) -> None:
    assert runs("good").ending == Completed()


def test_a_deadlock_after_a_launch_hangs_the_host(runs: Runs) -> None:
    ending = runs("host_waits_after_a_launch").ending
    assert isinstance(ending, TimedOut)
    assert (ending.waiting, ending.held_by) == (HungParty.HOST, "futex"), ending
    assert (ending.launch, ending.function) == ("good_kernel", "host_waits_after_a_launch")
    assert "GPU utilisation 0 %, 0 %, 0 %" in ending.evidence
