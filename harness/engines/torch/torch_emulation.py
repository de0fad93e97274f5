"""The emulation of a GPU by torch: `torch.cuda` and `torch.accelerator` answer for it, until `PATCHES` are undone.

For an Intel GPU `torch.xpu` answers, and `torch.cuda` answers as it does where there is no CUDA.

Only child processes import this file.  `cpu_tensors` emulates tensors, and the driver in `harness.engines.triton`
makes Triton answer for the device.

Emulation takes two steps.  `install_emulation` replaces torch's functions before the device is known.  What all devices
have in common is then imported once, in a process from which others are forked.  `emulate_torch` chooses the device.  A
question about the device before that raises.

Not emulated:

* C++ extensions and whatever else calls the CUDA driver natively: `native_refusals` and
  `harness.execution.missing_parts` have the case abstain by name;
* generators on the GPU: `torch.Generator("cuda")` raises, and the case abstains;
* the lists of `torch.autocast("cuda")`: it casts what autocast casts of CPU tensors, so products, but not softmax;
* activation checkpointing with `use_reentrant=False`: it compares devices between forward and backward.

`test_torch_emulation.py` fails when a release of torch moves one of the private names here.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from harness.engines.torch.captured_graphs import emulate_cuda_graphs
from harness.engines.torch.cpu_tensors import (
    CpuTensors,
    EmulatedGpu,
    keep_answering_in_backward,
    let_default_device_be_gpu,
)
from harness.engines.torch.gpu_properties import GpuProperties, gpu_properties, xpu_capability, xpu_properties
from harness.engines.torch.native_refusals import refuse_cpp_extensions, refuse_xpu_graphs
from harness.engines.torch.streams import (
    DeviceContext,
    DeviceGuard,
    DeviceIndexContext,
    DeviceOfContext,
    EmulatedEvent,
    ExternalStream,
    InStream,
    Stream,
    check_device,
    current_stream,
    default_stream,
    external_stream,
    raw_stream,
    set_stream,
    synchronize,
)
from harness.engines.torch.torch_seam import RUN
from harness.errors import WorkerError
from harness.model.device import WIDE_WAVE, DeviceProfile, Vendor
from harness.patches import ABSENT, PATCHES

CUDA_VERSION = "13.0"
"""The value of `torch.version.cuda` if torch was built without CUDA: new enough for every GPU of the catalogue."""
HIP_VERSION = "7.0.51831"
"""The value of `torch.version.hip` for an AMD GPU: ROCm 7.0, the first release for all of the catalogue."""
XPU_VERSION = "20250302"
"""The value of `torch.version.xpu` for an Intel GPU: the oneAPI compiler of torch 2.11 to 2.13."""


class DeviceNotEmulated(WorkerError):
    """A module asked about the device too early: it must be imported after `emulate_torch`."""


class _EmulatedDevice:
    """The device that this process emulates, once it is chosen."""

    def __init__(self) -> None:
        self.is_installed = False
        self._profile: DeviceProfile | None = None
        self._properties: GpuProperties | None = None

    @property
    def profile(self) -> DeviceProfile:
        if self._profile is None:
            raise DeviceNotEmulated("a module asked which GPU this is before the device was chosen")
        return self._profile

    @property
    def properties(self) -> "GpuProperties":
        # Torch returns the same object each time.
        self._properties = self._properties or (xpu_properties if self.is_xpu else gpu_properties)(self.profile)
        return self._properties

    @property
    def is_xpu(self) -> bool:
        return self.profile.vendor is Vendor.INTEL

    def choose(self, profile: DeviceProfile) -> None:
        self._profile, self._properties = profile, None


_emulated = _EmulatedDevice()


def emulate_torch(profile: DeviceProfile) -> None:
    """Make torch answer as if it ran on `profile`, in this process and on this thread.

    Call it before the library under test is imported.
    """
    if not _emulated.is_installed:
        install_emulation()
    _emulated.choose(profile)
    if profile.vendor is Vendor.AMD:
        _replace(torch.version, {"cuda": None, "hip": HIP_VERSION}, "libraries ask torch for its ROCm")
    elif profile.vendor is Vendor.INTEL:
        _answer_for_xpu()
    CpuTensors().__enter__()


def _answer_for_xpu() -> None:
    EmulatedGpu.choose("xpu")
    _replace(torch.version, {"cuda": None, "xpu": XPU_VERSION}, "libraries ask torch for its oneAPI")
    absent = "there is no CUDA beside an Intel GPU"
    for module in (torch.cuda, torch.cuda.random, torch.cuda.memory, torch.cuda.nvtx, torch.backends.cuda):
        own = {patch.name: patch.original for patch in reversed(tuple(PATCHES)) if patch.owner is module}
        _replace(module, {name: original for name, original in own.items() if original is not ABSENT}, absent)
    answers = "it answers for the emulated GPU"
    everything = _device_answers() | _stream_answers() | _memory_answers() | _random_answers()
    of_xpu = {"get_device_capability": lambda device=None: xpu_capability(_emulated.profile)}  # noqa: ARG005 - torch's name
    _replace(torch.xpu, _existing(torch.xpu, everything) | of_xpu, answers)
    _replace(torch.xpu.random, _existing(torch.xpu.random, _random_answers()), answers)
    _replace(torch.xpu.memory, _existing(torch.xpu.memory, _memory_answers()), answers)
    _add_where_compiled_in({"_xpu_getCurrentRawStream": raw_stream})
    refuse_xpu_graphs()


def install_emulation() -> None:
    """Replace torch's functions in this process and in its later children; the device is chosen later."""
    _emulated.is_installed = True
    if torch.version.cuda is None:
        _replace(torch.version, {"cuda": CUDA_VERSION}, "libraries ask torch for its CUDA")
    answers = "it answers for the emulated GPU"
    _replace(torch.cuda, _device_answers() | _stream_answers() | _memory_answers() | _random_answers(), answers)
    _replace(torch.cuda.random, _existing(torch.cuda.random, _random_answers()), answers)
    _replace(torch.cuda.memory, _existing(torch.cuda.memory, _memory_answers()), answers)
    _replace(torch.cuda.nvtx, _each(_nothing, "range_push", "range_pop", "mark"), answers)
    _replace(torch.accelerator, _existing(torch.accelerator, _accelerator_answers()), answers)
    _replace(torch.backends.cuda, {"is_built": lambda: True}, answers)
    native = sys.modules["torch._C"]
    _add_where_compiled_in(
        {
            "_cuda_getCurrentRawStream": raw_stream,
            "_cuda_CUDAAllocator_AllocatorState": type("AllocatorState", (), {}),
        }
    )
    _replace(native, _each(_zero, "_accelerator_exchangeDevice", "_accelerator_maybeExchangeDevice"), answers)
    _replace(
        torch,
        {"get_device_module": wraps(torch.get_device_module)(_module_of)},
        "it caches its answer, and TorchDynamo asks for its `__wrapped__`",
    )
    _replace(
        torch,
        {name: _of_cpu_too(getattr(torch, name)) for name in ("set_autocast_enabled", "set_autocast_dtype")},
        "autocast of CUDA tensors casts those of the emulated GPU, which are on the CPU",
    )
    emulate_cuda_graphs()
    refuse_cpp_extensions()
    keep_answering_in_backward()
    let_default_device_be_gpu()


