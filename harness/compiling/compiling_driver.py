"""A Triton driver that compiles for a GPU and launches nothing."""

from collections.abc import Callable
from typing import Any

from harness.engines.triton.driver import LaunchRequest, VirtualDriver, device_properties
from harness.engines.triton.later_stages import target
from harness.engines.triton.triton_seam import build_launcher
from harness.model.device import DeviceProfile

NOT_LOADED = (0, 0, 0, 0)
"""Module, function, registers and spills of a kernel that is not loaded."""


class CompilingDriver(VirtualDriver):
    """Reports the properties of a profile, and compiles for `arch` whatever the profile's architecture is."""

    def __init__(self, profile: DeviceProfile, arch: int) -> None:
        super().__init__(profile, _execute_nothing)
        self._target = target(arch, profile.warp_size)
        self.utils = _Utilities(profile)
        self.launcher_cls = _make_launcher

    def get_current_target(self) -> Any:
        """Return the hardware's compile target."""
        return self._target


class _Utilities:
    """`driver.active.utils`."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        del device
        return device_properties(self._profile)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Load nothing; return `NOT_LOADED` and the maximal number of threads in a block."""
        del name, binary, shared, device
        return *NOT_LOADED, self._profile.max_threads_per_block

    def unload_module(self, module: int) -> None:
        pass


def _make_launcher(source: Any, metadata: Any) -> Callable[..., None]:
    """Compile the C launcher, which workers on the GPU then find in the cache; return one that does nothing."""
    build_launcher(source, metadata)
    return _launch_nothing


def _launch_nothing(*_: object) -> None:
    pass


def _execute_nothing(request: LaunchRequest) -> None:
    del request
