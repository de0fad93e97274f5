"""Triton's NVIDIA driver with the properties of an emulated device and with watched launches.

Kernels are always compiled for the hardware's architecture: the GPU could not load builds for another one.
"""

from collections.abc import Callable, Mapping
from operator import index
from pathlib import Path
from typing import Any, Protocol

from triton.backends.nvidia.driver import CudaDriver

from harness.engines.triton.driver import LaunchRequest, constant_times, device_properties, own_ttir
from harness.engines.triton.later_stages import target
from harness.engines.triton.triton_seam import on_load
from harness.model.device import DeviceProfile


class LaunchWatcher(Protocol):
    """A callback for every launch."""

    def __call__(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Call `launch` exactly once."""
        ...


class RealDriver(CudaDriver):
    """Reports the properties of `profile`, of which only the SMs may exceed the hardware's; compiles for `arch`."""

    def __init__(self, profile: DeviceProfile, arch: int, on_launch: LaunchWatcher) -> None:
        super().__init__()
        self._target = target(arch)
        self._on_launch = on_launch
        self._make_hardware_launcher = self.launcher_cls
        self._ttir: dict[int, str] = {}
        self.utils: Any = _Utilities(self.utils, profile)
        self.launcher_cls = self._make_launcher
        on_load(self._on_load)

    def get_current_target(self) -> Any:
        """Return the hardware's compile target."""
        return self._target

    def get_current_device(self) -> int:
        return 0  # workers see one GPU

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a benchmarker that finds all configs equally fast: the case chooses the config, never a clock."""
        return constant_times

    def ttir_of(self, function: int) -> str:
        """Return the TTIR of a loaded kernel, by its CUDA function handle."""
        return self._ttir[function]

    def watch(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        self._on_launch(request, launch)

    def _make_launcher(self, source: Any, metadata: Any) -> "_Launcher":
        return _Launcher(self, source, metadata, self._make_hardware_launcher(source, metadata))

    def _on_load(self, module: Any, function: int, name: str, metadata_group: Mapping[str, str], digest: str) -> None:
        """Triton (3.6 to 3.9) calls this when a kernel is loaded; `metadata_group` holds paths by file name."""
        del module, name, digest
        paths = [path for file, path in metadata_group.items() if file.endswith(".ttir")]
        self._ttir[function] = Path(paths[0]).read_text(encoding="utf-8") if paths else ""


class _Utilities:
    """`driver.active.utils`: NVIDIA's, except for the device properties that host code reads."""

    def __init__(self, nvidia: Any, profile: DeviceProfile) -> None:
        self._nvidia = nvidia
        self._profile = profile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nvidia, name)

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Return the profile's properties without starting CUDA, since libraries read them on import."""
        del device
        return device_properties(self._profile)


class _Launcher:
    """The launcher of one compiled kernel."""

    def __init__(self, driver: RealDriver, source: Any, metadata: Any, nvidia: Callable[..., None]) -> None:
        self._driver = driver
        self._source = source
        self._metadata = metadata
        self._nvidia = nvidia
        self._ttir = ""
        """With the paths of this process; empty until the first launch."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nvidia, name)

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        _packed, _launch_metadata, _enter, _leave, *arguments = rest
        self._ttir = self._ttir or own_ttir(self._driver.ttir_of(function), self._source)
        request = LaunchRequest(
            ttir=self._ttir,
            grid=(index(x), index(y), index(z)),  # as Triton's launcher takes them, from tensors too
            stream=stream,
            source=self._source,
            metadata=self._metadata,
            arguments=arguments,
        )
        self._driver.watch(request, lambda: self._nvidia(x, y, z, stream, function, *rest))
