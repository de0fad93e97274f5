"""The Triton driver of a pretended GPU.

Triton asks its active driver for everything about the device.  This one answers from a device profile, takes TTIR for
machine code, and hands each launch to whoever listens.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from harness.model.device import DeviceProfile
from harness.ops import flight_recorder
from harness.virtual.driver.triton_seam import target


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One call of a launcher: what Triton would hand to the CUDA driver."""

    ttir: str
    grid: tuple[int, int, int]
    stream: int
    source: Any
    """Triton's `ASTSource`: signature and constants."""
    metadata: Any
    """The compiled kernel's metadata: options such as `num_warps`."""
    arguments: Sequence[Any]
    """Everything that the caller passed, constexprs included."""


def tensors_of(request: LaunchRequest) -> dict[str, torch.Tensor]:
    """By name of the argument, the tensors that a kernel gets, also those that descriptors made by the host lead to."""
    given = zip(request.source.fn.arg_names, request.arguments, strict=False)
    found = ((name, value if isinstance(value, torch.Tensor) else described_by(value)) for name, value in given)
    return {name: value for name, value in found if value is not None}


def described_by(value: object) -> torch.Tensor | None:
    """The tensor that a descriptor made by the host leads to; None for anything else."""
    base = getattr(value, "base", None)
    return base if isinstance(base, torch.Tensor) and hasattr(value, "block_shape") else None


class LaunchHandler(Protocol):
    """Whoever executes launches."""

    def __call__(self, request: LaunchRequest) -> None:
        """Execute one launch before returning."""
        ...


def figures(profile: DeviceProfile) -> dict[str, int]:
    """What Triton and libraries read of a device through `driver.active.utils`."""
    return {
        "max_shared_mem": profile.shared_bytes_per_block,
        "max_num_regs": profile.registers_per_sm,
        "multiprocessor_count": profile.sm_count,
        "warpSize": profile.warp_size,
        "sm_clock_rate": profile.sm_clock_khz,
        "mem_clock_rate": profile.memory_clock_khz,
        "mem_bus_width": profile.memory_bus_bits,
    }


def equal_times(kernel_call: Callable[[], None], *, quantiles: Sequence[float] = (0.5,), **_: Any) -> list[float]:
    """A benchmark that calls nothing: what autotuners get in the place of a clock."""
    del kernel_call
    return [1.0] * len(quantiles)


class VirtualDriver:
    """Answers for one device profile."""

    def __init__(self, profile: DeviceProfile, on_launch: LaunchHandler) -> None:
        self.profile = profile
        self.utils: Any = _Utilities(profile)
        self.launcher_cls: Callable[[Any, Any], Callable[..., None]] = self._make_launcher
        self._on_launch = on_launch

    @classmethod
    def is_active(cls) -> bool:
        """Whether Triton may choose this driver by itself; it may not."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """C++ names of argument types: nothing here is compiled as C++."""
        return ty

    def get_current_target(self) -> Any:
        """What to compile for."""
        return target(self.profile.arch, self.profile.warp_size)

    def get_current_device(self) -> int:
        """There is one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """There is one stream."""
        del device
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """The profile's capability."""
        del device
        return self.profile.capability

    def get_active_torch_device(self) -> torch.device:
        """Tensors live on the CPU."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """torch.cuda, which answers for the profile too."""
        return torch.cuda

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """A small stand-in for the buffer that clears L2."""
        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """There is no cache to clear."""

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Equal times for everything: configs are chosen by the case, never by a clock."""
        return equal_times

    def _make_launcher(self, source: Any, metadata: Any) -> "_Launcher":
        return _Launcher(self, source, metadata)

    def launch(self, request: LaunchRequest) -> None:
        """Hand a launch on."""
        self._on_launch(request)


_HANDLES = itertools.count(1)
"""Of all drivers: Triton 3.9 unloads a forgotten kernel through whichever driver is active then."""


class _Utilities:
    """`driver.active.utils`."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile
        self.texts: dict[int, str] = {}
        self._taken: dict[str, tuple[int, int]] = {}

    def tell(self, text: str, registers: int, spills: int) -> None:
        """What a kernel takes whose text this is, for those who load it from now on."""
        self._taken[text] = (registers, spills)

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """The figures that Triton and libraries read."""
        del device
        return figures(self._profile)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """(module, function, registers, spills, most threads); the function is the handle of the TTIR text.

        Registers and spills are 0 of a kernel of which nobody was told.
        """
        del name, shared, device
        handle = next(_HANDLES)
        text = self.texts[handle] = binary.decode()
        return handle, handle, *self._taken.get(text, (0, 0)), self._profile.max_threads_per_block

    def unload_module(self, module: int) -> None:
        """Forget a text."""
        self.texts.pop(module, None)


class _Launcher:
    """What Triton calls to launch one compiled kernel."""

    def __init__(self, driver: VirtualDriver, source: Any, metadata: Any) -> None:
        self._driver = driver
        self._source = source
        self._metadata = metadata

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        _packed, launch_metadata, enter, leave, *arguments = rest
        if enter is not None:
            enter(launch_metadata)
        request = LaunchRequest(
            ttir=self._driver.utils.texts[function],
            grid=(x, y, z),
            stream=stream,
            source=self._source,
            metadata=self._metadata,
            arguments=arguments,
        )
        with flight_recorder.launching(
            self._source.fn.__name__, request.grid, f"num_warps: {self._metadata.num_warps}"
        ):
            self._driver.launch(request)
        if leave is not None:
            leave(launch_metadata)
