"""The Triton driver of the emulated GPU.

Triton asks its active driver for everything about the device.  This driver answers from a device profile, loads TTIR as
machine code, and passes each launch to a handler.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import index
from typing import Any, Protocol

import torch

from harness.engines.torch.captured_graphs import capture_line, current_capture
from harness.engines.torch.cpu_tensors import EmulatedGpu
from harness.engines.torch.streams import raw_stream
from harness.engines.triton.intel_backend import target_of
from harness.engines.triton.source_paths import loaded_files, relocated
from harness.engines.triton.triton_seam import ConfigChooser, kernel_source
from harness.errors import NoSuchFunction
from harness.execution import flight_recorder
from harness.model.device import DeviceProfile
from harness.model.ending import Source

DEEPEST_WRAPPER = 3
"""Attributes of attributes among which the tensor behind a launch's argument is looked for."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One call of a launcher: everything that Triton would pass to the CUDA driver."""

    ttir: str
    grid: tuple[int, int, int]
    stream: int
    source: Any
    """Triton's `ASTSource`: signature and constants."""
    metadata: Any
    """The compiled kernel's metadata: options such as `num_warps`."""
    arguments: Sequence[Any]
    """All arguments of the caller, constexprs included."""
    model: str = ""
    """What the launch is a model of, if another runtime than Triton's would make it; see `Launch.model`."""
    is_benchmark: bool = False
    """True if that runtime launches the kernel only to tune it."""
    captured_at: Source | None = None
    """The caller's line from which the launch was captured into a CUDA graph, if a watched program replays it."""
    kept: dict[object, Any] = field(default_factory=dict[object, Any], compare=False, repr=False)
    """What a handler keeps for all launches of the same source with the same metadata; by handler."""


def tensors_of(request: LaunchRequest) -> dict[str, torch.Tensor]:
    """Return the tensors of a launch by argument name, including those behind descriptors made by host code."""
    tensors: dict[str, torch.Tensor] = {}
    for name, value in zip(request.source.fn.arg_names, request.arguments, strict=False):
        tensor = value if isinstance(value, torch.Tensor) else descriptor_tensor(value)
        if tensor is not None:
            tensors[name] = tensor
    return tensors


def descriptor_tensor(value: object) -> torch.Tensor | None:
    """Return the tensor behind a descriptor made by host code; None for any other value."""
    base = getattr(value, "base", None)
    return base if isinstance(base, torch.Tensor) and hasattr(value, "block_shape") else None


def tensor_behind(value: object) -> object:
    """Return the tensor that an object with a `data_ptr` method of its own wraps; any other value as it is.

    Triton takes the address of every such object.  Here the address alone would not do: the memory's extent counts.
    An object that describes its storage as a tensor does is bound as it is.
    """
    if value is None or isinstance(value, torch.Tensor | int | float):
        return value
    address = getattr(value, "data_ptr", None)
    if not callable(address) or hasattr(value, "untyped_storage"):
        return value
    wanted, level = address(), [value]
    for _ in range(DEEPEST_WRAPPER):
        level = [inner for outer in level for inner in getattr(outer, "__dict__", {}).values()]
        for inner in level:
            if isinstance(inner, torch.Tensor) and inner.data_ptr() == wanted:
                return inner
    return value


def own_ttir(ttir: str, source: Any) -> str:
    """Return the TTIR of an `ASTSource`, perhaps from Triton's cache, with the source locations of this process."""
    return relocated(ttir, kernel_source(source.fn), loaded_files)


class LaunchHandler(Protocol):
    """Executes one launch before it returns."""

    def __call__(self, request: LaunchRequest) -> None: ...


def device_properties(profile: DeviceProfile) -> dict[str, int]:
    """Return what Triton and libraries read of a device through `driver.active.utils`."""
    return {
        "max_shared_mem": profile.shared_bytes_per_block,
        "max_num_regs": profile.registers_per_sm,
        "multiprocessor_count": profile.sm_count,
        "warpSize": profile.warp_size,
        "sm_clock_rate": profile.sm_clock_khz,
        "mem_clock_rate": profile.memory_clock_khz,
        "mem_bus_width": profile.memory_bus_bits,
    }


