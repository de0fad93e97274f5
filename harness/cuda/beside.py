"""Runs each launch of the virtual GPU on the real one too, from the same bytes, and compares what both leave behind.

Owns the comparison of launches.  The real kernel is compiled from the same source with the same options, for the GPU at
hand, which must be of the architecture that the process wears.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import torch

from harness.cuda.memory import DeviceMemory
from harness.virtual.described import BUILD_OPTIONS
from harness.virtual.driver import LaunchRequest
from harness.virtual.parser import parse
from harness.virtual.triton_seam import RealLauncher


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far one argument of one launch is from the virtual GPU's on the real one."""

    kernel: str
    argument: str
    dtype: str
    elements: int
    differing: int
    """Elements whose bits differ, NaNs counting as equal."""
    ulps: float
    """The largest distance in units in the last place of the larger of the two."""
    scaled: float
    """The largest distance over the largest magnitude in the tensor."""
    rounds: tuple[str, ...] = ()
    """Types below float32 to which the kernel rounds on the way, dots of tf32 among it: `bf16`, `f16`, `tf32`."""


@lru_cache(maxsize=256)
def roundings(ttir: str) -> tuple[str, ...]:
    """What `Difference.rounds` says of a kernel: two right computations may round there to different sides."""
    found: set[str] = set()
    for function in parse(ttir).functions.values():
        for operation in function.body.all_operations():
            if operation.name == "arith.truncf":
                found.add(operation.result_types[0].element)
            elif operation.name == "tt.dot" and operation.operand_types[0].element == "f32":
                found.add(str(operation.attributes.get("inputPrecision", "ieee")))
    return tuple(sorted(found - {"ieee", "f32"}))


class Beside:
    """A launch handler that hands launches on, then repeats them on the real GPU.

    `strayed` tells how many stray accesses the virtual GPU has seen so far: a launch that strays is not repeated.
    """

    def __init__(
        self, virtual: Callable[[LaunchRequest], None], strayed: Callable[[], int], arch: int, cache: Path
    ) -> None:
        self._virtual = virtual
        self._strayed = strayed
        self._memory = DeviceMemory()
        self._launcher = RealLauncher(arch, cache)
        self.differences: list[Difference] = []
        self.launches = 0
        self.skipped: dict[str, int] = {}

    def __call__(self, request: LaunchRequest) -> None:
        """Execute a launch here and there; the virtual GPU's results stay."""
        tensors = _tensors(request)
        before = {address: bytes(view) for address, view in _storages(tensors.values())}
        strays = self._strayed()
        self._virtual(request)
        if self._strayed() > strays:
            self.skipped[request.source.fn.__name__] = self.skipped.get(request.source.fn.__name__, 0) + 1
            return
        after = self._repeat(request, before)
        self.launches += 1
        for name, tensor in tensors.items():
            other = _like(tensor, after[tensor.untyped_storage().data_ptr()])
            found = compare(request.source.fn.__name__, name, tensor, other)
            self.differences.append(replace(found, rounds=roundings(request.ttir)))

    def _repeat(self, request: LaunchRequest, before: dict[int, bytes]) -> dict[int, bytearray]:
        self._memory.enter()
        contents = {address: bytearray(content) for address, content in before.items()}
        with ExitStack() as stack:
            places = {
                address: stack.enter_context(self._memory.holding(memoryview(content)))
                for address, content in contents.items()
            }
            arguments = [
                Placed(places[value.untyped_storage().data_ptr()] + _offset(value), value.dtype)
                if isinstance(value, torch.Tensor)
                else value
                for value in request.arguments
            ]
            options = {name: getattr(request.metadata, name) for name in BUILD_OPTIONS}
            self._launcher.launch(request.source, options, request.grid, arguments)
        return contents


@dataclass(frozen=True, slots=True)
class Placed:
    """What Triton takes for a tensor: an address and a type."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        """The address."""
        return self.address


def _tensors(request: LaunchRequest) -> dict[str, torch.Tensor]:
    given = zip(request.source.fn.arg_names, request.arguments, strict=False)
    return {name: value for name, value in given if isinstance(value, torch.Tensor)}


def _storages(tensors: Any) -> Iterator[tuple[int, memoryview]]:
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        yield storage.data_ptr(), memoryview(cast("Any", whole.numpy()))  # NumPy 2.3 does not say that it is a buffer


def _offset(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _like(tensor: torch.Tensor, content: bytearray) -> torch.Tensor:
    """The tensor's shape and strides over other bytes."""
    if not content:
        return tensor
    whole = torch.frombuffer(content, dtype=torch.uint8)
    typed = torch.empty(0, dtype=tensor.dtype).set_(whole.untyped_storage())
    return typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def compare(kernel: str, name: str, ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    """How far two tensors of one type are apart."""
    ours, theirs = ours.detach().contiguous(), theirs.contiguous()
    bits = getattr(torch, f"int{8 * ours.element_size()}")
    unequal = ours.view(bits) != theirs.view(bits)
    ulps = scaled = 0.0
    if ours.is_floating_point():
        unequal &= ~(ours.isnan() & theirs.isnan())
        wide, other = ours.double(), theirs.double()
        distance = torch.nan_to_num((wide - other).abs(), nan=float("inf"), posinf=float("inf"))[unequal]
        size = torch.maximum(wide.abs(), other.abs())[unequal]
        if distance.numel():
            unit = torch.exp2(torch.floor(torch.log2(size.clamp(min=1e-300)))) * torch.finfo(ours.dtype).eps
            ulps = float(torch.nan_to_num(distance / unit, nan=float("inf"), posinf=float("inf")).max())
            finite = wide[wide.isfinite()]
            scaled = float(distance.max() / finite.abs().max().clamp(min=1e-300)) if finite.numel() else float("inf")
    elif bool(unequal.any()):
        ulps = scaled = float("inf")
    return Difference(
        kernel=kernel,
        argument=name,
        dtype=str(ours.dtype).removeprefix("torch."),
        elements=ours.numel(),
        differing=int(unequal.sum()),
        ulps=ulps,
        scaled=scaled,
    )