def _add_where_compiled_in(answers: dict[str, Any]) -> None:
    native = sys.modules["torch._C"]
    _replace(
        native,
        {name: answer for name, answer in answers.items() if not hasattr(native, name)},
        "Inductor and the reset of TorchDynamo import it where the GPU's runtime is compiled in",
    )


def _of_cpu_too(setter: Callable[..., None]) -> Callable[..., None]:
    """Return a setter of autocast that means the CPU's tensors as well, if it is about the GPU's."""

    def set_both(*args: Any) -> None:
        setter(*args)
        if args[0] == EmulatedGpu.kind:
            setter("cpu", *args[1:])

    return set_both


def _device_answers() -> dict[str, Any]:
    def answering(answer: Callable[[], Any]) -> Callable[..., Any]:
        def of_device(device: Any = None) -> Any:
            check_device(device)
            return answer()

        return of_device

    return {
        "_lazy_init": _nothing(),
        "_is_compiled": lambda: True,
        "init": _nothing(),
        "is_initialized": lambda: True,
        "is_available": lambda: True,
        "is_bf16_supported": lambda including_emulation=True: True,  # noqa: ARG005 - torch's own name for it
        "is_tf32_supported": lambda: _emulated.profile.vendor is not Vendor.AMD or _is_cdna(_emulated.profile),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _checking(),
        "_exchange_device": _zero(),
        "_maybe_exchange_device": _zero(),
        "device": DeviceContext,
        "device_of": DeviceOfContext,
        "_DeviceGuard": DeviceGuard,
        "get_device_name": answering(lambda: _emulated.profile.name),
        "get_device_capability": answering(lambda: _emulated.profile.capability),
        "get_device_properties": answering(lambda: _emulated.properties),
        "get_arch_list": lambda: [_emulated.profile.arch_name],
        "can_device_access_peer": lambda device, peer_device: False,  # noqa: ARG005 - torch's own names for them
        "synchronize": synchronize,
    }


