"""Kernels and imports that the virtual GPU cannot follow; the suite of `test_refused_code` loads this file."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from typing import Any

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def copy_in_gluon(x, y, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])  # pyright: ignore[reportAssignmentType] - Gluon wraps it
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


tuned_copy_in_gluon: Any = triton.autotune(configs=[triton.Config({}, num_warps=4)], key=["n"])(copy_in_gluon)
