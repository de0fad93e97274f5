"""Fixtures of tests on hardware: the GPU, which skips the test if there is none, and pools on it."""

from collections.abc import Callable, Iterator

import pytest

from harness.engines.cuda.gpus.inventory import RealGpu, profile_of, real_gpus
from harness.errors import MissingPart
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec

PoolOf = Callable[[str], Pool]
LIMIT_S = 30.0
"""The time limit of one case, with the compilation of its kernels."""


@pytest.fixture(scope="session")
def gpu() -> RealGpu:
    """The first GPU of this machine."""
    try:
        return real_gpus()[0]
    except MissingPart as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def shared_zygotes() -> Iterator[SharedZygotes]:
    """What pools of one engine have in common."""
    made = SharedZygotes()
    yield made
    made.close()


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of pools that share a zygote."""
    return str(tmp_path_factory.mktemp("scratch"))


@pytest.fixture(scope="module")
def pool_of(gpu: RealGpu, shared_zygotes: SharedZygotes, scratch: str) -> Iterator[PoolOf]:
    """A pool for each suite on that GPU; closed after the module."""
    pools: dict[str, Pool] = {}

    def made(suite: str) -> Pool:
        def spec(device: DeviceProfile) -> WorkerSpec:
            return WorkerSpec(device=device, suites=(suite,), scratch=scratch, engine=CUDA.factory)

        if suite not in pools:
            pools[suite] = Pool(
                spec, 1, LIMIT_S, PoolOptions(gpus=GpuAssigner((gpu,), print), shared_zygotes=shared_zygotes)
            )
        return pools[suite]

    yield made
    for pool in pools.values():
        pool.close()


@pytest.fixture(scope="session")
def device(gpu: RealGpu) -> DeviceProfile:
    """The profile of the GPU."""
    return profile_of(gpu)
