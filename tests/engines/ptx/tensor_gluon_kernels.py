"""Kernels in Gluon that use tensor memory, for `test_tensor_gluon`, with the layouts that they need."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

ROWS = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])


def tile(bits, *, turned=False, cga_layout=None):
    parts = {} if cga_layout is None else {"cga_layout": cga_layout}
    return gl.NVMMASharedLayout(128, bits, 2, transposed=turned, **parts)


@gluon.jit
def load_tile(x, M: gl.constexpr, N: gl.constexpr, M_STRIDE: gl.constexpr, N_STRIDE: gl.constexpr, L: gl.constexpr):
    row = gl.arange(0, M, gl.SliceLayout(1, L))
    column = gl.arange(0, N, gl.SliceLayout(0, L))
    return gl.load(x + row[:, None] * M_STRIDE + column[None, :] * N_STRIDE)


@gluon.jit
def store_tile(x, values, M: gl.constexpr, N: gl.constexpr, L: gl.constexpr):
    row = gl.arange(0, M, gl.SliceLayout(1, L))
    column = gl.arange(0, N, gl.SliceLayout(0, L))
    gl.store(x + row[:, None] * N + column[None, :], values)


@gluon.jit
def product_in_gluon(
    a, b, c, M: gl.constexpr, LEFT: gl.constexpr, RIGHT: gl.constexpr, LEFT_TILE: gl.constexpr,
    RIGHT_TILE: gl.constexpr, TENSOR: gl.constexpr, OUT: gl.constexpr, RESULT: gl.constexpr,
):  # fmt: skip
    """c = a @ b.T with N = K = 64; `RESULT` is the layout of the load."""
    left = gl.allocate_shared_memory(gl.float16, [M, 64], LEFT_TILE, load_tile(a, M, 64, 64, 1, LEFT))
    right = gl.allocate_shared_memory(gl.float16, [64, 64], RIGHT_TILE, load_tile(b, 64, 64, 1, 64, RIGHT))
    sums = blackwell.allocate_tensor_memory(OUT, [M, 64], TENSOR)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    fence_async_shared()
    blackwell.tcgen05_mma(left, right, sums, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    store_tile(c, sums.load(RESULT), M, 64, RESULT)


@gluon.jit
def pair_product_in_gluon(
    a, b, c, M: gl.constexpr, LEFT: gl.constexpr, RIGHT: gl.constexpr, LEFT_TILE: gl.constexpr,
    RIGHT_TILE: gl.constexpr, TENSOR: gl.constexpr,
):  # fmt: skip
    """The same by two CTAs, each with half of the rows of both operands."""
    left = gl.allocate_shared_memory(gl.float16, [M, 64], LEFT_TILE, load_tile(a, M, 64, 64, 1, LEFT))
    right = gl.allocate_shared_memory(gl.float16, [64, 64], RIGHT_TILE, load_tile(b, 64, 64, 1, 64, RIGHT))
    sums = blackwell.allocate_tensor_memory(gl.float32, [M, 64], TENSOR)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    blackwell.tcgen05_mma(left, right, sums, use_acc=False, multicast=True, mbarriers=[done])
    mbarrier.wait(done, 0)
    values = sums.load()
    store_tile(c, values, M, 64, values.type.layout)


@gluon.jit
def copy_in_gluon(x, y, TILE: gl.constexpr, L: gl.constexpr, TENSOR: gl.constexpr, RESULT: gl.constexpr):
    """y = x of 128 x 64 numbers, through shared memory and `tcgen05.cp`."""
    buffer = gl.allocate_shared_memory(gl.float32, [128, 64], TILE, load_tile(x, 128, 64, 64, 1, L))
    cells = blackwell.allocate_tensor_memory(gl.float32, [128, 64], TENSOR)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    fence_async_shared()
    blackwell.tcgen05_copy(buffer, cells)
    blackwell.tcgen05_commit(done)
    mbarrier.wait(done, 0)
    store_tile(y, cells.load(RESULT), 128, 64, RESULT)
