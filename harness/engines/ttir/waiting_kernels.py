"""Kernels whose programs may wait for each other: a loop without a bound polls memory that other programs change."""

from collections.abc import Iterable, Iterator

from harness.engines.ttir.ir import Function, Module, Operation, TtirRegion, module_fact
from harness.engines.ttir.reach import ATOMICS

ATOMIC = "tt.atomic_"
POLL = "tt.atomic_poll"
"""A whole polling loop in one operation."""


@module_fact
def uses_atomics(module: Module) -> bool:
    """Return True if a kernel has atomics, so that results may depend on the order of its programs."""
    return any(
        operation.name in ATOMICS
        for function in module.functions.values()
        for operation in function.body.all_operations()
    )


@module_fact
def may_wait(module: Module) -> bool:
    """Return True if a loop without a bound has an atomic or a volatile load.

    Such a loop is a `scf.while`, a loop of branches, or `tt.atomic_poll` alone.  Other loads cannot poll: the compiler
    moves them out of a loop that changes nothing, and removes empty loops.
    """
    polling = _polling_functions(module)
    return any(
        any(operation.name == POLL for operation in function.body.all_operations())
        or any(_polls(operation, polling) for inside in _loops(function.body) for operation in inside)
        for function in module.functions.values()
    )


def _polls(operation: Operation, polling: frozenset[str]) -> bool:
    if operation.name == "tt.call":
        return str(operation.attributes["callee"]) in polling
    return operation.name.startswith(ATOMIC) or bool(operation.attributes.get("isVolatile"))


def _polling_functions(module: Module) -> frozenset[str]:
    """Return the functions that poll, directly or through calls."""
    polling: frozenset[str] = frozenset()
    while True:
        more = frozenset(name for name, function in module.functions.items() if _any_polls(function, polling))
        if more == polling:
            return polling
        polling = more


def _any_polls(function: Function, polling: frozenset[str]) -> bool:
    return any(_polls(operation, polling) for operation in function.body.all_operations())


def _loops(region: TtirRegion) -> Iterator[Iterable[Operation]]:
    """Yield the operations of each loop without a bound, including inner regions."""
    for operation in region.all_operations():
        if operation.name == "scf.while":
            yield from (inner.all_operations() for inner in operation.regions)
        for inner in operation.regions:
            if len(inner.blocks) > 1:
                yield _in_cycles(inner)
    if len(region.blocks) > 1:
        yield _in_cycles(region)


def _in_cycles(region: TtirRegion) -> Iterator[Operation]:
    """Yield the operations of blocks that can be reached from themselves."""
    follows = {
        block.label: {successor.block for operation in block.operations[-1:] for successor in operation.successors}
        for block in region.blocks
    }
    for block in region.blocks:
        reached: set[str] = set()
        ahead = list(follows[block.label])
        while ahead:
            label = ahead.pop()
            if label not in reached:
                reached.add(label)
                ahead += follows[label]
        if block.label in reached:
            yield from TtirRegion([block]).all_operations()
