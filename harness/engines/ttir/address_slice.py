"""The part of a kernel that decides which cells its loads and stores touch, without what it computes.

Addresses mostly follow from program ids and numbers.  Then products, exponentials and the loads that feed them need not
be executed to know what a program touches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.engines.ttir.flows import BOUNDS, guards, steps
from harness.engines.ttir.ir import Block, Module, Operation, TtirRegion, mark_last_uses
from harness.engines.ttir.reach import ATOMICS, BARRIERS, LOADS, STORES

TOUCHED_BY_LOAD = "slice.load"
"""Stands for a load whose value decides no address: pointers and mask; its operand type is what is loaded."""
TOUCHED_BY_STORE = "slice.store"
"""Stands for a store: pointers and mask; its operand type is what is stored."""
_STRUCTURED = frozenset({"scf.for", "scf.if"})
_ENDS = frozenset({"scf.yield", "tt.return"})
_UNSLICED = (ATOMICS | LOADS | STORES | {"scf.while", "tt.call"}) - {"tt.load", "tt.store"}
"""Operations that move memory in other ways, or whose parts depend on each other in ways that are not followed."""


@dataclass(frozen=True, slots=True)
class AddressSlice:
    """A module that touches what another one touches."""

    module: Module
    """Each operation's location is `loc("ttir":N:0)`, with a number of its own."""
    loads: tuple[Operation, ...]
    """The loads of the original kernel whose values it needs.  What they load must not be what the kernel stores."""


def address_slice(module: Module) -> AddressSlice | None:
    """Return the slice of a kernel; None if the kernel moves memory by other operations than plain loads and stores."""
    kernel = module.kernel
    operations = tuple(kernel.body.all_operations())
    if any(operation.name in _UNSLICED or _has_inner_branches(operation) for operation in operations):
        return None
    needed = _needed(operations)
    body = _Slicer(needed, {id(operation): number for number, operation in enumerate(operations, 1)}).region(
        kernel.body
    )
    mark_last_uses(body)
    loads = tuple(one for one in operations if one.name == "tt.load" and needed.issuperset(one.results))
    return AddressSlice(Module({kernel.name: replace(kernel, body=body)}, {}), loads)


def _has_inner_branches(operation: Operation) -> bool:
    return operation.name in _STRUCTURED and any(len(region.blocks) > 1 for region in operation.regions)


def _needed(operations: tuple[Operation, ...]) -> set[int]:
    """Return the slots on which addresses, masks, and the execution of accesses depend."""
    sources = dict[int, set[int]]()
    for operation in operations:
        for source, target in steps(operation):
            sources.setdefault(target, set()).add(source)
    needed = {slot for operation in operations for slot in _steering(operation)}
    ahead = list(needed)
    while ahead:
        more = sources.get(ahead.pop(), set[int]()) - needed
        needed |= more
        ahead += more
    return needed


def _steering(operation: Operation) -> Iterator[int]:
    if operation.name == "tt.load":
        yield from operation.operands[:2]
    elif operation.name == "tt.store":
        yield from (operation.operands[0], *operation.operands[2:])
    elif operation.name in _STRUCTURED:
        yield from guards(operation)
    elif operation.successors:
        yield from operation.operands
        for successor in operation.successors:
            yield from successor.arguments


class _Slicer:
    """Copies regions without the operations whose results nothing needs."""

    def __init__(self, needed: set[int], numbers: dict[int, int]) -> None:
        self._needed = needed
        self._numbers = numbers

    def region(self, region: TtirRegion) -> TtirRegion:
        """Copy a function's body.  Blocks keep all of their arguments."""
        return TtirRegion([self._block(block, block.arguments, None) for block in region.blocks])

    def _block(self, block: Block, arguments: tuple[int, ...], kept: tuple[bool, ...] | None) -> Block:
        copied = (self._copied(operation, kept) for operation in block.operations)
        return Block(block.label, arguments, [one for one in copied if one is not None])

    def _copied(self, operation: Operation, kept: tuple[bool, ...] | None) -> Operation | None:
        location = f'loc("ttir":{self._numbers[id(operation)]}:0)'
        if operation.name == "tt.load" and not self._is_needed(operation):
            kinds = operation.result_types
            return Operation(TOUCHED_BY_LOAD, operation.operands[:2], operand_types=kinds, location=location)
        if operation.name == "tt.store":
            operands = (operation.operands[0], *operation.operands[2:])
            return Operation(TOUCHED_BY_STORE, operands, operand_types=operation.operand_types[1:2], location=location)
        if operation.name in _STRUCTURED:
            return self._structured(operation, location)
        if operation.name == "scf.yield" and kept is not None:
            return replace(operation, operands=_chosen(operation.operands, kept), location=location)
        stays = operation.name in BARRIERS or operation.name in _ENDS or bool(operation.successors)
        if stays or self._is_needed(operation):
            return replace(operation, location=location)
        return None

    def _structured(self, operation: Operation, location: str) -> Operation | None:
        """Copy a loop or a conditional, without the values that nothing needs; None if nothing of it is left."""
        index, inside = 0, operation.results
        if operation.name == "scf.for":
            index, inside = 1, operation.regions[0].entry.arguments[1:]
        kept = tuple(not self._needed.isdisjoint(pair) for pair in zip(operation.results, inside, strict=True))
        blocks: list[Block] = []
        for region in operation.regions:
            arguments = region.entry.arguments
            carried = _chosen(arguments[index:], kept) if index else arguments
            blocks.append(self._block(region.entry, (*arguments[:index], *carried), kept))
        if not any(kept) and all(len(block.operations) <= 1 for block in blocks):
            return None
        operands = operation.operands
        return replace(
            operation,
            operands=(*operands[:BOUNDS], *_chosen(operands[BOUNDS:], kept)) if index else operands,
            results=_chosen(operation.results, kept),
            regions=tuple(TtirRegion([block]) for block in blocks),
            location=location,
        )

    def _is_needed(self, operation: Operation) -> bool:
        return not self._needed.isdisjoint(operation.results)


def _chosen(slots: tuple[int, ...], kept: tuple[bool, ...]) -> tuple[int, ...]:
    return tuple(slot for slot, is_kept in zip(slots, kept, strict=True) if is_kept)
