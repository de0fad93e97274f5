"""Watches the launches of one case on a real GPU: what each was, who stored what last, and which one faults.

The GPU is waited for before and after each, so that an error belongs to the kernel that made it (torch's own among
them) and a hang to the one that hangs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from harness.cuda.memory.redzones import Damage, GuardedMemory
from harness.errors import CannotExecute
from harness.model.run import AccessSite, Launch, Trampled
from harness.ops import flight_recorder
from harness.virtual.driver.driver import LaunchRequest, tensors_of
from harness.virtual.driver.kernel_facts import Described, described_as, launch_of, options_of
from harness.virtual.driver.triton_seam import Chosen
from harness.virtual.ttir.reach import reach_of


@dataclass(slots=True)
class CudaCaseLaunches:
    """What one case launched so far."""

    blames: bool = False
    """Whether the bands are looked at after each launch: a second time, to tell whose store it was."""
    launches: list[Launch] = field(default_factory=list[Launch])
    memory: list[Trampled] = field(default_factory=list[Trampled])
    writers: dict[int, tuple[str, str]] = field(default_factory=dict[int, "tuple[str, str]"])
    """By address of a storage, the kernel and argument that stored to it last."""
    unwatched: str = ""
    """Why the first access that a sanitizer may have missed was not watched; empty where it saw each."""
    under_way: str | None = None
    """The kernel that was launched and has not come to its end."""


class WatchedLaunches:
    """The launch watcher of a worker process."""

    def __init__(self, arch: int, chosen: Callable[[], Chosen], memory: GuardedMemory) -> None:
        self.session = CudaCaseLaunches()
        self._arch = arch
        self._chosen = chosen
        self._memory = memory
        self._described: dict[tuple[str, ...], _Build] = {}

    def __call__(self, request: LaunchRequest, launch: Callable[[], None]) -> None:
        """Launch, wait, and note what there is to note."""
        session = self.session
        name = request.source.fn.__name__
        build = self._build(request)
        if build.described is not None:
            scratch = self._scratch(request)
            session.launches.append(launch_of(build.described, request, self._chosen(), scratch))
        tensors = tensors_of(request)
        with flight_recorder.synchronising(flight_recorder.EARLIER):
            torch.cuda.synchronize()
        session.under_way = name
        under_way = flight_recorder.launching(name, request.grid, f"num_warps: {request.metadata.num_warps}")
        with under_way, self._memory.launching():
            launch()
        with flight_recorder.synchronising(name):
            torch.cuda.synchronize()
        session.under_way = None
        for key, tensor in tensors.items():
            is_stored = build.written is None or key in build.written
            does = "stores to" if is_stored else "loads from"
            if reason := self._memory.unwatched(tensor, is_stored=is_stored):
                session.unwatched = session.unwatched or f"{name} {does} {key}, {reason}"
            if is_stored:
                session.writers[tensor.untyped_storage().data_ptr()] = (name, key)
        if session.blames and not session.memory:
            session.memory += (self._trampled(damage, name, tensors) for damage in self._memory.damages())

    def trampled_by_nobody(self, damage: Damage) -> Trampled:
        """Of a tensor that no launch damages a second time."""
        return self._trampled(damage, "", {})

    def _trampled(self, damage: Damage, kernel: str, tensors: dict[str, torch.Tensor]) -> Trampled:
        named = (key for key, tensor in tensors.items() if tensor.untyped_storage().data_ptr() == damage.address)
        launches = self.session.launches
        site = AccessSite(
            kernel=kernel,
            launch=max(0, len(launches) - 1),
            argument=next(named, "a tensor"),
            source=launches[-1].source if kernel and launches else None,
        )
        return Trampled(site=site, region=damage.region, cells=damage.cells, element=damage.element)

    def _build(self, request: LaunchRequest) -> "_Build":
        options = options_of(request.metadata)
        key = (request.ttir, *map(str, options.values()))
        if key not in self._described:
            self._described[key] = _Build.of(request.ttir, self._arch, options)
        return self._described[key]

    @staticmethod
    def _scratch(request: LaunchRequest) -> int:
        x, y, z = request.grid
        metadata = request.metadata
        return x * y * z * getattr(metadata, "num_ctas", 1) * int(getattr(metadata, "global_scratch_size", 0) or 0)


@dataclass(frozen=True, slots=True)
class _Build:
    described: Described | None
    """None where its TTIR cannot be parsed, or is not there: it runs all the same."""
    written: frozenset[str] | None
    """The parameters that it may store through; None where that is not known."""

    @classmethod
    def of(cls, ttir: str, arch: int, options: dict[str, object]) -> "_Build":
        try:
            described = described_as(ttir, arch, options)
        except CannotExecute:
            return cls(None, None)
        slots = reach_of(described.module.kernel).written
        parameters = described.module.kernel.parameters
        return cls(described, None if slots is None else frozenset(one.name for one in parameters if one.slot in slots))
