"""The GPU section of `harness doctor`: inventory, usability and health of hardware GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.engines.cuda.gpus.health import INSTALL, GpuHealthMonitor
from harness.engines.cuda.gpus.inventory import (
    VIRTUAL_NEEDS_NONE,
    ComputeMode,
    Inventory,
    RealGpu,
    inventory,
    torch_problem,
    unshared,
)
from harness.engines.cuda.gpus.leases import holder, leases_folder
from harness.engines.cuda.gpus.symptoms import NotShared, concerns
from harness.errors import HarnessError, MissingPart
from harness.findings.versions import installed
from harness.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that the harness uses."""

    name: str
    found: str
    """The version or place that was found; empty if the part is missing."""
    needed: bool
    """True if nothing runs without it."""
    provide: str
    """The command that provides it, or its use."""
    is_doubtful: bool = False
    """True if it was found in a state that is not reliable."""


def gpu_parts(settings: Settings) -> Iterator[Part]:
    """Yield GPUs, driver, torch and GPU health; without a GPU, only the first two lines."""
    inventory = _inventory()
    listed = "; ".join(f"{gpu}{_leased(gpu, settings)}" for gpu in inventory.gpus)
    yield Part(name="GPU", found=listed, needed=False, provide=f"{inventory.problem} ({VIRTUAL_NEEDS_NONE})")
    yield Part(
        name="NVML",
        found=installed("nvidia-ml-py"),
        needed=False,
        provide=f"{INSTALL} (to watch the health of GPUs; none is needed)",
    )
    if inventory.gpus:
        yield from _about(inventory.gpus)


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
        doubts = [concern for gpu in gpus for concern in concerns(watch.snapshot(gpu.uuid))]
    for concern in doubts:
        if not isinstance(concern, NotShared):  # the compute mode has a line already, which needs no NVML
            yield Part(name="GPU health", found=str(concern), needed=False, provide="", is_doubtful=True)
    if not doubts:
        yield Part(name="GPU health", found="no problem found", needed=False, provide="")


def _inventory() -> Inventory:
    try:
        return inventory()
    except HarnessError as error:
        return Inventory(problem=str(error))


def _leased(gpu: RealGpu, settings: Settings) -> str:
    who = holder(gpu, leases_folder(settings))
    return f", leased to {who}" if who else ""
