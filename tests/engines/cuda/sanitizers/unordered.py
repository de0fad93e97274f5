"""A suite of mistakes that Triton's own sanitizers report, and of correct ops; all compute the right values."""

from typing import Any

from harness.suite import Declaration, DType, op, tensor, tokens

ROWS, COLUMNS = 64, 64
REPORTING_TOOL = {
    "stores_overlap": "gsan",
    "writes_twice": "gsan --write-once",
    "reads_unwritten": "gsan --write-once",
    "reads_too_early": "consan",
    "leaves_out_by_config": "fpsan",
}
"""By op, the sanitizer of Triton's that reports it."""


def planted(function: Any) -> Declaration:
    declared = op(dims={"T": tokens(ROWS)}, inputs={"x": tensor("T", COLUMNS, grad=False)}, dtypes=(DType.FP32,))(
        function
    )
    declared.reference(lambda x: x + 1)
    return declared


def by_blocks(kernel: Any, x: Any, y: Any) -> Any:
    kernel[(-(-x.numel() // 64),)](x, y, x.numel())
    return y


@planted
def good(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    return by_blocks(unordered_kernels.add_one, x, x.new_empty(x.shape))


@op(dims={"T": tokens(ROWS)}, inputs={"x": tensor("T", 33, grad=False)}, dtypes=(DType.BF16,))
def rows_share_words(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    kernel: Any = unordered_kernels.add_one_to_a_row
    y = x.new_empty(x.shape)
    kernel[(x.shape[0],)](x, y, x.shape[1])
    return y


rows_share_words.reference(lambda x: x + 1)


@planted
def stores_overlap(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    return by_blocks(unordered_kernels.add_one_twice_as_wide, x, x.new_empty(x.shape))


@planted
def writes_twice(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    y = by_blocks(unordered_kernels.add_one, x, x.new_empty(x.shape))
    return by_blocks(unordered_kernels.add_one, x, y)


@planted
def reads_unwritten(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    by_blocks(unordered_kernels.add_one, x.new_empty(x.shape), x.new_empty(x.shape))
    return x + 1


@planted
def asserts_itself(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    return by_blocks(unordered_kernels.assert_none, x, x.new_empty(x.shape))


@planted
def reads_too_early(x: Any) -> Any:
    from harness.engines.cuda.sanitizers import kernels_gluon

    flat = x.new_zeros(128)
    kernel: Any = kernels_gluon.harness_self_test_consan
    kernel[(1,)](flat, x.new_empty(128))
    return x + 1


@planted
def multiplies(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    kernel: Any = unordered_kernels.add_products
    y = x.new_empty(x.shape)
    kernel[(1,)](x, y, inner=32)
    return y


def by_rows(function: Any) -> Declaration:
    return op(dims={"T": tokens(ROWS)}, inputs={"x": tensor("T", 200, grad=False)}, dtypes=(DType.FP32,))(function)


def sums(x: Any, *, leaves_out: bool) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    y = x.new_empty(x.shape[0])
    unordered_kernels.tuned_sum_rows[(x.shape[0],)](x.contiguous(), y, x.shape[1], leaves_out=leaves_out)
    return y


@by_rows
def sums_by_config(x: Any) -> Any:
    return sums(x, leaves_out=False)


@by_rows
def leaves_out_by_config(x: Any) -> Any:
    return sums(x, leaves_out=True)


@by_rows
def sums_what_torch_made(x: Any) -> Any:
    return sums(x * 1, leaves_out=False)


@by_rows
def takes_the_largest(x: Any) -> Any:
    from tests.engines.cuda.sanitizers import unordered_kernels

    y = x.new_empty(x.shape[0])
    unordered_kernels.tuned_largest_of_rows[(x.shape[0],)](x.contiguous(), y, x.shape[1])
    return y


@leaves_out_by_config.reference
@sums_what_torch_made.reference
@sums_by_config.reference
def row_sums(x: Any) -> Any:
    return (x + 1).sum(1)


takes_the_largest.reference(lambda x: x.amax(1))
