"""The self-test kernel of ConSan, with one mistake, in the Gluon of Triton 3.9."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false
# Types are checked with Triton 3.6, whose Gluon differs.
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def harness_self_test_consan(x, y):
    """Reads a copy in shared memory before waiting for it."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    cells = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    lane = gl.arange(0, 128, layout=layout)
    async_copy.async_load(cells, x + lane)
    async_copy.commit_group()
    gl.store(y + lane, cells.load(layout))
