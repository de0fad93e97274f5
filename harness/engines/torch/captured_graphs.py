"""CUDA graphs of the emulated GPU: what a capture records, and its replay.

As on a GPU, a launch that is captured does not run until the graph is replayed.  Operations of torch run while they are
captured, because host code needs tensors to go on with.  What they change outside the graph's own memory is put back at
the end of the capture.  A replay repeats operations and launches in their order, into the memory of the capture.
`outside_memory` says what the program freed since.

Memory pools are not emulated: graphs that share a pool do not share memory.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from harness.engines.torch.native_refusals import refusing
from harness.engines.torch.outside_memory import OutsideMemory
from harness.engines.torch.torch_seam import RUN, OperatorMode, schema_of
from harness.errors import CannotExecute
from harness.patches import PATCHES

_ATEN = torch.ops.aten
_READS = frozenset({_ATEN._local_scalar_dense, _ATEN.nonzero, _ATEN.masked_select, _ATEN.equal})  # noqa: SLF001 - aten's own name
"""Operations that hand numbers to the host, for which a capture does not wait."""
_UNWRITTEN = frozenset({_ATEN.empty, _ATEN.empty_like, _ATEN.empty_strided, _ATEN.new_empty, _ATEN.new_empty_strided})
"""Operations whose results hold nothing yet."""
_POOLS = itertools.count(1)


class HostRead(CannotExecute):
    """Host code reads a tensor during a capture, which a GPU refuses."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"a CUDA graph whose host code reads a tensor during the capture ({operator})")
        self.operator = operator


class _Current:
    """The capture of this process; a GPU allows one on its stream."""

    capture: "GraphCapture | None" = None


def current_capture() -> "GraphCapture | None":
    """Return the capture that is in progress; None usually."""
    return _Current.capture


def capture_of(graph: torch.cuda.CUDAGraph) -> "GraphCapture":
    """Return what was captured into a graph of the emulated GPU."""
    captured = vars(graph)["_captured"]
    assert isinstance(captured, GraphCapture), "the graph has captured nothing"
    return captured


def abandon_capture() -> None:
    """End a capture that a failed call has left open, so that the process can go on."""
    capture, _Current.capture = _Current.capture, None
    if capture is not None:
        capture.__exit__(None, None, None)


