"""The suite of `bench_isolation`: ops that only compute, without torch or Triton."""

from collections.abc import Callable

from harness.suite import Declaration, op, tokens


def declared(function: Callable[[int], int]) -> Declaration:
    declaration = op(dims={"rows": tokens()}, inputs={})(function)
    declaration.reference(lambda: None)
    return declaration


@declared
def returns_at_once(rows: int) -> int:
    return rows * rows


@declared
def works(rows: int) -> int:
    """Add `1000 * rows` numbers."""
    return sum(value % 7 for value in range(rows * 1000))
