"""One launch as a file: the kernel by name, and all arguments with the memory behind them, as they were before it.

`harness run` writes such a file for a launch that shows a failure, and a suite that repeats it.  The file holds
tensors, numbers and strings; reading it executes nothing.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton.language as tl
from triton import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.engines.torch.cpu_tensors import EmulatedGpu
from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.triton_seam import has_allocator
from harness.errors import ReplayError
from harness.execution.call_contexts import with_other_allocator
from harness.execution.poison import PATTERNS, FreshMemory
from harness.watched.watch_records import CannotRecord

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "enable_fp_fusion")
DEFAULTS: Mapping[str, object] = {"num_ctas": 1, "maxnreg": None, "launch_cooperative_grid": False}
LOCAL = "<locals>"
MAIN = "__main__"
Plain = Any
"""What `torch.load(weights_only=True)` reads: tensors, numbers, strings, lists, dicts."""


_TYPES = {pattern: str(dtype).removeprefix("torch.") for dtype, pattern in PATTERNS.items()}
"""By the pattern of their poison, the types of fresh memory."""


def record_launch(
    request: LaunchRequest, before: Mapping[int, torch.UntypedStorage], fresh: FreshMemory | None, path: Path
) -> None:
    """Write a launch.

    Args:
        request: the launch.
        before: copies of its arguments' memory from before the launch, by address.
        fresh: knows the memory that nothing had stored to; None if that is not known.
        path: the file.

    Raises:
        CannotRecord: another process could not make this launch.
    """
    memory = _Memory(before, fresh)
    arguments = zip(request.source.fn.arg_names, request.arguments, strict=False)
    metadata = request.metadata
    options = {name: getattr(metadata, name) for name in OPTIONS if hasattr(metadata, name)}
    with plain_torch(), without_dispatch_modes():
        content = {
            "kernel": _named(request.source.fn),
            "grid": list(request.grid),
            "options": {name: value for name, value in options.items() if value != DEFAULTS.get(name, ...)},
            "arguments": {name: memory.encoded(value) for name, value in arguments},
            "storages": memory.contents(),
            "fresh": memory.freshness(),
            "allocator": has_allocator(),
        }
        torch.save(content, path)


def launch_again(path: Path, result: str = "") -> Any:
    """Make the launch of a file, on the GPU of this process, and return one of its arguments if `result` names it.

    Raises:
        ReplayError: the file is damaged, or the kernel is not where it was.
    """
    content = _read(path)
    kernel = _kernel(content["kernel"], path)
    storages = [_storage(*storage) for storage in zip(content["storages"], content["fresh"], strict=True)]
    arguments = {name: _decoded(value, storages, path) for name, value in content["arguments"].items()}

    def launch() -> None:
        kernel[tuple(content["grid"])](**arguments, **content["options"])

    # Recordings of older releases do not say if scratch memory had an allocator.
    copy_context().run(with_other_allocator, launch) if content.get("allocator") else launch()
    value = arguments.get(result)
    return value.base if isinstance(value, TensorDescriptor) else value


class _Memory:
    """The storages of a launch, each once, in the order in which its arguments name them."""

    def __init__(self, before: Mapping[int, torch.UntypedStorage], fresh: FreshMemory | None) -> None:
        self._before = before
        self._fresh = fresh
        self._addresses: list[int] = []

    def encoded(self, value: object) -> Plain:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case torch.Tensor():
                return self._tensor(value)
            case tl.constexpr():
                return self.encoded(value.value)
            case tl.dtype():
                return {"type": value.name}
            case JITFunction():
                return {"function": _named(value)}
            case TensorDescriptor():
                return {
                    "descriptor": self._tensor(value.base),
                    "shape": list(map(int, value.shape)),
                    "strides": list(map(int, value.strides)),
                    "block": list(map(int, value.block_shape)),
                    "padding": getattr(value, "padding", "zero"),
                }
            case tuple() | list():
                return {"tuple": [self.encoded(part) for part in value]}
            case _:
                raise CannotRecord(f"an argument of type {type(value).__name__}")

    def contents(self) -> list[torch.Tensor]:
        return [torch.tensor([], dtype=torch.uint8).set_(self._before[address]) for address in self._addresses]

    def freshness(self) -> list[str]:
        """Return for each storage the type as which `torch.empty` made it; empty for initialised memory."""
        fresh = self._fresh
        poisons = (fresh.poison_of(address) if fresh else None for address in self._addresses)
        return [_TYPES[poison.pattern] if poison else "" for poison in poisons]

    def _tensor(self, value: torch.Tensor) -> Plain:
        address = value.untyped_storage().data_ptr()
        if address not in self._addresses and address in self._before:
            self._addresses.append(address)
        return {
            "storage": self._addresses.index(address) if address in self._before else -1,
            "dtype": str(value.dtype).removeprefix("torch."),
            "size": list(value.size()),
            "stride": list(value.stride()),
            "offset": int(value.storage_offset()),
        }


def _named(function: JITFunction[Any]) -> list[str]:
    """Return module, name and file of a function, as another process finds it."""
    name = function.fn.__qualname__
    if LOCAL in name:
        raise CannotRecord(f"{name} is defined inside a function")
    module: str = function.fn.__module__
    file = Path(sys.modules[module].__file__ or "").resolve()
    is_own = file.is_relative_to(Path.cwd()) and "-packages" not in str(file)
    return [module, name, os.path.relpath(file) if is_own or module == MAIN else ""]


def _read(path: Path) -> Plain:
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:  # noqa: BLE001 — torch raises errors of many classes for a damaged file
        raise ReplayError(f"{path}: no recorded launch: {type(error).__name__}") from None


def _kernel(named: Sequence[str], path: Path) -> Any:
    module, name, file = named
    project = path.resolve().parents[3]  # of project/.harness/launches/ID/launch.pt
    try:
        function: Any = _own_module(module, project / file) if file else importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, OSError) as error:
        raise ReplayError(f"{path}: the kernel {module}.{name} is not there: {error}") from error
    while not isinstance(function, JITFunction):  # autotuners and heuristics wrap the kernel
        function = function.fn
    return function


def _own_module(name: str, file: Path) -> ModuleType:
    """Import a file of the project, which is in no package that Python finds: a script, or a test."""
    if name in sys.modules and name != MAIN:
        return sys.modules[name]
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"recorded_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _storage(values: torch.Tensor, fresh_type: str) -> torch.Tensor:
    """Return memory on the GPU with these bytes.  What was never stored to is poisoned again."""
    if not fresh_type:
        # A factory: on hardware its memory is between redzones.
        return torch.zeros_like(values, device=EmulatedGpu.kind).copy_(values)
    kind: torch.dtype = getattr(torch, fresh_type)
    tensor = torch.empty(values.numel() // kind.itemsize, dtype=kind, device=EmulatedGpu.kind).view(torch.uint8)
    tensor.copy_(values[: tensor.numel()])
    return tensor


def _decoded(value: Plain, storages: Sequence[torch.Tensor], path: Path) -> Any:
    match value:
        case {"storage": int(index), "dtype": str(dtype), "size": size, "stride": stride, "offset": offset}:
            kind = getattr(torch, dtype)
            if index < 0:
                return torch.empty(size, dtype=kind, device=EmulatedGpu.kind)
            flat = storages[index].view(kind) if kind is not torch.uint8 else storages[index]
            return flat.as_strided(size, stride, offset)
        case {"type": str(name)}:
            return tl.dtype(name)
        case {"function": [*named]}:
            return _kernel(named, path)
        case {"descriptor": base, "shape": shape, "strides": strides, "block": block, "padding": padding}:
            return TensorDescriptor(_decoded(base, storages, path), shape, strides, block, padding)
        case {"tuple": [*parts]}:
            return tuple(_decoded(part, storages, path) for part in parts)
        case _:
            return value
