"""The kernel for `misaligned`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

import triton
import triton.language as tl


@triton.jit
def move_block(given, out, stride, first):
    there = tl.make_tensor_descriptor(given, [8, stride], [stride, 1], [8, 8])
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + at, there.load([0, first]))
