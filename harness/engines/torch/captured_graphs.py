"""CUDA graphs of the emulated GPU: what a capture records, and its replay.

As on a GPU, a launch that is captured does not run until the graph is replayed.  Operations of torch run while they are
captured, because host code needs tensors to go on with.  What they change outside the graph's own memory is put back at
the end of the capture, and the graph's own memory holds nothing.  A replay repeats operations and launches in their
order, into the memory of the capture.  `outside_memory` says what the program freed since, `graph_memory` what graphs
with one pool overwrite of each other, and `capture_order` which streams take part.
"""

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch

from harness.engines.torch.capture_order import DEFAULT_STREAM, CaptureOrder
from harness.engines.torch.graph_memory import GraphPools, PoolHandle, Tenant
from harness.engines.torch.native_refusals import refusing
from harness.engines.torch.outside_memory import OutsideMemory
from harness.engines.torch.streams import default_stream, raw_stream, set_stream
from harness.engines.torch.torch_seam import RUN, OperatorMode, schema_of
from harness.errors import CannotExecute
from harness.model.ending import Source
from harness.patches import PATCHES

_ATEN = torch.ops.aten
_READS = frozenset({_ATEN._local_scalar_dense, _ATEN.nonzero, _ATEN.masked_select, _ATEN.equal})  # noqa: SLF001 - aten's own name
"""Operations that hand numbers to the host, for which a capture does not wait."""
_UNWRITTEN = frozenset({_ATEN.empty, _ATEN.empty_like, _ATEN.empty_strided, _ATEN.new_empty, _ATEN.new_empty_strided})
"""Operations whose results hold nothing yet."""
_HANDLES = itertools.count(1)
_POOLS = GraphPools()
ON_DEFAULT_STREAM = (
    "CUDA graphs must be captured on a non-default stream. "
    "(However, after capture, it's ok to replay them on the default stream.)"
)
"""What torch says to such a capture."""


class HostRead(CannotExecute):
    """Host code reads a tensor during a capture, which a GPU refuses."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"a CUDA graph whose host code reads a tensor during the capture ({operator})")
        self.operator = operator


class _Current:
    """The capture of this process; a GPU allows one on its stream."""

    capture: "GraphCapture | None" = None
    memory: "CaptureMemory | None" = None
    watch: "CaptureWatch | None" = None


def current_capture() -> "GraphCapture | None":
    """Return the capture that work on this thread's stream goes to; None usually."""
    capture = _Current.capture
    return capture if capture is not None and capture.order.has(raw_stream()) else None


class CaptureMemory(Protocol):
    """Knows which memory holds nothing."""

    def calling_line(self) -> Source | None:
        """Return the line of the program that runs."""
        ...

    def lose(self, tensor: torch.Tensor, allocated_at: Source | None, *, is_overwritten: bool) -> None:
        """Note that the memory of a tensor holds nothing any more."""
        ...


def note_lost_contents(memory: CaptureMemory) -> None:
    """Let this memory know what captures and replays leave without contents."""
    _Current.memory = memory


class CaptureWatch(Protocol):
    """Watches the graphs of a program."""

    def capture_line(self) -> Source | None:
        """Return the caller's line that captures something now."""
        ...

    def before_replay(self, capture: "GraphCapture") -> None:
        """Judge a graph that is about to be replayed."""
        ...


def watch_captures(watch: CaptureWatch) -> None:
    _Current.watch = watch


def capture_line() -> Source | None:
    """Return the caller's line that captures something now, if a program is watched."""
    return _Current.watch.capture_line() if _Current.watch else None


def calling_line() -> Source | None:
    """Return the line of the program that runs, if that is known."""
    return _Current.memory.calling_line() if _Current.memory else None


def capture_of(graph: torch.cuda.CUDAGraph) -> "GraphCapture":
    """Return what was captured into a graph of the emulated GPU."""
    captured = vars(graph)["_captured"]
    assert isinstance(captured, GraphCapture), "the graph has captured nothing"
    return captured


def abandon_capture() -> None:
    """End a capture that a failed call has left open, and leave its stream, so that the process can go on."""
    capture, _Current.capture, CaptureOrder.active = _Current.capture, None, None
    if capture is not None:
        capture.__exit__(None, None, None)
    set_stream(default_stream())  # torch stays on the stream of a capture that fails