class GraphCapture(OperatorMode):
    """While active, records operations and launches."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Callable[[], object]] = []
        self._own: dict[int, torch.UntypedStorage] = {}
        """Memory that was allocated during the capture, by address."""
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        """Other memory that an operation changed, with its contents from before."""
        self.outside = OutsideMemory()

    def aliased(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return arguments of a launch that hold the same memory, and leave the program's own tensors alone."""
        return tuple(self.outside.aliased(tuple(arguments), self._own))

    def add_launch(self, launch: Callable[[], object], kernel: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Record a launch with these tensors, which is made when the graph is replayed."""
        self.outside.note_use(kernel, tensors)
        self._steps.append(launch)

    def end(self) -> None:
        """Put back what operations changed outside the graph's own memory."""
        for storage, contents in self._before.values():
            storage.copy_(contents)
        self._before.clear()
        self.outside.forget_free()

    def replay(self) -> None:
        """Repeat all operations and launches."""
        for step in self._steps:
            step()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and record how its results are made again."""
        kwargs = dict(kwargs or {})
        packet, schema = func.overloadpacket, schema_of(func)
        if packet in _READS:
            raise HostRead(str(func))
        names = [argument.name for argument in schema.arguments]
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        writes = [
            declared.name
            for declared in schema.arguments
            if declared.alias_info is not None and declared.alias_info.is_write
        ]
        for name in writes:
            self._keep(arguments.get(name))
        results = func(*args, **kwargs)
        values = results if len(schema.returns) != 1 else (results,)
        new = [
            tensor
            for returned, value in zip(schema.returns, values, strict=False)
            if returned.alias_info is None
            for tensor in _tensors(value)
        ]
        for tensor in new:
            self._own[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        if writes or (new and packet not in _UNWRITTEN):
            self._add_operation(func, args, kwargs, new)
        return results

    def _add_operation(self, func: Any, args: Any, kwargs: Any, new: list[torch.Tensor]) -> None:
        args, kwargs = self.outside.aliased((args, kwargs), self._own)
        used = (value for value in (*args, *kwargs.values()) for value in _tensors(value))
        for tensor in used:
            self.outside.note_use(str(func), {"": tensor})
        self._steps.append(lambda: _repeat(func, args, kwargs, new))

    def _keep(self, written: object) -> None:
        """Copy memory that is about to be changed, unless the graph has allocated it."""
        for tensor in _tensors(written):
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address not in self._own and address not in self._before:
                self._before[address] = storage, storage.clone()


def _repeat(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], new: list[torch.Tensor]) -> None:
    """Run an operation again, and copy its new results to where the graph has them."""
    with torch.no_grad():
        results = func(*args, **kwargs)
        for target, value in zip(new, _tensors(results), strict=False):
            target.copy_(value)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    match value:
        case torch.Tensor():
            yield value
        case tuple() | list():
            for part in value:
                yield from _tensors(part)
        case _:
            pass


def emulate_cuda_graphs() -> None:
    """Make torch's CUDA graphs record and replay on the emulated GPU, until `PATCHES` are undone."""
    emulated = ("capture_begin", "capture_end", "replay", "reset", "pool", "instantiate")
    handles = ("raw_cuda_graph", "raw_cuda_graph_exec", "get_graph_data", "debug_dump", "enable_debug_mode")
    replace = partial(PATCHES.replace_each, why="the emulated GPU records and replays graphs itself", releases=RUN)
    # A class: libraries subclass it, and ask `isinstance`.
    replace(torch.cuda.CUDAGraph, {name: vars(_EmulatedGraph)[name] for name in emulated})
    replace(torch.cuda.CUDAGraph, {"__new__": _made, "__init__": _do_nothing, "__del__": _do_nothing})
    refused = {name: refusing(f"the handle of a CUDA graph (torch.cuda.CUDAGraph.{name})") for name in handles}
    replace(torch.cuda.CUDAGraph, refused)
    native = sys.modules["torch._C"]
    if not hasattr(native, "_host_emptyCache"):  # `torch.cuda.graph` calls it where CUDA is compiled in
        replace(native, {"_host_emptyCache": lambda: None})
    replace(torch.cuda.graphs, {"torch": _TorchOfWarmUps()})
    for module in (torch.cuda, torch.cuda.graphs):
        answers = {
            "graph_pool_handle": lambda: (0, next(_POOLS)),
            "is_current_stream_capturing": lambda: current_capture() is not None,
        }
        replace(module, answers)


class _TorchOfWarmUps:
    """Torch as `torch.cuda.graphs` sees it.

    The warm-up of `make_graphed_callables` passes `empty_like` as gradients to backward.  Each kernel there would read
    memory that nothing has stored to, which is no mistake of the kernel.
    """

    empty_like = staticmethod(torch.zeros_like)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _made(cls: type[Any], *_: Any, **__: Any) -> Any:
    graph = object.__new__(cls)
    vars(graph).update(_captured=None, _pool=None)
    return graph


def _do_nothing(*_: object, **__: object) -> None:
    """Take the place of methods of torch that raise without CUDA."""


class _EmulatedGraph:
    """The methods of a CUDA graph.  They become those of torch's own class."""

    _captured: GraphCapture | None
    _pool: tuple[int, int] | None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        del capture_error_mode
        if _Current.capture is not None:
            raise CannotExecute("a CUDA graph that is captured inside another")
        self._pool = pool or self.pool()
        self._captured = _Current.capture = GraphCapture()
        self._captured.__enter__()

    def capture_end(self) -> None:
        capture = _Current.capture
        if capture is None or capture is not self._captured:
            raise RuntimeError("capture_end() without capture_begin() of this graph")
        _Current.capture = None
        capture.__exit__(None, None, None)
        capture.end()

    def instantiate(self) -> None:
        pass

    def replay(self) -> None:
        if self._captured is None or self._captured is _Current.capture:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._captured.replay()

    def reset(self) -> None:
        self._captured = None

    def pool(self) -> tuple[int, int]:
        self._pool = self._pool or (0, next(_POOLS))
        return self._pool