def _is_cdna(profile: DeviceProfile) -> bool:
    return profile.warp_size == WIDE_WAVE


def _stream_answers() -> dict[str, Any]:
    return {
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": EmulatedEvent,
        "StreamContext": InStream,
        "stream": InStream,
        "set_stream": set_stream,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "get_stream_from_external": external_stream,
    }


def _memory_answers() -> dict[str, Any]:
    silent = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_accumulated_memory_stats")
    settings = ("reset_max_memory_allocated", "reset_max_memory_cached", "set_per_process_memory_fraction")
    return {
        **_each(_nothing, *silent, *settings),
        **_each(_zero, "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        "mem_get_info": lambda device=None: (_emulated.profile.memory_bytes,) * 2,  # noqa: ARG005 - torch's name
        "memory_stats": lambda device=None: {},  # noqa: ARG005 - torch's name
    }


def _random_answers() -> dict[str, Any]:
    # The CPU's generator is the only one.  `torch.manual_seed` seeds it before it calls `torch.cuda.manual_seed_all`.
    return {
        **_each(_nothing, "manual_seed", "manual_seed_all", "seed", "seed_all"),
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda new_state, *_, **__: torch.set_rng_state(new_state),
        "set_rng_state_all": lambda new_states: torch.set_rng_state(new_states[0]),
    }


def _accelerator_answers() -> dict[str, Any]:
    return {
        "is_available": lambda: True,
        "current_accelerator": lambda check_available=False: torch.device(EmulatedGpu.kind),  # noqa: ARG005 - torch's name
        "device_count": lambda: 1,
        **_each(_zero, "current_device_index", "current_device_idx"),
        **_each(_checking, "set_device_index", "set_device_idx"),
        "synchronize": lambda device=None: synchronize(device),
        "current_stream": lambda device=None: current_stream(device),
        "set_stream": lambda stream: set_stream(stream),  # noqa: PLW0108 - TorchDynamo rejects one function with two names
        "device_index": DeviceIndexContext,
        "empty_cache": _nothing(),
    }


def _module_of(device: Any = None) -> ModuleType:
    kind = EmulatedGpu.kind if device is None or isinstance(device, int) else torch.device(device).type
    return getattr(torch, kind)


def _replace(module: ModuleType, answers: dict[str, Any], why: str) -> None:
    PATCHES.replace_each(module, answers, why=why, releases=RUN)


def _existing(module: ModuleType, answers: dict[str, Any]) -> dict[str, Any]:
    """Return the answers to questions that this release of the module has."""
    return {name: answer for name, answer in answers.items() if hasattr(module, name)}


def _each(make: Callable[[], Callable[..., Any]], *names: str) -> dict[str, Any]:
    """Return a separate function for every name: on import, TorchDynamo rejects one function with two names."""
    return {name: make() for name in names}


def _nothing() -> Callable[..., None]:
    return lambda *_, **__: None


def _zero() -> Callable[..., int]:
    return lambda *_, **__: 0


def _checking() -> Callable[..., None]:
    return lambda device=None: check_device(device)
