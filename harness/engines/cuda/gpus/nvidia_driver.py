"""Queries NVIDIA's driver for the GPUs of this machine; runs only in the child process of `inventory`.

It calls two libraries of the driver through ctypes.  libcuda describes the GPUs.  libnvidia-ml (NVML) has the driver's
version and the MIG slices, of which CUDA shows only one.  It creates no context, so it allocates no GPU memory and can
query GPUs in exclusive mode.
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from harness import wire
from harness.engines.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.engines.cuda.gpus.inventory import (
    DRIVER_QUERY,
    MODES,
    SHOWN_ALONE,
    TIME_LIMIT_S,
    VISIBLE,
    ComputeMode,
    Inventory,
    RealGpu,
    parsed,
)

CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"

ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 16,
    "COMPUTE_MODE": 20,
    "CLOCK_RATE": 13,
    "MEMORY_CLOCK_RATE": 36,
    "GLOBAL_MEMORY_BUS_WIDTH": 37,
    "L2_CACHE_SIZE": 38,
    "MAX_THREADS_PER_MULTIPROCESSOR": 39,
    "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
}
"""`CUdevice_attribute` of cuda.h, without the prefix."""

NO_DEVICE = 100
REMEDIES = {
    46: "the GPU is busy or unavailable: nvidia-smi shows who uses it",
    NO_DEVICE: f"NVIDIA's driver sees no GPU: is {VISIBLE} set, or the container started without --gpus all?",
    102: "the GPU has no licence: ask who runs the virtual machine",
    304: "the operating system refuses: may this user open /dev/nvidia*?",
    802: "the GPUs are not ready yet: is nvidia-fabricmanager running?",
    803: "driver and kernel module are of different versions: reboot, or reload the nvidia module",
    804: "the driver is too old for the CUDA compatibility package that is installed: update NVIDIA's driver",
    999: "the driver is not working: nvidia-smi and dmesg may say why",
}
"""The remedy for each status of `cuInit`."""

PREFIX_OF_SLICE = "MIG-"
UUID_BYTES, NAME_BYTES = 16, 256


class DriverCallFailed(Exception):
    """A driver call returned an error status."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function}: CUDA error {status}")
        self.status = status


def read(*, environment: Mapping[str, str], only_shown: bool) -> Inventory:
    """Return the GPUs that CUDA shows and, unless `only_shown`, the MIG slices that it hides from this process."""
    try:
        driver = Driver()
        shown = Inventory(gpus=tuple(driver.gpus()))
    except OSError:
        missing = f"{CUDA} is not there: install NVIDIA's driver, or go to a machine with a GPU"
        shown = Inventory(problem=missing, has_driver=False)
    except DriverCallFailed as failed:
        shown = Inventory(problem=REMEDIES.get(failed.status, f"{failed}: nvidia-smi may say why"))
    more = () if only_shown else tuple(_hidden_slices(shown, environment.get(VISIBLE)))
    gpus = sorted((*shown.gpus, *more), key=lambda gpu: gpu.pci_bus_id)
    if gpus:
        return Inventory(gpus=tuple(gpus))
    return replace(shown, problem=shown.problem or REMEDIES[NO_DEVICE])


