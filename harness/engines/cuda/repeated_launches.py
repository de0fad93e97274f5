"""Executes launches of the virtual GPU again on a hardware GPU, on copies of their storages.

The kernel is compiled for the hardware from the same source with the same options.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from harness.engines.comparison.launches import CannotRepeat
from harness.engines.cuda.memory.driver_memory import DeviceMemory
from harness.engines.triton.driver import LaunchRequest, descriptor_tensor
from harness.engines.triton.kernel_facts import options_of
from harness.engines.triton.triton_seam import HardwareCannotLaunch, HardwareLauncher
from harness.model.launch_difference import Plainer


class HardwareMachine:
    """A hardware GPU that repeats launches."""

    plainer: tuple[Plainer, ...] = tuple(Plainer)

    def __init__(self, name: str, arch: int, cache: Path) -> None:
        self.name = name
        self.arch = arch
        self._cache = cache

    @cached_property
    def _memory(self) -> DeviceMemory:
        """Created by the first launch, since CUDA must not start before the process is forked."""
        return DeviceMemory()

    @cached_property
    def _launcher(self) -> HardwareLauncher:
        return HardwareLauncher(self.arch, self._cache)

    def repeat(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None
    ) -> dict[int, bytearray]:
        try:
            return self._repeat(request, before, plainer)
        except HardwareCannotLaunch as error:
            raise CannotRepeat(f"the hardware GPU cannot: {error}") from error

    def _repeat(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None
    ) -> dict[int, bytearray]:
        options = options_of(request.metadata)
        if plainer is Plainer.UNFUSED:
            options["enable_fp_fusion"] = False
        kernel = self._launcher.compiled(
            request.source, options, request.ttir, ptxas_optimises=plainer is not Plainer.UNOPTIMISED
        )
        self._memory.enter()
        contents = {address: bytearray(content) for address, content in before.items()}
        with ExitStack() as stack:
            addresses = {
                address: stack.enter_context(self._memory.holding(memoryview(content)))
                for address, content in contents.items()
            }

            def on_device(value: object) -> object:
                if isinstance(value, torch.Tensor):
                    return DevicePointer(addresses[value.untyped_storage().data_ptr()] + _offset(value), value.dtype)
                if (base := descriptor_tensor(value)) is None:
                    return value
                descriptor: Any = copy(value)
                descriptor.base = on_device(base)
                return descriptor

            def scratch(size: int, align: int, stream: int | None) -> DevicePointer:
                del align, stream  # the driver aligns to 256 bytes, and the launch is synchronous
                address = stack.enter_context(self._memory.holding(memoryview(bytearray(size))))
                return DevicePointer(address, torch.uint8)

            arguments = [on_device(value) for value in request.arguments]
            self._launcher.launch(kernel, request.grid, arguments, scratch)
        return contents


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """An address and a type, which Triton accepts in place of a tensor."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        return self.address


def _offset(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()
