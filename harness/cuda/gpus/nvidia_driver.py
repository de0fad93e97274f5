"""What NVIDIA's driver answers about this machine's GPUs; only the child process of `harness.cuda.gpus.inventory` asks.

Through ctypes, on the two libraries that come with the driver: libcuda for the GPUs, libnvidia-ml (NVML) for the
driver's version and for MIG slices, of which CUDA shows a process but one.  No context is made, so that nothing is
allocated on a GPU and exclusive ones can be asked too.
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from harness import wire
from harness.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.cuda.gpus.inventory import (
    DRIVER_QUERY,
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
"""`CUdevice_attribute` of cuda.h, each without its prefix."""

MODES = {0: ComputeMode.SHARED, 2: ComputeMode.PROHIBITED, 3: ComputeMode.EXCLUSIVE}
"""`CUcomputemode` of cuda.h."""

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
"""What to do about a status of `cuInit`."""

PREFIX_OF_SLICE = "MIG-"
UUID_BYTES, NAME_BYTES = 16, 256


class DriverCallFailed(Exception):
    """The driver answered with an error."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function}: CUDA error {status}")
        self.status = status


def read(*, environment: Mapping[str, str], only_shown: bool) -> Inventory:
    """Every GPU that CUDA shows, and, unless `only_shown`, MIG slices that it shows to other processes alone."""
    try:
        driver = Driver()
        shown = Inventory(gpus=tuple(driver.gpus()))
    except OSError:
        shown = Inventory(problem=f"{CUDA} is not there: install NVIDIA's driver, or go to a machine with a GPU")
    except DriverCallFailed as refused:
        shown = Inventory(problem=REMEDIES.get(refused.status, f"{refused}: nvidia-smi may say why"))
    more = () if only_shown else tuple(_hidden_slices(shown, environment.get(VISIBLE)))
    gpus = sorted((*shown.gpus, *more), key=lambda gpu: gpu.pci_bus_id)
    if gpus:
        return Inventory(gpus=tuple(gpus))
    return Inventory(problem=shown.problem or REMEDIES[NO_DEVICE])


class Driver:
    """The CUDA driver, initialised in this process.

    Raises:
        OSError: there is none.
        Refused: it does not work, or sees no GPU.
    """

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(CUDA)
        self._call("cuInit", 0)

    def gpus(self) -> Iterator[RealGpu]:
        """The GPUs in the order in which CUDA counts them."""
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
        told = {name: self._attribute(number, device) for name, number in ATTRIBUTES.items()}
        name = self._text("cuDeviceGetName", device)
        return RealGpu(
            uuid=self._uuid(device, name),
            name=name,
            capability=(told["COMPUTE_CAPABILITY_MAJOR"], told["COMPUTE_CAPABILITY_MINOR"]),
            sm_count=told["MULTIPROCESSOR_COUNT"],
            shared_bytes_per_block=told["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"],
            shared_bytes_per_sm=told["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"],
            l2_bytes=told["L2_CACHE_SIZE"],
            registers_per_sm=told["MAX_REGISTERS_PER_MULTIPROCESSOR"],
            max_threads_per_sm=told["MAX_THREADS_PER_MULTIPROCESSOR"],
            memory_bytes=memory.value,
            sm_clock_khz=told["CLOCK_RATE"],
            memory_clock_khz=told["MEMORY_CLOCK_RATE"],
            memory_bus_bits=told["GLOBAL_MEMORY_BUS_WIDTH"],
            driver_version=driver_version,
            cuda_version=cuda_version,
            compute_mode=MODES.get(told["COMPUTE_MODE"], ComputeMode.PROHIBITED),
            pci_bus_id=self._text("cuDeviceGetPCIBusId", device).lower(),
        )

    def _uuid(self, device: ctypes.c_int, name: str) -> str:
        """The second version of the question answers for the slice, the first for the GPU that it is a slice of."""
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
    """The slices that this process may use and CUDA does not show, each asked in a child that is shown it alone."""
    seen = {gpu.uuid for gpu in shown.gpus}
    for uuid in _slice_uuids():
        if uuid not in seen and is_allowed(uuid, visible):
            match ask(DRIVER_QUERY, SHOWN_ALONE, time_limit_s=TIME_LIMIT_S, environment={VISIBLE: uuid}):
                case Answered(status=0, out=out):
                    yield from parsed(out).gpus
                case Answered() | QueryTimedOut():
                    pass  # a slice that was taken away meanwhile


def is_allowed(uuid: str, visible: str | None) -> bool:
    """Whether CUDA_VISIBLE_DEVICES leaves a slice to this process: all of them where it is not set."""
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
        most = ctypes.c_uint()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            continue
        if nvml.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(most)):
            continue
        for place in range(most.value):  # with gaps, where nothing answers
            if nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place, ctypes.byref(slice_)):
                continue
            if not nvml.nvmlDeviceGetUUID(slice_, text, NAME_BYTES):
                yield text.value.decode(errors="replace")


def _nvml() -> Any:
    """NVML, initialised; None where it is not there or does not work, which only costs what it would have told."""
    try:
        library = ctypes.CDLL(NVML)
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


if __name__ == "__main__":
    sys.stdout.write(wire.to_json(read(environment=os.environ, only_shown=SHOWN_ALONE in sys.argv[1:])))
