"""Repeats each launch of the virtual GPU on the hardware GPU, from the same bytes, and compares all tensors afterwards.

The kernel is compiled for the hardware from the same source with the same options.  Its results are discarded: the case
continues with the virtual GPU's.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch

from harness.engines.cuda.comparison import incomparable
from harness.engines.cuda.comparison.differences import compare, distance, doubt, roundings
from harness.engines.cuda.memory.driver_memory import DeviceMemory
from harness.engines.triton.driver import LaunchRequest, descriptor_tensor, tensors_of
from harness.engines.triton.kernel_facts import BUILD_OPTIONS
from harness.engines.triton.triton_seam import HardwareCannotLaunch, HardwareLauncher
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.engines.virtual.native.native_code import NativeCode
from harness.engines.virtual.operations.random_rounding import rounded_at_random
from harness.engines.virtual.operations.table import HANDLERS
from harness.execution.reruns import recording
from harness.model.case import LaneFill, Scale
from harness.model.launch_difference import Difference, Plainer
from harness.model.run import UndefinedLanes

SAMPLES = 8
"""Repetitions with random rounding of a launch whose results differ by more than a few roundings."""
MAX_SAMPLED_ELEMENTS = 1 << 22
"""The largest launch, in elements of all its tensors, that is repeated with random rounding."""


class LaunchComparison:
    """A launch handler that executes launches on the virtual GPU, then repeats them on the hardware GPU."""

    def __init__(self, launches: Launches, arch: int, cache: Path) -> None:
        self._virtual = launches
        self._arch, self._cache = arch, cache
        self._is_paused = False
        self._plainer: Plainer | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the comparison for a new case."""
        self.unfinished: str | None = None
        """The kernel whose launch on the hardware GPU has not finished."""
        self.differences: list[Difference] = []
        self.launches = 0
        self.skipped: list[tuple[str, str]] = []

    def __call__(self, request: LaunchRequest) -> None:
        """Execute a launch on both GPUs and compare."""
        kernel = request.source.fn.__name__
        case_launches = self._virtual.case_launches
        if self._is_paused or request.model:
            if request.model:
                self.skipped.append((kernel, f"its launch is a model {request.model}"))
            self._virtual(request)
            return
        emulated = request.metadata.target.arch
        reasons = (
            _incomparable_case(case_launches),
            _foreign_argument(request),
            incomparable.reason(request.ttir, emulated, self._arch),
        )
        if reason := next(filter(None, reasons), ""):
            self._virtual(request)
            self.skipped.append((kernel, reason))
            return
        tensors = tensors_of(request)
        before = {address: bytes(view) for address, view in _storage_views(tensors.values())}
        events = len(case_launches.memory)
        self._virtual(request)
        # Undefined lanes are comparable: they hold zero here, as in NVIDIA's code (Triton 3.6 to 3.9).
        faulty = [event for event in case_launches.memory[events:] if not isinstance(event, UndefinedLanes)]
        if faulty:
            self.skipped.append((kernel, f"memory saw {type(faulty[0]).__name__}"))
            return
        self.unfinished = kernel
        try:
            after = self._on_hardware(request, before, self._plainer)
        except HardwareCannotLaunch as error:
            self.skipped.append((kernel, f"the hardware GPU cannot: {error}"))
        else:
            self.launches += 1
            if self._plainer is None:
                self.differences += self._explained_differences(_VirtualLaunch(request, tensors, before), after)
        self.unfinished = None

    def _explained_differences(self, done: "_VirtualLaunch", after: Mapping[int, bytearray]) -> Iterable[Difference]:
        """Return one difference per tensor; those beyond a few roundings carry the result of random rounding.

        If rounding explains too little, plainer builds of the kernel are tried.
        """
        errors = dict[str, torch.Tensor]()
        differences = self._differences(done, after, errors)
        for plainer in Plainer:
            unexplained = [
                name for name, seen in differences.items() if not seen.is_explained and seen.agrees_once is None
            ]
            if not unexplained:
                break
            try:
                plain = self._differences(done, self._on_hardware(done.request, done.before, plainer), errors)
            except HardwareCannotLaunch:
                continue
            for name in unexplained:
                if plain[name].is_explained:
                    differences[name] = replace(differences[name], agrees_once=plainer)
        return differences.values()

    def _differences(
        self, done: "_VirtualLaunch", after: Mapping[int, bytearray], errors: dict[str, torch.Tensor]
    ) -> dict[str, Difference]:
        """Return the differences by tensor.

        `errors` caches the sampled rounding errors by tensor, since they take `SAMPLES` launches.
        """
        kernel, rounds = done.request.source.fn.__name__, roundings(done.request.ttir)
        hardware = {
            name: _like(tensor, after[tensor.untyped_storage().data_ptr()]) for name, tensor in done.tensors.items()
        }
        differences = {
            name: replace(compare(kernel, name, tensor, hardware[name]), rounds=rounds)
            for name, tensor in done.tensors.items()
        }
        far = [name for name, seen in differences.items() if seen.is_floating and not seen.is_explained]
        if (new := [name for name in far if name not in errors]) and done.elements <= MAX_SAMPLED_ELEMENTS:
            errors |= self._rounding_errors(done.request, {name: done.tensors[name] for name in new}, done.before)
        for name in errors.keys() & far:
            differences[name] = replace(
                differences[name], doubt=doubt(differences[name], done.tensors[name], hardware[name], errors[name])
            )
        return differences

    @contextmanager
    def paused(self) -> Generator[None]:
        """While active, launches run on the virtual GPU only; earlier differences are kept."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    @contextmanager
    def recompiled(self, plainer: Plainer) -> Generator[None]:
        """While active, launches are repeated as plainer builds and their results are not compared."""
        self._plainer = plainer
        try:
            yield
        finally:
            self._plainer = None

    @cached_property
    def _memory(self) -> DeviceMemory:
        """Created by the first launch, since CUDA must not start before the process is forked."""
        return DeviceMemory()

    @cached_property
    def _launcher(self) -> HardwareLauncher:
        return HardwareLauncher(self._arch, self._cache)

    def _on_hardware(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None = None
    ) -> dict[int, bytearray]:
        options = {name: getattr(request.metadata, name) for name in BUILD_OPTIONS}
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

    def _rounding_errors(
        self, request: LaunchRequest, tensors: Mapping[str, torch.Tensor], before: Mapping[int, bytes]
    ) -> dict[str, torch.Tensor]:
        """Return the largest error that random rounding causes in each element of these tensors, in float64."""
        unperturbed = {name: tensor.detach().double().clone() for name, tensor in tensors.items()}
        errors = {name: torch.zeros_like(value) for name, value in unperturbed.items()}
        storages = dict(_storage_views(tensors_of(request).values()))
        computed = {address: bytes(view) for address, view in storages.items()}
        with self._without_recording():
            for seed in range(SAMPLES):
                _write(storages, before)
                self._virtual.handlers = rounded_at_random(HANDLERS, seed)
                self._virtual(request)
                for name, tensor in tensors.items():
                    errors[name] = torch.maximum(errors[name], distance(unperturbed[name], tensor.detach().double()))
        _write(storages, computed)
        return errors

    @contextmanager
    def _without_recording(self) -> Generator[None]:
        """While active, launches run in the interpreter and record no facts."""
        virtual = self._virtual
        case, native = virtual.case_launches, virtual.native
        virtual.native = NativeCode()
        try:
            with recording(virtual, VirtualCaseLaunches(lane_fill=case.lane_fill, order=case.order, seed=case.seed)):
                yield
        finally:
            virtual.native, virtual.handlers = native, HANDLERS


@dataclass(frozen=True, slots=True)
class _VirtualLaunch:
    """A launch that the virtual GPU has executed."""

    request: LaunchRequest
    tensors: Mapping[str, torch.Tensor]
    """By argument, with the virtual GPU's results."""
    before: Mapping[int, bytes]
    """By address, the bytes of all storages before the launch."""

    @property
    def elements(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors.values())


