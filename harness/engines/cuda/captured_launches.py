"""CUDA graphs on the hardware GPU: which launches a graph holds, so that each replay is checked as one unit.

A launch that is captured does not run, and a capture forbids to wait for the GPU.  So the facts of a launch are noted
at the capture, and its memory is checked around each replay.  The notes hold addresses and no tensors: a graph keeps
nothing alive that was allocated before its capture, and memory that a note kept would hide what a replay does to it.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch

from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.torch.inductor.graph_trees import INDUCTOR_GRAPHS
from harness.engines.torch.torch_seam import RUN
from harness.model.run import Launch
from harness.patches import PATCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedLaunch:
    """One launch in a graph."""

    launch: Launch
    arguments: Mapping[int, str]
    """By address of a storage, the argument that lies in it."""
    stored: frozenset[int]
    """The addresses of the storages that the launch may store to."""

    @property
    def kernel(self) -> str:
        return self.launch.kernel


@dataclass(slots=True, weakref_slot=True, eq=False)
class CapturedGraph:
    """The launches of one graph, in the order of their capture."""

    launches: list[CapturedLaunch] = field(default_factory=list[CapturedLaunch])
    memory: object = None
    """The memory of the capture that lies between redzones.  Another graph of the pool would get it otherwise."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of its kernels, each once."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))

    @property
    def name(self) -> str:
        """The kernel of the graph, if all launches are of one; else all its kernels."""
        return " or ".join(self.kernels)

    def writer(self, address: int) -> int | None:
        """Return the index of the first launch that stores to the storage at this address.

        If no launch does, any may be at fault.  Returns None if launches of several kernels come into question.
        """
        writers = [index for index, launch in enumerate(self.launches) if address in launch.stored]
        suspects = writers or range(len(self.launches))
        kernels = {self.launches[index].kernel for index in suspects}
        return suspects[0] if len(kernels) == 1 else None


OnReplay = Callable[[CapturedGraph, Callable[[], None]], None]


class HardwareGraphs:
    """The graphs of this process.  It notes captures, and passes each replay to a callback."""

    def __init__(self, memory: RedzoneMemory, on_replay: OnReplay) -> None:
        self._memory = memory
        self._on_replay = on_replay
        self._graphs: WeakKeyDictionary[Any, CapturedGraph] = WeakKeyDictionary()
        self._capturing: list[CapturedGraph] = []

    @property
    def current(self) -> CapturedGraph | None:
        """The graph that is captured now; None usually.  Threads of autograd launch into it too."""
        return self._capturing[-1] if self._capturing else None

    def follow(self) -> None:
        """Follow all graphs of torch from here on, until `PATCHES` are undone."""
        graph_class: Any = torch.cuda.CUDAGraph
        replacements = {
            "capture_begin": self._beginning(graph_class.capture_begin),
            "capture_end": self._ending(graph_class.capture_end),
            "replay": self._replaying(graph_class.replay),
        }
        PATCHES.replace_each(graph_class, replacements, why="it checks the launches of replays", releases=RUN)

    def _beginning(self, original: Callable[..., None]) -> Callable[..., None]:
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> None:
            original(graph, *args, **kwargs)
            captured = self._graphs[graph] = CapturedGraph()
            self._capturing.append(captured)
            if not _is_of_inductor():
                self._memory.begin_capture()

        return capture_begin

    def _ending(self, original: Callable[..., None]) -> Callable[..., None]:
        def capture_end(graph: Any) -> None:
            try:
                original(graph)
            finally:  # a capture that an error has broken ends too
                captured = self._graphs.get(graph)
                self._capturing = [other for other in self._capturing if other is not captured]
                memory = self._memory.end_capture()
                if captured is not None:
                    captured.memory = memory

        return capture_end

    def _replaying(self, original: Callable[..., None]) -> Callable[..., None]:
        def replay(graph: Any) -> None:
            captured = self._graphs.get(graph)
            if captured is None or not captured.launches:
                original(graph)
            else:
                self._on_replay(captured, lambda: original(graph))

        return replay


def _is_of_inductor() -> bool:
    """Return True if Inductor captures the graph: it keeps account of all memory of its pool, and refuses other."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == INDUCTOR_GRAPHS:
            return True
        frame = frame.f_back
    return False
