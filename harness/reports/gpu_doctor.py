"""What `harness doctor` says of real GPUs: which there are, whether cases can run there, and how they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.cuda.gpus.health import INSTALL, GpuHealthMonitor
from harness.cuda.gpus.inventory import WITHOUT, ComputeMode, Inventory, RealGpu, inventory, torch_problem, unshared
from harness.cuda.gpus.leases import holder
from harness.cuda.gpus.symptoms import NotShared, concerns
from harness.errors import HarnessError, MissingPart
from harness.findings.versions import installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that the harness uses."""

    name: str
    found: str
    """What is there, in words; empty where it is missing."""
    needed: bool
    """Nothing runs without it."""
    provide: str
    """The command that provides it, or what it would be good for."""
    is_doubtful: bool = False
    """It is there, and what was found is a reason not to rely on it."""


def gpu_parts() -> Iterator[Part]:
    """GPUs, driver, torch for them, and their health; the first two lines alone where there is none."""
    found = _inventory()
    listed = "; ".join(f"{gpu}{_leased(gpu)}" for gpu in found.gpus)
    yield Part(name="GPU", found=listed, needed=False, provide=f"{found.problem} ({WITHOUT})")
    yield Part(
        name="NVML",
        found=installed("nvidia-ml-py"),
        needed=False,
        provide=f"{INSTALL} (to watch the health of GPUs; none is needed)",
    )
    if found.gpus:
        yield from _about(found.gpus)


def _about(gpus: Sequence[RealGpu]) -> Iterator[Part]:
    first = gpus[0]
    major, minor = first.cuda_version
    problem = torch_problem(first.cuda_version)
    yield Part(
        name="NVIDIA driver",
        found=f"{first.driver_version or 'of unknown version'}, for CUDA up to {major}.{minor}",
        needed=False,
        provide="",
    )
    yield Part(
        name="torch for the GPU", found="" if problem else "built for this driver", needed=False, provide=problem
    )
    if alone := tuple(gpu for gpu in gpus if gpu.compute_mode is not ComputeMode.SHARED):
        yield Part(name="compute mode", found=unshared(alone), needed=False, provide="", is_doubtful=True)
    yield from _health(gpus)


def _health(gpus: Sequence[RealGpu]) -> Iterator[Part]:
    try:
        watch = GpuHealthMonitor()
    except MissingPart as missing:
        yield Part(name="GPU health", found="", needed=False, provide=str(missing))
        return
    with watch:
        found = [concern for gpu in gpus for concern in concerns(watch.snapshot(gpu.uuid))]
    for concern in found:
        if not isinstance(concern, NotShared):  # said already, and without NVML too
            yield Part(name="GPU health", found=str(concern), needed=False, provide="", is_doubtful=True)
    if not found:
        yield Part(name="GPU health", found="nothing speaks against any of them", needed=False, provide="")


def _inventory() -> Inventory:
    try:
        return inventory()
    except HarnessError as error:
        return Inventory(problem=str(error))


def _leased(gpu: RealGpu) -> str:
    who = holder(gpu)
    return f", leased to {who}" if who else ""