class Driver:
    """The CUDA driver, initialised in this process.

    Raises:
        OSError: the driver is not installed.
        DriverCallFailed: it does not work, or finds no GPU.
    """

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(CUDA)
        self._call("cuInit", 0)

    def gpus(self) -> Iterator[RealGpu]:
        """Yield the GPUs in CUDA's order."""
        count, version = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self._call("cuDriverGetVersion", ctypes.byref(version))
        cuda_version = (version.value // 1000, version.value % 1000 // 10)
        driver_version = _driver_version()
        for index in range(count.value):
            yield self._gpu(index, driver_version, cuda_version)

    def _gpu(self, index: int, driver_version: str, cuda_version: tuple[int, int]) -> RealGpu:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        attributes = {name: self._attribute(number, device) for name, number in ATTRIBUTES.items()}
        name = self._text("cuDeviceGetName", device)
        return RealGpu(
            uuid=self._uuid(device, name),
            name=name,
            capability=(attributes["COMPUTE_CAPABILITY_MAJOR"], attributes["COMPUTE_CAPABILITY_MINOR"]),
            sm_count=attributes["MULTIPROCESSOR_COUNT"],
            shared_bytes_per_block=attributes["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"],
            shared_bytes_per_sm=attributes["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"],
            l2_bytes=attributes["L2_CACHE_SIZE"],
            registers_per_sm=attributes["MAX_REGISTERS_PER_MULTIPROCESSOR"],
            max_threads_per_sm=attributes["MAX_THREADS_PER_MULTIPROCESSOR"],
            memory_bytes=memory.value,
            sm_clock_khz=attributes["CLOCK_RATE"],
            memory_clock_khz=attributes["MEMORY_CLOCK_RATE"],
            memory_bus_bits=attributes["GLOBAL_MEMORY_BUS_WIDTH"],
            driver_version=driver_version,
            cuda_version=cuda_version,
            compute_mode=MODES.get(attributes["COMPUTE_MODE"], ComputeMode.PROHIBITED),
            pci_bus_id=self._text("cuDeviceGetPCIBusId", device).lower(),
        )

    def _uuid(self, device: ctypes.c_int, name: str) -> str:
        """Return the UUID with its prefix.  Version 2 of the call describes the slice, version 1 its parent GPU."""
        own, parent = (ctypes.create_string_buffer(UUID_BYTES) for _ in range(2))
        self._call("cuDeviceGetUuid_v2", own, device)
        self._call("cuDeviceGetUuid", parent, device)
        is_slice = own.raw != parent.raw or " MIG " in name
        return f"{PREFIX_OF_SLICE if is_slice else 'GPU-'}{UUID(bytes=own.raw)}"

    def _attribute(self, number: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def _text(self, function: str, device: ctypes.c_int) -> str:
        text = ctypes.create_string_buffer(NAME_BYTES)
        self._call(function, text, NAME_BYTES, device)
        return text.value.decode(errors="replace")

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._library, function)(*arguments):
            raise DriverCallFailed(function, status)


def _hidden_slices(shown: Inventory, visible: str | None) -> Iterator[RealGpu]:
    """Yield the hidden slices that this process may use, each queried in a child that sees only that one."""
    seen = {gpu.uuid for gpu in shown.gpus}
    for uuid in _slice_uuids():
        if uuid not in seen and is_allowed(uuid, visible):
            match ask(DRIVER_QUERY, SHOWN_ALONE, time_limit_s=TIME_LIMIT_S, environment={VISIBLE: uuid}):
                case Answered(status=0, out=out):
                    yield from parsed(out).gpus
                case Answered() | QueryTimedOut():
                    pass  # the slice was removed meanwhile


def is_allowed(uuid: str, visible: str | None) -> bool:
    """Return True if CUDA_VISIBLE_DEVICES allows a slice; without the variable all are allowed."""
    if visible is None:
        return True
    named = (part.strip() for part in visible.split(","))
    return any(part.startswith(PREFIX_OF_SLICE) and uuid.startswith(part) for part in named)


def _driver_version() -> str:
    text = ctypes.create_string_buffer(NAME_BYTES)
    nvml = _nvml()
    if nvml is None or nvml.nvmlSystemGetDriverVersion(text, NAME_BYTES):
        return ""
    return text.value.decode(errors="replace")


def _slice_uuids() -> Iterator[str]:
    nvml = _nvml()
    count, handle, slice_ = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p()
    if nvml is None or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return
    text = ctypes.create_string_buffer(NAME_BYTES)
    for index in range(count.value):
        slots = ctypes.c_uint()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            continue
        if nvml.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(slots)):
            continue
        for slot in range(slots.value):  # some slots are empty
            if nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot, ctypes.byref(slice_)):
                continue
            if not nvml.nvmlDeviceGetUUID(slice_, text, NAME_BYTES):
                yield text.value.decode(errors="replace")


def _nvml() -> Any:
    """Return NVML, initialised; None if it is missing or does not work."""
    try:
        library = ctypes.CDLL(NVML)
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


if __name__ == "__main__":
    sys.stdout.write(wire.to_json(read(environment=os.environ, only_shown=SHOWN_ALONE in sys.argv[1:])))
