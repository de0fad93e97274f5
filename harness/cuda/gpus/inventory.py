"""The real GPUs of this machine, and the device profile that a case on one of them has.

A child process asks NVIDIA's driver (`nvidia_driver`), because a process that initialised CUDA cannot fork workers.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from harness import wire
from harness.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.devices import catalogue
from harness.errors import MissingPart, ReplayError, WorkerError
from harness.model.device import Architecture, DeviceProfile

VISIBLE = "CUDA_VISIBLE_DEVICES"
DRIVER_QUERY = "harness.cuda.gpus.nvidia_driver"
"""The module that the child process runs."""
SHOWN_ALONE = "shown"
"""The argument that keeps the child from looking for MIG slices that CUDA does not show at once."""
TIME_LIMIT_S = 60.0
"""The driver takes about a second for eight GPUs, and longer where persistence mode is off."""
WITHOUT = "--engine virtual needs no GPU"


class ComputeMode(StrEnum):
    """How many processes a GPU serves at a time."""

    SHARED = "Default"
    EXCLUSIVE = "Exclusive_Process"
    PROHIBITED = "Prohibited"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGpu:
    """One GPU, or one MIG slice of a GPU, as the CUDA driver describes it."""

    uuid: str
    """As `nvidia-smi -L` writes it, and as CUDA_VISIBLE_DEVICES takes it: `GPU-…`, or `MIG-…` of a slice."""
    name: str
    capability: tuple[int, int]
    sm_count: int
    shared_bytes_per_block: int
    """The opt-in limit of one CTA."""
    shared_bytes_per_sm: int
    l2_bytes: int
    registers_per_sm: int
    max_threads_per_sm: int
    memory_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    driver_version: str
    """`580.159.03`; empty where NVML is not there to tell."""
    cuda_version: tuple[int, int]
    """The newest CUDA that the driver serves: (13, 0)."""
    compute_mode: ComputeMode
    pci_bus_id: str
    """`0000:1b:00.0`; slices share their GPU's."""

    @property
    def arch(self) -> int:
        """The capability as Triton's compile target writes it: 90, 100, 120."""
        major, minor = self.capability
        return 10 * major + minor

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid}, {self.sm_count} SMs)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The GPUs that this process may use, in the order of the PCI bus; or why there is none."""

    gpus: tuple[RealGpu, ...] = ()
    problem: str = ""
    """One line: what is wrong, and what to do; empty where GPUs were found."""


def inventory(*, time_limit_s: float = TIME_LIMIT_S) -> Inventory:
    """What CUDA_VISIBLE_DEVICES leaves of this machine's GPUs, whether or not a case can run there.

    Raises:
        WorkerError: the child process that asks the driver failed in a way that says nothing about GPUs.
    """
    match ask(DRIVER_QUERY, time_limit_s=time_limit_s, environment={}):
        case QueryTimedOut() as silent:
            return Inventory(problem=f"NVIDIA's driver gives {silent}: nvidia-smi says whether it is alive")
        case Answered(status=0, out=out):
            return parsed(out)
        case Answered() as answered:
            raise WorkerError(f"asking for the GPUs of this machine failed: {answered.last_words}")


def parsed(text: str) -> Inventory:
    """What the child process wrote.

    Raises:
        WorkerError: it wrote something else.
    """
    try:
        return wire.from_json(text, Inventory)
    except ReplayError as error:
        raise WorkerError(f"the answer to which GPUs there are is damaged: {error}") from None


def real_gpus() -> tuple[RealGpu, ...]:
    """The GPUs on which cases can run, in the order of the PCI bus; at least one.

    Raises:
        MissingPart: there is none; the text says why, what to do, and that the virtual engine needs none.
    """
    found = inventory()
    usable = tuple(gpu for gpu in found.gpus if gpu.compute_mode is ComputeMode.SHARED)
    if not usable:
        raise MissingPart(f"no GPU for cases: {found.problem or unshared(found.gpus)}; {WITHOUT}")
    if problem := torch_problem(usable[0].cuda_version):
        raise MissingPart(f"no GPU for cases: {problem}; {WITHOUT}")
    return usable


def unshared(gpus: tuple[RealGpu, ...]) -> str:
    """Which GPUs do not serve several processes, and the command that lets them."""
    modes = ", ".join(f"{gpu.uuid} is in compute mode {gpu.compute_mode}" for gpu in gpus)
    return f"{modes}, and several processes use a GPU in turn: sudo nvidia-smi -c DEFAULT"


def torch_problem(driver: tuple[int, int]) -> str:
    """Why the installed torch cannot use a driver that serves this CUDA, and what to do; empty where it can."""
    if (spec := find_spec("torch")) is None or spec.origin is None:
        return "torch is not installed: pip install torch"
    version_file = Path(spec.origin).with_name("version.py")  # to import it would load torch
    return problem_of_build(version_file.read_text(encoding="utf-8"), driver)


def problem_of_build(version_file: str, driver: tuple[int, int]) -> str:
    """The same, of the text of torch's `version.py`."""
    release = re.search(r"^__version__ = '([^']+)'", version_file, re.MULTILINE)
    built = re.search(r"^cuda\b[^=]*= '(\d+)\.(\d+)", version_file, re.MULTILINE)
    name = f"torch {release[1]}" if release else "torch"
    if built is None:
        return f"{name} is built without CUDA: pip install a torch with CUDA (pytorch.org/get-started lists them)"
    if driver[0] < int(built[1]):  # releases of one major version serve each other
        return (
            f"the driver serves CUDA {driver[0]}.{driver[1]} at most, and {name} is built for CUDA {built[1]}."
            f"{built[2]}: update NVIDIA's driver, or pip install a torch for CUDA {driver[0]}"
        )
    return ""


def profile_of(gpu: RealGpu) -> DeviceProfile:
    """The catalogue's entry of this model, with the GPU's own number of SMs; else one made of what the driver says.

    Raises:
        MissingPart: the architecture is older, or newer, than those that the harness knows.
    """
    for device in catalogue.devices():
        if device.name == gpu.name and _limits(device) == _limits(gpu):
            return device if device.sm_count == gpu.sm_count else device.with_sm_count(gpu.sm_count)
    for device in catalogue.devices():
        if _figures(device) == _figures(gpu):
            return device
    return _made_of(gpu)


def _limits(gpu: RealGpu | DeviceProfile) -> tuple[object, ...]:
    """What decides, beside the number of SMs, what a library launches."""
    return (gpu.capability, gpu.shared_bytes_per_block, gpu.shared_bytes_per_sm, gpu.registers_per_sm)


def _figures(gpu: RealGpu | DeviceProfile) -> tuple[object, ...]:
    """What tells models of one architecture apart; memory and clocks differ between boards of one model."""
    return (*_limits(gpu), gpu.sm_count, gpu.l2_bytes, gpu.memory_bus_bits, gpu.max_threads_per_sm)


def _made_of(gpu: RealGpu) -> DeviceProfile:
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
                f"{gpu.name} has compute capability {major}.{minor}, and the harness knows 8.0 to 12.1; {WITHOUT}"
            )