def _incomparable_case(case_launches: VirtualCaseLaunches) -> str:
    """Return why no launch of this case can be compared; empty if they can."""
    if case_launches.scale is Scale.OVERSIZED:
        return "only a few programs of an oversized case run"
    if case_launches.lane_fill is not LaneFill.ZERO:
        return "undefined lanes hold values that no GPU puts there"
    return ""


def _foreign_argument(request: LaunchRequest) -> str:
    """Return why the memory behind an argument cannot be copied; empty if it can."""
    for value in request.arguments:
        if hasattr(value, "data_ptr") and not isinstance(value, torch.Tensor):
            return f"an argument is a {type(value).__name__}, which is no tensor and has an address"
    return ""


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """An address and a type, which Triton accepts in place of a tensor."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        return self.address


def _storage_views(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[int, memoryview]]:
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        array = cast("Any", whole.numpy())  # NumPy 2.3 does not declare the buffer protocol
        yield storage.data_ptr(), memoryview(array)


def _write(storages: Mapping[int, memoryview], contents: Mapping[int, bytes]) -> None:
    for address, view in storages.items():
        view[:] = contents[address]


def _offset(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _like(tensor: torch.Tensor, content: bytearray) -> torch.Tensor:
    """Return a tensor with the same type, shape and strides over other bytes."""
    if not content:
        return tensor
    whole = torch.frombuffer(content, dtype=torch.uint8)
    typed = torch.empty(0, dtype=tensor.dtype).set_(whole.untyped_storage())
    return typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
