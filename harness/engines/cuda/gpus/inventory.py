"""The hardware GPUs of this machine and their device profiles.

A child process asks NVIDIA's driver (`nvidia_driver`), because a process that initialised CUDA cannot fork workers.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from harness import catalogue, wire
from harness.engines.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.errors import MissingPart, ReplayError, WorkerError
from harness.model.device import Architecture, DeviceProfile
from harness.wording import counted

VISIBLE = "CUDA_VISIBLE_DEVICES"
DRIVER_QUERY = "harness.engines.cuda.gpus.nvidia_driver"
"""The module that the child process runs."""
SHOWN_ALONE = "shown"
"""The argument that keeps the child from searching for MIG slices that CUDA hides."""
TIME_LIMIT_S = 60.0
"""The driver takes about a second for eight GPUs, and longer without persistence mode."""
VIRTUAL_NEEDS_NONE = "--engine virtual needs no GPU"


class ComputeMode(StrEnum):
    """The compute mode: how many processes may use a GPU at the same time."""

    SHARED = "Default"
    EXCLUSIVE = "Exclusive_Process"
    PROHIBITED = "Prohibited"


MODES = {0: ComputeMode.SHARED, 2: ComputeMode.PROHIBITED, 3: ComputeMode.EXCLUSIVE}
"""`CUcomputemode` of cuda.h, and `nvmlComputeMode_t` of nvml.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGpu:
    """One GPU, or one MIG slice, as the CUDA driver describes it."""

    uuid: str
    """As `nvidia-smi -L` prints it and CUDA_VISIBLE_DEVICES takes it: `GPU-…`, or `MIG-…` for a slice."""
    name: str
    capability: tuple[int, int]
    sm_count: int
    shared_bytes_per_block: int
    """The opt-in limit for one CTA."""
    shared_bytes_per_sm: int
    l2_bytes: int
    registers_per_sm: int
    max_threads_per_sm: int
    memory_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    driver_version: str
    """`580.159.03`; empty without NVML."""
    cuda_version: tuple[int, int]
    """The newest CUDA release that the driver supports: (13, 0)."""
    compute_mode: ComputeMode
    pci_bus_id: str
    """`0000:1b:00.0`; the slices of a GPU share it."""

    @property
    def arch(self) -> int:
        """The capability in the form of Triton's compile target: 90, 100, 120."""
        major, minor = self.capability
        return 10 * major + minor

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid}, {counted(self.sm_count, 'SM')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The GPUs that this process may use, in PCI bus order, or why there is none."""

    gpus: tuple[RealGpu, ...] = ()
    problem: str = ""
    """One line with the cause and the remedy; empty if GPUs were found."""
    has_driver: bool = True
    """False on a machine without NVIDIA's driver: usually it has no GPU, and nothing is wrong with it."""


def inventory(*, time_limit_s: float = TIME_LIMIT_S) -> Inventory:
    """Return the visible GPUs of this machine, also those that cannot run cases.

    Raises:
        WorkerError: the child process failed for a reason of its own.
    """
    match ask(DRIVER_QUERY, time_limit_s=time_limit_s, environment={}):
        case QueryTimedOut() as timeout:
            return Inventory(problem=f"NVIDIA's driver gives {timeout}: nvidia-smi shows if it is alive")
        case Answered(status=0, out=out):
            return parsed(out)
        case Answered() as answered:
            raise WorkerError(f"asking for the GPUs of this machine failed: {answered.last_words}")


def parsed(text: str) -> Inventory:
    """Parse the output of the child process.

    Raises:
        WorkerError: it is damaged.
    """
    try:
        return wire.from_json(text, Inventory)
    except ReplayError as error:
        raise WorkerError(f"the list of GPUs that the child process wrote is damaged: {error}") from None


def real_gpus() -> tuple[RealGpu, ...]:
    """Return the GPUs that can run cases, in PCI bus order; at least one.

    Raises:
        MissingPart: there is none; the text states the cause and the remedy.
    """
    machine = inventory()
    usable = tuple(gpu for gpu in machine.gpus if gpu.compute_mode is ComputeMode.SHARED)
    if not usable:
        raise MissingPart(f"no GPU for cases: {machine.problem or unshared(machine.gpus)}; {VIRTUAL_NEEDS_NONE}")
    if problem := torch_problem(usable[0].cuda_version):
        raise MissingPart(f"no GPU for cases: {problem}; {VIRTUAL_NEEDS_NONE}")
    return usable


def unshared(gpus: tuple[RealGpu, ...]) -> str:
    """Describe the GPUs that do not serve several processes, with the command that changes it."""
    modes = ", ".join(f"{gpu.uuid} is in compute mode {gpu.compute_mode}" for gpu in gpus)
    return f"{modes}, and several processes use a GPU in turn: sudo nvidia-smi -c DEFAULT"


def torch_problem(driver: tuple[int, int]) -> str:
    """Return why the installed torch cannot use a driver for this CUDA release, and the remedy; empty if it can."""
    if (spec := find_spec("torch")) is None or spec.origin is None:
        return "torch is not installed: pip install torch"
    version_file = Path(spec.origin).with_name("version.py")  # importing it would load torch
    return problem_of_build(version_file.read_text(encoding="utf-8"), driver)


def problem_of_build(version_file: str, driver: tuple[int, int]) -> str:
    """Return the same as `torch_problem`, for the text of torch's `version.py`."""
    release = re.search(r"^__version__ = '([^']+)'", version_file, re.MULTILINE)
    built = re.search(r"^cuda\b[^=]*= '(\d+)\.(\d+)", version_file, re.MULTILINE)
    name = f"torch {release[1]}" if release else "torch"
    if built is None:
        return f"{name} is built without CUDA: pip install a torch with CUDA (pytorch.org/get-started lists them)"
    if driver[0] < int(built[1]):  # releases of one major version are compatible
        return (
            f"the driver serves CUDA {driver[0]}.{driver[1]} at most, and {name} is built for CUDA {built[1]}."
            f"{built[2]}: update NVIDIA's driver, or pip install a torch for CUDA {driver[0]}"
        )
    return ""


def profile_of(gpu: RealGpu) -> DeviceProfile:
    """Return the catalogue's profile of this model with the GPU's number of SMs, or one built from the driver's facts.

    Raises:
        MissingPart: the harness does not know the architecture.
    """
    for device in catalogue.devices():
        if device.name == gpu.name and _limits(device) == _limits(gpu):
            return device if device.sm_count == gpu.sm_count else device.with_sm_count(gpu.sm_count)
    for device in catalogue.devices():
        if _model_properties(device) == _model_properties(gpu):
            return device
    return _profile_from(gpu)


def _limits(gpu: RealGpu | DeviceProfile) -> tuple[object, ...]:
    """The properties that, with the number of SMs, decide what a library launches."""
    return (gpu.capability, gpu.shared_bytes_per_block, gpu.shared_bytes_per_sm, gpu.registers_per_sm)


def _model_properties(gpu: RealGpu | DeviceProfile) -> tuple[object, ...]:
    """The properties that distinguish models; memory and clocks differ between boards of one model."""
    return (*_limits(gpu), gpu.sm_count, gpu.l2_bytes, gpu.memory_bus_bits, gpu.max_threads_per_sm)


def _profile_from(gpu: RealGpu) -> DeviceProfile:
    words = re.findall(r"[a-z0-9]+", gpu.name.lower())
    return DeviceProfile(
        slug="-".join(word for word in words if word not in ("nvidia", "geforce")) or "gpu",
        name=gpu.name,
        architecture=_architecture(gpu),
        capability=gpu.capability,
        sm_count=gpu.sm_count,
        shared_bytes_per_block=gpu.shared_bytes_per_block,
        shared_bytes_per_sm=gpu.shared_bytes_per_sm,
        l2_bytes=gpu.l2_bytes,
        registers_per_sm=gpu.registers_per_sm,
        max_threads_per_sm=gpu.max_threads_per_sm,
        memory_bytes=gpu.memory_bytes,
        sm_clock_khz=gpu.sm_clock_khz,
        memory_clock_khz=gpu.memory_clock_khz,
        memory_bus_bits=gpu.memory_bus_bits,
        source=f"read from the device by the CUDA driver API, driver {gpu.driver_version or 'of unknown version'}",
    )


def _architecture(gpu: RealGpu) -> Architecture:
    match gpu.capability:
        case (8, 9):
            return Architecture.ADA
        case (8, _):
            return Architecture.AMPERE
        case (9, _):
            return Architecture.HOPPER
        case (10 | 11 | 12, _):
            return Architecture.BLACKWELL
        case (major, minor):
            raise MissingPart(
                f"{gpu.name} has compute capability {major}.{minor}, and the harness knows 8.0 to 12.1; "
                f"{VIRTUAL_NEEDS_NONE}"
            )
