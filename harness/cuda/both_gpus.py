"""Runs each launch of the virtual GPU on the real one too, from the same bytes, and compares what both leave behind.

Owns the comparison of launches.  The real kernel is compiled from the same source with the same options, for the GPU at
hand.  What it computes is thrown away: the case goes on with the virtual GPU's results.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import torch

from harness.cuda import incomparable
from harness.cuda.memory import DeviceMemory
from harness.model.agreement import Difference
from harness.model.case import LaneFill, Scale
from harness.model.run import UndefinedLanes
from harness.virtual.described import BUILD_OPTIONS
from harness.virtual.driver import LaunchRequest
from harness.virtual.launches import Launches, Session
from harness.virtual.native.choice import NativeCode
from harness.virtual.operations import HANDLERS
from harness.virtual.parser import parse
from harness.virtual.random_rounding import rounded_at_random
from harness.virtual.triton_seam import NotHere, RealLauncher

SAMPLES = 8
"""So often is a launch repeated with random rounding where the GPUs are further apart than a few roundings."""
MARGIN = 8.0
"""Two right results may be apart by so many times what the samples moved: few of them see less than there is."""
ROUNDINGS = {"bf16": "bfloat16", "f16": "float16", "tf32": "tf32", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
MODEST = 1 << 22
"""Elements of all tensors of a launch up to which it is repeated with random rounding."""


class BothGpus:
    """A launch handler that hands launches on to the virtual GPU, then repeats them on the real one."""

    def __init__(self, launches: Launches, arch: int, cache: Path) -> None:
        self._virtual = launches
        self._arch, self._cache = arch, cache
        self._is_aside = False
        self.begin()

    def begin(self) -> None:
        """Forget what was compared, as for a new case."""
        self.under_way: str | None = None
        """The kernel that is launched on the real GPU."""
        self.differences: list[Difference] = []
        self.launches = 0
        self.skipped: list[tuple[str, str]] = []

    def __call__(self, request: LaunchRequest) -> None:
        """Execute a launch here and there."""
        kernel = request.source.fn.__name__
        session = self._virtual.session
        if self._is_aside:
            self._virtual(request)
            return
        worn = request.metadata.target.arch
        if reason := _incomparable(session) or incomparable.reason(request.ttir, worn, self._arch):
            self._virtual(request)
            self.skipped.append((kernel, reason))
            return
        tensors = _tensors(request)
        before = {address: bytes(view) for address, view in _storages(tensors.values())}
        events = len(session.memory)
        self._virtual(request)
        # Undefined lanes are zeros in such a case, as NVIDIA's code leaves them (Triton 3.6 to 3.9).
        odd = [event for event in session.memory[events:] if not isinstance(event, UndefinedLanes)]
        if odd:
            self.skipped.append((kernel, f"memory saw {type(odd[0]).__name__}"))
            return
        self.under_way = kernel
        try:
            after = self._on_hardware(request, before)
        except NotHere as error:
            self.skipped.append((kernel, f"the real GPU cannot: {error}"))
        else:
            self.launches += 1
            self.differences += self._compared(request, tensors, before, after)
        self.under_way = None

    def _compared(
        self,
        request: LaunchRequest,
        tensors: Mapping[str, torch.Tensor],
        before: Mapping[int, bytes],
        after: Mapping[int, bytearray],
    ) -> Iterable[Difference]:
        """One difference for each tensor; where one needs explaining, with what random rounding says of it."""
        kernel, rounds = request.source.fn.__name__, roundings(request.ttir)
        others = {name: _like(tensor, after[tensor.untyped_storage().data_ptr()]) for name, tensor in tensors.items()}
        found = {
            name: replace(compare(kernel, name, tensor, others[name]), rounds=rounds)
            for name, tensor in tensors.items()
        }
        far = [name for name, one in found.items() if one.is_floating and not one.is_explained]
        moved = dict[str, torch.Tensor]()
        if far and sum(tensor.numel() for tensor in tensors.values()) <= MODEST:
            moved = self._moved(request, {name: tensors[name] for name in far}, before)
            for name in far:
                found[name] = replace(found[name], doubt=doubt(found[name], tensors[name], others[name], moved[name]))
        for name in self._agreeing_unoptimised(request, tensors, before, found, moved):
            found[name] = replace(found[name], is_by_ptxas=True)
        return found.values()

    def _agreeing_unoptimised(
        self,
        request: LaunchRequest,
        tensors: Mapping[str, torch.Tensor],
        before: Mapping[int, bytes],
        found: Mapping[str, Difference],
        moved: Mapping[str, torch.Tensor],
    ) -> Iterator[str]:
        """Of the tensors that rounding leaves unexplained, those that agree once ptxas does not optimise."""
        apart = [name for name, one in found.items() if not one.is_explained]
        if not apart:
            return
        try:
            after = self._on_hardware(request, before, ptxas_optimises=False)
        except NotHere:
            return
        for name in apart:
            tensor = tensors[name]
            other = _like(tensor, after[tensor.untyped_storage().data_ptr()])
            again = replace(compare(found[name].kernel, name, tensor, other), rounds=found[name].rounds)
            if again.is_explained or (name in moved and doubt(again, tensor, other, moved[name]) <= 1.0):
                yield name

    @contextmanager
    def aside(self) -> Generator[None]:
        """Launches go to the virtual GPU alone, and what was compared stays as it is."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    @cached_property
    def _memory(self) -> DeviceMemory:
        """Made by the first launch: CUDA must not be started before the process is forked."""
        return DeviceMemory()

    @cached_property
    def _launcher(self) -> RealLauncher:
        return RealLauncher(self._arch, self._cache)

    def _on_hardware(
        self, request: LaunchRequest, before: Mapping[int, bytes], *, ptxas_optimises: bool = True
    ) -> dict[int, bytearray]:
        options = {name: getattr(request.metadata, name) for name in BUILD_OPTIONS}
        kernel = self._launcher.compiled(request.source, options, request.ttir, ptxas_optimises=ptxas_optimises)
        self._memory.enter()
        contents = {address: bytearray(content) for address, content in before.items()}
        with ExitStack() as stack:
            places = {
                address: stack.enter_context(self._memory.holding(memoryview(content)))
                for address, content in contents.items()
            }

            def placed(value: object) -> object:
                if isinstance(value, torch.Tensor):
                    return Placed(places[value.untyped_storage().data_ptr()] + _offset(value), value.dtype)
                if (base := _described(value)) is None:
                    return value
                there: Any = copy(value)
                there.base = placed(base)
                return there

            def scratch(size: int, align: int, stream: int | None) -> Placed:
                del align, stream  # the driver aligns to 256 bytes, and the launch is waited for
                return Placed(stack.enter_context(self._memory.holding(memoryview(bytearray(size)))), torch.uint8)

            arguments = [placed(value) for value in request.arguments]
            self._launcher.launch(kernel, request.grid, arguments, scratch)
        return contents

    def _moved(
        self, request: LaunchRequest, tensors: Mapping[str, torch.Tensor], before: Mapping[int, bytes]
    ) -> dict[str, torch.Tensor]:
        """By how much random rounding moves each element of these tensors at most; float64."""
        right = {name: tensor.detach().double().clone() for name, tensor in tensors.items()}
        moved = {name: torch.zeros_like(value) for name, value in right.items()}
        storages = dict(_storages(_tensors(request).values()))
        left = {address: bytes(view) for address, view in storages.items()}
        with self._without_facts():
            for seed in range(SAMPLES):
                _write(storages, before)
                self._virtual.handlers = rounded_at_random(HANDLERS, seed)
                self._virtual(request)
                for name, tensor in tensors.items():
                    moved[name] = torch.maximum(moved[name], _distance(right[name], tensor.detach().double()))
        _write(storages, left)
        return moved

    @contextmanager
    def _without_facts(self) -> Generator[None]:
        """Launches that leave no facts behind, executed by the machine."""
        virtual = self._virtual
        session, native = virtual.session, virtual.native
        virtual.session = Session(lane_fill=session.lane_fill, order=session.order, seed=session.seed)
        virtual.native = NativeCode()
        try:
            yield
        finally:
            virtual.session, virtual.native, virtual.handlers = session, native, HANDLERS