class GraphCapture(OperatorMode):
    """While active, records operations and launches."""

    def __init__(self, pool: PoolHandle) -> None:
        super().__init__()
        self.order = CaptureOrder(raw_stream())
        self._steps: list[Callable[[], object]] = []
        self._pool = _POOLS.find(pool)
        self._token = object()
        """Stands for this graph in its pool, and keeps nothing alive."""
        self._aliased: list[Tenant] = []
        """For each tensor of a step that lies in memory of a pool, its tenant."""
        weakref.finalize(self, _release, self._aliased).atexit = False
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        """Other memory that an operation changed, with its contents from before."""
        self.outside = OutsideMemory()

    def aliased(self, values: Any) -> Any:
        """Return what a step uses, with aliases in the place of the program's own tensors.  They are counted."""
        return self.outside.aliased(values, self._alias_of_pool)

    def add_launch(self, launch: Callable[[], object], kernel: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Record a launch with these tensors, which is made when the graph is replayed."""
        self.outside.note_use(kernel, tensors, capture_line())
        self._add_step(launch)

    def end(self) -> None:
        """Put back what operations changed outside the graph's own memory, which holds nothing yet.

        Raises:
            RuntimeError: as on a GPU, by `CaptureOrder.end`.
        """
        for storage, contents in self._before.values():
            storage.copy_(contents)
        self._before.clear()
        self.outside.forget_free()
        self.order.end(raw_stream())
        self._lose(self._pool.of_graph(self._token), is_overwritten=False)

    def replay(self, order: Sequence[int] | None = None) -> None:
        """Repeat all operations and launches: as they were captured, or in another order that the streams allow.

        The graph's own memory holds nothing before another order, so that no step finds what the last replay left.
        """
        if order is not None:
            self._lose(self._pool.of_graph(self._token), is_overwritten=False)
        for index in range(len(self._steps)) if order is None else order:
            self._steps[index]()
        self._lose(self._pool.overwritten_by(self._token), is_overwritten=True)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and record how its results are made again."""
        kwargs = dict(kwargs or {})
        if not self.order.has(raw_stream()):  # another stream's work runs at once, and in no replay
            return func(*args, **kwargs)
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
            self._pool.allocate(tensor, self._token, raw_stream(), calling_line())
        if writes or (new and packet not in _UNWRITTEN):
            self._add_operation(func, args, kwargs, new)
        return results

    def _add_operation(self, func: Any, args: Any, kwargs: Any, new: list[torch.Tensor]) -> None:
        args, kwargs, new = self.aliased((args, kwargs, new))
        line = capture_line()
        used = (value for value in (*args, *kwargs.values()) for value in _tensors(value))
        for tensor in used:
            self.outside.note_use(str(func), {"": tensor}, line)
        self._add_step(lambda: _repeat(func, args, kwargs, new))

    def _add_step(self, step: Callable[[], object]) -> None:
        self._steps.append(step)
        self.order.add_step(raw_stream())

    def _alias_of_pool(self, tensor: torch.Tensor) -> bool:
        """Return True if a tensor lies in memory of this graph; count one more alias if it lies in that of a pool."""
        tenant = _POOLS.tenant(tensor.untyped_storage())
        if tenant is None:
            return False
        tenant.aliases += 1
        self._aliased.append(tenant)
        return tenant.graph is self._token

    def _lose(self, tenants: Iterable[Tenant], *, is_overwritten: bool) -> None:
        if (memory := _Current.memory) is not None:
            for tenant in tenants:
                memory.lose(tenant.tensor, tenant.allocated_at, is_overwritten=is_overwritten)

    def _keep(self, written: object) -> None:
        """Copy memory that is about to be changed, unless the graph has allocated it."""
        for tensor in _tensors(written):
            storage = tensor.untyped_storage()
            address, tenant = storage.data_ptr(), self._pool.tenant(storage)
            is_own = tenant is not None and tenant.graph is self._token
            if not is_own and address not in self._before:
                self._before[address] = storage, storage.clone()


def _release(aliased: Iterable[Tenant]) -> None:
    """Forget the aliases of a graph that is gone."""
    for tenant in aliased:
        tenant.aliases -= 1


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
            "graph_pool_handle": lambda: (0, next(_HANDLES)),
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
    _pool: PoolHandle | None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        del capture_error_mode
        if _Current.capture is not None:
            raise CannotExecute("a CUDA graph that is captured inside another")
        if raw_stream() == DEFAULT_STREAM:
            raise RuntimeError(ON_DEFAULT_STREAM)
        self._pool = handle = pool or self.pool()
        self._captured = _Current.capture = GraphCapture(handle)
        CaptureOrder.active = self._captured.order
        self._captured.__enter__()

    def capture_end(self) -> None:
        capture = _Current.capture
        if capture is None or capture is not self._captured:
            raise RuntimeError("capture_end() without capture_begin() of this graph")
        _Current.capture = CaptureOrder.active = None
        capture.__exit__(None, None, None)
        try:
            capture.end()
        except RuntimeError:
            self._captured = None
            raise

    def instantiate(self) -> None:
        pass

    def replay(self) -> None:
        if self._captured is None or self._captured is _Current.capture:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if _Current.watch is not None:
            _Current.watch.before_replay(self._captured)
        self._captured.replay()

    def reset(self) -> None:
        self._captured = None

    def pool(self) -> PoolHandle:
        self._pool = self._pool or (0, next(_HANDLES))
        return self._pool
