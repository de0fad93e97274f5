"""Triton's driver of a real GPU that answers for a profile: NVIDIA's own, with other figures and watched launches.

Kernels are compiled for the hardware's architecture whatever the profile says: a forged one would build code that the
GPU cannot load.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from triton import knobs
from triton.backends.nvidia.driver import CudaDriver

from harness.model.device import DeviceProfile
from harness.virtual.driver.driver import LaunchRequest, equal_times, figures
from harness.virtual.driver.triton_seam import target


class LaunchWatcher(Protocol):
    """Who stands between Triton and the GPU."""

    def __call__(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Call `launch` once, and return when whatever is to be known of it is known."""
        ...


class RealDriver(CudaDriver):
    """Answers for `profile`, which holds no more of anything but SMs than the GPU; compiles for `arch`."""

    def __init__(self, profile: DeviceProfile, arch: int, on_launch: LaunchWatcher) -> None:
        super().__init__()
        self._target = target(arch, 32)
        self._on_launch = on_launch
        self._make_real = self.launcher_cls
        self._texts: dict[int, str] = {}
        self.utils: Any = _Utilities(self.utils, profile)
        self.launcher_cls = self._make_launcher
        knobs.runtime.kernel_load_end_hook.add(cast("Any", self._loaded))

    def get_current_target(self) -> Any:
        """What to compile for: the hardware."""
        return self._target

    def get_current_device(self) -> int:
        """Workers see one GPU."""
        return 0

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Equal times for everything: configs are chosen by the case, never by a clock."""
        return equal_times

    def text_of(self, function: int) -> str:
        """The TTIR of a loaded kernel."""
        return self._texts[function]

    def watch(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Hand a launch to whoever watches."""
        self._on_launch(request, launch)

    def _make_launcher(self, source: Any, metadata: Any) -> "_Launcher":
        return _Launcher(self, source, metadata, self._make_real(source, metadata))

    def _loaded(self, module: Any, function: int, name: str, metadata_group: Mapping[str, str], digest: str) -> None:
        """Called by Triton (3.6 to 3.9) when a kernel is on the GPU; `metadata_group` holds paths by file name."""
        del module, name, digest
        paths = [path for file, path in metadata_group.items() if file.endswith(".ttir")]
        self._texts[function] = Path(paths[0]).read_text(encoding="utf-8") if paths else ""


class _Utilities:
    """`driver.active.utils`: the real ones, but for the figures that host code reads."""

    def __init__(self, real: Any, profile: DeviceProfile) -> None:
        self._real = real
        self._profile = profile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """The profile's figures, without starting CUDA: libraries ask when they are imported."""
        del device
        return figures(self._profile)


class _Launcher:
    """What Triton calls to launch one compiled kernel."""

    def __init__(self, driver: RealDriver, source: Any, metadata: Any, real: Callable[..., None]) -> None:
        self._driver = driver
        self._source = source
        self._metadata = metadata
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        _packed, _launch_metadata, _enter, _leave, *arguments = rest
        request = LaunchRequest(
            ttir=self._driver.text_of(function),
            grid=(x, y, z),
            stream=stream,
            source=self._source,
            metadata=self._metadata,
            arguments=arguments,
        )
        self._driver.watch(request, lambda: self._real(x, y, z, stream, function, *rest))
