"""A suite of one op, whose kernel contains PTX that no assembler accepts."""

from typing import Any

from harness.suite import op, tensor, tokens


@op(dims={"T": tokens(128)}, inputs={"x": tensor("T", grad=False)})
def moved(x: Any) -> Any:
    from tests.engines.cuda import unassembled_kernels

    return unassembled_kernels.moved(x)


@moved.reference
def itself(x: Any) -> Any:
    return x
