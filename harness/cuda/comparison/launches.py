"""Runs each launch of the virtual GPU on the real one too, from the same bytes, and compares what both leave behind.

Owns the comparison of launches.  The real kernel is compiled from the same source with the same options, for the GPU at
hand.  What it computes is thrown away: the case goes on with the virtual GPU's results.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch

from harness.cuda.comparison import incomparable
from harness.cuda.comparison.differences import compare, distance, doubt, roundings
from harness.cuda.memory.driver_memory import DeviceMemory
from harness.model.case import LaneFill, Scale
from harness.model.launch_difference import Difference, Plainer
from harness.model.run import UndefinedLanes
from harness.virtual.driver.driver import LaunchRequest, described_by, tensors_of
from harness.virtual.driver.kernel_facts import BUILD_OPTIONS
from harness.virtual.driver.triton_seam import NotHere, RealLauncher
from harness.virtual.launches import Launches, VirtualCaseLaunches
from harness.virtual.native.policy import NativeCode
from harness.virtual.operations.random_rounding import rounded_at_random
from harness.virtual.operations.table import HANDLERS

SAMPLES = 8
"""So often is a launch repeated with random rounding where the GPUs are further apart than a few roundings."""
MODEST = 1 << 22
"""Elements of all tensors of a launch up to which it is repeated with random rounding."""


class BothGpus:
    """A launch handler that hands launches on to the virtual GPU, then repeats them on the real one."""

    def __init__(self, launches: Launches, arch: int, cache: Path) -> None:
        self._virtual = launches
        self._arch, self._cache = arch, cache
        self._is_aside = False
        self._plainer: Plainer | None = None
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
        tensors = tensors_of(request)
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
            after = self._on_hardware(request, before, self._plainer)
        except NotHere as error:
            self.skipped.append((kernel, f"the real GPU cannot: {error}"))
        else:
            self.launches += 1
            if self._plainer is None:
                self.differences += self._compared(_Made(request, tensors, before), after)
        self.under_way = None

    def _compared(self, made: "_Made", after: Mapping[int, bytearray]) -> Iterable[Difference]:
        """One difference for each tensor; where one needs explaining, with what random rounding says of it.

        What that leaves unexplained is tried again with plainer builds of the kernel.
        """
        moved = dict[str, torch.Tensor]()
        found = self._differences(made, after, moved)
        for plainer in Plainer:
            apart = [name for name, one in found.items() if not one.is_explained and one.agrees_once is None]
            if not apart:
                break
            try:
                plain = self._differences(made, self._on_hardware(made.request, made.before, plainer), moved)
            except NotHere:
                continue
            for name in apart:
                if plain[name].is_explained:
                    found[name] = replace(found[name], agrees_once=plainer)
        return found.values()

    def _differences(
        self, made: "_Made", after: Mapping[int, bytearray], moved: dict[str, torch.Tensor]
    ) -> dict[str, Difference]:
        """By tensor, how far the real GPU's is; `moved` keeps what random rounding moves: that takes eight launches."""
        kernel, rounds = made.request.source.fn.__name__, roundings(made.request.ttir)
        others = {
            name: _like(tensor, after[tensor.untyped_storage().data_ptr()]) for name, tensor in made.tensors.items()
        }
        found = {
            name: replace(compare(kernel, name, tensor, others[name]), rounds=rounds)
            for name, tensor in made.tensors.items()
        }
        far = [name for name, one in found.items() if one.is_floating and not one.is_explained]
        if (new := [name for name in far if name not in moved]) and made.elements <= MODEST:
            moved |= self._moved(made.request, {name: made.tensors[name] for name in new}, made.before)
        for name in moved.keys() & far:
            found[name] = replace(found[name], doubt=doubt(found[name], made.tensors[name], others[name], moved[name]))
        return found

    @contextmanager
    def aside(self) -> Generator[None]:
        """Launches go to the virtual GPU alone, and what was compared stays as it is."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    @contextmanager
    def built(self, plainer: Plainer) -> Generator[None]:
        """Launches are repeated on the real GPU as plainer code, and what they leave behind is not compared."""
        self._plainer = plainer
        try:
            yield
        finally:
            self._plainer = None

    @cached_property
    def _memory(self) -> DeviceMemory:
        """Made by the first launch: CUDA must not be started before the process is forked."""
        return DeviceMemory()

    @cached_property
    def _launcher(self) -> RealLauncher:
        return RealLauncher(self._arch, self._cache)

    def _on_hardware(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None = None
    ) -> dict[int, bytearray]:
        options = {name: getattr(request.metadata, name) for name in BUILD_OPTIONS}
        if plainer is Plainer.UNFUSED:
            options["enable_fp_fusion"] = False
        optimises = plainer is not Plainer.UNOPTIMISED
        kernel = self._launcher.compiled(request.source, options, request.ttir, ptxas_optimises=optimises)
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
                if (base := described_by(value)) is None:
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
        storages = dict(_storages(tensors_of(request).values()))
        left = {address: bytes(view) for address, view in storages.items()}
        with self._without_facts():
            for seed in range(SAMPLES):
                _write(storages, before)
                self._virtual.handlers = rounded_at_random(HANDLERS, seed)
                self._virtual(request)
                for name, tensor in tensors.items():
                    moved[name] = torch.maximum(moved[name], distance(right[name], tensor.detach().double()))
        _write(storages, left)
        return moved

    @contextmanager
    def _without_facts(self) -> Generator[None]:
        """Launches that leave no facts behind, executed by the machine."""
        virtual = self._virtual
        session, native = virtual.session, virtual.native
        virtual.session = VirtualCaseLaunches(lane_fill=session.lane_fill, order=session.order, seed=session.seed)
        virtual.native = NativeCode()
        try:
            yield
        finally:
            virtual.session, virtual.native, virtual.handlers = session, native, HANDLERS


@dataclass(frozen=True, slots=True)
class _Made:
    """A launch that the virtual GPU has made."""

    request: LaunchRequest
    tensors: Mapping[str, torch.Tensor]
    """As it left them."""
    before: Mapping[int, bytes]
    """By address, all storages as they were."""

    @property
    def elements(self) -> int:
        """Of all tensors."""
        return sum(tensor.numel() for tensor in self.tensors.values())


def _incomparable(session: VirtualCaseLaunches) -> str:
    """Why no launch of a session can be compared; empty where it can."""
    if session.scale is Scale.GIANT:
        return "of a giant case a few programs run"
    if session.lane_fill is not LaneFill.ZERO:
        return "undefined lanes hold what no GPU puts there"
    return ""


@dataclass(frozen=True, slots=True)
class Placed:
    """What Triton takes for a tensor: an address and a type."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        """The address."""
        return self.address


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