def _incomparable(session: Session) -> str:
    """Why no launch of a session can be compared; empty where it can."""
    if session.scale is Scale.GIANT:
        return "of a giant case a few programs run"
    if session.lane_fill is not LaneFill.ZERO:
        return "undefined lanes hold what no GPU puts there"
    return ""


@lru_cache(maxsize=256)
def roundings(ttir: str) -> tuple[str, ...]:
    """What `Difference.rounds` says of a kernel: two right computations may round there to different sides."""
    found: set[str] = set()
    for function in parse(ttir).functions.values():
        for operation in function.body.all_operations():
            if operation.name in {"arith.truncf", "tt.fp_to_fp"}:
                found.add(operation.result_types[0].element)
            elif operation.name == "tt.dot" and operation.operand_types[0].element == "f32":
                found.add(str(operation.attributes.get("inputPrecision", "ieee")))
    return tuple(sorted(ROUNDINGS[one] for one in found & ROUNDINGS.keys()))


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
    found = ((name, value if isinstance(value, torch.Tensor) else _described(value)) for name, value in given)
    return {name: value for name, value in found if value is not None}


def _described(value: object) -> torch.Tensor | None:
    """The tensor that a descriptor made by the host leads to; None for anything else."""
    base = getattr(value, "base", None)
    return base if isinstance(base, torch.Tensor) and hasattr(value, "block_shape") else None


def _storages(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[int, memoryview]]:
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        yield storage.data_ptr(), memoryview(cast("Any", whole.numpy()))  # NumPy 2.3 does not say that it is a buffer


def _write(storages: Mapping[int, memoryview], contents: Mapping[int, bytes]) -> None:
    for address, view in storages.items():
        view[:] = contents[address]


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
        wide, other = ours.double(), theirs.double()
        unequal &= ~(wide.isnan() & other.isnan())
        distance = _distance(wide, other)[unequal]
        size = torch.maximum(wide.abs(), other.abs())[unequal]
        if distance.numel():
            unit = torch.exp2(torch.floor(torch.log2(size.clamp(min=1e-300)))) * torch.finfo(ours.dtype).eps
            ulps = float(torch.nan_to_num(distance / unit, nan=float("inf"), posinf=float("inf")).max())
            furthest, largest = float(distance.max()), _largest(wide)
            scaled = furthest / largest if largest else float("inf") if furthest else 0.0
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


def doubt(found: Difference, ours: torch.Tensor, theirs: torch.Tensor, moved: torch.Tensor) -> float:
    """The largest distance over what random rounding moves that element, and a few roundings of the largest one."""
    wide, other = ours.detach().double(), theirs.double()
    distance = _distance(wide, other)
    allowed = MARGIN * moved + found.few_roundings * _largest(wide)
    over = torch.where(distance == 0, 0.0, distance / allowed)
    over = torch.where(allowed == float("inf"), 0.0, over)
    return float(over.max()) if over.numel() else 0.0


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Element by element; 0 between equal infinities and two NaNs, infinity where one is finite and the other not."""
    alike = (one == other) | (one.isnan() & other.isnan())
    apart = torch.nan_to_num((one - other).abs(), nan=float("inf"), posinf=float("inf"))
    return torch.where(alike, 0.0, apart)


def _largest(values: torch.Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
