"""Kernels in Gluon, for `test_gluon`."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def plus(x, y):
    return x + y


@gluon.jit
def softmax_in_gluon(x, y, n, ROWS: gl.constexpr, BLOCK: gl.constexpr, MORE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    other: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    rows = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    at = rows[:, None] * n + columns[None, :]
    values = gl.load(x + at, mask=columns[None, :] < n, other=-float("inf"))
    powers = gl.exp(values - gl.max(values, axis=1)[:, None])
    buffer = gl.allocate_shared_memory(gl.float32, [ROWS, BLOCK], shared)
    buffer.store(powers / gl.sum(powers, axis=1)[:, None])
    gl.thread_barrier()
    result = gl.convert_layout(gl.convert_layout(buffer.load(layout), other), layout)
    for _ in range(3):
        result = plus(result, 1.0)
    gl.store(y + at, result, mask=columns[None, :] < n + MORE)  # may go past the end


@gluon.jit
def buffers_in_gluon(x, y, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    at = gl.arange(0, BLOCK, layout=layout)
    buffers = gl.allocate_shared_memory(gl.float32, [2, BLOCK], shared)
    for number in range(2):
        buffers.index(number).store(gl.load(x + number * BLOCK + at))
    if gl.program_id(0) == 1:
        buffers.index(0).store(gl.load(x + at) * 10)
    gl.thread_barrier()
    base = gl.program_id(0) * BLOCK
    gl.store(y + base + at, buffers.index(0).load(layout) + buffers.index(1).load(layout))


@gluon.jit
def waiting_in_gluon(x):
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    gl.store(x, 1.0)


@gluon.jit
def transpose_in_gluon(x, y, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    rows = gl.arange(0, N, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    at = rows[:, None] * N + columns[None, :]
    buffer = gl.allocate_shared_memory(gl.float32, [N, N], shared)
    buffer.store(gl.load(x + at))
    gl.thread_barrier()
    turned = buffer.permute((1, 0)).load(layout)
    buffer._keep_alive()  # the only way to write ttg.local_dealloc
    gl.store(y + at, turned)
