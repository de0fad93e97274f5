"""Which warps use what a load returns: the stores that its value reaches, directly, as an index or as a condition.

A scalar, and a tile smaller than the program, is loaded by several warps, but mostly one of them alone stores what is
computed of it.  Only where other warps store something, too, does it matter what they loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.engines.ttir.flows import Flows, flows_of, guards, reached
from harness.engines.ttir.ir import Function, TtirRegion
from harness.engines.virtual.synchronisation.barrier_points import line_of
from harness.engines.virtual.synchronisation.tile_layouts import TileOwners

_MASK = 2
"""The place of the mask among the operands of `tt.store`."""


@dataclass(frozen=True, slots=True)
class _Flows:
    """How values reach others in one kernel."""

    into: Flows
    guarded: Mapping[int, frozenset[int]]
    """The lines of the stores whose execution depends on a slot."""
    stored: Mapping[int, frozenset[int]]
    """The lines of the stores that a slot is an operand of."""
    masked: Mapping[int, frozenset[int]]
    """The lines of the stores whose mask a slot is."""


class ValueUses:
    """The uses of all loads of a kernel with numbered lines."""

    def __init__(self, kernel: Function, owners: Mapping[int, TileOwners]) -> None:
        self._owners = owners
        self._loads = {
            line_of(operation.location): operation.results
            for operation in kernel.body.all_operations()
            if operation.name == "tt.load"
        }
        self._flows = _flows_of(kernel.body)
        self._known: dict[int, int] = {}

    def warps(self, line: int) -> int:
        """Return a mask of the warps that store something that depends on the load at this line."""
        if line not in self._known:
            mask = 0
            for store in self._stores(self._loads.get(line, ())):
                if store in self._owners:
                    mask |= int(np.bitwise_or.reduce(self._owners[store].warps))
            self._known[line] = mask
        return self._known[line]

    def only_store(self, line: int) -> int:
        """Return the line of the store that alone depends on the load at this line; 0 if there are others.

        It is 0, too, if the load decides which elements are stored.
        """
        slots = self._loads.get(line, ())
        stores = self._stores(slots)
        follows = reached(slots, self._flows.into)
        is_plain = not any(self._flows.masked.get(slot) or self._flows.guarded.get(slot) for slot in follows)
        return stores.pop() if is_plain and len(stores) == 1 else 0

    def _stores(self, slots: tuple[int, ...]) -> set[int]:
        """Return the lines of the stores that these slots reach."""
        stores = set[int]()
        for slot in reached(slots, self._flows.into):
            stores |= self._flows.stored.get(slot, frozenset()) | self._flows.guarded.get(slot, frozenset())
        return stores


def _flows_of(body: TtirRegion) -> _Flows:
    guarded, stored, masked = dict[int, set[int]](), dict[int, set[int]](), dict[int, set[int]]()
    for operation in body.all_operations():
        if operation.name == "tt.store":
            for slot in operation.operands:
                stored.setdefault(slot, set()).add(line_of(operation.location))
            for slot in operation.operands[_MASK:]:
                masked.setdefault(slot, set()).add(line_of(operation.location))
        if operation.regions:
            inside = {line_of(inner.location) for region in operation.regions for inner in region.all_operations()}
            for slot in guards(operation):
                guarded.setdefault(slot, set()).update(inside)
    lines = ({slot: frozenset(numbers) for slot, numbers in each.items()} for each in (guarded, stored, masked))
    return _Flows(flows_of(body.all_operations()), *lines)
