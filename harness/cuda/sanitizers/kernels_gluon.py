"""A kernel with one mistake, for ConSan to report, in Gluon as Triton 3.9 has it."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false
# Triton 3.6, by which types are checked, has another Gluon.
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def harness_witness_consan(x, y):
    """What is copied into shared memory is read before the copy is waited for."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    cells = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    lane = gl.arange(0, 128, layout=layout)
    async_copy.async_load(cells, x + lane)
    async_copy.commit_group()
    gl.store(y + lane, cells.load(layout))
