"""Triton's driver of a GPU for which kernels are compiled, and on which nothing is launched."""

from collections.abc import Callable
from typing import Any

from harness.model.device import DeviceProfile
from harness.virtual.driver.driver import LaunchRequest, VirtualDriver, figures
from harness.virtual.driver.triton_seam import build_launcher, target

LOADED = (0, 0, 0, 0)
"""Module, function, registers and spills of a kernel that is not loaded."""


class CompilingDriver(VirtualDriver):
    """Answers for a profile, and compiles for `arch`, whatever the profile says."""

    def __init__(self, profile: DeviceProfile, arch: int) -> None:
        super().__init__(profile, _execute_nothing)
        self._target = target(arch, profile.warp_size)
        self.utils = _Utilities(profile)
        self.launcher_cls = _launcher_of

    def get_current_target(self) -> Any:
        """What to compile for: the hardware."""
        return self._target


class _Utilities:
    """`driver.active.utils`."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """The figures that Triton and libraries read."""
        del device
        return figures(self._profile)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """What Triton wants to know of a kernel on the GPU, the most threads last."""
        del name, binary, shared, device
        return *LOADED, self._profile.max_threads_per_block

    def unload_module(self, module: int) -> None:
        """There is none."""


def _launcher_of(source: Any, metadata: Any) -> Callable[..., None]:
    """What Triton calls to launch a kernel."""
    build_launcher(source, metadata)
    return _launch_nothing


def _launch_nothing(*_: object) -> None:
    pass


def _execute_nothing(request: LaunchRequest) -> None:
    del request
