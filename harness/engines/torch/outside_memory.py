"""The memory that a captured CUDA graph uses and has not allocated, and what becomes of it after the capture.

The graph holds addresses, and keeps nothing alive behind them.  If the program frees such memory, the allocator gives
it to a later tensor, which replays then read and overwrite.  Here the steps of a capture keep the memory, by aliases
that are counted.  So memory that nothing but its aliases holds is free.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.engines.torch.torch_seam import (
    OperatorMode,
    holders,
    plain_torch,
    schema_of,
    storage_key,
    tree_leaves,
    tree_map_only,
    without_dispatch_modes,
)
from harness.model.ending import Source
from harness.model.later_calls import FreedMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterAllocation:
    """Memory that an operator of torch allocates."""

    operator: str
    bytes: int
    source: Source | None


@dataclass(slots=True, kw_only=True)
class OutsideStorage:
    """Memory from outside a graph."""

    storage: torch.UntypedStorage
    users: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The kernels that use it, each with its argument; operators with an empty one."""
    aliases: int = 0
    """Tensors of the graph's steps that hold it."""
    captured_at: Source | None = None
    """The line from which the first of them was captured, if that is known."""
    taker: LaterAllocation | None = None
    """What the allocator may have given the memory to after it was freed."""

    @property
    def is_free(self) -> bool:
        """True if nothing outside the graph holds it; another graph that uses it counts as something."""
        return holders(self.storage) <= 1 + self.aliases

    def as_freed(self, between: str) -> FreedMemory:
        kernel, argument = next((user for user in self.users if user[1]), self.users[0])
        taker = self.taker
        return FreedMemory(
            kernel=kernel,
            argument=argument,
            bytes=self.storage.nbytes(),
            between=between,
            taker=taker.operator if taker else "",
            taken_bytes=taker.bytes if taker else 0,
            source=taker.source if taker else None,
            captured_at=self.captured_at,
        )


class OutsideMemory:
    """The storages that the steps of one graph use, of those that the graph has not allocated."""

    def __init__(self) -> None:
        self._by_key: dict[int, OutsideStorage] = {}

    def aliased(self, values: Any, is_own: Callable[[torch.Tensor], bool]) -> Any:
        """Return what a step uses with aliases in the place of its tensors.

        Those in memory of the graph, which `is_own` knows, are not counted here.
        """

        def alias(tensor: torch.Tensor) -> torch.Tensor:
            if type(tensor) not in {torch.Tensor, torch.nn.Parameter} or not _has_storage(tensor):
                return tensor
            if not is_own(tensor):
                storage = tensor.untyped_storage()
                self._by_key.setdefault(storage_key(storage), OutsideStorage(storage=storage)).aliases += 1
            return tensor.detach()

        with plain_torch(), without_dispatch_modes():
            return tree_map_only(torch.Tensor, alias, values)

    def note_use(self, kernel: str, tensors: Mapping[str, torch.Tensor], line: Source | None = None) -> None:
        """Note that a step, captured from this line, uses tensors by argument."""
        for argument, tensor in tensors.items():
            with plain_torch():
                known = self._by_key.get(storage_key(tensor.untyped_storage())) if _has_storage(tensor) else None
            if known is not None:
                known.users.append((kernel, argument))
                known.captured_at = known.captured_at or line

    def forget_free(self) -> None:
        """Forget what is free by now: at the end of a capture, what only host code of the capture held."""
        self._by_key = {key: known for key, known in self._by_key.items() if not known.is_free}

    def free(self) -> Iterator[OutsideStorage]:
        """Yield the memory that is free by now."""
        return (known for known in self._by_key.values() if known.is_free)

    def freed(self, between: str) -> tuple[FreedMemory, ...]:
        """Return the memory that steps use and that is free by now; `between` as in `FreedMemory`."""
        return tuple(known.as_freed(between) for known in self.free() if known.users)


class AllocationWatch(OperatorMode):
    """While active, gives memory that a graph still uses, and that is free, to the first allocation that fits."""

    def __init__(self, outside: OutsideMemory, source_of: Callable[[], Source | None]) -> None:
        super().__init__()
        self._outside = outside
        self._source_of = source_of

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, and see what it allocates."""
        results = func(*args, **(kwargs or {}))
        if any(returned.alias_info is None for returned in schema_of(func).returns):
            with plain_torch():
                passed = {storage_key(tensor.untyped_storage()) for tensor in _stored((args, kwargs))}
                made = {storage_key(tensor.untyped_storage()): tensor for tensor in _stored(results)}
                for tensor in (tensor for key, tensor in made.items() if key not in passed):
                    self._give(str(func), tensor.untyped_storage().nbytes())
        return results

    def _give(self, operator: str, size: int) -> None:
        for known in self._outside.free():
            if known.taker is None and 0 < size <= known.storage.nbytes():
                known.taker = LaterAllocation(operator=operator, bytes=size, source=self._source_of())
                return


def _stored(values: object) -> Iterable[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor) and _has_storage(leaf))


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type == "cpu"
