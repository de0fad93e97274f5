"""Kernels that make tensor descriptors, for the reports on scratch memory: each program needs 256 bytes."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false

import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, D, BLOCK: tl.constexpr):  # noqa: N803 - the field's names
    row = tl.program_id(0) * BLOCK
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, BLOCK])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, BLOCK])
    rows_y.store([row, 0], 2.0 * rows_x.load([row, 0]))


@triton.autotune(
    [triton.Config({"ROWS": BLOCK}), triton.Config({"ROWS": 2 * BLOCK}, num_ctas=2)],
    key=["T"],
)
@triton.jit
def triple_kernel(x, y, T, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803, PLR0913, PLR0917 - as above
    row = tl.program_id(0) * ROWS
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[ROWS, COLUMNS])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[ROWS, COLUMNS])
    rows_y.store([row, 0], 3.0 * rows_x.load([row, 0]))
