"""The emulation of another device by a worker on a hardware GPU, and its shortfalls.

A worker can report more SMs than the GPU has, and limit work to fewer.  It can lower the limit of shared memory but not
raise it.  Kernels are always compiled for the hardware's architecture, whatever capability the library sees.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace

from harness import wire
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.errors import WorkerError
from harness.model.device import DeviceProfile
from harness.model.run import Hardware

GPU_VARIABLE = "KERNEL_HARNESS_GPU"
"""In the environment of workers: the facts of their GPU, as JSON."""
SM_GRANULARITY = 8
"""The driver allots SMs in groups of this size (compute capability 9.0 and later; in pairs before)."""
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
ONE_CONNECTION = "1"
"""CUDA opens eight queues to the GPU by default, but a worker waits after every kernel.  With one queue, a context's
start and end take 160 ms instead of 245 (NVIDIA H200, driver 580)."""


def worker_environment(gpu: RealGpu) -> tuple[tuple[str, str], ...]:
    """Return the variables of a worker that sees only this GPU."""
    return ((VISIBLE, gpu.uuid), *compiler_environment(gpu))


def compiler_environment(gpu: RealGpu) -> tuple[tuple[str, str], ...]:
    """Return the variables of a process that compiles for this GPU and sees none."""
    return ((GPU_VARIABLE, wire.to_json(gpu)),)


def use_one_connection(environment: MutableMapping[str, str]) -> None:
    """Limit the process to one queue to its GPU, unless the user chose a number.  Call it before CUDA starts."""
    environment.setdefault(CONNECTIONS, ONE_CONNECTION)


def gpu_of(environment: Iterable[tuple[str, str]] | Mapping[str, str]) -> RealGpu | None:
    """Return the GPU that these variables assign; None for a worker of the virtual GPU."""
    facts = dict(environment).get(GPU_VARIABLE)
    return wire.from_json(facts, RealGpu) if facts else None


def gpu_of_worker(environment: Mapping[str, str]) -> RealGpu:
    """Return the GPU that the parent assigned to this worker.

    Raises:
        WorkerError: the parent assigned none.
    """
    gpu = gpu_of(environment)
    if gpu is None:
        raise WorkerError(f"the cuda engine was started without a GPU: {GPU_VARIABLE} is not set")
    return gpu


def emulated_profile(profile: DeviceProfile, gpu: RealGpu) -> DeviceProfile:
    """Return the profile that host code sees: `profile` with no more memory of any kind than the hardware has."""
    return replace(
        profile,
        shared_bytes_per_block=min(profile.shared_bytes_per_block, gpu.shared_bytes_per_block),
        shared_bytes_per_sm=min(profile.shared_bytes_per_sm, gpu.shared_bytes_per_sm),
        memory_bytes=min(profile.memory_bytes, gpu.memory_bytes),
    )


def sm_limit(profile: DeviceProfile, gpu: RealGpu) -> int | None:
    """Return the number of SMs that work is limited to; None if the profile has at least as many as the hardware."""
    if profile.sm_count >= gpu.sm_count:
        return None
    granularity = SM_GRANULARITY if gpu.capability >= (9, 0) else 2
    return max(granularity, profile.sm_count // granularity * granularity)


def hardware(profile: DeviceProfile, gpu: RealGpu) -> Hardware:
    """Return the facts of the GPU and all shortfalls of the emulation."""
    return Hardware(
        name=gpu.name,
        capability=gpu.capability,
        sm_count=gpu.sm_count,
        driver=gpu.driver_version,
        shortfalls=tuple(shortfalls(profile, gpu)),
    )


def shortfalls(profile: DeviceProfile, gpu: RealGpu, *, limits_work: bool = True) -> Iterable[str]:
    """Yield in which respects the GPU is not the emulated device.

    `limits_work` is False if host code sees the device's SMs, and kernels run on all of the GPU's.
    """
    limit = sm_limit(profile, gpu)
    if profile.sm_count > gpu.sm_count:
        yield f"{profile.sm_count} SMs are emulated on a GPU of {gpu.sm_count}"
    elif limit is not None and not limits_work:
        yield f"{profile.sm_count} SMs are emulated, and work is not limited to them: it runs on all {gpu.sm_count}"
    elif limit is not None and limit != profile.sm_count:
        yield f"{profile.sm_count} SMs are emulated, but work is limited to {limit} of {gpu.sm_count}"
    if profile.capability != gpu.capability:
        yield f"sm_{profile.arch} is emulated; kernels are compiled for sm_{gpu.arch}"
    if profile.shared_bytes_per_block > gpu.shared_bytes_per_block:
        yield f"shared memory is the GPU's {gpu.shared_bytes_per_block} bytes, not {profile.shared_bytes_per_block}"
    if profile.memory_bytes > gpu.memory_bytes:
        yield f"memory is the GPU's {gpu.memory_bytes >> 30} GiB, not {profile.memory_bytes >> 30}"
