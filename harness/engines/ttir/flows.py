"""How values reach other values in a kernel, and the accesses whose address or execution depends on some of them."""

from collections.abc import Iterable, Iterator, Mapping

from harness.engines.ttir.ir import Function, Operation
from harness.engines.ttir.reach import ATOMICS, LOADS, STORES, UNKNOWN_ORIGIN, Slots, reach_of, yielded

BOUNDS = 3
"""The operands of `scf.for` before those that it carries."""
Flows = Mapping[int, set[int]]
"""By slot, the slots that its value flows into."""
_LOADING = LOADS | ATOMICS
_ACCESSES = LOADS | STORES | ATOMICS
_VALUE = 1
"""The place of the stored value among the operands of `tt.store`."""


def steps(operation: Operation) -> Iterator[tuple[int, int]]:
    """Yield pairs of slots, the first of which decides the value of the second."""
    if operation.name == "scf.for":
        (body,) = operation.regions
        _, *inside = body.entry.arguments
        last = yielded(body)
        for slot, result, first, later in zip(
            inside, operation.results, operation.operands[BOUNDS:], last, strict=True
        ):
            yield from ((first, slot), (first, result), (later, slot), (later, result))
        for bound in operation.operands[:BOUNDS]:
            yield from ((bound, slot) for slot in (*body.entry.arguments, *operation.results))
        return
    sources = [*operation.operands]
    targets = [*operation.results]
    for region in operation.regions:
        targets += [slot for block in region.blocks for slot in block.arguments]
        sources += yielded(region)
    yield from ((source, target) for source in sources for target in targets)


def guards(operation: Operation) -> tuple[int, ...]:
    """Return the operands that decide if, and how often, the regions of an operation are executed."""
    return operation.operands[: BOUNDS if operation.name == "scf.for" else None]


def flows_of(operations: Iterable[Operation]) -> Flows:
    """Return by slot the slots that its value flows into."""
    into = dict[int, set[int]]()
    for operation in operations:
        for source, target in steps(operation):
            into.setdefault(source, set()).add(target)
    return into


def reached(first: Iterable[int], into: Flows) -> set[int]:
    """Return these slots and all that follow from them."""
    slots = set(first)
    ahead = list(slots)
    while ahead:
        more = into.get(ahead.pop(), set[int]()) - slots
        slots |= more
        ahead += more
    return slots


def steered_accesses(kernel: Function, parameters: Slots) -> frozenset[str] | None:
    """Return the locations of the accesses that values loaded through these parameters steer; None means all.

    Such a value decides an address, a mask, or if and how often the access is executed.
    """
    reach, operations = reach_of(kernel), tuple(kernel.body.all_operations())
    loads = [
        operation
        for operation in operations
        if operation.name in _LOADING and reach.origins_of(operation) & (parameters | UNKNOWN_ORIGIN)
    ]
    if not loads:
        return frozenset()
    if len(kernel.body.blocks) > 1 or any(operation.name == "tt.call" for operation in operations):
        return None
    follows = reached((slot for load in loads for slot in load.results), flows_of(operations))
    return frozenset(_steered(operations, follows))


def _steered(operations: Iterable[Operation], follows: set[int]) -> Iterator[str]:
    for operation in operations:
        if operation.name in _ACCESSES:
            steering = [
                slot for at, slot in enumerate(operation.operands) if operation.name != "tt.store" or at != _VALUE
            ]
            if follows.intersection(steering):
                yield operation.location
        elif operation.regions and follows.intersection(guards(operation)):
            inside = (inner for region in operation.regions for inner in region.all_operations())
            yield from (inner.location for inner in inside if inner.name in _ACCESSES)