def constant_times(kernel_call: Callable[[], None], *, quantiles: Sequence[float] = (0.5,), **_: Any) -> list[float]:
    """Return equal times without calling the kernel.  Autotuners get this function in place of a benchmark."""
    del kernel_call
    return [1.0] * len(quantiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSupport:
    """What a model of another runtime than Triton's needs of the engine."""

    chooser: ConfigChooser
    poison: Callable[[torch.Tensor], None]
    """Poisons a tensor in foreign memory, which nothing has written yet."""


class VirtualDriver:
    """The driver of one device profile.  The names of its methods are Triton's."""

    def __init__(self, profile: DeviceProfile, on_launch: LaunchHandler, support: RuntimeSupport | None = None) -> None:
        """Without `support` the engine runs no models of other runtimes."""
        self.profile = profile
        self.support = support
        self.utils: Any = _Utilities(profile)
        self.launcher_cls: Callable[[Any, Any], Callable[..., None]] = self._make_launcher
        self._on_launch = on_launch
        self._target = target_of(profile)

    @classmethod
    def is_active(cls) -> bool:
        return False  # Triton must not choose this driver by itself

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty  # no launcher is compiled as C++

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None: ...

    def get_current_stream(self, device: int | None = None) -> int:
        return raw_stream(device)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        del device
        return self.profile.capability

    def get_active_torch_device(self) -> torch.device:
        return EmulatedGpu.device

    def get_device_interface(self) -> Any:
        """Return torch.cuda, or torch.xpu, which is emulated from the same profile."""
        return getattr(torch, EmulatedGpu.kind)

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return a small tensor in place of the buffer that clears the L2 cache."""
        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None: ...

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a benchmark with equal times: the case chooses the config, never a clock."""
        return constant_times

    def _make_launcher(self, source: Any, metadata: Any) -> "_Launcher":
        return _Launcher(self, source, metadata)

    def launch(self, request: LaunchRequest) -> None:
        capture = current_capture()
        if capture is None:
            self._on_launch(request)
        else:
            arguments = capture.aliased(tuple(request.arguments))
            held = replace(request, arguments=arguments, captured_at=capture_line())
            capture.add_launch(partial(self._on_launch, held), held.source.fn.__name__, tensors_of(held))

    def __getattr__(self, name: str) -> Any:
        raise _no_answer(f"driver.active.{name}")


def _no_answer(attribute: str) -> AttributeError:
    """Return the error for a question that this driver does not answer."""
    if attribute.rpartition(".")[2].startswith("__"):  # Python's own
        return AttributeError(attribute)
    return NoSuchFunction(f"a question to the CUDA driver ({attribute})")


_HANDLES = itertools.count(1)
"""Shared by all drivers: Triton 3.9 unloads a collected kernel through the driver that is active at that time."""


class _Utilities:
    """`driver.active.utils`."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile
        self.texts: dict[int, str] = {}
        """The TTIR of each loaded kernel, by handle."""
        self._usage: dict[str, tuple[int, int]] = {}
        """Registers and spills, by TTIR."""

    def record_usage(self, text: str, registers: int, spills: int) -> None:
        """Set the registers and spills that `load_binary` returns for this TTIR from now on."""
        self._usage[text] = (registers, spills)

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        del device
        return device_properties(self._profile)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Return (module, function, registers, spills, most threads).  The function is the handle of the TTIR.

        Registers and spills are 0 unless they were recorded.
        """
        del name, shared, device
        handle = next(_HANDLES)
        text = self.texts[handle] = binary.decode()
        return handle, handle, *self._usage.get(text, (0, 0)), self._profile.max_threads_per_block

    def unload_module(self, module: int) -> None:
        self.texts.pop(module, None)

    def __getattr__(self, name: str) -> Any:
        raise _no_answer(f"driver.active.utils.{name}")


class _Launcher:
    """The launcher of one compiled kernel, which Triton calls."""

    def __init__(self, driver: VirtualDriver, source: Any, metadata: Any) -> None:
        self._driver = driver
        self._source = source
        self._metadata = metadata
        self._ttir = ""
        """With the paths of this process; empty until the first launch."""
        self._kept: dict[object, Any] = {}

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        _packed, launch_metadata, enter, leave, *arguments = rest
        if enter is not None:
            enter(launch_metadata)
        self._ttir = self._ttir or own_ttir(self._driver.utils.texts[function], self._source)
        request = LaunchRequest(
            ttir=self._ttir,
            grid=(index(x), index(y), index(z)),  # as Triton's launcher takes them, from tensors too
            stream=stream,
            source=self._source,
            metadata=self._metadata,
            arguments=[tensor_behind(argument) for argument in arguments],
            kept=self._kept,
        )
        with flight_recorder.launching(
            self._source.fn.__name__, request.grid, f"num_warps: {self._metadata.num_warps}"
        ):
            self._driver.launch(request)
        if leave is not None:
            leave(launch_metadata)
