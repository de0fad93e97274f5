"""Kernels and imports that the virtual GPU cannot follow; the suite of `test_refused_code` loads this file."""

from typing import Any

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def copy_in_gluon(x: Any, y: Any, n: Any, BLOCK: gl.constexpr) -> None:  # noqa: N803 - as kernels name it
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])  # pyright: ignore[reportAssignmentType] - Gluon wraps it
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


tuned_copy_in_gluon: Any = triton.autotune(configs=[triton.Config({}, num_warps=4)], key=["n"])(copy_in_gluon)
