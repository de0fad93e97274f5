"""What a process on a real GPU answers for another: a profile as far as the hardware can honour it, and what it cannot.

More SMs than there are can be pretended, and fewer be enforced; shared memory goes downward only; the architecture for
which kernels are compiled is the hardware's own, whatever capability the library is told.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness import wire
from harness.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.errors import WorkerError
from harness.model.device import DeviceProfile
from harness.model.run import Hardware

GPU_VARIABLE = "KERNEL_HARNESS_GPU"
"""In the environment of workers: what was read of their GPU, as JSON."""
LEAST_SMS = 8
"""The driver gives out SMs in portions of so many (compute capability 9.0 and later; fewer before)."""
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
ONE_CONNECTION = "1"
"""CUDA makes a process eight queues to its GPU: kernels are waited for one by one, and with one queue a context and its
end take 160 ms instead of 245 (NVIDIA H200, driver 580)."""


def environment_of(gpu: RealGpu) -> tuple[tuple[str, str], ...]:
    """The variables of a worker that may see this GPU and no other."""
    connections = os.environ.get(CONNECTIONS, ONE_CONNECTION)
    return ((VISIBLE, gpu.uuid), (CONNECTIONS, connections), *compiling_for(gpu))


def compiling_for(gpu: RealGpu) -> tuple[tuple[str, str], ...]:
    """The variables of a process that compiles for this GPU and sees none."""
    return ((GPU_VARIABLE, wire.to_json(gpu)),)


def gpu_of(environment: Iterable[tuple[str, str]] | Mapping[str, str]) -> RealGpu | None:
    """The GPU that stands there; None for a worker on the virtual one."""
    found = dict(environment).get(GPU_VARIABLE)
    return wire.from_json(found, RealGpu) if found else None


def gpu_of_this_process() -> RealGpu:
    """The one that the parent chose.

    Raises:
        WorkerError: it chose none.
    """
    gpu = gpu_of(os.environ)
    if gpu is None:
        raise WorkerError(f"the cuda engine was started without a GPU: {GPU_VARIABLE} is not set")
    return gpu


def answered(profile: DeviceProfile, gpu: RealGpu) -> DeviceProfile:
    """What the process answers for: the profile, with no more memory of any kind than there is."""
    return replace(
        profile,
        shared_bytes_per_block=min(profile.shared_bytes_per_block, gpu.shared_bytes_per_block),
        shared_bytes_per_sm=min(profile.shared_bytes_per_sm, gpu.shared_bytes_per_sm),
        memory_bytes=min(profile.memory_bytes, gpu.memory_bytes),
    )


def restriction(profile: DeviceProfile, gpu: RealGpu) -> int | None:
    """To how many SMs work is really held; None where the profile has no fewer than the GPU."""
    if profile.sm_count >= gpu.sm_count:
        return None
    portion = LEAST_SMS if gpu.capability >= (9, 0) else 2
    return max(portion, profile.sm_count // portion * portion)


def hardware(profile: DeviceProfile, gpu: RealGpu) -> Hardware:
    """The GPU, and every point in which it is not what the profile says."""
    return Hardware(
        name=gpu.name,
        capability=gpu.capability,
        sm_count=gpu.sm_count,
        driver=gpu.driver_version,
        shortfalls=tuple(_shortfalls(profile, gpu)),
    )


def _shortfalls(profile: DeviceProfile, gpu: RealGpu) -> Iterable[str]:
    held = restriction(profile, gpu)
    if profile.sm_count > gpu.sm_count:
        yield f"{profile.sm_count} SMs are pretended on a GPU of {gpu.sm_count}"
    elif held is not None and held != profile.sm_count:
        yield f"{profile.sm_count} SMs are pretended where work is held to {held} of {gpu.sm_count}"
    if profile.capability != gpu.capability:
        yield f"sm_{profile.arch} is pretended; kernels are compiled for sm_{gpu.arch}"
    if profile.shared_bytes_per_block > gpu.shared_bytes_per_block:
        yield f"shared memory is the GPU's {gpu.shared_bytes_per_block} bytes, not {profile.shared_bytes_per_block}"
    if profile.memory_bytes > gpu.memory_bytes:
        yield f"memory is the GPU's {gpu.memory_bytes >> 30} GiB, not {profile.memory_bytes >> 30}"
