"""A minimal Triton driver with which libraries can be imported on a machine without a GPU; it launches nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from harness.model.device import DeviceProfile


class Utils:
    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile

    def get_device_properties(self, device: int | None) -> dict[str, int]:  # noqa: ARG002 - there is one
        return {
            "max_shared_mem": self._profile.shared_bytes_per_block,
            "max_num_regs": self._profile.registers_per_sm,
            "multiprocessor_count": self._profile.sm_count,
            "warpSize": self._profile.warp_size,
            "sm_clock_rate": self._profile.sm_clock_khz,
            "mem_clock_rate": self._profile.memory_clock_khz,
            "mem_bus_width": self._profile.memory_bus_bits,
        }


class FakeDriver:
    def __init__(self, profile: DeviceProfile) -> None:
        self.utils = Utils(profile)
        self._target = GPUTarget("cuda", profile.arch, profile.warp_size)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:  # noqa: ARG002 - there is one
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return lambda *_, **__: [1.0]


def drive(profile: DeviceProfile) -> None:
    active: Any = driver
    active.set_active(FakeDriver(profile))
