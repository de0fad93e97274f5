"""The parameters that a kernel's accesses may go through, from its TTIR alone.

Pointers are followed through arithmetic, loops with a bound and branches of `scf.if`.  A pointer from elsewhere (a
table of addresses, a loop of branches, a call) may be any parameter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.engines.ttir.ir import UNREAD, Function, Operation, TtirRegion, Type

Slots = frozenset[int]

POINTER_FORWARDING = frozenset(
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
BARRIERS = frozenset({"gpu.barrier", "ttg.barrier"})
"""The operation of `tl.debug_barrier()`, at which the threads of a program wait for each other."""
UNKNOWN_ORIGIN: Slots = frozenset({-1})
"""The origin of a pointer that cannot be followed."""


@dataclass(frozen=True)
class PointerReach:
    """The parameters of one kernel, by slot, that accesses may go through; None means any parameter."""

    kernel: Function

    @cached_property
    def atomic(self) -> Slots | None:
        return self.reached_by(ATOMICS)

    @cached_property
    def plain(self) -> Slots | None:
        """The parameters of loads and stores."""
        return self.reached_by(LOADS | STORES)

    @cached_property
    def stored(self) -> Slots | None:
        return self.reached_by(STORES)

    @cached_property
    def written(self) -> Slots | None:
        """The parameters of stores, and of atomics that change memory."""
        return self.reached_by(WRITES)

    def origins_of(self, access: Operation) -> Slots:
        """Return the parameters that a load or store may go through; `UNKNOWN_ORIGIN` among them means any."""
        return self._origins.get(access.operands[0], UNKNOWN_ORIGIN)

    def reached_by(self, names: frozenset[str]) -> Slots | None:
        """Return the parameters of the operations with these names."""
        reached: Slots = frozenset()
        for operation in self.kernel.body.all_operations():
            if operation.name in names:
                reached |= self.origins_of(operation)
            elif operation.name in {"tt.call", UNREAD} and any(map(_is_pointer, operation.operand_types)):
                return None
        return None if reached >= UNKNOWN_ORIGIN else reached

    @cached_property
    def _origins(self) -> dict[int, Slots]:
        """The parameters that each pointer may come from: a fixed point, grown from nothing."""
        origins = {parameter.slot: frozenset({parameter.slot}) for parameter in self.kernel.parameters}
        origins |= dict.fromkeys(_unknown(self.kernel.body), UNKNOWN_ORIGIN)
        flows, grows = tuple(_flows(self.kernel.body)), True
        while grows:
            grows = False
            for slot, sources in flows:
                before = origins.get(slot, frozenset[int]())
                after = before.union(*(origins[source] for source in sources if source in origins))
                if len(after) > len(before):
                    origins[slot], grows = after, True
        return origins

    def of(self, kernel: Function) -> "PointerReach":
        """Return the reach of a copy of the kernel, with all that launches ask for."""
        reach = PointerReach(kernel)
        reach.__dict__.update(atomic=self.atomic, plain=self.plain, stored=self.stored, written=self.written)
        return reach


_known: dict[int, PointerReach] = {}
"""By the id of a kernel, which the value keeps alive.  Walking all operations takes as long as a small launch."""


def reach_of(kernel: Function) -> PointerReach:
    """Return the reach of a kernel, which is computed once."""
    if id(kernel) not in _known:
        _known[id(kernel)] = PointerReach(kernel)
    return _known[id(kernel)]


def remember(reach: PointerReach) -> None:
    """Let `reach_of` return this reach for its kernel."""
    _known[id(reach.kernel)] = reach


def _is_pointer(kind: Type) -> bool:
    return kind.element in {"ptr", "tensordesc"}


def _flows(whole: TtirRegion) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield slots, each with the slots whose pointers flow into it."""
    for operation in whole.all_operations():
        if operation.name in POINTER_FORWARDING:
            for result in operation.results:
                yield result, _pointers(operation)
        elif operation.name == "scf.for":
            (body,) = operation.regions
            _, *inside = body.entry.arguments
            carried = zip(inside, operation.results, operation.operands[3:], yielded(body), strict=True)
            for slot, result, first, later in carried:
                yield slot, (first, later)
                yield result, (first, later)
        elif operation.name == "scf.if":
            for region in operation.regions:
                for result, value in zip(operation.results, yielded(region), strict=False):
                    yield result, (value,)


def yielded(region: TtirRegion) -> tuple[int, ...]:
    """Return the operands of a region's `scf.yield`; without operands it is not printed."""
    last = region.entry.operations[-1:]
    return last[0].operands if last and last[0].name == "scf.yield" else ()


def _pointers(operation: Operation) -> list[int]:
    pairs = zip(operation.operands, operation.operand_types, strict=False)
    return [slot for slot, kind in pairs if _is_pointer(kind)]


def _unknown(body: TtirRegion) -> Iterator[int]:
    """Yield the slots of pointers that cannot be followed."""
    for region in _regions(body):
        for block in region.blocks[1:] if len(region.blocks) > 1 else ():
            yield from block.arguments
    for operation in body.all_operations():
        if operation.name in POINTER_FORWARDING | {"scf.for", "scf.if"}:
            continue
        pairs = zip(operation.results, operation.result_types, strict=False)
        yield from (slot for slot, kind in pairs if _is_pointer(kind))
        for region in operation.regions:
            yield from region.entry.arguments


def _regions(body: TtirRegion) -> Iterator[TtirRegion]:
    yield body
    for operation in body.all_operations():
        yield from operation.regions
