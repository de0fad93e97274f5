"""Kernels for `hanging`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false

import triton
import triton.language as tl


@triton.jit
def spin_kernel(flag):
    value = tl.atomic_add(flag, 0)
    while value == 0:  # the loop begins
        value = tl.atomic_add(flag, 0)  # the loop ends
    tl.store(flag, value)


@triton.jit
def good_kernel(flag):
    tl.store(flag, 1)
