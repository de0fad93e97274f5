"""Which parameters of a kernel its accesses may go through, told from the text alone.

Pointers are followed through arithmetic, loops with a bound and branches of `scf.if`.  Where one comes from elsewhere
(a table of addresses, a loop of branches, a call), it may be any.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.virtual.ttir.ir import Function, Operation, TtirRegion, Type

Slots = frozenset[int]

PASSES_POINTERS_ON = frozenset(
    {
        "tt.addptr",
        "tt.splat",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.reshape",
        "tt.trans",
        "tt.bitcast",
        "tt.make_tensor_descriptor",
        "arith.select",
    }
)
STORES = frozenset({"tt.store", "tt.descriptor_store", "tt.descriptor_scatter"})
LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
ATOMICS = frozenset(
    {
        "tt.atomic_rmw",
        "tt.atomic_cas",
        "tt.atomic_load",
        "tt.atomic_store",
        "tt.atomic_poll",
        "tt.descriptor_reduce",
    }
)
WRITES = (STORES | ATOMICS) - {"tt.atomic_load", "tt.atomic_poll"}
ANYWHERE: Slots = frozenset({-1})
"""What nobody could follow."""


@dataclass(frozen=True)
class PointerReach:
    """The parameters of one kernel, by their slots; None where they may be any."""

    kernel: Function

    @cached_property
    def atomic(self) -> Slots | None:
        """Those that atomics go through."""
        return self.of(ATOMICS)

    @cached_property
    def plain(self) -> Slots | None:
        """Those that loads and stores go through."""
        return self.of(LOADS | STORES)

    @cached_property
    def stored(self) -> Slots | None:
        """Those that stores go through."""
        return self.of(STORES)

    @cached_property
    def written(self) -> Slots | None:
        """Those that stores go through, and atomics that change what is there."""
        return self.of(WRITES)

    def of(self, names: frozenset[str]) -> Slots | None:
        """Those that operations of these names go through."""
        reached: Slots = frozenset()
        for operation in self.kernel.body.all_operations():
            if operation.name in names:
                reached |= self._origins.get(operation.operands[0], ANYWHERE)
            elif operation.name == "tt.call" and any(map(_is_pointer, operation.operand_types)):
                return None
        return None if reached >= ANYWHERE else reached

    @cached_property
    def _origins(self) -> dict[int, Slots]:
        """The parameters that a pointer may have come from: grown from none until nothing is added."""
        origins = {parameter.slot: frozenset({parameter.slot}) for parameter in self.kernel.parameters}
        origins |= dict.fromkeys(_unknown(self.kernel.body), ANYWHERE)
        flows, grows = tuple(_flows(self.kernel.body)), True
        while grows:
            grows = False
            for slot, sources in flows:
                before = origins.get(slot, frozenset[int]())
                after = before.union(*(origins[source] for source in sources if source in origins))
                if len(after) > len(before):
                    origins[slot], grows = after, True
        return origins


_known: dict[int, PointerReach] = {}
"""By the id of a kernel, which is kept with it: walking all operations takes as long as a small launch."""


def reach_of(kernel: Function) -> PointerReach:
    """The same one for every launch of a kernel."""
    if id(kernel) not in _known:
        _known[id(kernel)] = PointerReach(kernel)
    return _known[id(kernel)]


def _is_pointer(kind: Type) -> bool:
    return kind.element in {"ptr", "tensordesc"}


def _flows(whole: TtirRegion) -> Iterator[tuple[int, Sequence[int]]]:
    """Slots with those whose pointers go into them."""
    for operation in whole.all_operations():
        if operation.name in PASSES_POINTERS_ON:
            for result in operation.results:
                yield result, _pointers(operation)
        elif operation.name == "scf.for":
            (body,) = operation.regions
            _, *inside = body.entry.arguments
            carried = zip(inside, operation.results, operation.operands[3:], _yielded(body), strict=True)
            for slot, result, first, later in carried:
                yield slot, (first, later)
                yield result, (first, later)
        elif operation.name == "scf.if":
            for region in operation.regions:
                for result, yielded in zip(operation.results, _yielded(region), strict=False):
                    yield result, (yielded,)


def _yielded(region: TtirRegion) -> tuple[int, ...]:
    """What a region hands on; a `scf.yield` of nothing is not written."""
    last = region.entry.operations[-1:]
    return last[0].operands if last and last[0].name == "scf.yield" else ()


def _pointers(operation: Operation) -> list[int]:
    pairs = zip(operation.operands, operation.operand_types, strict=False)
    return [slot for slot, kind in pairs if _is_pointer(kind)]


def _unknown(body: TtirRegion) -> Iterator[int]:
    """Slots of pointers that come from somewhere else."""
    for region in _regions(body):
        for block in region.blocks[1:] if len(region.blocks) > 1 else ():
            yield from block.arguments
    for operation in body.all_operations():
        if operation.name in PASSES_POINTERS_ON | {"scf.for", "scf.if"}:
            continue
        pairs = zip(operation.results, operation.result_types, strict=False)
        yield from (slot for slot, kind in pairs if _is_pointer(kind))
        for region in operation.regions:
            yield from region.entry.arguments


def _regions(body: TtirRegion) -> Iterator[TtirRegion]:
    yield body
    for operation in body.all_operations():
        yield from operation.regions
