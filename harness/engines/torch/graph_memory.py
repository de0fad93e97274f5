"""The memory that captures of CUDA graphs allocate, and which of it lies in the same place of a memory pool.

On a GPU graphs with one pool share its memory.  What a capture allocates and the program lets go is free again, also
for later captures, though each replay goes on to use it.  So a replay overwrites what other graphs have there.

Here each tensor keeps a storage of its own.  A pool notes the place that torch's allocator would choose: the smallest
free one that is large enough, of the same stream, apart for small and large memory.  After a replay the contents of all
other tensors in the places of its graph are lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

import torch

from harness.engines.torch.torch_seam import holders, plain_torch, storage_key, without_dispatch_modes
from harness.model.ending import Source

ROUND_BYTES = 512
"""Sizes are multiples of it, as in torch's allocator."""
SMALL_BYTES = 2**20
"""Memory up to this size lies in blocks of its own."""
OWN_HOLDERS = 2
"""The storage and the tensor of a `Tenant`, as `holders` counts them."""
PoolHandle = tuple[int, int]


@dataclass(slots=True, kw_only=True, eq=False)
class Tenant:
    """A tensor that a capture has allocated, and its place."""

    tensor: torch.Tensor
    """An alias of the tensor, of its type."""
    storage: torch.UntypedStorage
    graph: object
    allocated_at: Source | None
    area: tuple[int, bool]
    """Stream, and True for large memory: places of one area may overlap."""
    begin: int = 0
    end: int = 0
    aliases: int = 0
    """Tensors of steps that hold the storage, in whatever graph."""

    @property
    def is_free(self) -> bool:
        """True if nothing but graphs holds it: the allocator gives its place away."""
        return holders(self.storage) <= OWN_HOLDERS + self.aliases

    def overlaps(self, other: "Tenant") -> bool:
        return self.area == other.area and self.begin < other.end and other.begin < self.end


class GraphPool:
    """One memory pool.  It lives as long as a graph of it."""

    def __init__(self) -> None:
        self._tenants: dict[int, Tenant] = {}
        """By key of the storage."""

    def tenant(self, storage: torch.UntypedStorage) -> Tenant | None:
        return self._tenants.get(storage_key(storage))

    def allocate(self, tensor: torch.Tensor, graph: object, stream: int, line: Source | None = None) -> None:
        """Give a tensor that a capture has allocated at this line its place."""
        with plain_torch(), without_dispatch_modes():
            storage = tensor.untyped_storage()
            size = -(-storage.nbytes() // ROUND_BYTES) * ROUND_BYTES
            if not size or storage_key(storage) in self._tenants:
                return
            tenant = Tenant(
                tensor=tensor.detach(),
                storage=storage,
                graph=graph,
                allocated_at=line,
                area=(stream, size > SMALL_BYTES),
            )
        tenant.begin = self._free_place(tenant.area, size)
        tenant.end = tenant.begin + size
        self._tenants[storage_key(storage)] = tenant

    def of_graph(self, graph: object) -> Iterator[Tenant]:
        return (tenant for tenant in self._tenants.values() if tenant.graph is graph)

    def overwritten_by(self, graph: object) -> list[Tenant]:
        """Return what other graphs have in places of this graph."""
        own = list(self.of_graph(graph))
        others = (tenant for tenant in self._tenants.values() if tenant.graph is not graph)
        return [other for other in others if any(map(other.overlaps, own))]

    def _free_place(self, area: tuple[int, bool], size: int) -> int:
        """Return the first byte of the smallest free place of `size` bytes; the end of the area if there is none."""
        held = sorted(
            (tenant.begin, tenant.end)
            for tenant in self._tenants.values()
            if tenant.area == area and not tenant.is_free
        )
        used = max((tenant.end for tenant in self._tenants.values() if tenant.area == area), default=0)
        gaps: list[tuple[int, int]] = []
        position = 0
        for begin, end in (*held, (used, used)):
            if begin - position >= size:
                gaps.append((begin - position, position))
            position = max(position, end)
        return min(gaps)[1] if gaps else position


class GraphPools:
    """The memory pools of this process, by their handles."""

    def __init__(self) -> None:
        self._pools: WeakValueDictionary[PoolHandle, GraphPool] = WeakValueDictionary()

    def find(self, handle: PoolHandle) -> GraphPool:
        pool = self._pools.get(handle)
        if pool is None:
            pool = self._pools[handle] = GraphPool()
        return pool

    def tenant(self, storage: torch.UntypedStorage) -> Tenant | None:
        """Return what a storage is to the pool whose capture has allocated it; None for other memory."""
        return next(filter(None, (pool.tenant(storage) for pool in self._pools.values())), None)
