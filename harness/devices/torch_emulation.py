"""What torch answers in a process that pretends to run on a GPU; only child processes import this file.

Owns the answers of `torch.cuda` and `torch.accelerator`.  Tensors are `cpu_tensors`' business; Triton's answers are the
driver's, in `harness.virtual`.  The process wears the answers for life: nothing is put back.

They come in two steps.  `pretend` puts them in place before any device is known, so that what is common to all devices
can be imported once and then be forked; `wear_torch` says which device it is.  A question about it before that raises.

Not pretended: CUDA graphs, generators on the GPU (`torch.Generator("cuda")` raises), `torch.autocast("cuda")` (it is
entered, but operations on what are CPU tensors keep their element types), activation checkpointing with
`use_reentrant=False` (it compares devices between forward and backward), and whatever asks the CUDA driver natively.

Private names of torch are touched in this file and in `cpu_tensors` alone; `test_torch_emulation.py` fails
when a release of torch moves one.
"""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from harness.devices.cpu_tensors import CpuTensors, keep_answering_in_backward, let_default_device_be_cuda
from harness.devices.streams import (
    DeviceGuard,
    EmulatedEvent,
    ExternalStream,
    InDevice,
    InDeviceOf,
    InStream,
    Stream,
    check_device,
)
from harness.errors import WorkerError
from harness.model.device import DeviceProfile

CUDA_VERSION = "13.0"
"""What `torch.version.cuda` says where torch was built without CUDA: new enough for every GPU of the catalogue."""


class NotWorn(WorkerError):
    """The device was asked about before it was known: what asks must be imported after `wear_torch`."""


class _Worn:
    """The device that this process wears, once it does."""

    def __init__(self) -> None:
        self.is_pretending = False
        self._profile: DeviceProfile | None = None
        self._properties: GpuProperties | None = None

    @property
    def profile(self) -> DeviceProfile:
        if self._profile is None:
            raise NotWorn("a module asked which GPU this is before the harness knew")
        return self._profile

    @property
    def properties(self) -> "GpuProperties":
        """One object for ever, as torch hands out."""
        self._properties = self._properties or gpu_properties(self.profile)
        return self._properties

    def put_on(self, profile: DeviceProfile) -> None:
        self._profile, self._properties = profile, None


_worn = _Worn()


def wear_torch(profile: DeviceProfile) -> None:
    """Make torch answer, in this process and on this thread, as if it ran on `profile`; before the library's import."""
    if not _worn.is_pretending:
        pretend()
    _worn.put_on(profile)
    CpuTensors().__enter__()


def pretend() -> None:
    """Put the answers in place, in this process and in those forked from it; which device it is comes later."""
    _worn.is_pretending = True
    torch.version.cuda = torch.version.cuda or CUDA_VERSION
    _replace(torch.cuda, _device_answers() | _stream_answers() | _memory_answers() | _random_answers())
    _replace(torch.cuda.random, _random_answers(), only_existing=True)
    _replace(torch.cuda.memory, _memory_answers(), only_existing=True)
    _replace(torch.cuda.nvtx, _each(_nothing, "range_push", "range_pop", "mark"))
    _replace(torch.accelerator, _accelerator_answers(), only_existing=True)
    _replace(torch.backends.cuda, {"is_built": lambda: True})
    native = sys.modules["torch._C"]
    if not hasattr(native, "_cuda_getCurrentRawStream"):  # Inductor imports it where CUDA is compiled in
        _replace(native, {"_cuda_getCurrentRawStream": _zero()})
    _replace(torch, {"get_device_module": lambda device=None: _module_of(device)})
    keep_answering_in_backward()
    let_default_device_be_cuda()


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
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _checking(),
        "device": InDevice,
        "device_of": InDeviceOf,
        "_DeviceGuard": DeviceGuard,
        "get_device_name": answering(lambda: _worn.profile.name),
        "get_device_capability": answering(lambda: _worn.profile.capability),
        "get_device_properties": answering(lambda: _worn.properties),
        "get_arch_list": lambda: [f"sm_{_worn.profile.arch}"],
        "can_device_access_peer": lambda device, peer_device: False,  # noqa: ARG005 - torch's own names for them
        "synchronize": _checking(),
    }


