"""Repeats each launch of the virtual GPU on another machine, from the same bytes, and compares all tensors afterwards.

The other machine is a hardware GPU, or the one that executes PTX.  Its results are discarded: the case continues with
the virtual GPU's.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch

from harness.engines.comparison import incomparable
from harness.engines.comparison.differences import compare, distance, doubt, roundings
from harness.engines.triton.driver import LaunchRequest, tensors_of
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


class CannotRepeat(Exception):
    """The other machine cannot execute a launch."""


class OtherMachine(Protocol):
    """Executes launches again."""

    arch: int
    """The architecture that it executes code for."""
    plainer: tuple[Plainer, ...]
    """The plainer builds that it can make."""

    def repeat(
        self, request: LaunchRequest, before: Mapping[int, bytes], plainer: Plainer | None
    ) -> dict[int, bytearray]:
        """Execute a launch on copies of the storages, and return their bytes afterwards, by address.

        Raises:
            CannotRepeat: the machine cannot execute the launch.
        """


class LaunchComparison:
    """A launch handler that executes launches on the virtual GPU, then repeats them on the other machine."""

    def __init__(self, launches: Launches, other: OtherMachine) -> None:
        self._virtual = launches
        self._other = other
        self._is_paused = False
        self._plainer: Plainer | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the comparison for a new case."""
        self.unfinished: str | None = None
        """The kernel whose launch on the other machine has not finished."""
        self.differences: list[Difference] = []
        self.launches = 0
        self.skipped: list[tuple[str, str]] = []

    def __call__(self, request: LaunchRequest) -> None:
        """Execute a launch on both machines and compare."""
        kernel = request.source.fn.__name__
        case_launches = self._virtual.case_launches
        if self._is_paused or self._virtual.is_exact or request.model:
            if request.model:
                self.skipped.append((kernel, f"its launch is a model {request.model}"))
            self._virtual(request)
            return
        emulated = request.metadata.target.arch
        reasons = (
            _incomparable_case(case_launches),
            _foreign_argument(request),
            incomparable.reason(request.ttir, emulated, self._other.arch),
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
            after = self._other.repeat(request, before, self._plainer)
        except CannotRepeat as error:
            self.skipped.append((kernel, str(error)))
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
        for plainer in self._other.plainer:
            unexplained = [
                name for name, seen in differences.items() if not seen.is_explained and seen.agrees_once is None
            ]
            if not unexplained:
                break
            try:
                plain = self._differences(done, self._other.repeat(done.request, done.before, plainer), errors)
            except CannotRepeat:
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


def _storage_views(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[int, memoryview]]:
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        array = cast("Any", whole.numpy())  # NumPy 2.3 does not declare the buffer protocol
        yield storage.data_ptr(), memoryview(array)


def _write(storages: Mapping[int, memoryview], contents: Mapping[int, bytes]) -> None:
    for address, view in storages.items():
        view[:] = contents[address]


def _like(tensor: torch.Tensor, content: bytearray) -> torch.Tensor:
    """Return a tensor with the same type, shape and strides over other bytes."""
    if not content:
        return tensor
    whole = torch.frombuffer(content, dtype=torch.uint8)
    typed = torch.empty(0, dtype=tensor.dtype).set_(whole.untyped_storage())
    return typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
