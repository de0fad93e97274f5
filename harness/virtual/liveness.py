"""Which values an operation uses last, so that the machine can let go of them."""

from collections.abc import Iterator

from harness.virtual.ir import Operation, Region


def mark_last_uses(region: Region) -> None:
    """Let each operation free the values that nothing after it in their own block uses."""
    for block in region.blocks:
        own = set(block.arguments)
        for operation in block.operations:
            own.update(operation.results)
            for inner in operation.regions:
                mark_last_uses(inner)
        if len(region.blocks) > 1:
            continue  # another block may use what this one defines
        seen: set[int] = set()
        for operation in reversed(block.operations):
            uses = set(_uses(operation))
            operation.frees = tuple((uses & own) - seen)
            seen |= uses


def _uses(operation: Operation) -> Iterator[int]:
    yield from operation.operands
    for successor in operation.successors:
        yield from successor.arguments
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _uses(inner)