def _stream_answers() -> dict[str, Any]:
    one = Stream()
    return {
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": EmulatedEvent,
        "StreamContext": InStream,
        "stream": InStream,
        "set_stream": _nothing(),
        **_each(lambda: lambda *_, **__: one, "current_stream", "default_stream", "get_stream_from_external"),
    }


def _memory_answers() -> dict[str, Any]:
    silent = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_accumulated_memory_stats")
    settings = ("reset_max_memory_allocated", "reset_max_memory_cached", "set_per_process_memory_fraction")
    return {
        **_each(_nothing, *silent, *settings),
        **_each(_zero, "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        "mem_get_info": lambda device=None: (_worn.profile.memory_bytes,) * 2,  # noqa: ARG005 - torch's name
        "memory_stats": lambda device=None: {},  # noqa: ARG005 - torch's name
    }


def _random_answers() -> dict[str, Any]:
    """The CPU's generator is the only one; `torch.manual_seed` has seeded it when it comes to `torch.cuda`."""
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
        "current_accelerator": lambda check_available=False: torch.device("cuda"),  # noqa: ARG005 - torch's name
        "device_count": lambda: 1,
        **_each(_zero, "current_device_index", "current_device_idx"),
        **_each(_checking, "set_device_index", "set_device_idx", "synchronize"),
        "current_stream": lambda *_, **__: Stream(),
        "set_stream": _nothing(),
        "device_index": InDevice,
        "empty_cache": _nothing(),
    }


def gpu_properties(profile: DeviceProfile) -> "GpuProperties":
    """What `torch.cuda.get_device_properties` gives: the fields of torch 2.6 to 2.13 on a real GPU, read-only."""
    major, minor = profile.capability
    return GpuProperties(
        name=profile.name,
        major=major,
        minor=minor,
        multi_processor_count=profile.sm_count,
        total_memory=profile.memory_bytes,
        L2_cache_size=profile.l2_bytes,
        warp_size=profile.warp_size,
        max_threads_per_block=profile.max_threads_per_block,
        max_threads_per_multi_processor=profile.max_threads_per_sm,
        regs_per_multiprocessor=profile.registers_per_sm,
        shared_memory_per_block=profile.default_shared_bytes_per_block,
        shared_memory_per_block_optin=profile.shared_bytes_per_block,
        shared_memory_per_multiprocessor=profile.shared_bytes_per_sm,
        clock_rate=profile.sm_clock_khz,
        memory_clock_rate=profile.memory_clock_khz,
        memory_bus_width=profile.memory_bus_bits,
        gcnArchName=profile.name,
        is_integrated=0,
        is_multi_gpu_board=0,
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        uuid="00000000-0000-0000-0000-000000000000",
    )


class GpuProperties(SimpleNamespace):
    """A namespace that, like torch's own object, nobody writes to."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the properties of a GPU are read-only: {name}")


def _module_of(device: Any) -> ModuleType:
    kind = "cuda" if device is None or isinstance(device, int) else torch.device(device).type
    return getattr(torch, kind)


def _replace(module: ModuleType, answers: dict[str, Any], *, only_existing: bool = False) -> None:
    for name, answer in answers.items():
        if not only_existing or hasattr(module, name):
            setattr(module, name, answer)


def _each(make: Callable[[], Callable[..., Any]], *names: str) -> dict[str, Any]:
    """A function of its own for every name: TorchDynamo, on import, refuses to see one function under two."""
    return {name: make() for name in names}


def _nothing() -> Callable[..., None]:
    return lambda *_, **__: None


def _zero() -> Callable[..., int]:
    return lambda *_, **__: 0


def _checking() -> Callable[..., None]:
    return lambda device=None: check_device(device)
