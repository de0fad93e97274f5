"""Repeats each launch of the virtual GPU on another machine, from the same bytes, and compares all tensors afterwards.

The other machine is a hardware GPU, or the one that executes PTX.  Its results are discarded: the case continues with
the virtual GPU's.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import torch

from harness.engines.comparison import incomparable
from harness.engines.comparison.executed_launches import ExecutedLaunch, explained_differences
from harness.engines.comparison.rounding_spread import RoundingSpread
from harness.engines.comparison.storages import like_tensor, storage_views
from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.driver import LaunchRequest, tensors_of
from harness.engines.virtual.launches import Launches, VirtualCaseLaunches
from harness.model.case import LaneFill, Scale
from harness.model.launch_difference import Difference, Plainer
from harness.model.run import UndefinedLanes


class CannotRepeat(Exception):
    """The other machine cannot execute a launch."""


class OtherMachine(Protocol):
    """Executes launches again."""

    name: str
    """The name in reports."""
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
        ...


class ExecutedLaunchWatcher(Protocol):
    """Sees launches of one kernel after the virtual GPU has executed them, in the place of the comparison."""

    kernel: str

    def watch(self, done: ExecutedLaunch) -> None: ...


class LaunchComparison:
    """A launch handler that executes launches on the virtual GPU, then repeats them on the other machine."""

    def __init__(self, launches: Launches, other: OtherMachine) -> None:
        self._virtual = launches
        self.other = other
        self._is_paused = False
        self._plainer: Plainer | None = None
        self._watcher: ExecutedLaunchWatcher | None = None
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
        if self._watcher is not None and self._watcher.kernel == kernel and not self._virtual.is_exact:
            done = self._executed(request)
            with plain_torch(), without_dispatch_modes():
                self._watcher.watch(done)
            return
        if self._is_paused or self._virtual.is_exact or request.model:
            if request.model:
                self.skipped.append((kernel, f"its launch is a model {request.model}"))
            self._virtual(request)
            return
        emulated = request.metadata.target.arch
        reasons = (
            _incomparable_case(case_launches),
            _foreign_argument(request),
            incomparable.reason(request.ttir, emulated, self.other.arch),
        )
        if reason := next(filter(None, reasons), ""):
            self._virtual(request)
            self.skipped.append((kernel, reason))
            return
        events = len(case_launches.memory)
        done = self._executed(request)
        # Undefined lanes are comparable: they hold zero here, as in NVIDIA's code (Triton 3.6 to 3.9).
        faulty = [event for event in case_launches.memory[events:] if not isinstance(event, UndefinedLanes)]
        if faulty:
            self.skipped.append((kernel, f"memory saw {type(faulty[0]).__name__}"))
            return
        self.unfinished = kernel
        try:
            after = self.other.repeat(request, done.before, self._plainer)
        except CannotRepeat as error:
            self.skipped.append((kernel, str(error)))
        else:
            self.launches += 1
            if self._plainer is None:
                with plain_torch(), without_dispatch_modes():
                    self.differences += self._explained_differences(done, after)
        self.unfinished = None

    def _executed(self, request: LaunchRequest) -> ExecutedLaunch:
        """Execute a launch on the virtual GPU."""
        with plain_torch(), without_dispatch_modes():  # what the harness reads is no work of the library's
            tensors = tensors_of(request)
            before = {address: bytes(view) for address, view in storage_views(tensors.values())}
        self._virtual(request)
        return ExecutedLaunch(request, tensors, before)

    def _explained_differences(self, done: ExecutedLaunch, after: Mapping[int, bytearray]) -> Iterable[Difference]:
        """Return one difference per tensor; those beyond a few roundings carry the result of random rounding.

        If rounding explains too little, plainer builds of the kernel are tried.
        """
        spreads = dict[str, RoundingSpread]()
        differences = self._differences(done, after, spreads)
        for plainer in self.other.plainer:
            unexplained = [
                name for name, seen in differences.items() if not seen.is_explained and seen.agrees_once is None
            ]
            if not unexplained:
                break
            try:
                plain = self._differences(done, self.other.repeat(done.request, done.before, plainer), spreads)
            except CannotRepeat:
                continue
            for name in unexplained:
                if plain[name].is_explained:
                    differences[name] = replace(differences[name], agrees_once=plainer)
        return differences.values()

    def _differences(
        self, done: ExecutedLaunch, after: Mapping[int, bytearray], spreads: dict[str, RoundingSpread]
    ) -> dict[str, Difference]:
        """Return the differences by tensor; `spreads` caches what random rounding does to each tensor."""
        others = {
            name: like_tensor(tensor, after[tensor.untyped_storage().data_ptr()])
            for name, tensor in done.tensors.items()
        }
        return explained_differences(self._virtual, done, others, spreads)

    @contextmanager
    def paused(self) -> Generator[None]:
        """While active, launches run on the virtual GPU only; earlier differences are kept."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    @contextmanager
    def watched_by(self, watcher: ExecutedLaunchWatcher) -> Generator[None]:
        """While active, the watcher sees the launches of its kernel, and none of these is compared."""
        self._watcher = watcher
        try:
            yield
        finally:
            self._watcher = None

    @contextmanager
    def recompiled(self, plainer: Plainer) -> Generator[None]:
        """While active, launches are repeated as plainer builds and their results are not compared."""
        self._plainer = plainer
        try:
            yield
        finally:
            self._plainer = None


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
